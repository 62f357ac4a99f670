"""benchmarks/cpu_paths.py: each way is what it says and computes the same; what is printed and told are the times."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.training.cases import SMALL_HMM, broken_compiler, tiny
from windtunnel.errors import InputError
from windtunnel.models.compiled import CompilationFailed
from windtunnel.training.batch_halves import SMALLEST

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs" / "making")]

import cpu_paths  # noqa: E402
from speed_parts import ways_part  # noqa: E402

LARGE = -(-SMALLEST // SMALL_HMM.positions)
PLACE = {"device": "a chip", "threads": 2, "commit": "abc", "python": "3", "versions": {"torch": "2"}}
OWN, ONE = "torch's own threads", "one thread"


def test_every_way_works_as_it_is_called_and_finds_the_same_loss(threads):
    threads(2)
    recipe = tiny(SMALL_HMM, batch=LARGE)
    networks = {way: kind(recipe, 0, "cpu") for way, kind in cpu_paths.KINDS.items()}
    used, parts = {}, {}
    for name, network in networks.items():
        seen, before = [], network._loss

        def watched(batch, part=slice(None), *, seen=seen, before=before):
            seen.append((torch.get_num_threads(), part != slice(None)))
            return before(batch, part)

        network._loss = watched
        for _ in range(3):
            network.advance()
        used[name], parts[name] = {count for count, _ in seen}, {part for _, part in seen}
    assert used == {cpu_paths.USED: {1}, OWN: {2}, ONE: {1}}
    assert parts == {cpu_paths.USED: {True}, OWN: {False}, ONE: {False}}
    losses = {network.take_loss_bits() for network in networks.values()}
    assert max(losses) - min(losses) < 1e-5 < min(losses)


def test_ways_take_turns_and_each_has_its_own_time():
    waits = {"slow": 0.004, "fast": 0.001}
    order: list[str] = []

    def take(name: str, steps: int) -> None:
        order.extend([name] * steps)
        time.sleep(steps * waits[name])

    times = cpu_paths.in_turns({name: partial(take, name) for name in waits}, about_s=0.2)
    assert len(times["slow"]) == len(times["fast"]) >= 4
    assert min(times["slow"]) >= 0.004 and 0.001 <= min(times["fast"]) < 0.004
    turns = [set(order[at : at + 2 * cpu_paths.BURST]) for at in range(0, len(order), 2 * cpu_paths.BURST)]
    assert all(turn == set(waits) for turn in turns)
    assert len({order[at] for at in range(0, len(order), 2 * cpu_paths.BURST)}) == 2  # not always the same one first


def test_two_at_a_time_are_two_networks_with_a_process_each():
    before = set(multiprocessing.active_children())
    with cpu_paths.pair(tiny(SMALL_HMM, batch=LARGE)) as advance:
        assert len(set(multiprocessing.active_children()) - before) == 2
        advance(2)
        advance(1)
    assert set(multiprocessing.active_children()) <= before


def test_a_network_whose_process_dies_does_not_keep_the_other_waiting():
    before = set(multiprocessing.active_children())
    with cpu_paths.pair(tiny(SMALL_HMM, batch=LARGE)) as advance:
        advance(1)
        (set(multiprocessing.active_children()) - before).pop().kill()
        with pytest.raises((EOFError, OSError)):
            advance(1)
    assert set(multiprocessing.active_children()) <= before


def plant(monkeypatch, **times: float) -> None:
    """Milliseconds per step, the same in every turn."""
    named = {cpu_paths.USED: times["used"], OWN: times["own"], ONE: times["one"], "compiled": times["compiled"]}
    named |= {cpu_paths.SEEDS: times["seeds"], cpu_paths.PAIR: times["two"]}  # of a step in both networks
    monkeypatch.setattr(cpu_paths, "in_turns", lambda ways, about_s: {n: [named[n] / 1e3] * 4 for n in ways})
    monkeypatch.setattr(cpu_paths, "pair", lambda recipe: nullcontext(None))
    seconds = [{"seconds": 20.0}, {"seconds": 4.0}]
    monkeypatch.setattr(cpu_paths, "compile_times", lambda device, case, limit_s: seconds)
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    recipes = {"quick": tiny(SMALL_HMM, batch=LARGE), "hmm/lstm": tiny(SMALL_HMM, "lstm-residual", batch=LARGE)}
    monkeypatch.setattr(cpu_paths, "cases", lambda device: recipes)


def run(monkeypatch, capsys, folder: Path, *words: str) -> tuple[list[str], str]:
    """Lines of what is printed, and the part of the page."""
    file = folder / "cpu-paths.json"
    monkeypatch.setattr(sys, "argv", ["cpu_paths.py", *words, "--json", str(file)])
    cpu_paths.main()
    result = json.loads(file.read_text())
    assert "commit" in result["environment"]
    file.write_text(json.dumps(result | {"environment": PLACE}))
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[1:]], "\n".join(ways_part(file))


def test_planted_times_are_printed_and_told(monkeypatch, capsys, tmp_path):
    plant(monkeypatch, used=10.0, own=15.0, one=18.0, compiled=12.0, seeds=16.0, two=14.0)
    lines, page = run(monkeypatch, capsys, tmp_path, "--only", "quick,hmm/lstm")
    assert len(lines) == 12
    assert lines[0] == "quick two halves 10.00 1.00 × 10.00 1.00 × 0.0 0.0 0.1"
    assert lines[3] == "quick compiled 12.00 1.20 × 12.00 1.20 × 20.0 4.0 20.1"  # six steps
    assert lines[4] == "quick two seeds 8.00 0.80 × 8.00 0.80 × 0.0 0.0 0.0"  # of one network's step
    assert lines[5] == "quick two processes 7.00 0.70 × 7.00 0.70 × 0.0 0.0 0.0"
    assert lines[11] == "hmm/lstm compiled its forward pass is never compiled, on purpose"
    assert "| quick | one thread | 18.00 | 1.80 × | 1.80 × |  |  | 0.1 |" in page
    assert "| quick | compiled | 12.00 | 1.20 × | 1.20 × | 20.0 | 4.0 | 20.1 |" in page
    assert "never compiled, on purpose |" in page and "No other way to train one network was faster." in page


def test_a_way_that_is_faster_is_said_to_be(monkeypatch, capsys, tmp_path):
    plant(monkeypatch, used=10.0, own=15.0, one=18.0, compiled=8.0, seeds=16.0, two=14.0)
    _, page = run(monkeypatch, capsys, tmp_path, "--only", "quick")
    assert "Faster by the step than what training takes: quick, compiled (0.80 ×)." in page


@pytest.mark.parametrize("where", ["in the child", "here"])
def test_without_a_compiler_the_row_says_so(monkeypatch, capsys, tmp_path, where):
    plant(monkeypatch, used=10.0, own=15.0, one=18.0, compiled=8.0, seeds=16.0, two=14.0)

    def fail(device, case, limit_s):
        raise CompilationFailed("no compiler here")

    if where == "here":
        monkeypatch.setattr(torch, "compile", broken_compiler)
    else:
        monkeypatch.setattr(cpu_paths, "compile_times", fail)
    lines, page = run(monkeypatch, capsys, tmp_path, "--only", "quick")
    assert lines[5].startswith("quick compiled ") and "no compiler here" in lines[5]
    assert len(lines) == 6 and "No other way to train one network was faster." in page


def test_what_cannot_be_asked_for_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cpu_paths.py", "--only", "quick,hmm/horoscope"])
    with pytest.raises(InputError, match=r"horoscope.*one of quick"):
        cpu_paths.main()
    with pytest.raises(InputError, match="large enough to be halved"):
        cpu_paths.measured("quick", tiny(SMALL_HMM), about_s=0.1)


def test_no_part_of_the_page_without_a_measurement(tmp_path):
    assert ways_part(tmp_path / "nothing.json") == []
