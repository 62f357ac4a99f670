"""Charts of instruments' readings: dots beside their nulls, what p can be, and what could not be read."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.report.head_charts import head_distribution, head_map
from windtunnel.report.mechanism_charts import LATE, ROLES
from windtunnel.report.readings import HOW, beside_nulls, significance, spoken
from windtunnel.report.source import Source


def reading(name: str, value: float | None, seed: int = 0, p: float | None = 0.05, **where: Any) -> dict[str, Any]:
    drawn = {"untrained": [0.0, 0.2], "random": [0.1, 0.1, 0.4]}
    told = {"name": name, "where": {"seed": seed, **where}, "value": value, "low": value, "high": value, "nulls": drawn}
    told |= {"draws": {"untrained": 5, "random": 19}, "strongest_null": "random", "p_value": p, "note": ""}
    return told | {"over": "sequences", "unit": "bits"}


def of(*records: dict[str, Any]) -> Source:
    return Source("", readings={"hmm-transformer": records})  # type: ignore[arg-type]


def late(*records: dict[str, Any]):
    chart = beside_nulls(of(*records), LATE)
    assert chart is not None
    (panel,) = chart.views["hmm-transformer"]
    return panel


def test_every_length_that_has_a_reading_is_shown_and_the_others_say_why():
    name = "bits lost with late attention off"
    found = [reading(name, 0.1, seed, length=20, positions="all") for seed in (0, 1)]
    why = {"name": "late attention off, length 30", "missing": "length = 30: must be at most 20."}
    panel = late(*found, why, why, {"name": "swap", "missing": "of no concern here"})
    assert panel.series[-1].y == ["length 20, all"]
    assert panel.note.endswith("Not here: late attention off, length 30, length = 30: must be at most 20.")
    assert panel.note.count("Not here") == 1
    more = late(*found, reading(name, 0.5, length=50, positions="all"))
    assert more.series[-1].y == ["length 20", "length 50"] and "Not here" not in more.note


def test_a_reading_without_an_answer_says_why():
    name = "bits lost with late attention off"
    panel = late(reading(name, 0.1), reading(name, None, 1) | {"note": "not identifiable: position fixes it"})
    assert "Not here: bits lost with late attention off, not identifiable: position fixes it." in panel.note


def test_a_null_shows_the_mean_of_its_draws_and_their_range():
    first, second, own = late(reading("bits lost with late attention off", 0.1)).series
    assert (first.name, first.role, first.across) == ("null: untrained", "null", True)
    assert (first.x, first.low, first.high) == ([0.1], [0.0], [0.2])
    assert (second.x, second.low, second.high) == ([pytest.approx(0.2)], [0.1], [0.4])
    assert own.name == "measured"


def test_the_least_p_that_counting_allows_is_told():
    records = [reading("n", 1.0, p=0.05), reading("n", 1.0, p=0.4), reading("n", 1.0, p=None)]
    assert significance(records) == (
        "p ≤ 0.05 in 1 of 2 readings (places × seeds); counted over 19 draws, p is 0.05 at least."
    )
    by_t = reading("n", 1.0) | {"strongest_null": "untrained"}
    assert significance([by_t]) == "p ≤ 0.05 in 1 of 1 reading (places × seeds)."
    assert significance([reading("n", 1.0, p=None)]) == "" and "1/(B + 1)" in HOW


def test_roles_have_a_panel_each_and_no_row_is_cut():
    name, sites = "bits lost without a role", ("at it", "before it")
    places = [(role, layer, site) for role in ("routing", "update") for site in sites for layer in (*range(20), "all")]
    records = [reading(name, 0.1, role=role, layer=layer, site=site, step=10) for role, layer, site in places]
    chart = beside_nulls(of(*records), ROLES)
    assert chart is not None
    routing, update = chart.views["hmm-transformer"]
    assert (routing.title, update.title) == ("routing", "update")
    assert len(routing.series[-1].y) == len(update.series[-1].y) == 42
    assert routing.series[-1].y[-1] == "all layers, before it" == spoken({"layer": "all", "site": "before it"})


def test_one_strong_head_stays_one_whatever_its_number():
    """Each seed has its strong head under another number: ranks are averaged, never numbers."""
    records = [
        reading("bits lost to head ablation", 1.0 if head == seed else 0.0, seed, layer=0, head=head, method="zero")
        for seed in range(3)
        for head in range(3)
    ]
    chart, spread = head_map(of(*records)), head_distribution(of(*records))
    assert chart is not None and spread is not None
    heat = chart.views["hmm-transformer"][0].heat
    assert heat is not None and heat.values == [[1.0], [0.0], [0.0]] and heat.rows[0] == "costliest"
    line = spread.views["hmm-transformer"][0].series[0]
    assert line.y == [1.0, 0.0, 0.0] and (line.low, line.high) == (line.y, line.y)
    assert "the largest head has 100%" in spread.summary
