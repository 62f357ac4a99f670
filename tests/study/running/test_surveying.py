"""What a study keeps of a reading, and how it writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.inspect import REVISION
from windtunnel.study.evidence import _null_error, null_mean
from windtunnel.study.folder.files import in_lines, rounded
from windtunnel.study.running.surveying import DRAWN, job_names, thinned, to_records


def test_a_long_null_is_thinned_and_keeps_its_mean_and_spread():
    sample = np.random.default_rng(0).gamma(2.0, size=999)
    few = thinned(list(sample))
    assert len(few) == DRAWN and np.mean(few) == pytest.approx(sample.mean(), rel=1e-12)
    assert np.std(few) == pytest.approx(sample.std(), rel=0.25)
    assert thinned([1.0, 2.0]) == [1.0, 2.0] and len(thinned(["inf"] * 50)) == DRAWN


def test_a_reading_is_kept_small_with_its_seed():
    draws = np.random.default_rng(0).normal(size=199)
    reading = Measurement(
        "x", 1 / 3, 0.1, 0.9, "sequences", {"layer": 2}, nulls={"random vectors": draws, "untrained": draws}
    )
    kept, missing = to_records([reading, Missing("keys", "an LSTM has no keys")], seed=4)
    assert kept["where"] == {"seed": 4, "layer": 2} and kept["value"] == 0.33333 and "arrays" not in kept
    assert kept["revision"] == REVISION
    assert null_mean(kept, "random vectors") == pytest.approx(draws.mean(), abs=1e-4)
    assert _null_error(kept, "random vectors") == pytest.approx(draws.std() / 199**0.5, rel=0.25)  # 199 draws, not 9
    assert _null_error(kept, "untrained") == pytest.approx(draws.std() / 5**0.5, rel=0.25)  # five networks, whatever
    assert kept["p_value"] == pytest.approx(reading.p_value, rel=1e-4)  # that of all draws
    assert missing == {"name": "keys", "missing": "an LSTM has no keys"} and len(json.dumps(kept)) < 600


def test_jobs_are_named_seed_by_seed_and_dynamics_comes_last():
    names = job_names({"dynamics": 3, "keys": 2, "lens": 1}, [5, 7, 9])
    assert list(names) == ["keys, seed 5", "lens, seed 5", "keys, seed 7", "dynamics"]
    assert names["keys, seed 7"] == ("keys", 7) and names["dynamics"] == ("dynamics", None)


def test_files_have_few_digits_and_a_line_for_each_entry():
    record = {"a": 1, "list": [{"x": 1 / 3}, {"x": None}], "map": {"k": [1, 2], "l": "inf"}, "none": [], "empty": {}}
    assert json.loads(in_lines(record)) == record and in_lines(record).count("\n") == 13
    assert rounded({"a": [1 / 3, 7, None, "inf"], "b": (1e-9 / 3,)}) == {
        "a": [0.33333, 7, None, "inf"],
        "b": [3.3333e-10],
    }
