"""What rounding does to the averaged entropy curve: networks scored with their weights rounded, and as they are.

    python benchmarks/rounding.py [--only hmm-transformer,urn-transformer] [--json FILE]

In bfloat16 training every matrix product reads its weights rounded to 8 bits.  What is kept, and scored, are the
float32 weights that were rounded.  Networks of `zoo/` on the same test episodes, on a CPU:

    float32    as everything is scored
    rounded    weights of linear maps rounded to bfloat16, arithmetic in float32
    bfloat16   weights and activations rounded, as in training (torch's autocast)
    dithered   each weight rounded up or down at random, several times: what rounding does that training never saw

To round at random has about twice the variance of rounding to the nearest.  Bias is the mean of H_model − H_exact over
positions and sequences, in bits: what is left of the curve error where errors of both signs cancel.  Differences are
paired by sequence.  The urn's network was trained in float32: nothing in its training knew of rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from common import Parser, place, run, save, whole
from torch import Tensor, nn

from windtunnel.environment import environment
from windtunnel.errors import require_choice
from windtunnel.fidelity.intervals import t_interval
from windtunnel.fidelity.metrics import kl_bits, model_entropy_bits
from windtunnel.study import zoo

NETWORKS = ("hmm-transformer", "bijection-transformer", "urn-transformer")
CHUNK = 500
ROUNDINGS = 8  # random ones


def to_bfloat16(weight: Tensor) -> Tensor:
    """The nearest number of 8 significant bits."""
    return weight.bfloat16().float()


def dithered(generator: torch.Generator) -> Callable[[Tensor], Tensor]:
    """Rounds up or down at random, more often to the nearer one: right on average."""

    def rounded(weight: Tensor) -> Tensor:
        exponent = torch.frexp(weight).exponent
        unit = torch.ldexp(torch.ones_like(weight), exponent - 8)
        return torch.floor(weight / unit + torch.rand(weight.shape, generator=generator)) * unit

    return rounded


@contextmanager
def changed_weights(network: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Meanwhile every linear map has changed weights."""
    maps = [module for module in network.modules() if isinstance(module, nn.Linear)]
    before = [module.weight.data for module in maps]
    for module in maps:
        module.weight.data = change(module.weight.data)
    try:
        yield
    finally:
        for module, weight in zip(maps, before, strict=True):
            module.weight.data = weight


@torch.no_grad()
def scored(network: nn.Module, episodes: Any, half: bool = False) -> tuple[Tensor, Tensor]:
    """KL and bias of every sequence in bits, (n,) each."""
    kl, bias = [], []
    for first in range(0, len(episodes.labels), CHUNK):
        part = episodes[first : first + CHUNK]
        features = None if part.inputs.features is None else part.inputs.features.float()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = network(part.inputs.tokens, features, part.inputs.readout)
        log_q = logits.double().log_softmax(-1)
        kl.append(kl_bits(part.posterior, log_q).mean(1))
        bias.append((model_entropy_bits(log_q) - part.entropy_bits).mean(1))
    return torch.cat(kl), torch.cat(bias)


def measure(name: str, episodes: int) -> dict[str, Any]:
    """One network: every path on the same episodes."""
    network, card = zoo.load(name), zoo.card(name)
    drawn = zoo.as_run(name).tunnel.sample(episodes, seed=1, stream="test")
    exact = scored(network, drawn)
    paths = {"float32": exact}
    with changed_weights(network, to_bfloat16):
        paths["rounded"] = scored(network, drawn)
    paths["bfloat16"] = scored(network, drawn, half=True)
    row: dict[str, Any] = {
        "network": name,
        "trained_in": card["recipe"]["precision"],
        "episodes": episodes,
        "paths": {},
    }
    for path, (kl, bias) in paths.items():
        row["paths"][path] = {"kl_bits": float(kl.mean()), "bias_bits": _interval(bias)}
        if path != "float32":
            row["paths"][path]["moved_bits"] = _interval(bias - exact[1])
    moved = []
    for draw in range(ROUNDINGS):
        with changed_weights(network, dithered(torch.Generator().manual_seed(draw))):
            moved.append(float((scored(network, drawn)[1] - exact[1]).mean()))
    return row | {"dithered_moved_bits": moved}


def _interval(values: Tensor) -> dict[str, float]:
    low, high, _ = t_interval(values.numpy())
    return {"mean": float(values.mean()), "low": low, "high": high}


def main() -> None:
    parser = Parser(description="Rounded weights and the error of the averaged entropy curve.")
    parser.add_argument("--only", default="", help=f"networks, separated by commas: {', '.join(NETWORKS)}")
    parser.add_argument("--episodes", type=whole(CHUNK), default=4_000)
    parser.add_argument("--json", type=place, default=None)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else NETWORKS
    for name in names:
        require_choice("--only", name, NETWORKS)
    rows, where = [], environment("cpu")
    for name in names:
        rows.append(row := measure(name, options.episodes))
        save(options.json, {"environment": where, "rounding": rows})  # after every row: each takes minutes
        print(f"{name}, trained in {row['trained_in']}")
        for path, found in row["paths"].items():
            bias, moved = found["bias_bits"], found.get("moved_bits")
            told = f"  moved by {moved['mean']:+.2e} [{moved['low']:+.2e}, {moved['high']:+.2e}]" if moved else ""
            print(f"  {path:9s} KL {found['kl_bits']:.3e}  bias {bias['mean']:+.2e}{told}")
        print(f"  dithered  moved by {' '.join(f'{value:+.1e}' for value in row['dithered_moved_bits'])}", flush=True)


if __name__ == "__main__":
    run(main)
