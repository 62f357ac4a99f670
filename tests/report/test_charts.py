"""Charts as data: what they say is what the results say."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import windtunnel as wt
from windtunnel.json_numbers import from_json
from windtunnel.report import read, write_figures
from windtunnel.report.beyond_charts import capacity, lengths
from windtunnel.report.chart import Chart, Cloud, Heat, Panel, Series, tidy, to_plain
from windtunnel.report.curves import how_many
from windtunnel.report.fidelity_charts import distance, entropy, fidelity_charts, per_position, scores
from windtunnel.report.geometry_charts import dissociation, geometry_charts
from windtunnel.report.making import cards
from windtunnel.report.mechanism_charts import ablation_map, mechanism_charts
from windtunnel.report.page import render
from windtunnel.report.palette import SHARES, SHARES_DARK, contrast
from windtunnel.report.readings import places, spoken
from windtunnel.report.shares import BEHIND, LEVELS, depth, primitives, realised
from windtunnel.report.source import Source
from windtunnel.report.verdicts import headline, section_says, tally
from windtunnel.report.words import enumerated, interval, listed, share, short
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import Share
from windtunnel.training import load
from windtunnel.tunnels import HMM


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


def test_lengths_without_a_score_are_told_with_their_reason(source):
    cells = {name: deepcopy(cell) for name, cell in source.cells.items()}
    cells["hmm-lstm"]["conditions"]["length-9"] = {"missing": "the network's weights are tied to its first 6 positions"}
    every, beyond = lengths(replace(source, cells=cells)).views["hmm"]
    assert every.note == "Not scored: lstm at 9: the network's weights are tied to its first 6 positions."
    assert beyond.note == "" and lengths(source).views["hmm"][0].note == ""


def test_recall_against_pairs(source):
    cell = dict(source.cells["urn-transformer"])
    apart = Quantity.of_seeds([0.1, 0.95, 0.98]).to_dict()
    assert apart["low"] < 0 and apart["high"] > 1  # Student's t does not know that it is a share
    scored = {"metrics": {"accuracy": apart}, "episodes": 500}
    cell["conditions"] = {"home": scored, "pairs-8": scored, "pairs-16": scored}
    shown = capacity(Source(source.path, source.head, {"urn-transformer": cell}))
    line = shown.views["urn"][0].series[0]
    assert (line.x, line.low, line.high) == ([8, 16], [0, 0], [1, 1]) and not capacity(source).views


def test_without_exhibits_kl_per_step_comes_from_the_cells(source):
    bare = type(source)(source.path, source.head, source.cells, source.ledger)
    panel = per_position(bare).views["hmm"][0]
    line = next(s for s in panel.series if s.name == "lstm")
    assert line.y == source.cells["hmm-lstm"]["conditions"]["home"]["kl_per_position"] and line.low is None
    uniform = next(s for s in panel.series if s.name == "uniform")
    assert len(set(uniform.y)) == 1 and len(uniform.y) == 6


def test_each_tunnel_says_what_its_grey_lines_are(source):
    """One has an exhibit, with predictors at each step; of the others only a mean is known."""
    some = replace(source, exhibits={"urn-transformer": source.exhibits["urn-transformer"]})
    notes = {world: panel.note for world, (panel,) in per_position(some).views.items()}
    mean = "Of simple predictors only the mean over all steps is known: a level line."
    assert notes == {
        "hmm": mean,
        "bijection-replacement": f"{mean} Infinitely far off, so not drawn: set-complement.",
        "urn": "Exact (0 bits), so without a place on a log axis: last-observation at step 1.",
    }


def test_a_line_that_begins_late_says_why(source):
    """A predictor that is exact at first has no place on a log axis there, nor has one that is infinitely far off."""
    record = deepcopy(source.exhibits["urn-transformer"])
    record["curves"]["baselines"] = {
        "uniform": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5],
        "last-observation": [0.0, 0.0, 0.2, "inf", "inf", 0.5],
        "set-complement": [0.0] * 6,
    }
    (panel,) = per_position(replace(source, exhibits={"urn-transformer": record})).views["urn"]
    assert panel.note == (
        "Exact (0 bits), so without a place on a log axis: uniform at step 1, last-observation up to step 2 and "
        "set-complement at every step. Infinitely far off, so not drawn: last-observation at steps 4 and 5."
    )


def test_ablation_map_has_every_layer_part_and_method(source):
    panels = ablation_map(source).views["hmm-transformer"]
    own = ["zero ablation", "mean ablation", "resample ablation"]
    assert [panel.title for panel in panels] == [*own, *(f"{title}, beyond the null" for title in own)]
    heat, beyond = panels[0].heat, panels[3].heat
    assert heat.columns == ["0", "1"] and set(heat.rows) == {"mixer", "feed-forward", "whole layer"}
    reading = next(
        r for r in source.readings["hmm-transformer"]
        if r["name"] == "bits lost to ablation"
        and (r["where"]["layer"], r["where"]["part"], r["where"]["method"]) == (1, "mixer", "zero")
    )  # fmt: skip
    assert heat.values[heat.rows.index("mixer")][1] == reading["value"]
    drawn = reading["nulls"]["random direction, equal size"]
    assert beyond.values[beyond.rows.index("mixer")][1] == pytest.approx(reading["value"] - np.mean(drawn))


def test_places_leave_out_what_all_share():
    records = [
        {"name": "n", "value": 1.0, "where": {"seed": s, "step": 3, "layer": layer}} for s in (0, 1) for layer in (0, 1)
    ]
    assert {place: len(found) for place, found in places(records, "n").items()} == {"layer 0": 2, "layer 1": 2}
    assert list(places(records[:1], "n")) == ["step 3, layer 0"]
    assert spoken({"seed": 0, "method": "zero"}) == "the whole network"


def test_the_headline_says_the_result(source):
    counts = tally(source)
    assert sum(counts.values()) == len(source.ledger) == len(wt.study.CLAIMS)
    judged = [entry | {"outcome": "reproduced" if i < 3 else "not reproduced"} for i, entry in enumerate(source.ledger)]
    lines = headline(replace(source, ledger=judged, judge=None))
    theirs = sum(not entry["published"].startswith("none") for entry in judged)
    assert 0 < theirs < len(judged)
    assert lines == [
        f"{len(judged)} claims, {theirs} of them published: 3 reproduced and {len(judged) - 3} not reproduced.",
        realised(source),
    ]
    nothing = [entry | {"outcome": "not tested at this scale"} for entry in source.ledger]
    lines = headline(replace(source, ledger=nothing, judge=None))
    assert lines[0] == realised(source) and f"none of {len(nothing)} claims, {theirs} of them published," in lines[1]
    assert headline(Source(source.path)) == ["No network and no verdict yet."]


def test_the_headline_names_who_realises_what(source):
    cells = {name: deepcopy(cell) for name, cell in source.cells.items()}
    for cell in cells.values():
        if record := cell.get("primitive"):
            centre = 0.99 if cell["model"] == "transformer" else 0.5
            record["share"] |= {"mean": centre, "low": centre - 0.01, "high": centre + 0.005, "over": "sequences"}
            record["base_bits"] = 1.0  # a primitive that is worth less than 0.3 bits is void
    line = realised(replace(source, cells=cells))
    assert line == "Transformer realises accumulation and binding; MLP realises no primitive (binding partial)."
    mine = {name: cell | {"model": "own"} for name, cell in cells.items() if cell.get("model") == "mlp"}
    own = {name.replace("mlp", "own"): cell for name, cell in mine.items()}
    # a name that somebody registered is not ours to capitalise
    assert realised(replace(source, cells=own)) == "`own` realises no primitive (binding partial)."
    another = deepcopy(next(c for c in cells.values() if c.get("model") == "transformer" and _tests(c) == "binding"))
    another["primitive"]["share"] |= {"mean": 0.5, "low": 0.49, "high": 0.51}
    cells["elsewhere-transformer"] = another | {"world": "elsewhere"}
    line = realised(replace(source, cells=cells))
    assert line.startswith("Transformer realises accumulation and binding (1 of 2 worlds);")


def _tests(cell: dict) -> str:
    return (cell.get("primitive") or {}).get("primitive", "")


def test_a_demonstration_shows_the_verdicts_of_the_committed_study(scratch, tmp_path, monkeypatch):
    path = scratch / "claims.json"
    record = json.loads(path.read_text())
    for entry in record["claims"]:
        entry["outcome"] = "reproduced"
    full = StudyFolder(tmp_path / "home" / "results" / "paper")
    full.begin("paper")
    full.sum_up([])
    (full.path / "claims.json").write_text(json.dumps(record))
    for entry in record["claims"]:
        entry["outcome"] = "not tested at this scale"
    path.write_text(json.dumps(record))
    monkeypatch.chdir(tmp_path / "home")
    found = read(scratch, with_zoo=False)
    assert found.judge == Path("results/paper")  # as it lies here: a page may be mailed, and tells no home folder
    assert {entry["outcome"] for entry in found.ledger} == {"reproduced"}
    first, second = headline(found)
    assert first == f"A demonstration in small networks: {realised(found)}" and "says the full-size study in" in second
    assert section_says(found) in (text := render(found)) and "claims hold here" not in text
    assert text.index('id="primitives"') < text.index('id="ledger"') and "judges nothing" in text
    assert read(full.path, with_zoo=False).judge is None


def test_primitives(source):
    table = primitives(source)
    column = next(c for c in table.columns if c.primitive == "binding")
    assert column.world == "bijection-replacement" and float(column.worth) > 0.3
    yardsticks = dict(column.scale)
    lookup = next(one for name, one in yardsticks.items() if name.startswith("lookup"))
    assert (lookup.state, lookup.mean, lookup.level) == ("realised", "1.000", 5)
    assert yardsticks["B: familiarity"].mean == "0.000"
    names = [row.name for row in table.rows]
    assert names[0] == "transformer" and all(len(row.shares) == len(table.columns) for row in table.rows)
    record = source.cells["bijection-replacement-mlp"]["primitive"]
    drawn = next(row for row in table.rows if row.name == "mlp").shares[table.columns.index(column)]
    assert drawn.mean == share(record["share"]["mean"]) and drawn.left == f"{short(record['kl_bits'], 2)} bits"


@pytest.mark.parametrize(("shift", "behind"), [(0.0, True), (1.5, False)])
def test_a_network_that_is_no_better_than_b_is_not_called_absent_alone(source, shift, behind):
    """Such a network shows nothing about the primitive: README and the command line say so, and the page must."""
    name = "bijection-replacement-transformer"
    cell = source.cells[name]
    record = cell["primitive"]
    moved = {part: record["share"][part] + shift for part in ("mean", "low", "high")}
    moved |= {"per_seed": [value + shift for value in record["share"]["per_seed"]]}
    share = record | {"share": record["share"] | moved, "per_seed": [value + shift for value in record["per_seed"]]}
    found = replace(source, cells={name: cell | {"primitive": share}})
    (row,) = primitives(found).rows
    assert row.shares[0] is not None and row.shares[0].spoken.endswith("(no better than B)") == behind
    text = render(found)
    assert ("(no better than B)" in text) == behind == (BEHIND in text)
    assert ("binding no better than without it" in realised(found)) == behind


def test_what_is_partial_is_never_coloured_as_what_is_realised(source):
    shares = (-0.3, 0.0, 0.099, 0.1, 0.5, 0.936, 0.9499, 0.95, 1.0)
    depths = [depth(share) for share in shares]
    assert depths == sorted(depths) and depths[:3] == [0, 0, 0] and depths[-2:] == [LEVELS, LEVELS]
    assert 0 < depths[3] < depths[4] < depths[5] == depths[6] < LEVELS and depth(float("nan")) == 0
    for colours in (SHARES, SHARES_DARK):
        assert len(set(colours)) == LEVELS + 1
        steps = [contrast(one, other) for one, other in pairwise(colours)]
        assert max(steps) == steps[-1] > 1.25  # seen at a glance
    assert "deepest colour is for what is realised, none for less than 0.10" in render(source)
    apart = Share("accumulation", Quantity.of_seeds([0.99, 0.99, 0.01]), 0.3, "b", 1.0, (0.99, 0.99, 0.01))
    cell = source.cells["urn-transformer"] | {"primitive": apart.to_dict()}
    (row,) = primitives(replace(source, cells={"urn-transformer": cell})).rows
    assert row.shares[0] is not None and (row.shares[0].state, row.shares[0].level) == ("unclear", LEVELS - 1)
    assert (row.shares[0].mean, row.shares[0].left) == ("0.990", "0.01 bits")  # both of the median seed, not 0.3 bits


@pytest.mark.parametrize(
    ("value", "ends", "told"),
    [
        (0.25, (0.125, 0.5), "Values settle 0.25 [0.125, 0.5] log10 steps later than attention, over seeds"),
        (-0.25, (-0.5, -0.125), "Values settle 0.25 [0.125, 0.5] log10 steps earlier than attention, over seeds"),
        (-0.25, (-0.5, 0.125), "earlier than attention (below 0: the other way round), over seeds"),
        (-0.25, None, "Values settle 0.25 log10 steps earlier than attention, one seed"),
    ],
)
def test_which_of_two_settles_first_is_said_in_words(source, value, ends, told):
    low, high = ends or (None, None)
    record = {"name": "frame–precision dissociation", "value": value, "low": low, "high": high, "unit": "log10 steps"}
    record |= {"over": "seeds" if ends else "one seed", "p_value": 0.5, "where": {}, "nulls": {}}
    shown = dissociation(replace(source, readings={"hmm-transformer": [record]}))
    note = shown.views["hmm-transformer"][0].note
    assert told in note and note.endswith("; p 0.5 with the two names exchanged.")


def test_worlds_and_networks_have_one_order(source):
    assert list(source.worlds(source.exhibits)) == ["hmm", "bijection-replacement", "urn"]
    assert source.ordered(source.networks)[:2] == ["hmm-transformer", "hmm-lstm"]
    views = [list(chart.views) for chart in fidelity_charts(source) if len(chart.views) == 3]
    assert views and all(view == ["hmm", "bijection-replacement", "urn"] for view in views)


def test_a_run_alone_stands_beside_simple_predictors_and_has_the_kl_of_evaluate(scratch):
    run = load(scratch / "runs" / "hmm-lstm")
    found = read(run.path, with_zoo=False)
    mean = wt.evaluate(run).kl_bits.mean
    assert scores(found)["hmm-lstm"]["mean"] == pytest.approx(mean, rel=1e-4)
    assert headline(found) == [f"`hmm-lstm` is {short(mean)} bits from exact inference."]
    (panel,) = distance(found).views["hmm"]
    known = wt.evaluate(wt.baselines(run.tunnel)["window-1"], run.tunnel)
    other = deepcopy(found.exhibits["hmm-lstm"])
    other["origin"]["source"], other["curves"]["kl_bits"]["mean"] = "zoo", 1e-9
    assert headline(replace(found, exhibits=found.exhibits | {"shipped": other})) == headline(found)
    hollow = {s.name: s.x[0] for s in panel.series if s.role == "null"}
    assert {"uniform", "window-1", "window-2"} <= hollow.keys() and panel.note == ""
    assert hollow["window-1"] == pytest.approx(known.kl_bits.mean, rel=1e-4)


def test_networks_of_several_tunnels_have_a_line_for_each(source):
    """Bits of different worlds do not compare, and a run may be called `first`."""
    names = {"first": "hmm-lstm", "second": "hmm-transformer", "other": "urn-transformer"}
    found = Source(source.path, exhibits={mine: source.exhibits[name] for mine, name in names.items()})
    kl = {mine: from_json(found.exhibits[mine]["curves"]["kl_bits"]["mean"]) for mine in names}
    best = min(("first", "second"), key=kl.__getitem__)
    assert headline(found) == [
        "3 networks in 2 tunnels.",
        f"hmm: the closest of 2 networks, `{best}`, is {short(kl[best])} bits from exact inference.",
        f"urn: `other` is {short(kl['other'])} bits from exact inference.",
    ]
    text = render(found)
    assert f"the closest of 2 networks, <code>{best}</code>, is" in text and "`" not in text[: text.index("<main>")]


def test_a_network_too_large_for_all_episodes_says_on_how_many_it_was_scored(scratch):
    found = read(scratch / "runs" / "hmm-lstm", with_zoo=False)
    few = deepcopy(found.exhibits["hmm-lstm"])
    few["curves"]["episodes"] = 266
    found = replace(found, exhibits={"hmm-lstm": few})
    assert headline(found)[0].endswith("from exact inference (the first 266 of evaluate's 4,096 test episodes).")
    note = distance(found).views["hmm"][0].note
    assert note == "Scored for this page on the first 266 of evaluate's 4,096 test episodes."
    assert how_many(HMM(), "cuda", 10**9) == how_many(HMM(), "cpu", 1) == 4096


def test_tunnels_of_one_kind_and_several_sizes_are_told_apart(source):
    """Their scores do not compare, nor do their simple predictors."""
    one = source.exhibits["urn-transformer"]
    longer = deepcopy(one)
    longer["tunnel"] |= {"length": 12}
    found = Source(source.path, exhibits={"urn-transformer": one, "mine": longer})
    assert list(distance(found).views) == ["urn (length 6)", "urn (length 12)"]
    assert (found.short("urn-transformer"), found.short("mine")) == ("transformer", "mine")
    beside = replace(source, exhibits={**source.exhibits, "mine": longer})
    assert beside.world("mine") == "urn (length 12)" and beside.world("urn-transformer") == "urn"
    assert Source(source.path, exhibits={"mine": longer}).world("mine") == "urn"


def test_what_is_so_or_not_is_told_in_words_not_in_python(source):
    one = source.exhibits["bijection-replacement-mlp"]
    other = deepcopy(one)
    other["tunnel"] |= {"replacement": False}
    found = Source(source.path, exhibits={"one": one, "other": other})
    told = ["bijection (with replacement)", "bijection (without replacement)"]
    assert [found.world(name) for name in ("one", "other")] == told
    assert "replacement True" not in str(cards(source)) and "with replacement" in str(cards(source))


def test_a_world_with_matrices_of_its_own_is_named_without_their_numbers(source, tmp_path):
    one = source.exhibits["hmm-lstm"]

    def fixed(stay: float) -> dict:
        found = deepcopy(one)
        rows = [[stay if s == t else (1 - stay) / 2 for t in range(3)] for s in range(3)]
        found["tunnel"] |= {"header": None, "transition": rows, "emission": rows}
        return found

    both = {"hmm-lstm": one, "fixed": fixed(0.7123456789)}
    found = Source(source.path, exhibits=both)
    assert [found.world(name) for name in both] == ["hmm (header rows)", "hmm (its own transition and emission)"]
    three = Source(source.path, exhibits=both | {"other": fixed(0.6)})
    assert [three.world(name) for name in ("fixed", "other")] == [
        f"hmm (its own transition and emission, number {k})" for k in (1, 2)
    ]
    written = write_figures(three, tmp_path, only=["distance"])
    assert len({path.name for path in written}) == 9 and all(len(path.name) < 120 for path in written)


def test_a_predictor_that_is_infinitely_wrong_or_exact_is_named_so(source):
    cells = {name: deepcopy(cell) for name, cell in source.cells.items()}
    cells["hmm-references"]["conditions"]["home"]["baselines"]["window-1"]["kl_bits"] = "inf"
    panel = distance(replace(source, cells=cells)).views["hmm"][0]
    drawn = next(s for s in panel.series if s.name == "window-1")
    assert drawn.y == ["window-1: ∞"] and to_plain(drawn)["x"] == [None]
    cells["hmm-references"]["conditions"]["home"]["baselines"]["window-1"]["kl_bits"] = 0.0
    panel = distance(replace(source, cells=cells)).views["hmm"][0]
    assert next(s for s in panel.series if s.name == "window-1").y == ["window-1: exact"]  # 0 is on no log axis


def test_words():
    shown = [short(v) for v in (0.41371, 7.5e-05, -2.5e-7, None, "inf", 2)]
    assert shown == ["0.414", "7.5 × 10⁻⁵", "−2.5 × 10⁻⁷", "–", "∞", "2"]
    assert [share(v) for v in (-2.2e-16, 0.99997, -0.4314, None)] == ["0.000", "1.000", "−0.431", "–"]
    assert interval({"mean": 1.0, "low": 0.5, "high": 2.0, "over": "seeds"}) == "1 [0.5, 2]"
    assert interval({"mean": 3.0, "low": 3.0, "high": 3.0, "over": "exact"}) == "3" and interval(None) == ""
    small = {"mean": 8.75e-05, "low": 7.23e-05, "high": 0.000104, "over": "seeds"}
    assert interval(small) == "8.75 × 10⁻⁵ [7.23 × 10⁻⁵, 1.04 × 10⁻⁴]"  # one format in one cell
    assert interval(small | {"mean": 0.0001, "low": 9.9e-05}) == "0.0001 [0.000099, 0.000104]"
    assert listed("abcd", 2) == "a; b; and 2 more" and enumerated("abc") == "a, b and c"
