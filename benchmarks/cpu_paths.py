"""Ways to take a training step of the quick preset on a CPU: the one that training takes, and what it could do instead.

    python benchmarks/cpu_paths.py [--only quick,hmm/lstm] [--seconds 30] [--json FILE]

Training works on the batch in two halves, each on a thread of its own.  Instead torch could split every operation
over its own threads; all could run on one thread; or the step could be compiled, as on a GPU, by torch.compile, whose
code uses torch's own threads.  Where there are several networks, two can also be trained at a time: as training does
with two seeds, each on a thread; or each on one thread of a process of its own.  The time of these ways is the wall
time over the steps of both.  All take turns, a burst of steps each, in an order drawn anew, so that a busy machine hits
them alike; what counts is the lower quartile over turns, and the medians stand beside it.  Compiling is timed in a
process of its own, with nothing kept from before and then with what that kept.  `OMP_WAIT_POLICY`, which tells torch's
threads how to wait, is left as it is found; the command line sets it to PASSIVE, the library does not.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from common import Parser, place, positive, run

from windtunnel.environment import environment
from windtunnel.errors import require
from windtunnel.models.compiled import CompilationFailed, must_compile
from windtunnel.training.batch_stages import Stage
from windtunnel.training.engine import Engine
from windtunnel.training.network import Network
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed.cases import cases
from windtunnel.training.speed.clock import seconds
from windtunnel.training.speed.partial_result import PartialResult
from windtunnel.training.speed.startup import compile_times

CASES = "quick,hmm/transformer,hmm/lstm"
USED, COMPILED = "two halves", "compiled"
SEEDS, PAIR = "two seeds", "two processes"  # of two networks
BURST = 10  # steps in a row: threads of the way before may still spin during the first, and two seeds meet at the last


class OneThread(Network):
    """Never in halves."""

    def enter(self, stage: Stage) -> None:
        super().enter(stage)
        self._halved = False


class OwnThreads(Network):
    """Every operation is torch's to split, as that of a user's own module is."""

    @property
    def _single_threaded(self) -> bool:
        return False


KINDS = {USED: Network, "torch's own threads": OwnThreads, "one thread": OneThread}
HEAD = "case            way                  ms/step  of used  median  of used  compile s  again  whole preset s"


def _life(recipe: Recipe, seed: int, orders: Any) -> None:
    """Of a process that holds a network: takes as many steps as it is told, and says when they are done."""
    torch.set_num_threads(1)
    network = OneThread(recipe, seed, "cpu")
    while steps := orders.recv():
        for _ in range(steps):
            network.advance()
        orders.send(steps)


@contextmanager
def pair(recipe: Recipe) -> Iterator[Callable[[int], None]]:
    """Two networks in two processes: a function that takes so many steps in each, side by side.

    A process that dies is an EOFError or a BrokenPipeError here, for nobody but it holds its end of the pipe.
    """
    context = multiprocessing.get_context("spawn")
    ends = [context.Pipe() for _ in range(2)]
    workers = [context.Process(target=_life, args=(recipe, n, far), daemon=True) for n, (_, far) in enumerate(ends)]

    def advance(steps: int) -> None:
        for near, _ in ends:
            near.send(steps)
        for near, _ in ends:
            near.recv()

    for worker, (_, far) in zip(workers, ends, strict=True):
        worker.start()
        far.close()
    try:
        yield advance
    finally:
        for near, _ in ends:
            with suppress(OSError):  # it has died
                near.send(0)
        for worker in workers:
            worker.join()


def compiled(recipe: Recipe, case: str) -> tuple[Network, tuple[float, float]]:
    """The network with its step compiled, and the seconds that took without and with a filled cache."""
    network = Network(recipe, 0, "cpu")
    if not getattr(network.model, "compilable", True):
        raise CompilationFailed("its forward pass is never compiled, on purpose")
    cold, warm = (row["seconds"] for row in compile_times("cpu", case, limit_s=1800.0))
    with must_compile():
        network.compile()
        network.advance()
    return network, (cold, warm)


def in_turns(ways: Mapping[str, Callable[[int], object]], about_s: float) -> dict[str, list[float]]:
    """Seconds per step of each, by turn; a way is given a number of steps to take."""
    bursts = {name: partial(way, BURST) for name, way in ways.items()}
    _, once = (sum(seconds(burst, "cpu") for burst in bursts.values()) for _ in ("to warm up", "to be counted"))
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(max(4, int(about_s / once))):
        for name in random.Random(turn).sample(list(bursts), len(bursts)):
            times[name].append(seconds(bursts[name], "cpu") / BURST)
    return times


def several(network: Network, steps: int) -> None:
    """So many steps of a network in this process."""
    for _ in range(steps):
        network.advance()


def measured(case: str, recipe: Recipe, about_s: float) -> list[dict[str, Any]]:
    """A row for each way; where there is nothing to measure it says why."""
    endless = recipe.with_options(steps=1_000_000)  # the table of rates must not end
    networks = {way: kind(endless, 0, "cpu") for way, kind in KINDS.items()}
    require(networks[USED]._halved, "case", case, "one whose batch is large enough to be halved")
    compiling, missing = {}, []
    try:
        networks[COMPILED], compiling[COMPILED] = compiled(endless, case)
    except CompilationFailed as failure:
        missing = [{"case": case, "way": COMPILED, "why_not": str(failure)}]
    ways = {way: partial(several, network) for way, network in networks.items()}
    with pair(endless) as two:
        of_two = {SEEDS: Engine([Network(endless, seed, "cpu") for seed in range(2)]).advance, PAIR: two}
        times = in_turns(ways | of_two, about_s)
    times |= {way: [taken / 2 for taken in times[way]] for way in of_two}
    low, middle = ({way: 1e3 * statistics.quantiles(t, n=4)[cut] for way, t in times.items()} for cut in (0, 1))
    rows = []
    for way, taken in times.items():
        cold, warm = compiling.get(way, (0.0, 0.0))
        row = {"case": case, "way": way, "turns": len(taken), "steps": recipe.steps}
        row |= {"ms_per_step": low[way], "over_used": low[way] / low[USED]}
        row |= {"median_ms": middle[way], "median_over_used": middle[way] / middle[USED]}
        row |= {"compile_s": cold, "compile_again_s": warm, "preset_s": cold + recipe.steps * low[way] / 1e3}
        rows.append(row)
    return rows + missing


def told(row: dict[str, Any]) -> str:
    """A line of the table, under `HEAD`."""
    start = f"{row['case']:15s} {row['way']:20s}"
    if "why_not" in row:
        return f"{start} {row['why_not']}"
    fields = {"ms_per_step": "7.2f", "over_used": "6.2f", "median_ms": "7.2f", "median_over_used": "6.2f"}
    fields |= {"compile_s": "10.1f", "compile_again_s": "6.1f", "preset_s": "15.1f"}
    return " ".join([start, *(f"{row[key]:{form}}{' ×' * ('over' in key)}" for key, form in fields.items())])


def main() -> None:
    known = cases("cpu")
    parser = Parser(description="Ways to take a training step of the quick preset on a CPU.")
    parser.add_argument("--only", default=CASES, help=f"cases, with commas between (default: {CASES})")
    parser.add_argument("--seconds", type=positive, default=30.0, help="of measuring, per case (default: 30)")
    parser.add_argument("--json", type=place, default=None)
    options = parser.parse_args()
    chosen = options.only.split(",")
    for case in chosen:
        require(case in known, "--only", case, f"one of {', '.join(known)}")
    waiting, kept = os.environ.get("OMP_WAIT_POLICY", "not set"), PartialResult(options.json)
    result: dict[str, Any] = {"environment": environment("cpu"), "omp_wait_policy": waiting, "used": USED, "rows": []}
    print(HEAD)
    for case in chosen:
        found = measured(case, known[case], options.seconds)
        print(*map(told, found), sep="\n", flush=True)
        result["rows"] += found
        kept.rows(result)
    kept.whole(result)


if __name__ == "__main__":
    run(main)
