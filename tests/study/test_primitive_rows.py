"""The primitives table is gathered once: what the command line prints is what the page shows and its CSV holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.study.planted import Planted, around
from windtunnel.report.shares import SIGNS, primitives, primitives_table
from windtunnel.report.source import Source
from windtunnel.study.primitive_rows import STATES, entries, in_order
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import Share


@pytest.fixture
def cells() -> dict:
    """Two networks of one world, one of another, predictors that show the scale, and a cell that tests nothing."""
    p = Planted()
    p.share("urn-transformer", "accumulation", around(0.99, 0.001))
    p.share("urn-lstm", "accumulation", around(0.5))
    p.share("hmm-rotating-transformer", "transport", around(0.01, 0.001))
    p.cell("hmm-transformer")
    p.baseline("hmm-rotating", "uniform", "kl_bits", 1.0)
    rows = {
        name: Share("transport", Quantity(value, value, value, "sequences"), 1 - value, "window-1", 1.0, (value,))
        for name, value in (("B: window-1", 0.0), ("filter", 1.0), ("A window", 0.5))
    }
    p.cells["hmm-rotating-references"]["rows"] = {name: row.to_dict() for name, row in rows.items()}
    return p.cells


def test_where_seeds_fall_apart_share_and_bits_are_of_the_same_seed():
    p = Planted()
    p.share("urn-transformer", "accumulation", [0.99, 0.98, 0.01])
    p.share("urn-lstm", "accumulation", [0.5, 0.51])
    apart, alike = (row for row in entries(p.cells) if row.network)
    base = apart.record["base_bits"]
    assert apart.record["median"] == 0.98 and apart.left_bits == pytest.approx(0.02 * base)
    assert alike.left_bits == alike.record["kl_bits"]


def test_all_tables_tell_the_same(cells):
    source = Source(Path("here"), cells=cells)
    told = {(row.subject, row.primitive, row.world, row.state) for row in in_order(cells)}
    assert len(told) == 6 == len(in_order(cells))
    assert {tuple(row[:4]) for row in primitives_table(source).rows} == told
    shown = primitives(source)
    columns = [(column.primitive, column.world) for column in shown.columns]
    networks = {
        (row.name, *at, one.state) for row in shown.rows for at, one in zip(columns, row.shares) if one is not None
    }
    scale = {
        (name, column.primitive, column.world, one.state) for column in shown.columns for name, one in column.scale
    }
    assert networks | scale == told and set(SIGNS) == set(STATES)


def test_order_and_origin(cells):
    by_cell = [(row.cell, row.subject, row.network) for row in entries(cells)]
    assert by_cell[:2] == [("urn-transformer", "transformer", True), ("urn-lstm", "lstm", True)]
    assert [subject for _, subject, network in by_cell if not network] == ["B: window-1", "filter", "A window"]
    ordered = [(row.primitive, row.subject) for row in in_order(cells)]
    assert ordered[:2] == [("accumulation", "lstm"), ("accumulation", "transformer")]
    assert [subject for _, subject in ordered[2:]] == ["transformer", "A window", "B: window-1", "filter"]


def test_a_network_with_a_predictors_name_keeps_its_own_share(cells):
    cell = cells["hmm-rotating-transformer"] | {"rows": cells["hmm-rotating-references"]["rows"]}
    rows = list(entries({"hmm-rotating-filter": cell}))
    assert [(row.subject, row.network) for row in rows] == [
        ("filter", True),
        ("B: window-1", False),
        ("filter", False),
        ("A window", False),
    ]
    assert rows[0].record["share"] == cell["primitive"]["share"] != rows[2].record["share"]
