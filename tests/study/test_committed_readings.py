"""The p-values of the committed study follow from the values committed beside them, by the rule that stands today.

Only a null of few draws is kept whole: against such a one the p-value is computed anew.  A counted one cannot be, but
whichever null is the strongest, no other may come closer.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windtunnel.geometry import Measurement
from windtunnel.geometry.measurement import COUNTED

CELLS = sorted((Path(__file__).resolve().parents[2] / "results" / "paper" / "cells").glob("*.json"))
ROUNDED = 0.02  # values are kept to five digits, and some draws agree in the first three


def test_there_is_a_committed_study():
    assert CELLS


@pytest.mark.parametrize("cell", CELLS, ids=lambda path: path.stem)
def test_p_values_against_few_draws_are_those_of_the_rule(cell: Path):
    for reading in json.loads(cell.read_text()).get("survey") or []:
        if reading.get("p_value") is None:
            continue
        for null, sample in reading["nulls"].items():
            if not 2 <= reading["draws"][null] == len(sample) < COUNTED or len(set(sample)) == 1:
                continue  # thinned; or alike to the last digit that was kept, and so without a spread
            alone = Measurement.from_dict(reading | {"nulls": {null: sample}})
            assert alone.p_value is not None and alone.p_value <= reading["p_value"] * (1 + ROUNDED) + 1e-9, reading
            if null == reading["strongest_null"]:
                assert alone.p_value == pytest.approx(reading["p_value"], rel=ROUNDED), reading
