"""Time to fidelity: make an attempt.  docs/records.md is made from all of them by `docs/making/pages.py`.

    python benchmarks/records.py attempt hmm-transformer --seeds 5 --target 1e-3 [--set steps=800 …]
    python benchmarks/records.py attempt hmm-mamba recall-lstm       several, one after the other
    python benchmarks/records.py attempt pairs                       every tunnel × architecture

An attempt trains a recipe by its name (tuned where there is such a recipe, else the standard one of that tunnel and
architecture; or `quick`, on a CPU), one seed after the other, and keeps the seconds that each needed to every target in
benchmarks/results/DEVICE/records/.  All targets are met in one training, which ends at the last of them or with the
recipe's steps; a target that was not reached is kept as that.  Set-up and validation are not on the clock; how a pass
is confirmed, and when an attempt is a record, is told in windtunnel/training/speed/fidelity.py and records.py.  Files
are never deleted: an attempt that is no record is a result too.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from common import Parser, positive, run, save, whole
from reach import changed
from warm import mark

from windtunnel.environment import default_device, environment, require_device
from windtunnel.errors import require_choice
from windtunnel.models import kernels
from windtunnel.training.files import require_writable
from windtunnel.training.recipe import Recipe
from windtunnel.training.speed.cases import PAIRS, attempted
from windtunnel.training.speed.fidelity import TARGETS_BITS, time_to_fidelity
from windtunnel.training.speed.records import attempts_in

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
ALL = "pairs"


def attempt(options: argparse.Namespace) -> None:
    """Every recipe in turn.  All of them are made, and their place is tried, before the first is trained."""
    known = attempted()
    names = [name for word in options.recipes for name in (PAIRS if word == ALL else (word,))]
    for name in names:
        require_choice("recipe", name, [*known, ALL])
    device = require_device(options.device)
    recipes = {name: changed(known[name], options.set) for name in names}
    where = environment(device)  # once: a tree with new results in it is no longer that of the commit
    kind = "cpu" if device == "cpu" else str(where["device"]).split()[-1].lower()
    folder = options.out or RESULTS / kind / "records"
    require_writable(folder / "any.json")
    for name, recipe in recipes.items():
        _attempt_one(name, recipe, options, where, folder / name)
        if device != "cpu":
            torch.cuda.empty_cache()
    print("now: python docs/making/pages.py")


def _attempt_one(name: str, recipe: Recipe, options: argparse.Namespace, where: dict[str, object], path: Path) -> None:
    """Train every seed of one recipe to the targets, say how it goes, keep the result at `path`, dated."""
    targets = tuple(sorted({*(options.target or TARGETS_BITS)}, reverse=True))
    result: dict[str, Any] = {"name": name, "changes": options.set, "recipe": recipe.to_dict()}
    result |= {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "environment": where,
        "kernels_in_use": kernels.in_use(options.device),
        "targets_bits": list(targets),
    }
    result |= {"every_s": options.every, "confirm_episodes": options.confirm, "note": options.note, "seeds": []}
    result["cache_filled"] = options.device != "cpu" and mark(recipe).exists()
    file = path.with_name(f"{path.name}-{result['date'].replace(':', '')}.json")
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        found = time_to_fidelity(recipe, seed, options.device, targets, options.every, options.confirm)
        result["seeds"].append(found)
        told = ", ".join(f"{target} bits in {passed['seconds']:.2f} s" for target, passed in found["passed"].items())
        last = f"last KL {found['curve'][-1][2]:.2g}" if found["curve"] else "no longer a number"
        after = f"{last} after {found['seconds']:.1f} s"
        setup = f"set-up {found['setup_s']:.1f} s"
        print(f"{name}, seed {seed}: {told or 'no target reached'}; {after}; {setup}", flush=True)
        result["reached"] = {f"{one.key[-1]:g}": one.reached for one in attempts_in(result, file.name)}
        save(file, result)  # after every seed: an attempt that is cut short keeps what it has
    for one in attempts_in(result, file.name):
        print(f"{name}: KL <= {one.key[-1]:g} bits reached by {one.reached} of {len(one.seconds)} seeds", flush=True)
    print(f"kept in {file}")


def main() -> None:
    parser = Parser(description="Time to fidelity.")
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("attempt", help="train recipes and keep the time to each target")
    making.add_argument("recipes", nargs="+", metavar="RECIPE", help=f"{', '.join([*attempted(), ALL])} (every pair)")
    making.add_argument("--device", default=default_device())
    making.add_argument("--seeds", type=whole(1), default=5)
    making.add_argument("--first-seed", type=whole(0), default=0)
    making.add_argument("--target", type=positive, action="append", help="bits; may be given several times")
    making.add_argument("--every", type=positive, default=0.25, help="seconds of training between validations")
    making.add_argument("--confirm", type=whole(1), default=20_000, help="episodes on which a pass must be repeated")
    making.add_argument("--set", action="append", default=[], help="change the recipe: name=value, tunnel.name=value")
    making.add_argument("--note", default="", help="kept in the file")
    making.add_argument("--out", type=Path, default=None, help="folder, instead of benchmarks/results/DEVICE/records")
    making.set_defaults(run=attempt)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    run(main)
