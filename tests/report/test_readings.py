"""Charts of instruments' readings: dots beside their nulls, what p can be, and what could not be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.geometry.measurement import COUNTED
from windtunnel.mechanism.estimate import measured
from windtunnel.mechanism.heads import ROTATED
from windtunnel.mechanism.losses import TURNED
from windtunnel.report import write_page
from windtunnel.report.chart import tidy, within
from windtunnel.report.geometry_charts import SHAPE
from windtunnel.report.head_charts import head_distribution, head_map
from windtunnel.report.mechanism_charts import LATE, REMOVED, ROLES, SWAPS, ablation_map
from windtunnel.report.print_charts import draw
from windtunnel.report.readings import HOW, MOVED, beside_nulls, significance, spoken
from windtunnel.report.sections import sections
from windtunnel.report.source import Source
from windtunnel.study.running.surveying import to_records


def reading(name: str, value: float | None, seed: int = 0, p: float | None = 0.05, **where: Any) -> dict[str, Any]:
    drawn = {"untrained": [0.0, 0.2], "random": [0.1, 0.1, 0.4]}
    kept = {"name": name, "where": {"seed": seed, **where}, "value": value, "low": value, "high": value, "nulls": drawn}
    kept |= {"draws": {"untrained": 5, "random": 19}, "strongest_null": "random", "p_value": p, "note": ""}
    return kept | {"over": "sequences", "unit": "bits", "side": "above"}


def of(*records: dict[str, Any]) -> Source:
    return Source(Path("runs"), readings={"hmm-transformer": records})


def late(*records: dict[str, Any]):
    chart = beside_nulls(of(*records), LATE)
    (panel,) = chart.views["hmm-transformer"]
    return panel


def test_no_bar_reaches_what_cannot_be_and_the_numbers_stay(browser, tmp_path):
    """Student's t over two seeds does not know that a share ends at 1."""
    source = of(*(reading("PC1 share", value, seed, stream="values") for seed, value in enumerate((0.95, 0.99))))
    chart = beside_nulls(source, SHAPE)
    (panel,) = chart.views["hmm-transformer"]
    assert panel.series[-1].high[0] > 1.1 and tidy(chart).rows[-1][-1] > 1.1
    assert within(panel).series[-1].high == [1.0] and within(panel).series[-1].low == panel.series[-1].low
    assert "cannot exceed 1" in HOW
    ends = draw(chart, "hmm-transformer").axes[0].get_xlim()
    assert ends[1] < 1.1
    page = browser.new_page()
    page.goto(write_page(source, tmp_path / "bounds.html").as_uri())
    page.locator("#chart-value-shape").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-value-shape[data-drawn]")
    told = page.evaluate("() => document.querySelector('#chart-value-shape .js-plotly-plot').data.at(-1)")
    assert told["x"][0] + told["error_x"]["array"][0] == pytest.approx(1.0)
    assert told["x"][0] - told["error_x"]["arrayminus"][0] == pytest.approx(panel.series[-1].low[0], rel=1e-5)
    page.close()


def test_every_length_that_has_a_reading_is_shown_and_the_others_say_why():
    name = "bits lost with late attention off"
    found = [reading(name, 0.1, seed, length=20, positions="all") for seed in (0, 1)]
    why, too = (
        {"name": f"late attention off, length {at}", "missing": f"length = {at}: must be at most 20."}
        for at in (30, 50)
    )
    panel = late(*found, why, too, why, {"name": "swap", "missing": "of no concern here"})
    assert panel.series[-1].y == ["length 20, all"]
    assert panel.note.split("\n")[1:] == ["Not here: length 30 and 50 (no such length here)."]
    more = late(*found, reading(name, 0.5, length=50, positions="all"))
    assert more.series[-1].y == ["length 20", "length 50"] and "Not here" not in more.note


def test_a_reading_without_an_answer_says_why():
    name = "bits lost with late attention off"
    panel = late(reading(name, 0.1), reading(name, None, 1) | {"note": "not identifiable: position fixes it"})
    assert panel.note.endswith("\nNot here: bits lost with late attention off (position fixes it).")


def test_a_subspace_that_could_be_removed_elsewhere_is_named_with_its_place():
    name, why = "bits lost to ablation of a subspace", "not identifiable: position alone fixes the entropy here"
    absent = [{"name": f"swap of the entropy axis at blocks.{at}.residual", "missing": why} for at in (0, 1)]

    def note(subspace: str) -> str:
        place = {"method": "zero", "subspace": subspace, "tensor": "blocks.2.residual"}
        chart = beside_nulls(of(reading(name, 0.1, **place), *absent), REMOVED)
        return chart.views["hmm-transformer"][0].note.split("\n")[-1]

    assert note("written belief") == "Not here: entropy axis (position alone fixes the entropy)."
    assert note("entropy axis") == "Not here: entropy axis after layer 0 and 1 (position alone fixes the entropy)."


def test_a_null_shows_the_mean_of_its_draws_and_their_range():
    first, second, own = late(reading("bits lost with late attention off", 0.1)).series
    assert (first.name, first.role, first.across) == ("null: untrained", "null", True)
    assert (first.x, first.low, first.high) == ([0.1], [0.0], [0.2])
    assert (second.x, second.low, second.high) == ([pytest.approx(0.2)], [0.1], [0.4])
    assert own.name == "measured"


def test_the_least_p_that_counting_allows_is_told():
    records = [reading("n", 1.0, p=0.05), reading("n", 1.0, p=0.4), reading("n", 1.0, p=None)]
    assert significance(records) == (
        "p ≤ 0.05 in 1 of 2 readings (places × seeds); counted over 19 draws, p cannot be below 0.05."
    )
    both = [record | {"side": "both"} for record in records]
    assert significance(both).endswith("counted over 19 draws, p cannot be below 0.1.")
    many = reading("n", 1.0) | {"side": "both", "draws": {"random": 59}}
    assert significance([*records, many]).endswith("counted over 59 draws, p cannot be below 0.033.")
    by_t = reading("n", 1.0) | {"strongest_null": "untrained"}
    assert significance([by_t]) == "p ≤ 0.05 in 1 of 1 reading (places × seeds)."
    assert significance([reading("n", 1.0, p=None)]) == ""
    assert "1/(B + 1), twice that where" in HOW and f"fewer than {COUNTED} draws" in HOW


def test_roles_have_a_panel_each_and_no_row_is_cut():
    name, sites = "bits lost without a role", ("at it", "before it")
    places = [(role, layer, site) for role in ("routing", "update") for site in sites for layer in (*range(20), "all")]
    records = [reading(name, 0.1, role=role, layer=layer, site=site, step=10) for role, layer, site in places]
    chart = beside_nulls(of(*records), ROLES)
    routing, update = chart.views["hmm-transformer"]
    assert (routing.title, update.title) == ("routing", "update")
    assert len(routing.series[-1].y) == len(update.series[-1].y) == 42
    assert routing.series[-1].y[-1] == "all layers, before it" == spoken({"layer": "all", "site": "before it"})


def test_what_older_instruments_read_otherwise_is_said_only_where_it_concerns_a_reading():
    """Before revision 3 the state of a network with a convolution was read without that convolution's window."""

    def note(model: str, place: dict[str, str], made: dict[str, int], question=SWAPS) -> str:
        record = reading(question.names[-1], 0.1, **place) | made
        readings: dict[str, Any] = {"run": [record]}
        source = Source(Path(), readings=readings, cells={"run": {"world": "hmm", "model": model}})
        chart = beside_nulls(source, question)
        assert "revision" not in chart.say
        return chart.views["run"][-1].note

    state, role = {"tensor": "state of all layers"}, {"role": "memory"}
    assert note("mamba", state, {"revision": 2}).endswith("This survey is older.")
    assert note("mamba", role, {}, ROLES).endswith("This study does not tell its revision.")
    for model, place, made in (
        ("mamba", state, {"revision": 3}),
        ("mamba", {"tensor": "blocks.0.residual"}, {"revision": 2}),
        ("transformer", state, {"revision": 2}),
        ("lstm", state, {}),
    ):
        assert "revision" not in note(model, place, made)


def test_one_strong_head_stays_one_whatever_its_number():
    """Each seed has its strong head under another number: ranks are averaged, never numbers."""
    records = [
        reading("bits lost to head ablation", 1.0 if head == seed else 0.0, seed, layer=0, head=head, method="zero")
        | {"nulls": {ROTATED: [0.0, 0.0]}}
        for seed in range(3)
        for head in range(3)
    ]
    chart, spread = head_map(of(*records)), head_distribution(of(*records))
    heat = chart.views["hmm-transformer"][0].heat
    assert heat is not None and heat.values == [[1.0], [0.0], [0.0]] and heat.rows[0] == "costliest"
    assert chart.say.endswith("each one's heads are sorted by cost before the mean is taken.")
    assert spread.views["hmm-transformer"][0].note == ""
    line = spread.views["hmm-transformer"][0].series[0]
    assert line.y == [1.0, 0.0, 0.0] and (line.low, line.high) == (line.y, line.y)
    assert "the largest head has 100%" in spread.summary


def test_heads_of_a_single_seed_keep_their_numbers():
    records = [
        reading("bits lost to head ablation", cost, layer=layer, head=head, method="zero")
        | {"nulls": {ROTATED: [0.0, 0.0]}}
        for (layer, head), cost in {(0, 0): 0.1, (0, 1): 0.4, (1, 0): 0.2, (1, 1): 0.3}.items()
    ]
    chart, spread = head_map(of(*records)), head_distribution(of(*records))
    heat = chart.views["hmm-transformer"][0].heat
    assert heat is not None and "seeds" not in chart.say
    assert (list(heat.rows), heat.values) == (["head 0", "head 1"], [[0.1, 0.2], [0.4, 0.3]])
    assert spread.views["hmm-transformer"][0].note == "Rank 1: head 1 of layer 0."


def moved(name: str, null: str, own: np.ndarray, drawn: np.ndarray, few: int, **where: Any) -> dict[str, Any]:
    """A reading as a study keeps it, whose nulls were drawn on the first few sequences."""
    (kept,) = to_records([measured(name, [own], nulls={null: drawn}, few=few, where=where, unit="bits")], 0)
    return kept


def easy_first(head: int, few: int = 4) -> np.ndarray:
    """Bits lost per sequence: as many as the head's number on the first few, far more or fewer on the others."""
    return np.where(np.arange(20) < few, float(head), 10.0 * (-1) ** head)


def test_the_null_of_the_heads_does_not_depend_on_how_far_each_was_moved():
    rotated = np.random.default_rng(0).normal(0.5, 0.1, 200)
    where = {"layer": 0, "method": "zero"}
    records = [
        moved("bits lost to head ablation", ROTATED, easy_first(h), rotated, 4, head=h, **where) for h in range(6)
    ]
    assert np.ptp([np.mean(record["nulls"][ROTATED]) for record in records]) > 10  # what must not be pooled
    chart = head_distribution(of(*records))
    ((panel,),) = chart.views.values()
    heads, chance = panel.series
    assert heads.y == pytest.approx([h - rotated.mean() for h in range(5, -1, -1)], abs=1e-3)
    assert chance.role == "reference" and "beyond" in panel.y
    ranks = np.quantile(rotated - rotated.mean(), 1 - (np.arange(6) + 0.5) / 6)
    assert chance.y == pytest.approx(ranks.tolist(), abs=0.02)
    for record in records:
        del record["nulls"][ROTATED]
    assert not head_distribution(of(*records)).views and head_map(of(*records)).views


def test_a_layer_is_held_against_its_null_on_the_same_sequences():
    name, where = "bits lost to ablation", {"part": "mixer", "method": "zero"}
    drawn = np.linspace(0.5, 1.5, COUNTED)
    records = [moved(name, TURNED, easy_first(layer), drawn, 4, layer=layer, **where) for layer in (0, 1)]
    assert min(map(min, (record["nulls"][TURNED] for record in records))) < -5  # bits lost, were it not moved
    chart = ablation_map(of(*records))
    assert "lower matrices" in chart.say
    own, beyond = (panel.heat for panel in chart.views["hmm-transformer"])
    assert own is not None and own.values == [[8.0, pytest.approx(-7.8)]]
    assert beyond is not None and beyond.values == [[pytest.approx(-1.0, abs=1e-3), pytest.approx(0.0, abs=1e-3)]]
    for record in records:
        record["nulls"] = {}
    bare = ablation_map(of(*records))
    assert len(bare.views["hmm-transformer"]) == 1
    assert "lower matrices" not in bare.say and "random direction" not in bare.say


def test_the_text_beside_an_ablation_map_tells_what_is_drawn():
    """The mean over seeds, as the fields; not what one seed alone has lost."""
    places = [(0, 0, 4.0), (1, 0, 0.0), (0, 1, 3.0), (1, 1, 3.0)]  # seed, layer, bits
    made = {"part": "mixer", "method": "zero"}
    chart = ablation_map(of(*(reading("bits lost to ablation", v, s, layer=at, **made) for s, at, v in places)))
    assert chart.summary == "hmm-transformer: most is lost at layer 1, mixer (zero ablation): 3 bits"


def test_a_panel_for_each_way_of_removing_a_subspace_says_which():
    place = {"subspace": "written belief", "tensor": "blocks.2.residual"}
    records = [reading("bits lost to ablation of a subspace", 0.1, method=way, **place) for way in ("zero", "mean")]
    chart = beside_nulls(of(*records), REMOVED)
    assert [panel.title for panel in chart.views["hmm-transformer"]] == ["zero ablation", "mean ablation"]


def test_only_where_nulls_are_moved_the_reader_is_told():
    assert [part.id for part in sections(Source(Path())) if MOVED in part.how] == ["mechanism"]
