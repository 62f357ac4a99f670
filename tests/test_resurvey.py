"""benchmarks/resurvey.py tells which readings of the study moved, and whether a verdict would be another."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from windtunnel.errors import InputError
from windtunnel.study.folder.results import StudyFolder

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs" / "making")]

import read_again  # noqa: E402
import resurvey  # noqa: E402


def reading(name: str, value: float | None, p_value: float = 0.01, **where: object) -> dict:
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return {"name": name, "where": {"seed": 3, **where}, "value": value, "low": low, "high": high, "p_value": p_value}


def test_a_reading_moved_if_the_intervals_lie_beside_each_other():
    then = [reading("a", 0.5), reading("b", 0.5), reading("c", None), reading("d", None), reading("e", 0.5, layer=1)]
    now = [
        reading("a", 0.65),
        reading("b", 0.8, 0.2),
        reading("c", None),
        reading("d", 1.0),
        reading("e", 0.5, layer=2),
    ]
    row, lost = resurvey.compared("net", then, {"probe": [*now, {"name": "f", "missing": "no such tensor"}]})
    assert (lost["only_then"], row["only_then"]) == (1, 0)  # e, which was of another layer
    assert (row["network"], row["instrument"], row["both"], row["only_now"], row["crossed"]) == (
        "net",
        "probe",
        4,
        1,
        1,
    )
    assert [(one["name"], one["then"][0], one["now"][0]) for one in row["moved"]] == [("b", 0.5, 0.8), ("d", None, 1.0)]


def test_verdicts_are_those_of_the_study_unless_a_reading_is_another():
    cells = {name: dict(cell) for name, cell in StudyFolder(resurvey.STUDY).cells().items()}
    name, seed = "hmm-mamba", 11
    own = [one for one in cells[name]["survey"] if one.get("where", {}).get("seed") == seed]
    committed = resurvey.outcomes(resurvey.exchanged(cells, name, seed, {"all": own}))
    assert committed == {claim["id"]: claim["outcome"] for claim in StudyFolder(resurvey.STUDY).ledger()}
    turned = [one | dict.fromkeys(("value", "low", "high"), -1.0) if one["value"] is not None else one for one in own]
    assert resurvey.outcomes(resurvey.exchanged(cells, name, seed, {"all": turned})) != committed


def test_a_reading_that_was_renamed_is_the_same_and_is_judged_under_its_old_name():
    then, now = reading("bits lost with late attention off", 0.5), reading("bits lost with late mixers off", 0.5)
    (row,) = resurvey.compared("net", [then], {"late": [now]})
    assert (row["both"], row["only_now"]) == (1, 0)
    after = resurvey.exchanged({"net": {"survey": [then]}}, "net", 3, {"late": [now]})
    assert [one["name"] for one in after["net"]["survey"]] == [then["name"]]


def test_what_was_asked_of_a_seed_is_asked_again():
    cell = {"surveyed": {"keys, seed 3": 1.0, "values, seed 4": 1.0, "ablate, seed 3": 2.0, "dynamics": 1.0}}
    assert resurvey.asked(cell, 3) == ["keys", "ablate"] and resurvey.asked(cell, 5) == []


def test_a_verdict_that_would_be_another_is_told_on_the_page(tmp_path):
    """All networks are judged together, so a verdict is no single one's."""
    found = json.loads((ROOT / "benchmarks" / "results" / read_again.FILE).read_text())
    file = tmp_path / read_again.FILE
    file.parent.mkdir()
    for verdicts, told in (
        ([], f"none of the {found['claims']} verdicts changes."),
        (
            [{"claim": "roles", "then": "inconclusive", "now": "reproduced"}],
            "roles would be reproduced, not inconclusive.",
        ),
    ):
        file.write_text(json.dumps(found | {"verdicts": verdicts}))
        assert any(told in line for line in read_again.section(tmp_path))


def test_a_study_without_such_a_network_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(resurvey.zoo, "names", list)
    with pytest.raises(InputError, match="must have a survey of a network of the zoo"):
        resurvey.main()
