"""Compile side by side what is then measured one after another: with a filled cache a process is ready in seconds.

    python benchmarks/warm.py --only hmm-mamba,hmm-lstm,seeds,growth [--workers 12] [--set first_batch=256]

Names are those of `benchmarks/records.py`; `seeds` and `growth` stand for the larger batches, and the larger networks,
of those sections of `benchmarks/training.py`.  Each is built, compiled, captured and dropped.  Nothing is measured: the
seconds told are those of many compilers at once.  What was compiled is marked in the cache itself, so that an attempt
at a record can say whether its set-up found it there.
"""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from common import Parser, run, whole
from reach import changed

from windtunnel.environment import require_device
from windtunnel.errors import InputError, require_choice
from windtunnel.models.compiled import must_compile
from windtunnel.training.engine import Engine
from windtunnel.training.network import Network
from windtunnel.training.recipe import Optimiser, Recipe, Schedule
from windtunnel.training.speed import growth
from windtunnel.training.speed.bench import TOGETHER
from windtunnel.training.speed.cases import attempted, cases

SEEDS, GROWTH = "seeds", "growth"


def chosen(words: list[str], settings: list[str], cases_of_seeds: list[str]) -> dict[str, Recipe]:
    """What to compile, by a label; settings change the recipes that were named."""
    known, found = attempted(), {}
    for word in words:
        require_choice("--only", word, [*known, SEEDS, GROWTH])
        if word == SEEDS:
            standard = cases("cuda")
            for name in cases_of_seeds or standard:
                require_choice("--seeds-of", name, standard)
                larger = standard[name].with_options(batch=TOGETHER * standard[name].batch)
                found |= {f"{SEEDS} {name}": standard[name], f"{SEEDS} {name}, larger": larger}
        elif word == GROWTH:
            for axis, factor in growth.steps_of_growth(quick=False):
                size, recipe, _ = growth.grown(growth.base_case("cuda"), axis, factor)
                found[f"{GROWTH} {axis} {size}"] = recipe
        else:
            found[" ".join([word, *settings])] = changed(known[word], settings)
    return found


def kind(recipe: Recipe) -> str:
    """A name for what is compiled, forward pass and sampler: sections share theirs, and seeds, steps, names and what an
    optimiser does with the gradient change nothing."""
    alike = replace(recipe, optimiser=Optimiser(), schedule=Schedule()).with_options(seeds=(0,), steps=1, name="")
    return hashlib.sha256(repr(alike).encode()).hexdigest()[:16]


def unlike(recipes: dict[str, Recipe]) -> dict[str, Recipe]:
    """Each kind once."""
    seen: dict[str, str] = {}
    for label, recipe in recipes.items():
        seen.setdefault(kind(recipe), label)
    return {label: recipes[label] for label in seen.values()}


def mark(recipe: Recipe) -> Path:
    """The file in the compiler's cache that says that this was compiled; gone with the cache, or with the machine."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir()) / "windtunnel" / kind(recipe)


def ready(recipe: Recipe) -> float:
    """Seconds until a network of it could take its first step."""
    start = time.perf_counter()
    with must_compile():
        Engine([Network(recipe, 0, "cuda")])
    return time.perf_counter() - start


def main() -> None:
    parser = Parser(description="Fill the compiler's cache, many recipes side by side.")
    parser.add_argument("--only", required=True, help=f"recipes, {SEEDS} or {GROWTH}, separated by commas")
    parser.add_argument("--seeds-of", default="", help=f"cases of {SEEDS}, separated by commas; all of them by default")
    parser.add_argument("--set", action="append", default=[], help="change the recipes: name=value")
    parser.add_argument("--workers", type=whole(1), default=12)
    options = parser.parse_args()
    of_seeds = [name for name in options.seeds_of.split(",") if name]
    recipes = unlike(chosen(options.only.split(","), options.set, of_seeds))
    require_device("cuda")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no helpers of its own for each of the workers
    start, failed = time.perf_counter(), []
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        waiting = {pool.submit(ready, recipe): label for label, recipe in recipes.items()}
        for done in as_completed(waiting):
            label = waiting[done]
            if error := done.exception():
                failed.append(label)
                print(f"{label}: failed: {' '.join(str(error).split())[:200]}", flush=True)
            else:
                mark(recipes[label]).parent.mkdir(parents=True, exist_ok=True)
                mark(recipes[label]).touch()
                print(f"{label}: {done.result():.0f} s", flush=True)
    print(f"{len(recipes) - len(failed)} of {len(recipes)} in {time.perf_counter() - start:.0f} s")
    if failed:
        raise InputError(f"not compiled: {', '.join(failed)}; the reasons are above")


if __name__ == "__main__":
    run(main)
