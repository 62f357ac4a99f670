"""benchmarks/kernels.py holds a kernel against its twin and against what it displaces; the page tells both."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from windtunnel.errors import InputError

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs" / "making")]

import kernels  # noqa: E402
from speed_parts import kernels_part, solves_part  # noqa: E402

PLACE = {"device": "a card", "commit": "abc", "python": "3", "versions": {"torch": "2"}}


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(
        *shape, dtype=torch.float32, generator=torch.Generator().manual_seed(len(shape))
    ).requires_grad_()


def assert_same(one, other, inputs) -> None:
    """Outputs and gradients, on a CPU and in float32: the same mathematics."""
    a, b = one(*inputs), other(*inputs)
    weights = torch.randn(a.shape, generator=torch.Generator().manual_seed(0))
    gradients = [torch.autograd.grad((out * weights).sum(), inputs) for out in (a, b)]
    for ours, theirs in [(a, b), *zip(*gradients, strict=True)]:
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_what_a_kernel_displaces_is_the_same_mathematics_as_its_twin():
    assert_same(kernels.library_attention, kernels.plain_attention, [drawn(3, 7, 3, 2, 4)])
    rates = (-torch.rand(5, 4)).requires_grad_()
    core = [drawn(3, 7, 5), drawn(3, 7, 5), rates, drawn(3, 7, 8), drawn(5), drawn(3, 7, 5)]
    assert_same(kernels.scanned_core, kernels.plain_core, core)


def test_a_case_may_have_a_third_contender(monkeypatch, capsys):
    """Planted times: a kernel, its twin and a library."""
    two = kernels.Case(F.relu, torch.sin, [])
    three = kernels.Case(F.relu, torch.sin, [], ("a library", torch.cos))
    monkeypatch.setattr(kernels, "cases", lambda: {"old": two, "new": three})
    monkeypatch.setattr(torch, "compile", lambda function, dynamic, fullgraph: function)
    times = {F.relu: 1.0, torch.sin: 4.0, torch.cos: 2.0}
    monkeypatch.setattr(
        kernels, "both_ways", lambda function, inputs: {"forward_ms": times[function], "both_ms": 3 * times[function]}
    )
    old, new = kernels.against_twins([])
    assert "instead" not in old and old["twin"] == {"forward_ms": 4.0, "both_ms": 12.0}
    assert new["instead"] == {"what": "a library", "forward_ms": 2.0, "both_ms": 6.0}
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.split() == ["old", "1.0000", "4.0000", "3.0000", "12.0000"]
    assert second.split() == ["new", "1.0000", "4.0000", "2.0000", "3.0000", "12.0000", "6.0000", "a", "library"]


def rows(*shape: int) -> torch.Tensor:
    return drawn(2, 5, *shape)


LOWER = torch.eye(4).expand(2, 4, 4).clone().requires_grad_()
CONTENDERS = {
    "attention": (kernels.plain_attention, [rows(3, 2, 4)]),
    "library": (kernels.library_attention, [rows(3, 2, 4)]),
    "add and norm": (kernels.plain_add_norm, [rows(6), rows(6), drawn(6), drawn(6), drawn(6)]),
    "core": (kernels.plain_core, [rows(6), rows(6), drawn(6, 4), rows(8), drawn(6), rows(6)]),
    "scanned core": (kernels.scanned_core, [rows(6), rows(6), drawn(6, 4), rows(8), drawn(6), rows(6)]),
    "scan": (kernels.selective_scan_chunked, [rows(6), rows(6), drawn(6, 4), rows(4), rows(4)]),
    "solve": (kernels.plain_solve, [LOWER, drawn(2, 4, 3)]),
}


@pytest.mark.parametrize("name", CONTENDERS)
def test_what_a_kernel_is_held_against_is_one_graph(name, monkeypatch):
    function, inputs = CONTENDERS[name]
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **options: real(function, backend="eager", **options))
    wanted, found = function(*inputs), kernels.as_one_graph(function)(*inputs)
    torch.testing.assert_close(found, wanted)


def test_a_contender_that_is_compiled_in_part_has_no_row(monkeypatch, tmp_path, capsys):
    def halves(x):
        torch._dynamo.graph_break()
        return x + 1

    planted = {"bad": kernels.Case(F.relu, halves, [drawn(2)]), "good": kernels.Case(F.relu, torch.sin, [drawn(2)])}
    monkeypatch.setattr(kernels, "cases", lambda: planted)
    monkeypatch.setattr(kernels, "require_device", lambda name: "cpu")
    monkeypatch.setattr(kernels, "milliseconds", lambda work: (work(), 1.0)[1])
    real, file = torch.compile, tmp_path / "kernels.json"
    monkeypatch.setattr(torch, "compile", lambda function, **options: real(function, backend="eager", **options))
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--json", str(file)])
    with pytest.raises(InputError, match="without a row: bad: not measured, as it does not compile: "):
        kernels.main()
    told = json.loads(file.read_text())
    assert [row["kernel"] for row in told["kernels"]] == ["good"] and told["kernels_in_use"] == []
    assert len(told["failed"]) == 1


@pytest.mark.parametrize(("triton", "why"), [(None, "need triton installed"), ("here", "could not be imported")])
def test_without_kernels_it_is_told_why(monkeypatch, triton, why):
    monkeypatch.setattr(kernels.kernels, "add_norm", None)
    monkeypatch.setattr(kernels, "find_spec", lambda name: triton)
    with pytest.raises(InputError, match=f"kernels: must be there.*{why}"):
        kernels.cases()


def test_the_page_tells_what_would_serve_without_a_kernel(tmp_path):
    times = {"ours": {"forward_ms": 1.0, "both_ms": 3.0}, "twin": {"forward_ms": 4.0, "both_ms": 12.0}}
    rows = [{"kernel": "one", **times}, {"kernel": "two", **times}]
    rows[1]["instead"] = {"what": "a library", "forward_ms": 2.0, "both_ms": 6.0}
    file = tmp_path / "kernels.json"
    file.write_text(json.dumps({"environment": PLACE, "kernels": rows}))
    told = "\n".join(kernels_part(file))
    assert "| one | 1.000 | 4.000 | 3.000 | 12.000 | 4.0 × | the reference | 12.000 | 4.0 × |" in told
    assert "| two | 1.000 | 4.000 | 3.000 | 12.000 | 4.0 × | a library | 6.000 | 2.0 × |" in told
    file.write_text(json.dumps({"environment": PLACE, "kernels": rows[:1]}))  # as before there was a third column
    told = "\n".join(kernels_part(file))
    assert "| one | 1.000 | 4.000 | 3.000 | 12.000 | 4.0 × |\n" in told and "without the kernel, not measured" in told


def test_solves_are_timed_by_size_and_kept_row_by_row(monkeypatch, tmp_path, capsys):
    """Planted times: the kernel takes 1 ms forward, the library half of that."""
    times = {kernels.kernel_solve: 1.0, kernels.plain_solve: 0.5}
    asked = []

    def both_ways(solve, given):
        asked.append(tuple(given[0].shape))
        return {"forward_ms": times[solve], "both_ms": 2 * times[solve]}

    monkeypatch.setattr(kernels, "both_ways", both_ways)
    monkeypatch.setattr(kernels, "SYSTEMS", {4: 3, 6: 2})
    monkeypatch.setattr(kernels, "require_device", lambda name: "cpu")
    monkeypatch.setattr(kernels, "require_kernels", lambda: None)
    monkeypatch.setattr(kernels, "draw", lambda *shape, dtype: torch.zeros(shape, dtype=dtype))
    file = tmp_path / "solves.json"
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--solves", "--json", str(file)])
    kernels.main()
    assert asked == [(3, 4, 4), (3, 4, 4), (2, 6, 6), (2, 6, 6)]
    assert capsys.readouterr().out.splitlines()[1].split() == ["4", "3", "1.0000", "0.5000", "2.0000", "1.0000"]
    told = json.loads(file.read_text())
    file.write_text(json.dumps(told | {"environment": PLACE}))
    assert "| 6 × 6 | 2 | 1.000 | 0.500 | 2.000 | 1.000 | 0.50 × |" in "\n".join(solves_part(file))
