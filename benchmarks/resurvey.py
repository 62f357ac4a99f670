"""Do the study's readings stand?  Its networks that ship with the package, read again by the instruments as they are.

    python benchmarks/resurvey.py [--only hmm-mamba,hmm-lstm] [--json FILE]

Each of those networks is one seed of a cell of `results/paper`.  What the study asked of that seed is asked again: the
same instruments, as many episodes of the same stream, as many untrained networks.  A reading *moved* if its interval
then and its interval now do not overlap.  At last the new readings of all these networks take the place of the old
ones, and every claim is judged anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from common import Parser, place, run, save

from windtunnel.environment import environment
from windtunnel.errors import InputError, require_choice
from windtunnel.json_numbers import from_json
from windtunnel.mechanism.inspect import REVISION
from windtunnel.mechanism.survey import NAMES
from windtunnel.study import zoo
from windtunnel.study.claim import judge
from windtunnel.study.claims import CLAIMS
from windtunnel.study.evidence import Evidence
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.running.surveying import job_names, jobs

STUDY = Path(__file__).parents[1] / "results" / "paper"
Reading = Mapping[str, Any]
Cell = dict[str, Any]


def asked(cell: Cell, seed: int) -> list[str]:
    """The instruments that the study applied to a seed, in the order in which they run."""
    names = job_names(dict.fromkeys(NAMES, 1), [seed])
    return [instrument for job, (instrument, of) in names.items() if job in cell["surveyed"] and of == seed]


def read_again(name: str, cell: Cell) -> tuple[int, dict[str, list[Reading]]]:
    """Instrument -> readings of a shipped network by the instruments as they are now, and which seed it is."""
    shipped = zoo.as_run(name)
    (seed,) = shipped.recipe.seeds
    how = cell["planned"]["survey"]
    wanted = dict.fromkeys(asked(cell, seed), 1)
    found = {}
    for job in jobs(wanted, shipped, shipped.tunnel, how["episodes"], how["untrained"]).values():
        found[job.instrument] = job.read()
        print(f"  {job.instrument}: {len(found[job.instrument])} readings", flush=True)
    return seed, found


def compared(name: str, then: Iterable[Reading], now: Mapping[str, list[Reading]]) -> list[dict[str, Any]]:
    """One row per instrument: readings that both have, those that only the new one has, and the ones that moved; and a
    row for what is read no more, where there is any.

    crossed  readings whose p came to lie on the other side of 0.05
    """
    old = {_key(reading): reading for reading in then}
    rows, met = [], set()
    for instrument, readings in now.items():
        mine = {_key(reading): reading for reading in readings if "missing" not in reading}
        pairs = [(old[key], reading) for key, reading in mine.items() if key in old]
        met |= mine.keys()
        row = {"network": name, "instrument": instrument, "both": len(pairs), "only_now": len(mine) - len(pairs)}
        crossed = sum(_shown(before) != _shown(after) for before, after in pairs)
        rows.append(
            row | {"only_then": 0, "crossed": crossed, "moved": [_moved(*pair) for pair in pairs if _apart(*pair)]}
        )
    if lost := len(old.keys() - met):
        nothing = {"both": 0, "only_now": 0, "only_then": lost, "crossed": 0, "moved": []}
        rows.append({"network": name, "instrument": "none any more"} | nothing)
    return rows


def _key(reading: Reading) -> str:
    """What it is of.  The mixers of networks without attention were once called that, too."""
    name = reading["name"].replace("late mixers off", "late attention off")
    return json.dumps([name, reading.get("where", {})], sort_keys=True)


def _apart(then: Reading, now: Reading) -> bool:
    """Do the intervals lie beside each other?  A reading without a number is as it was if both are."""
    if (then.get("value") is None) != (now.get("value") is None):
        return True
    (low, high), (low_now, high_now) = ([from_json(reading[end]) for end in ("low", "high")] for reading in (then, now))
    return low > high_now or high < low_now


def _shown(reading: Reading) -> bool:
    """Is it told from its strongest null?"""
    p_value = reading.get("p_value")
    return p_value is not None and from_json(p_value) <= 0.05


def _moved(then: Reading, now: Reading) -> dict[str, Any]:
    ends = {"then": then, "now": now}
    numbers = {when: [reading.get(part) for part in ("value", "low", "high")] for when, reading in ends.items()}
    return {"name": now["name"], "where": now["where"]} | numbers


def exchanged(cells: Mapping[str, Cell], name: str, seed: int, now: Mapping[str, list[Reading]]) -> dict[str, Cell]:
    """The cells with the readings of one seed of one of them exchanged for others, under the names of the old ones."""
    kept = [reading for reading in cells[name]["survey"] if reading.get("where", {}).get("seed") != seed]
    names = {_key(reading): reading["name"] for reading in cells[name]["survey"]}
    fresh = [reading for readings in now.values() for reading in readings if "missing" not in reading]
    fresh = [{**reading, "name": names.get(_key(reading), reading["name"])} for reading in fresh]
    return {**cells, name: cells[name] | {"survey": kept + fresh}}


def outcomes(cells: Mapping[str, Cell]) -> dict[str, str]:
    """Claim -> outcome."""
    return {claim: verdict.outcome for claim, verdict in judge(CLAIMS, Evidence(cells)).items()}


def main() -> None:
    study = StudyFolder(STUDY)
    cells: dict[str, Cell] = {name: dict(cell) for name, cell in study.cells().items()}
    seeds = {name: zoo.card(name)["recipe"]["seeds"][0] for name in zoo.names()}
    able = [name for name, seed in seeds.items() if name in cells and asked(cells[name], seed)]
    if not able:
        raise InputError(f"{STUDY}: must have a survey of a network of the zoo, but has none")
    parser = Parser(description="The study's networks that ship with the package, read again.")
    parser.add_argument("--only", default=",".join(able), help="networks, separated by commas")
    parser.add_argument("--json", type=place, default=None)
    options = parser.parse_args()
    names = options.only.split(",")
    for name in names:
        require_choice("--only", name, able)
    rows, after = [], cells
    for name in names:
        print(f"{name}, seed {seeds[name]}", flush=True)
        with torch.no_grad():
            seed, now = read_again(name, cells[name])
        then = [reading for reading in cells[name]["survey"] if reading.get("where", {}).get("seed") == seed]
        rows += (mine := compared(name, then, now))
        _tell(mine)
        after = exchanged(after, name, seed, now)
    before, found = outcomes(cells), outcomes(after)
    changed = [{"claim": c, "then": before[c], "now": found[c]} for c in before if found[c] != before[c]]
    for one in changed:
        print(f"{one['claim']}: {one['then']} -> {one['now']}")
    print(f"verdicts that would be another with all of these: {len(changed)} of {len(before)}")
    how = {"revision": REVISION, "networks": names, "claims": len(before)}
    save(options.json, {"environment": environment("cpu"), **how, "resurvey": rows, "verdicts": changed})


def _tell(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        told = f"{row['both']:4d} then and now, {len(row['moved'])} moved, {row['crossed']} crossed p = 0.05"
        print(f"  {row['instrument']:14s} {told}, {row['only_now']} only now, {row['only_then']} only then", flush=True)
        for one in row["moved"]:
            place = ", ".join(f"{key} {value}" for key, value in one["where"].items() if key != "seed")
            then, now = (_interval(one[when]) for when in ("then", "now"))
            print(f"      {one['name']} ({place}): {then} -> {now}")


def _interval(ends: list[Any]) -> str:
    if ends[0] is None:
        return "no number"
    value, low, high = map(from_json, ends)
    return f"{value:.4g} [{low:.4g}, {high:.4g}]"


if __name__ == "__main__":
    run(main)
