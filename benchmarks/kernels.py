"""Our GPU kernels against their plain twins and what would serve without them, at the sizes of training: milliseconds.

    python benchmarks/kernels.py [--json FILE]
    python benchmarks/kernels.py --solves [--json FILE]    triangular systems by size, against the library's routine
    python benchmarks/kernels.py --tilings        the search behind the tilings in windtunnel/models/block_triton.py

A kernel and its twin (the same mathematics in torch, compiled) get the same bfloat16 inputs.  Without the kernel a
network would mostly run that twin; not so for attention, which a library has, and for the core of Mamba, where another
kernel of ours, the scan, would serve: those stand beside it, compiled too, each as one graph.  Times are medians over
replays of a captured graph, so launching costs nobody anything.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from common import Parser, place, run
from torch import Tensor

from windtunnel.environment import environment, require_device
from windtunnel.errors import InputError
from windtunnel.models import kernels
from windtunnel.models.compiled import CompilationFailed, must_compile
from windtunnel.models.scan import selective_scan, selective_scan_chunked
from windtunnel.models.transformer import explicit_attention, merged, separate
from windtunnel.training.speed.partial_result import PartialResult
from windtunnel.training.speed.parts import captured

EPISODES, POSITIONS, CALLS = 1024, 30, 20


def draw(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_()


def plain_attention(qkv: Tensor) -> Tensor:
    return explicit_attention(*separate(qkv), None, lambda name, value: value, "").transpose(1, 2)


def plain_add_norm(x: Tensor, branch: Tensor, bias: Tensor, gain: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    total = x + (branch + bias)
    return total, F.layer_norm(total, gain.shape, gain, shift).to(branch.dtype)


def library_attention(qkv: Tensor) -> Tensor:
    """What `transformer.Attention` does without our kernel, its heads side by side again as that leaves them."""
    return merged(F.scaled_dot_product_attention(*separate(qkv), is_causal=True)).view(*qkv.shape[:2], *qkv.shape[3:])


def plain_core(x: Tensor, r: Tensor, A: Tensor, BC: Tensor, D: Tensor, z: Tensor) -> Tensor:
    B, C = BC.float().chunk(2, dim=-1)
    y = selective_scan_chunked(x.float(), F.softplus(r.float()), A, B, C) + D * x
    return (y * F.silu(z)).to(z.dtype)


def scanned_core(x: Tensor, r: Tensor, A: Tensor, BC: Tensor, D: Tensor, z: Tensor) -> Tensor:
    """What `mamba.Mixer` does without the core's kernel: the scan by its fastest form, on a GPU the Triton kernel."""
    B, C = BC.float().chunk(2, dim=-1)
    y = selective_scan(x.float(), F.softplus(r.float()), A, B, C) + D * x
    return (y * F.silu(z)).to(z.dtype)


def plain_solve(lower: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True)


def kernel_solve(lower: Tensor, right: Tensor) -> Tensor:
    assert kernels.unit_lower_inverse is not None
    return kernels.unit_lower_inverse(lower) @ right


class Case(NamedTuple):
    """instead   what would serve without the kernel, and its name; None: the compiled twin itself"""

    kernel: Callable[..., Any]
    twin: Callable[..., Any]
    inputs: list[Tensor]
    instead: tuple[str, Callable[..., Any]] | None = None


LIBRARY = ("scaled_dot_product_attention", library_attention)
SCAN = ("our selective scan", scanned_core)


def require_kernels() -> None:
    if kernels.add_norm is None:
        why = "could not be imported here; the warning says why" if find_spec("triton") else "need triton installed"
        raise InputError(f"kernels: must be there to be measured, but those for Triton {why}")


def cases() -> dict[str, Case]:
    """By the kernel's name.  Sizes of the 9 × 256 Transformer and of the 2.67M Mamba on the HMM."""
    require_kernels()
    ours: Any = kernels
    shape, single = (EPISODES, POSITIONS), torch.float32
    stream, vector, wide = draw(*shape, 256, dtype=single), partial(draw, dtype=single), draw(*shape, 1024)
    channels, states = 440, 16
    core = [draw(*shape, channels), draw(*shape, channels)]
    rates = -torch.rand(channels, states, device="cuda") * states
    core += [rates.requires_grad_(), draw(*shape, 2 * states), vector(channels), draw(*shape, channels)]
    scan = [vector(*shape, channels), F.softplus(vector(*shape, channels)).detach().requires_grad_(), core[2]]
    scan += [vector(*shape, states), vector(*shape, states)]
    norm = [stream, draw(*shape, 256), vector(256), vector(256), vector(256)]
    systems = [(0.1 * vector(EPISODES, 6, 30, 30)).detach().requires_grad_(), vector(EPISODES, 6, 30, 64)]
    return {
        "short attention": Case(ours.short_attention, plain_attention, [draw(*shape, 3, 8, 32)], LIBRARY),
        "add and norm": Case(partial(ours.add_norm, eps=1e-5), plain_add_norm, norm),
        "bias and GELU": Case(ours.bias_gelu, lambda u, b: F.gelu(u + b).to(u.dtype), [wide, vector(1024)]),
        "selective scan": Case(ours.selective_scan, selective_scan_chunked, scan),
        "Mamba core": Case(ours.mamba_core, plain_core, core, SCAN),
        "triangular solve, 30 × 30": Case(kernel_solve, plain_solve, systems),
    }


SYSTEMS = {21: 1024 * 6, 30: 1024 * 6, 32: 1024 * 6, 39: 1024 * 6, 64: 256 * 5 * 6}
"""Size of a system -> how many a training step of linear attention has of it in a layer with 6 heads: one chunk of the
urn, the HMM and bijection, five of recall with three queries.  At 32 a matrix still fits a warp."""


def solves() -> Iterator[dict[str, Any]]:
    """A row per size, printed as it comes.  The library's routine is one call, which compiling would not change."""
    print(f"{'size':>4s}{'systems':>9s}{'forward':>11s}{'library':>11s}{'both ways':>11s}{'library':>11s}   ms")
    for size, systems in SYSTEMS.items():
        given = [(0.1 * draw(systems, size, size, dtype=torch.float32)).detach().requires_grad_()]
        given.append(draw(systems, size, 64, dtype=torch.float32))
        row: dict[str, Any] = {"size": size, "systems": systems}
        row |= {who: both_ways(solve, given) for who, solve in (("ours", kernel_solve), ("library", plain_solve))}
        cells = [f"{row[who][key]:11.4f}" for key in ("forward_ms", "both_ms") for who in ("ours", "library")]
        print(f"{size:4d}{systems:9d}{''.join(cells)}", flush=True)
        yield row


def milliseconds(work: Callable[[], object]) -> float:
    """Median over replays of a graph of several calls."""
    replay = captured(lambda: [work() for _ in range(CALLS)])
    times = []
    for _ in range(7):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / CALLS)
    return statistics.median(times)


def both_ways(function: Callable[..., Any], inputs: list[Tensor]) -> dict[str, float]:
    """Milliseconds of the forward pass alone, and of both."""

    def step() -> None:
        found = function(*inputs)
        outputs = list(found) if isinstance(found, tuple) else [found]
        torch.autograd.grad(outputs, inputs, [torch.ones_like(out) for out in outputs])

    with torch.no_grad():
        forward = milliseconds(lambda: function(*inputs))
    return {"forward_ms": forward, "both_ms": milliseconds(step)}


def as_one_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled, or an error: a twin of which a part runs uncompiled would flatter our kernel."""
    return torch.compile(function, dynamic=False, fullgraph=True)


def measured(name: str, case: Case) -> dict[str, Any]:
    """The row of one kernel."""
    with must_compile():
        row: dict[str, Any] = {"kernel": name, "ours": both_ways(case.kernel, case.inputs)}
        row["twin"] = both_ways(as_one_graph(case.twin), case.inputs)
        if case.instead is not None:
            what, other = case.instead
            row["instead"] = {"what": what, **both_ways(as_one_graph(other), case.inputs)}
    return row


def against_twins(failed: list[str]) -> Iterator[dict[str, Any]]:
    """A row per kernel, printed as it comes; what does not compile has none, but a line in `failed` that says why."""
    heads = "".join(f"{head:>11s}" for head in ("forward", "twin", "instead", "both ways", "twin", "instead"))
    print(f"{'kernel':26s}{heads}   ms")
    for name, case in cases().items():
        try:
            row = measured(name, case)
        except CompilationFailed as error:
            failed.append(f"{name}: {error}")
            continue
        places = [(who, key) for key in ("forward_ms", "both_ms") for who in ("ours", "twin", "instead")]
        cells = "".join(f"{row[who][key]:11.4f}" if who in row else " " * 11 for who, key in places)
        print(f"{name:26s}{cells}  {row.get('instead', {}).get('what', '')}".rstrip(), flush=True)
        yield row


def search_tilings() -> None:
    """Milliseconds of every kernel in `block_triton` over its tilings, at the sizes of both paper shapes."""
    from windtunnel.models import block_triton as ours

    for rows, width, hidden in ((EPISODES * 30, 256, 1024), (EPISODES * 39, 192, 760)):
        x, half, vector = draw(rows, width, dtype=torch.float32), draw(rows, width), draw(width, dtype=torch.float32)
        u, bias = draw(rows, hidden), draw(hidden, dtype=torch.float32)
        print(f"{rows} rows of {width} and of {hidden}")
        for turn, warps in itertools.product((2, 4, 8, 16), (2, 4, 8)):
            ours._ADD_NORM = ours.Tiling(turn, 0, warps, 0)
            told = [f"add_norm rows {turn} warps {warps}:", ms(ours._add_norm, x, half, vector, vector, vector, 1e-5)]
            for programs in (528, 1056, 2112):
                ours._ADD_NORM_BACKWARD = ours.Tiling(turn, 0, warps, programs)
                told += [f"backward {programs}:", ms(ours._add_norm_backward, x, vector, x, half, 1e-5)]
            print(*told, flush=True)
        for turn, columns, warps in itertools.product((8, 16, 32), (128, 256), (4, 8)):
            ours._GELU = ours.Tiling(turn, columns, warps, 0)
            told = [f"gelu rows {turn} columns {columns} warps {warps}:", ms(ours._bias_gelu, u, bias)]
            for programs in (528, 1056, 2112, 4224):
                ours._GELU_BACKWARD = ours.Tiling(turn, columns, warps, programs)
                told += [f"backward {programs}:", ms(ours._bias_gelu_backward, u, bias, u)]
            print(*told, flush=True)


def ms(function: Callable[..., object], *given: object) -> str:
    return f"{milliseconds(lambda: function(*given)):.4f}"


def main() -> None:
    parser = Parser(description="GPU kernels against their plain twins.")
    parser.add_argument("--tilings", action="store_true")
    parser.add_argument("--solves", action="store_true")
    parser.add_argument("--json", type=place, default=None)
    options = parser.parse_args()
    device, kept = require_device("cuda"), PartialResult(options.json)
    if options.tilings:
        with torch.no_grad():
            search_tilings()
    elif options.solves:
        require_kernels()
        result = {"environment": environment(device), "solves": []}
        for row in solves():
            result["solves"].append(row)
            kept.rows(result)
        kept.whole(result)
    else:
        failed: list[str] = []
        result: dict[str, Any] = {"environment": environment(device), "kernels_in_use": kernels.in_use(device)}
        result |= {"kernels": [], "failed": failed}
        for row in against_twins(failed):
            result["kernels"].append(row)
            kept.rows(result)  # one that fails does not take the others with it
        kept.whole(result)
        if failed:
            raise InputError(f"without a row: {'; '.join(failed)}")


if __name__ == "__main__":
    run(main)
