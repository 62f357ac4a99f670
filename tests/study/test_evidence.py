"""What is read from the records: whose uncertainty a number carries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.study.planted import Planted
from tests.study.plants import PLANTS
from windtunnel.geometry.ladder_survey import _dissociation
from windtunnel.study.claim import judge
from windtunnel.study.claims import CLAIMS, claim
from windtunnel.study.compare import difference
from windtunnel.study.evidence import Evidence, NotMeasured, accuracy_noise
from windtunnel.study.running import surveying
from windtunnel.study.trials import PRIMITIVES
from windtunnel.study.verdict import INCONCLUSIVE, NOT, ONLY_AS, REPRODUCED, UNTESTED

NAME = "frame–precision dissociation"


def dissociation(later: list[float]) -> list[dict]:
    """As the instrument writes it: one record for all seeds; values settle 10^later times as late as attention."""
    attention = np.full((len(later), 4), 100.0)
    values = 100.0 * 10.0 ** np.array(later)[:, None] * np.array([1.0, 1.01, 0.99, 1.0])
    return surveying.to_records([_dissociation(attention, values)])


def test_a_reading_over_seeds_is_tested_over_seeds():
    p = Planted()
    for cell in ("bijection-transformer", "hmm-transformer"):
        p.learned(cell)
        p.cell(cell)["survey"] = dissociation([0.1, 0.5, 0.3])
    (record,) = p.cells["hmm-transformer"]["survey"]
    assert record["over"] == "seeds" and len(record["per_seed"]) == 3
    found = Evidence(p.cells).record("hmm-transformer", NAME)
    assert found.p_against(0.0) == pytest.approx(stats.ttest_1samp(record["per_seed"], 0.0).pvalue)
    verdict = claim("frame-precision").judge(p.evidence())
    assert verdict.outcome == INCONCLUSIVE and verdict.value is not None and verdict.value.values == found.values
    assert (verdict.p_value or 0.0) > found.p_against(0.0)  # the checkpoints resolve less than the seeds agree on
    del record["per_seed"]  # a record without them is no more certain
    assert Evidence(p.cells).record("hmm-transformer", NAME).p_against(0.0) > 0.01


def test_readings_are_held_against_each_other_seed_by_seed():
    """One seed lacks one of two readings: it is left out, and the others keep their partners."""
    p = Planted()
    p.reading("hmm-transformer", "bits", [1.0, 2.0, 4.0, 8.0], length=20)
    p.reading("hmm-transformer", "bits", [11.0, 32.0, 54.0, 78.0], length=50)
    survey = p.cell("hmm-transformer")["survey"]
    survey.remove(next(r for r in survey if r["where"] == {"seed": 0, "length": 50}))
    home, far = (p.evidence().record("hmm-transformer", "bits", length=length) for length in (20, 50))
    found = difference(far, home)
    assert found.seeds == (1, 2, 3) and found.values == (30.0, 50.0, 70.0)


def test_one_reading_of_a_cell_with_several_seeds_bounds_nothing():
    """Its own interval is over sequences: of the other networks it says nothing.  Of a cell with one seed it is all."""
    p = Planted()
    p.reading("hmm-mamba", "belief decoded, R²", [0.9], layer=7)
    (reading,) = p.cell("hmm-mamba")["survey"]
    reading |= {"over": "sequences", "low": 0.88, "high": 0.92}
    for seeds, side in (([0, 1, 2], "straddles"), ([0], "above")):
        p.cell("hmm-mamba")["seeds"] = seeds
        evidence = Evidence(p.cells)
        assert evidence.record("hmm-mamba", "belief decoded, R²").side(0.5) == side
        assert evidence.over_null("hmm-mamba", "belief decoded, R²", "untrained").side(0.5) == side


def test_perfect_accuracy_of_three_seeds_is_not_certain():
    p = Planted()
    p.score("recall-transformer", "accuracy", [1.0, 1.0, 1.0], scale="linear")
    p.score("recall-transformer", "kl_bits", [0.01, 0.011, 0.012])
    assert claim("recall-transformer-accuracy").judge(p.evidence()).outcome == INCONCLUSIVE
    p.cells["recall-transformer"]["conditions"]["home"]["episodes"] = 20_000
    found = claim("recall-transformer-accuracy").judge(p.evidence())
    assert found.outcome == REPRODUCED and found.p_value is not None and found.p_value > 0
    p.cells["recall-transformer"]["conditions"]["home"]["episodes"] = 100
    assert claim("recall-transformer-accuracy").judge(p.evidence()).outcome == INCONCLUSIVE


def test_a_cell_that_was_not_run_can_be_told_from_other_reasons():
    with pytest.raises(NotMeasured) as missing:
        Evidence({}).cell("hmm-lstm")
    assert missing.value.cell == "hmm-lstm"
    with pytest.raises(NotMeasured) as unscored:
        Evidence({"hmm-lstm": {"conditions": {}}}).condition("hmm-lstm", "home")
    assert unscored.value.cell is None


def test_the_noise_of_an_accuracy_bounds_that_of_its_episodes():
    rng = np.random.default_rng(0)
    means = [(rng.random(400) < 0.9).mean() for _ in range(2000)]
    assert accuracy_noise(0.9, 400) == pytest.approx(np.std(means), rel=0.05)
    assert accuracy_noise(1.0, 400) > 0


# --- cannot, and the table
def test_one_network_refutes_cannot_whatever_the_other_seeds_do():
    p = Planted()
    PLANTS["lstm-transport"](p, "no")
    p.share("hmm-rotating-lstm", "transport", [0.999, 0.999, 0.02], error=0.001)
    found = claim("lstm-transport").judge(p.evidence())
    assert found.outcome == NOT and "one network of 3" in " ".join(found.reasons)
    assert found.value is not None and found.value.mean == 0.999 and found.line == 0.95
    p.share("hmm-rotating-lstm", "transport", [0.96, 0.95, 0.02], error=0.01)  # the best of several, by luck
    assert claim("lstm-transport").judge(p.evidence()).outcome == INCONCLUSIVE


def test_a_world_that_was_not_measured_does_not_save_cannot():
    p = Planted()
    p.share("recall-lstm", "binding", [0.999, 0.998, 0.997], error=0.001)
    assert claim("lstm-binding").judge(p.evidence()).outcome == NOT
    p.share("recall-lstm", "binding", [0.1, 0.1001, 0.1002], error=0.001)
    found = claim("lstm-binding").judge(p.evidence())
    assert found.outcome == UNTESTED and "bijection-replacement-lstm" in found.reasons[0]


def test_the_table_makes_no_test_of_its_own_and_reads_corrected_verdicts():
    p = Planted()
    PLANTS["primitives-table"](p, "yes")
    entries = [one for one in CLAIMS if one.id.rpartition("-")[2] in PRIMITIVES and one.id != "softmax-necessary"]
    table = claim("primitives-table")
    alone, together = judge(entries, p.evidence()), judge([*entries, table], p.evidence())
    assert {name: v.adjusted for name, v in alone.items()} == {
        name: v.adjusted for name, v in together.items() if name != table.id
    }
    assert together[table.id].p_value is None and together[table.id].outcome == ONLY_AS
    for model in ("transformer", "mamba"):  # each is decided alone, p = 0.04, but not the two of them
        p.share(f"hmm-rotating-{model}", "transport", [0.951, 0.96, 0.965, 0.953, 0.962])
    assert claim("transformer-transport").judge(p.evidence()).outcome == REPRODUCED
    found = judge([*entries, table], p.evidence())
    assert found["transformer-transport"].outcome == INCONCLUSIVE and found[table.id].outcome == INCONCLUSIVE
