"""Charts as data: what they say is what the results say."""

from __future__ import annotations

import numpy as np
import pytest

import windtunnel as wt
from windtunnel.report.chart import Chart, Cloud, Heat, Panel, Series, tidy, to_plain
from windtunnel.report.fidelity_charts import capacity, distance, entropy, fidelity_charts, lengths, per_position
from windtunnel.report.geometry_charts import geometry_charts
from windtunnel.report.mechanism_charts import ablation_map, mechanism_charts
from windtunnel.report.readings import places, spoken
from windtunnel.report.source import Source
from windtunnel.report.verdicts import headline, primitives, tally
from windtunnel.report.words import interval, listed, short
from windtunnel.training import load


def chart(*panels: Panel) -> Chart:
    return Chart("c", "t", "s", "w", {"v": panels}, "tunnel")


def test_tidy_series():
    table = tidy(chart(Panel("p", "step", "bits", series=[Series("a", [1, 2], [0.5, None], [0.4, 0.1], [0.6, 0.2])])))
    assert table.columns == ["tunnel", "panel", "series", "step", "bits", "low", "high"]
    assert table.rows == [["v", "p", "a", 1, 0.5, 0.4, 0.6], ["v", "p", "a", 2, None, 0.1, 0.2]]


def test_tidy_heat_and_cloud():
    heat = tidy(chart(Panel("p", heat=Heat(["r"], ["a", "b"], [[1.0, None]]))))
    assert heat.rows == [["v", "p", "r", "a", 1.0], ["v", "p", "r", "b", None]]
    cloud = tidy(chart(Panel("p", cloud=Cloud([1.0], [2.0], {"h": [3.0], "k": ["s0"]}))))
    assert cloud.columns == ["tunnel", "panel", "x", "y", "h", "k"] and cloud.rows == [["v", "p", 1.0, 2.0, 3.0, "s0"]]


def test_plain_data_has_no_infinity_and_keeps_zero():
    plain = to_plain(Series("a", [0, 1, 2], [0.0, float("inf"), 0.123456789]))
    assert plain["y"] == [0.0, None, 0.123457] and plain["x"] == [0, 1, 2]


def test_every_chart_has_a_sentence_and_a_text_alternative(source):
    charts = [*fidelity_charts(source), *geometry_charts(source), *mechanism_charts(source)]
    assert len({c.id for c in charts}) == len(charts)
    for one in charts:
        assert one.say.endswith(".") and any(character.isdigit() for character in one.summary), one.id
        for panels in one.views.values():
            assert panels
            for panel in panels:
                for series in panel.series:
                    assert len(series.x) == len(series.y)


def test_curves_are_those_of_evaluate(demo, source):
    run = load(demo / "runs" / "hmm-transformer")
    curve = source.exhibits["hmm-transformer"]["curves"]
    score = wt.evaluate(run.models, run.tunnel, episodes=curve["episodes"], seed=curve["seed"])
    assert np.array(curve["kl_per_position"]).mean(0) == pytest.approx(score.kl_bits.per_position, rel=1e-4)
    assert curve["exact_entropy"] == pytest.approx(score.exact_entropy_curve.tolist(), rel=1e-5)
    assert np.array(curve["model_entropy"]) == pytest.approx(score.model_entropy_curve, rel=1e-4)
    assert curve["kl_bits"]["mean"] == pytest.approx(score.kl_bits.mean, rel=1e-5)
    rows = score.calibration.rows()
    assert [row["exact"] for row in curve["calibration"]] == pytest.approx([row["exact"] for row in rows], rel=1e-4)
    drawn = {s.name: s for s in entropy(source).views["hmm"][0].series}
    assert drawn["exact"].y == curve["exact_entropy"]
    assert drawn["transformer"].low <= drawn["transformer"].y <= drawn["transformer"].high


def test_distance_and_length_are_the_records_own(source):
    cell = source.cells["hmm-lstm"]
    drawn = next(s for s in distance(source).views["hmm"][0].series if s.name == "lstm")
    metrics = cell["conditions"]["home"]["metrics"]["kl_bits"]
    assert (drawn.x[0], drawn.low[0], drawn.high[0]) == (metrics["mean"], metrics["low"], metrics["high"])
    every, beyond = lengths(source).views["hmm"]
    assert every.marks == [(6, "trained at 6")]
    line = next(s for s in every.series if s.name == "lstm")
    assert line.x == [6, 9] and line.y[1] == cell["conditions"]["length-9"]["metrics"]["kl_bits"]["mean"]
    assert next(s for s in beyond.series if s.name == "uniform").role == "reference"


def test_recall_against_pairs(source):
    cell = dict(source.cells["urn-transformer"])
    scored = {"metrics": {"accuracy": {"mean": 0.5, "low": 0.4, "high": 0.6}}}
    cell["conditions"] = {"home": scored, "pairs-8": scored, "pairs-16": scored}
    shown = capacity(Source(source.path, source.head, {"urn-transformer": cell}))
    assert shown.views["urn"][0].series[0].x == [8, 16] and capacity(source) is None


def test_without_exhibits_kl_per_step_comes_from_the_cells(source):
    bare = type(source)(source.path, source.head, source.cells, source.ledger)
    panel = per_position(bare).views["hmm"][0]
    line = next(s for s in panel.series if s.name == "lstm")
    assert line.y == source.cells["hmm-lstm"]["conditions"]["home"]["kl_per_position"] and line.low is None
    uniform = next(s for s in panel.series if s.name == "uniform")
    assert len(set(uniform.y)) == 1 and len(uniform.y) == 6


def test_ablation_map_has_every_layer_part_and_method(source):
    panels = ablation_map(source).views["hmm-transformer"]
    assert [panel.title for panel in panels] == ["zero ablation", "mean ablation", "resample ablation"]
    heat = panels[0].heat
    assert heat.columns == ["layer 0", "layer 1"] and set(heat.rows) == {"mixer", "feed-forward", "whole layer"}
    reading = next(
        r for r in source.readings["hmm-transformer"]
        if r["name"] == "bits lost to ablation"
        and (r["where"]["layer"], r["where"]["part"], r["where"]["method"]) == (1, "mixer", "zero")
    )  # fmt: skip
    assert heat.values[heat.rows.index("mixer")][1] == reading["value"]


def test_places_leave_out_what_all_share():
    records = [
        {"name": "n", "value": 1.0, "where": {"seed": s, "step": 3, "layer": layer}} for s in (0, 1) for layer in (0, 1)
    ]
    assert {place: len(found) for place, found in places(records, "n").items()} == {"layer 0": 2, "layer 1": 2}
    assert list(places(records[:1], "n")) == ["step 3, layer 0"]
    assert spoken({"seed": 0, "method": "zero"}) == "the whole network"


def test_verdict_line_and_primitives(source):
    counts = tally(source)
    assert sum(counts.values()) == len(source.ledger) == len(wt.study.CLAIMS)
    assert headline(source).startswith(f"{len(source.ledger)} published claims: ")
    table = primitives(source)
    assert ("binding", "bijection-replacement") in table.columns
    kinds = [network for _, network, _ in table.rows]
    assert kinds == sorted(kinds, reverse=True) and True in kinds and False in kinds
    lookup = next(row for row in table.rows if row[0].startswith("lookup"))
    share = lookup[2][table.columns.index(("binding", "bijection-replacement"))]
    assert share.state == "realised" and share.level == 5


def test_words():
    assert [short(v) for v in (0.41371, 7.5e-05, None, "inf", 2)] == ["0.414", "7.5e-05", "–", "∞", "2"]
    assert interval({"mean": 1.0, "low": 0.5, "high": 2.0, "over": "seeds"}) == "1 [0.5, 2]"
    assert interval({"mean": 3.0, "low": 3.0, "high": 3.0, "over": "exact"}) == "3" and interval(None) == ""
    assert listed("abcd", 2) == "a; b; and 2 more"
