"""Training on a CPU now against an earlier commit: the same command in turns, whole wall-clock time, on this machine.

    python benchmarks/against.py e4632d6 [--rounds 5] [--train "hmm mamba --steps 100"] [--json FILE]

The earlier tree is taken from git into a temporary folder and run with the same Python.  A round is one run of each,
one after the other, so that a busy machine hits both alike; the ratio is the median over rounds.  Beside it stand the
ratio of the fastest run of each, which other work on the machine disturbed least, and that of processor seconds.
"""

from __future__ import annotations

import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from common import Parser, place, run, save, whole

from windtunnel.environment import environment
from windtunnel.errors import require

HERE = Path(__file__).resolve().parent.parent
USUAL = "bijection transformer --symbols 8 --length 8 --preset quick"


def checkout(commit: str, folder: Path) -> None:
    """The tree of a commit."""
    packed = subprocess.run(["git", "-C", str(HERE), "archive", commit], capture_output=True)
    require(packed.returncode == 0, "commit", commit, "a commit of this repository")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tree:
        tree.extractall(folder, filter="data")


def timed(words: list[str], tree: Path, out: Path) -> dict[str, float]:
    """Seconds of the whole training, how many steps it had, and the validation scores it ended with."""
    start, used = time.perf_counter(), processor_seconds()
    command = [sys.executable, "-m", "windtunnel", "train", *words, "--out", str(out)]
    done = subprocess.run(command, cwd=tree, env=os.environ | {"PYTHONPATH": str(tree)}, capture_output=True, text=True)
    require(
        done.returncode == 0, "--train", " ".join(words), f"what both commits can train: {done.stderr.strip()[-300:]}"
    )
    seconds = time.perf_counter() - start
    last = json.loads((out / "seed-0" / "metrics.jsonl").read_text().splitlines()[-1])
    scores = {name: last[name] for name in ("step", "kl_bits", "entropy_mae_bits")}
    return {"seconds": seconds, "processor": processor_seconds() - used, **scores}


def processor_seconds() -> float:
    """That ended children of this process have used, on all cores."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = Parser(description="Training on a CPU against an earlier commit.")
    parser.add_argument("commit", help="the earlier one")
    parser.add_argument("--rounds", type=whole(1), default=5)
    parser.add_argument("--train", default=USUAL, help="what `windtunnel train` is given (default: %(default)s)")
    parser.add_argument("--json", type=place, default=None)
    options = parser.parse_args()
    words, rounds = options.train.split(), []
    with tempfile.TemporaryDirectory() as folder:
        trees = {"before": Path(folder) / "before", "now": HERE}
        checkout(options.commit, trees["before"])
        for number in range(options.rounds):
            found = {name: timed(words, tree, Path(folder) / f"{name}-{number}") for name, tree in trees.items()}
            rounds.append(found | {"ratio": found["before"]["seconds"] / found["now"]["seconds"]})
            told = "  ".join(
                f"{name} {found[name]['seconds']:.1f} s, KL {found[name]['kl_bits']:.2g}" for name in trees
            )
            print(f"{told}  ratio {rounds[-1]['ratio']:.2f}", flush=True)
    ratio = statistics.median(one["ratio"] for one in rounds)
    fastest = {kind: _ratio_of_fastest(rounds, kind) for kind in ("seconds", "processor")}
    print(f"windtunnel train {options.train}: {ratio:.2f} times as fast as {options.commit}, median of {len(rounds)}")
    print(f"fastest of each: {fastest['seconds']:.2f} by the clock, {fastest['processor']:.2f} in processor seconds")
    command = f"windtunnel train {options.train}"
    result = {"command": command, "before": options.commit, "environment": environment("cpu")}
    save(options.json, result | {"rounds": rounds, "median_ratio": ratio, "ratio_of_fastest": fastest})


def _ratio_of_fastest(rounds: list[dict], kind: str) -> float:
    before, now = (min(one[name][kind] for one in rounds) for name in ("before", "now"))
    return before / now


if __name__ == "__main__":
    run(main)
