"""Train the networks of some cells and survey each of them: geometry, interventions, behaviour, dynamics.

    python benchmarks/survey.py --device cuda --out benchmarks/results/h200/survey
    python benchmarks/survey.py --cells hmm-mamba --runs runs --params 60000 --steps 50 --device cpu --out survey

A cell is a world and an architecture; its run is kept in (and, if it is there already, taken from) `--runs`/CELL.  One
JSON file per cell: recipe, environment, seconds, the distance from Bayes, and every record with its nulls as mean,
standard deviation and range.  Needs only torch, numpy, scipy and safetensors.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch

from windtunnel.environment import environment, require_device
from windtunnel.errors import require_choice
from windtunnel.fidelity import baselines, evaluate
from windtunnel.geometry import Measurement
from windtunnel.mechanism.inspect import EPISODES, NAMES, UNTRAINED, Entry, inspect
from windtunnel.training import Run, recipe_for, train
from windtunnel.training.files import write_bytes
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel

FORMAT = 1
WORLDS: dict[str, Tunnel] = {
    "bijection": Bijection(),
    "bijection-replacement": Bijection(replacement=True),
    "hmm": HMM(),
    "recall": Recall(queries=64),  # every stored key is asked for, as in the committed recipe: 3 teach too little
}
CELLS = {f"{world}-{model}": (world, model) for world in WORLDS for model in ("transformer", "mamba", "lstm")}
KEPT = ("by layer", "clean", "off", "ceiling", "dose", "moved")  # short arrays that the page or a reader may want


def brief(entry: Entry) -> dict[str, Any]:
    """A record without its big arrays, each null as a few numbers."""
    plain = {"instrument": entry.instrument, "seed": entry.seed, **entry.found.to_dict()}
    if isinstance(entry.found, Measurement):
        plain["nulls"] = {name: summary(np.asarray(sample)) for name, sample in entry.found.nulls.items()}
        plain["arrays"] = {
            name: np.asarray(array).ravel().tolist() for name, array in entry.found.arrays.items() if name in KEPT
        }
    return plain


def summary(sample: np.ndarray) -> dict[str, float]:
    spread = float(sample.std(ddof=1)) if sample.size > 1 else 0.0
    ends = {"mean": float(sample.mean()), "sd": spread, "low": float(sample.min()), "high": float(sample.max())}
    return {**ends, "draws": sample.size}


def distance(run: Run, device: str, episodes: int) -> dict[str, Any]:
    """KL in bits by seed, and that of the uniform guess."""
    own = evaluate(run, episodes=episodes).kl_bits
    uniform = evaluate(baselines(run.tunnel)["uniform"], run.tunnel, episodes=episodes, device=device).kl_bits
    return {"kl_bits": own.mean, "low": own.low, "high": own.high, "over": own.over} | {
        "per_seed": own.per_seed.tolist(),
        "uniform_kl_bits": uniform.mean,
        "episodes": episodes,
    }


def one_cell(name: str, options: argparse.Namespace, runs: Path) -> dict[str, Any]:
    """Train (or take) the run of a cell and survey it."""
    world, model = CELLS[name]
    sizes = {"steps": options.steps, "params": options.params, "batch": options.batch}
    changes = {key: value for key, value in sizes.items() if value is not None}
    start, recipe = time.perf_counter(), recipe_for(WORLDS[world], model, "standard")
    run = train(recipe=recipe, seeds=options.seeds, out=runs / name, device=options.device, **changes)
    trained = time.perf_counter()
    score = distance(run, options.device, options.score_episodes)
    only = options.only.split(",") if options.only else None
    settings = {"episodes": options.episodes, "untrained": options.untrained}
    began = time.perf_counter()
    found = inspect(run, only=only, progress=lambda stage, *_: print(f"  {stage}", flush=True), **settings)
    ended = time.perf_counter()
    for missing, reason in found.missing.items():
        print(f"  not measured: {missing}: {reason}", flush=True)
    seconds = {"training": trained - start, "survey": ended - began}
    for entry, took in found.seconds.items():
        instrument = entry.partition(",")[0]
        seconds[instrument] = seconds.get(instrument, 0.0) + took
    print(f"== {name}: KL {score['kl_bits']:.3g} bits, training {seconds['training']:.0f} s, survey", end=" ")
    print(f"{seconds['survey']:.0f} s, {sum(1 for _ in found.measurements())} measurements", flush=True)
    return {
        "settings": found.settings,
        "seconds": {key: round(value, 2) for key, value in seconds.items()},
        "score": score,
        "records": [brief(entry) for entry in found.entries],
    }


def text_of(result: dict[str, Any]) -> str:
    """JSON with one record per line: a change of one number is a change of one line."""
    records = [json.dumps(_rounded(record)) for record in result.get("records", [])]
    head = json.dumps({key: value for key, value in result.items() if key != "records"}, indent=1)
    body = ",\n".join(records)
    return f'{head[:-2]},\n "records": [\n{body}\n ]\n}}\n'


def _rounded(value: Any) -> Any:
    """Five significant digits are more than any of these numbers is known to."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


def main() -> None:
    parser = argparse.ArgumentParser(description="Train and survey the networks of some cells.")
    parser.add_argument("--cells", default=",".join(CELLS), help="separated by commas; all by default")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="instruments, separated by commas; all by default")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="episodes that are looked at")
    parser.add_argument("--untrained", type=int, default=UNTRAINED, help="untrained twins that serve as a null")
    parser.add_argument("--score-episodes", type=int, default=4096, help="episodes of the distance from Bayes")
    parser.add_argument("--steps", type=int, default=None, help="instead of the recipe's")
    parser.add_argument("--params", type=int, default=None, help="instead of 2.67M")
    parser.add_argument("--batch", type=int, default=None, help="instead of the recipe's")
    parser.add_argument("--runs", default=None, help="keep (or find) the runs here; by default a temporary folder")
    parser.add_argument("--out", default=None, help="folder for the result files; nothing is written by default")
    options = parser.parse_args()
    options.device = require_device(options.device)
    cells = options.cells.split(",")
    for name in cells:
        require_choice("--cells", name, CELLS)
    for name in options.only.split(",") if options.only else ():
        require_choice("--only", name, NAMES)
    with tempfile.TemporaryDirectory() as temporary:
        for name in cells:
            print(f"-- {name}", flush=True)
            result: dict[str, Any] = {"format": FORMAT, "cell": name, "environment": environment(options.device)}
            try:
                result |= one_cell(name, options, Path(options.runs or temporary))
            except Exception as error:  # one cell that fails must not cost the others
                traceback.print_exc()
                result["error"] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            if options.out:
                write_bytes(Path(options.out) / f"{name}.json", text_of(result).encode())
            if options.device != "cpu":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
