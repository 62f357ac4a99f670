"""Time to fidelity: make an attempt; and docs/records.md, made from all attempts so far by `benchmarks/pages.py`.

    python benchmarks/records.py attempt hmm-transformer --seeds 5 --target 1e-3 [--set steps=800 …]

An attempt trains a named recipe (or `quick`, on a CPU), one seed after the other, and keeps the seconds that each
needed to every target in benchmarks/results/DEVICE/records/.  Set-up and validation are not on the clock; how a pass is
confirmed, and when an attempt is a record, is told in windtunnel/training/speed/fidelity.py and records.py.  Files
are never deleted: an attempt that is no record is a result too.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common import save
from reach import changed
from tables import table

from windtunnel.environment import default_device, environment, require_device
from windtunnel.errors import InputError, require_choice
from windtunnel.training.speed.cases import quick_case
from windtunnel.training.speed.fidelity import TARGETS_BITS, time_to_fidelity
from windtunnel.training.speed.records import Attempt, attempts_in, records, verdicts
from windtunnel.training.standard import NAMED

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
RECIPES = NAMED | {"quick": quick_case}


def attempt(options: argparse.Namespace) -> None:
    """Train every seed to the targets, say how it goes, keep the result."""
    require_choice("recipe", options.recipe, RECIPES)
    device = require_device(options.device)
    recipe = changed(RECIPES[options.recipe](), options.set)
    targets = tuple(options.target or TARGETS_BITS)
    result: dict[str, Any] = {"name": options.recipe, "changes": options.set, "recipe": recipe.to_dict()}
    result |= {"date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"), "environment": environment(device)}
    result |= {"targets_bits": list(targets), "every_s": options.every, "note": options.note, "seeds": []}
    kind = "cpu" if device == "cpu" else result["environment"]["device"].split()[-1].lower()
    folder = Path(options.out) if options.out else RESULTS / kind / "records"
    file = folder / f"{options.recipe}-{result['date'].replace(':', '')}.json"
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        found = time_to_fidelity(recipe, seed, device, targets, options.every, options.confirm)
        result["seeds"].append(found)
        told = ", ".join(f"{target} bits in {passed['seconds']:.2f} s" for target, passed in found["passed"].items())
        last = f"last KL {found['curve'][-1][2]:.2g} after {found['seconds']:.1f} s"
        print(f"seed {seed}: {told or 'no target reached'}; {last}; set-up {found['setup_s']:.1f} s", flush=True)
        save(str(file), result)  # after every seed: an attempt that is cut short keeps what it has
    print(f"kept in {file}; now: python benchmarks/pages.py")


def load_attempts(folder: Path = RESULTS) -> list[Attempt]:
    """Every attempt in the result files."""
    files = sorted(folder.glob("*/records/*.json"))
    return [one for file in files for one in attempts_in(json.loads(file.read_text()), str(file.relative_to(folder)))]


def _row(one: Attempt) -> list[str]:
    passed = sorted(value for value in one.seconds if math.isfinite(value))
    spread = f"{passed[0]:.1f} – {passed[-1]:.1f}" if passed else ""
    median = f"{one.median_s:.1f}" if math.isfinite(one.median_s) else "not reached"
    _, tunnel, model, target = one.key
    where = [f"{tunnel} / {model}", f"{target:g}", median, spread, f"{len(passed)} of {len(one.seconds)}"]
    return [*where, f"{one.setup_s:.0f}", one.recipe, one.date[:10], one.commit]


def page(attempts: list[Attempt]) -> str:
    """The whole page."""
    columns = ["tunnel / model", "KL, bits", "seconds, median", "fastest – slowest", "seeds that passed", "set-up, s"]
    columns += ["recipe", "date", "commit"]
    lines = [
        "# Records: time to fidelity",
        "",
        "Written by `python benchmarks/pages.py` from `benchmarks/results/*/records/`; do not edit. Seconds of"
        " training of one network alone until it is within so many bits (KL) of the exact belief, the median over"
        " seeds; set-up (building, compiling, capturing) and validation are not on the clock. A pass is confirmed on"
        " 20,000 further validation episodes unless the file says otherwise. A record is replaced only by an attempt of"
        " at least five seeds that is faster at p < 0.01 (one-sided rank-sum test).",
        "",
    ]
    if not attempts:
        return "\n".join([*lines, "No attempt has been made yet."]) + "\n"
    for device in sorted({one.key[0] for one in attempts}):
        here = [one for one in attempts if one.key[0] == device]
        lines += [f"## {device}", ""]
        standing = records(here)
        lines += table(columns, [_row(one) for one in standing]) if standing else ["No record yet.", ""]
        others = [verdict for verdict in verdicts(here) if verdict.attempt not in standing]
        if others:
            rows = [[*_row(verdict.attempt), f"{verdict.kind}, {verdict.why}"] for verdict in others]
            lines += ["### All other attempts, oldest first", "", *table([*columns, "verdict"], rows)]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to fidelity.")
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("attempt", help="train a recipe and keep the time to each target")
    making.add_argument("recipe", help=", ".join(RECIPES))
    making.add_argument("--device", default=default_device())
    making.add_argument("--seeds", type=int, default=5)
    making.add_argument("--first-seed", type=int, default=0)
    making.add_argument("--target", type=float, action="append", help="bits; may be given several times")
    making.add_argument("--every", type=float, default=0.25, help="seconds of training between validations")
    making.add_argument("--confirm", type=int, default=20_000, help="test episodes on which a pass must be repeated")
    making.add_argument("--set", action="append", default=[], help="change the recipe: name=value, tunnel.name=value")
    making.add_argument("--note", default="", help="kept in the file")
    making.add_argument("--out", default=None, help="folder, instead of benchmarks/results/DEVICE/records")
    making.set_defaults(run=attempt)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
