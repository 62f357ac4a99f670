"""The geometry page says what the survey files say, and each verdict falls on the right side of its line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from statements import BARE, FAILS, HOLDS, OPEN, STATEMENTS, UNKNOWABLE, Cell, decide  # noqa: E402

SEEDS = (0, 1, 2)
BY_TITLE = {statement.title: statement for statement in STATEMENTS}
METHODS = ("zero", "mean", "resample")


def command(*words: object) -> subprocess.CompletedProcess:
    line = [sys.executable, "benchmarks/geometry_page.py", *map(str, words)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


def test_geometry_page_is_up_to_date():
    done = command("--check")
    assert done.returncode == 0, done.stderr


# --- synthetic surveys
def record(name: str, value: float | None, good: bool = True, seed: int | None = 0, **where: Any) -> dict[str, Any]:
    """A record with one null; `good`: whether it beats it."""
    null = {"mean": 0.5, "sd": 0.1, "low": 0.4, "high": 0.6, "draws": 19}
    return {
        "name": name,
        "instrument": "x",
        "seed": seed,
        "where": where,
        "value": value,
        "low": 0.1,
        "high": 0.2,
        "nulls": {"random vectors": null},
        "p_value": 0.05 if good else 0.06,
        "note": "",
        "arrays": {},
    }


def keys(claimed: bool, good: bool) -> list:
    place = {"path": "formed", "layer": 0, "head": "mean"}
    return [
        made
        for group in ("keys", "values")
        for seed in SEEDS
        for made in (
            record("key cosine, raw", 0.39 if claimed else 0.41, True, seed, hypotheses=group, **place),
            record("key cosine, centred", 0.3, good, seed, hypotheses=group, **place),
        )
    ]


def sharpening(claimed: bool, good: bool) -> list:
    name = "attention entropy, fall from first to last layer"
    return [record(name, 0.85 if claimed else 0.84, good, seed) for seed in SEEDS]


def manifold(claimed: bool, good: bool) -> list:
    alone, after = "entropy, position ignored, PC1", "entropy after position, PC1"
    made = [record(alone, 0.5 if claimed else 0.49, True, seed, stream="values") for seed in SEEDS]
    return made + [record(after, 0.5, good, seed, stream="values") for seed in SEEDS]


def first_component(claimed: bool, good: bool) -> list:
    return [record("PC1 share", 0.84 if claimed else 0.83, good, seed, stream="values") for seed in SEEDS]


def dissociation(claimed: bool, good: bool) -> list:
    return [record("frame–precision dissociation", 0.1 if claimed else -0.1, good, None)]


def every_layer(claimed: bool, good: bool) -> list:
    made = [
        record("bits lost to ablation", 0.0901 if claimed or layer else 0.0899, good, seed, layer=layer, method=method)
        for seed in SEEDS
        for method in METHODS
        for layer in range(3)
    ]
    for one in made:
        one["where"]["part"], one["arrays"]["clean"] = "whole layer", [0.005, 0.015]
    return made


def one_head(claimed: bool, good: bool) -> list:
    made = []
    for seed in SEEDS:
        for method in METHODS:
            made.append(record("share of the largest head", 0.5, good, seed, method=method, layer=0 if claimed else 1))
            made.append(record("effective number of heads", 2.0, good, seed, method=method))
    return made


def late(claimed: bool, good: bool) -> list:
    name, made = "bits lost with late attention off", []
    for seed in SEEDS:
        made.append(record(name, 0.01, True, seed, length=20, positions="all"))
        made.append(record(name, 5.0, True, seed, length=50, positions="all"))
        made.append(record(name, 0.1 if claimed else 0.09, good, seed, length=50, positions="beyond home length"))
    return made


def three_roles(claimed: bool, good: bool) -> list:
    name, made = "bits lost without a role", []
    for seed in SEEDS:
        for layer, value in ((0, 0.05), (1, 0.2)):
            made.append(record(name, value, value == 0.2, seed, role="carry", layer=layer, site="at it"))
        made.append(record(name, 0.3, True, seed, role="routing", layer="all", site="at it"))
        made.append(record(name, 0.1 if claimed else 0.09, good, seed, role="update", layer="all", site="at it"))
    return made


def five_clusters(claimed: bool, good: bool) -> list:
    made = []
    for seed in SEEDS:
        made.append(record("clusters by silhouette", 5.0 if claimed else 4.0, True, seed))
        made.append(record("silhouette at 5 clusters", 0.4, good, seed))
        made.append(record("adjusted Rand with the likeliest state", 0.4, True, seed))
    return made


def collapse(claimed: bool, good: bool) -> list:
    made = [record("PC1 share", 0.9, good, seed, stream="residual") for seed in SEEDS]
    name = "entropy, position ignored, all"
    return made + [record(name, 0.05 if claimed else 0.06, True, seed, stream="residual") for seed in SEEDS]


def decodable(claimed: bool, good: bool) -> list:
    made = [record("belief decoded, R²", 0.5 if claimed else 0.49, True, seed) for seed in SEEDS]
    return made + [record("belief beyond windows 1 and 2, R²", 0.1, good, seed) for seed in SEEDS]


SYNTHETIC = dict(
    zip(
        BY_TITLE,
        [
            *(keys, sharpening, manifold, first_component, dissociation, every_layer),
            *(one_head, late, three_roles, five_clusters, collapse, decodable),
        ],
        strict=True,
    )
)


def cell(name: str, records: list, kl: float = 0.001) -> Cell:
    recipe = {"seeds": SEEDS, "steps": 100, "tunnel": {"states": 5}}
    score = {"kl_bits": kl, "low": kl, "high": kl, "per_seed": [kl] * 3, "uniform_kl_bits": 1.0}
    environment = {"device": "made up", "python": "3", "versions": {"torch": "2"}}
    settings = {"recipe": recipe, "episodes": 8}
    content = {"cell": name, "score": score, "settings": settings, "environment": environment, "records": records}
    return Cell(name, content | {"seconds": {"training": 1.0, "survey": 2.0}})


def verdicts(title: str, made: Cell) -> set[str]:
    return {line.verdict for line in BY_TITLE[title].lines({made.name: made}) if line.network.startswith(made.name)}


@pytest.mark.parametrize("title", BY_TITLE)
@pytest.mark.parametrize(
    ("claimed", "good", "verdict"),
    [(True, True, HOLDS), (True, False, BARE), (False, True, FAILS), (False, False, FAILS)],
)
def test_either_side_of_every_line(title, claimed, good, verdict):
    name = BY_TITLE[title].cells[0]
    assert verdicts(title, cell(name, SYNTHETIC[title](claimed, good))) == {verdict}


@pytest.mark.parametrize("title", BY_TITLE)
def test_one_seed_that_fails_its_control_is_enough(title):
    name, records = BY_TITLE[title].cells[0], SYNTHETIC[title](True, True)
    for made in records:
        if made["seed"] in (2, None):
            made["p_value"] = 0.9
    assert verdicts(title, cell(name, records)) == {BARE}


@pytest.mark.parametrize("title", BY_TITLE)
def test_what_was_not_learned_or_not_measured_is_not_judged(title):
    name, records = BY_TITLE[title].cells[0], SYNTHETIC[title](True, True)
    assert verdicts(title, cell(name, records, kl=0.1)) == {OPEN}
    assert verdicts(title, cell(name, records, kl=0.099)) == {HOLDS}
    assert verdicts(title, cell(name, [])) == {OPEN}
    assert verdicts(title, Cell(name, {"error": "RuntimeError: out of memory", "records": []})) == {OPEN}
    assert {line.verdict for line in BY_TITLE[title].lines({})} == {OPEN}


def test_where_position_fixes_entropy_the_order_is_not_identifiable():
    title = "Values lie on a curve ordered by entropy"
    records = manifold(True, True)
    for made in records:
        if made["name"].startswith("entropy after"):
            made |= {"value": None, "p_value": None, "note": "not identifiable: a function of position alone"}
    assert verdicts(title, cell("bijection-transformer", records)) == {UNKNOWABLE}


def test_lines_that_need_both_halves():
    """Nothing is claimed where only one half of a line is crossed."""
    far = late(True, True)
    for made in far:
        if made["where"]["length"] == 20:
            made["value"] = 0.011
    assert verdicts("Late attention is needed only beyond the trained length", cell("hmm-transformer", far)) == {FAILS}
    near = [made for made in late(True, True) if made["where"]["length"] == 20]
    assert verdicts("Late attention is needed only beyond the trained length", cell("hmm-transformer", near)) == {OPEN}
    wide = collapse(True, True)
    wide[0]["value"] = 0.89
    assert verdicts("The LSTM collapses", cell("hmm-lstm", wide)) == {FAILS}
    weak = manifold(True, True)
    weak[-1]["value"] = 0.49
    assert verdicts("Values lie on a curve ordered by entropy", cell("bijection-transformer", weak)) == {BARE}
    touching = dissociation(True, True)
    touching[0]["low"] = 0.0
    assert verdicts("Frame–precision dissociation", cell("bijection-transformer", touching)) == {BARE}
    assert decide([], []) == FAILS


def test_the_page_is_written_from_the_files_and_notices_a_change(tmp_path):
    folder, target = tmp_path / "survey", tmp_path / "geometry.md"
    folder.mkdir()
    places = ("--surveys", folder, "--page", target)
    assert command(*places, "--check").returncode == 0  # no files, no page
    assert "must hold survey files" in command(*places).stderr
    content = cell("bijection-transformer", keys(True, False) + sharpening(False, False)).content
    (folder / "bijection-transformer.json").write_text(json.dumps(content))
    assert command(*places, "--check").returncode == 1
    assert command(*places).returncode == 0 and command(*places, "--check").returncode == 0
    told = target.read_text()
    assert f"| bijection-transformer, values | **{BARE}** | raw 0.39 (0.39 to 0.39) [random vectors 0.5" in told
    assert f"| bijection-transformer | **{FAILS}** | fall 0.84" in told and "made up, torch 2, Python 3" in told
    assert all(statement.title in told for statement in STATEMENTS)
    content["records"][0]["value"] = 0.2
    (folder / "bijection-transformer.json").write_text(json.dumps(content))
    assert command(*places, "--check").returncode == 1
