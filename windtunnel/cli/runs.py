"""`windtunnel runs DIR`: a table of all runs below a folder, with their distance from Bayes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel import tunnels
from windtunnel.cli import show
from windtunnel.cli.flags import Switch
from windtunnel.cli.folders import require_folder
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.tunnel import brief
from windtunnel.errors import InputError, Unregistered
from windtunnel.json_numbers import record_to_json
from windtunnel.training import Recipe, Run, load
from windtunnel.training.folder import RunFolder
from windtunnel.training.lock import is_locked
from windtunnel.training.lost_checkpoints import lost_list
from windtunnel.training.run_folders import run_folders


@dataclass(frozen=True)
class Runs:
    """All runs below a folder: the step from which each would resume, and its validation KL at that step in bits (mean
    over seeds).  If that step was not validated, the last validated step before it is shown with its KL."""

    json: Switch = False
    """Print one JSON document instead of a table."""


def run(words: list[str]) -> None:
    """Find, read, print."""
    folder, options = parse_folder(Runs, "runs", words, "DIR")
    require_folder(folder)
    found = [_record(path) for path in run_folders(folder)]
    if options.json:
        show.print_json({"runs": [record_to_json(record) for record in found]})
    elif not found:
        show.print_text(f"no runs below {folder}")
    else:
        columns = ["run", "tunnel", "model", "parameters", "steps", "seeds", "KL bits", "seconds", "state"]
        spare = ("seconds", "parameters", "state", "seeds", "tunnel")  # steps say what the state says
        show.print_table(f"below {folder}", columns, [_row(record, folder) for record in found], "lllrrrrrl", spare)
        for record in found:
            if record["state"] == "damaged":
                show.print_text(f"damaged: {reason(Path(record['run']), record['why'])}")
            elif "needs" in record:
                show.print_text(f"needs its plugin: {reason(Path(record['run']), record['needs'])}")


# What reading a run folder raises when its files hold something else than they should.
DAMAGE = (InputError, LookupError, TypeError, ValueError, AttributeError, OSError)


def reason(path: Path, why: object) -> str:
    """What is wrong with a run, on one line that names it once."""
    told = " ".join(str(why).split())
    return told if told.startswith(str(path)) else f"{path}: {told}"


def _record(path: Path) -> dict[str, Any]:
    """Where a run stands; for a damaged one, what is wrong."""
    try:
        try:
            return _read(load(path))
        except Unregistered as error:  # nothing is wrong with it
            return _read_without_tunnel(path) | {"needs": str(error)}
    except DAMAGE as error:
        return {"run": str(path), "state": "damaged", "why": " ".join(f"{error or type(error).__name__}".split())}


def _read(run: Run) -> dict[str, Any]:
    recipe, steps = run.recipe, run.steps
    # A run that was killed has validated beyond its last checkpoint, and some seeds further than others: what it will
    # go back behind is not where it stands.  Every seed that has come so far was validated at the same steps.
    reached = [[record for record in run.metrics(seed) if record["step"] <= steps] for seed in recipe.seeds]
    last = [records[-1] for records in reached if records]
    for seed in recipe.seeds:
        run.folder.seed(seed).require_weights()  # as should a damaged list of checkpoints
    return {
        "run": str(run.path),
        "tunnel": tunnels.to_dict(recipe.tunnel),
        "told": brief(recipe.tunnel),
        "model": recipe.model,
        "name": recipe.name,
        "parameters": run.folder.parameters(),
        "steps": steps,
        "of": recipe.steps,
        "seeds": list(recipe.seeds),
        "kl_bits": sum(record["kl_bits"] for record in last) / len(last) if last else None,
        "kl_step": last[0]["step"] if last else None,
        "seconds": run.seconds()["train"],
        "state": "finished" if run.finished else "running" if is_locked(run.folder.path) else "unfinished",
    }


def _read_without_tunnel(path: Path) -> dict[str, Any]:
    """Where a run stands whose tunnel is not registered here: a stand-in's serves, as only its own would be asked."""
    folder = RunFolder(path)
    plain = folder.plain_recipe()
    recipe = Recipe.from_dict(plain | {"tunnel": tunnels.to_dict(tunnels.Urn())})
    for seed in recipe.seeds:
        if lost_list(folder.seed(seed), recipe):
            raise InputError(f"{path}: the list of checkpoints of seed {seed} is lost")
    return _read(Run(recipe, path=path)) | {"tunnel": plain["tunnel"], "told": plain["tunnel"]["name"]}


def _row(record: dict[str, Any], folder: Path) -> list[str]:
    path = Path(record["run"])
    name = str(path.relative_to(folder)) if path != folder else path.name or str(path)
    if record["state"] == "damaged":
        return [name, *[""] * 3, "damaged", *[""] * 3, "damaged"]
    parameters, kl = record["parameters"], record["kl_bits"]
    earlier = f" at {record['kl_step']}" if record["kl_step"] != record["steps"] else ""
    return [
        name,
        record["told"],
        record["model"],
        "" if parameters is None else f"{parameters:,}",
        f"{record['steps']}/{record['of']}",
        str(len(record["seeds"])),
        "" if kl is None else f"{show.printed(kl)}{earlier}",
        f"{record['seconds']:.1f}",
        record["state"],
    ]
