"""A number that a network without learning shows as well is no result of learning."""

from __future__ import annotations

import numpy as np
import pytest

from tests.study.planted import Planted, around
from tests.study.plants import PLANTS
from windtunnel.study.claims import claim
from windtunnel.study.claims.robustness import gap_over_spread
from windtunnel.study.evidence import less_null
from windtunnel.study.verdict import INCONCLUSIVE, NOT, ONLY_AS, REPRODUCED, UNTESTED

STANDS_OUT = (
    *("sharpening-target", "value-manifold", "value-order", "belief-readable", "mamba-entropy", "lstm-collapse"),
    *("every-layer", "one-frame-head", "late-attention"),
)


def planted(name: str) -> Planted:
    p = Planted()
    PLANTS[name](p, "yes")
    return p


def set_nulls(p: Planted, shift: float | list[float]) -> None:
    """The untrained twins read as the network itself does, and `shift` more; one shift per seed, or one for all."""
    for cell in p.cells.values():
        for reading in cell.get("survey", []):
            more = shift[reading["where"].get("seed", 0)] if isinstance(shift, list) else shift
            reading["nulls"] = {"untrained": [reading["value"] + more] * 2}


@pytest.mark.parametrize("name", STANDS_OUT)
def test_untrained_twins_that_do_as_well_take_the_claim_away(name):
    p = planted(name)
    assert claim(name).judge(p.evidence()).outcome == REPRODUCED
    set_nulls(p, [0.01, 0.011, 0.012, 0.009, 0.01])
    found = claim(name).judge(p.evidence())
    assert found.outcome == ONLY_AS and "as in untrained networks" in found.words


@pytest.mark.parametrize("name", STANDS_OUT)
def test_twins_that_straddle_leave_it_open(name):
    p = planted(name)
    set_nulls(p, [-0.01, 0.012, 0.001, -0.011, 0.009])
    assert claim(name).judge(p.evidence()).outcome == INCONCLUSIVE


@pytest.mark.parametrize(
    "name", [*STANDS_OUT, "sharpening", "orthogonal-keys", "frame-precision", "mamba-five-clusters", "roles"]
)
def test_a_network_that_has_not_learned_has_nothing_to_show(name):
    p = planted(name)
    for cell in p.cells.values():
        if "survey" in cell:
            p.score(cell["name"], "kl_bits", around(1.9))
    found = claim(name).judge(p.evidence())
    assert found.outcome == UNTESTED and "has not learned its task" in found.reasons[0]


def test_the_published_stack_has_not_learned_and_its_nulls_tell_what_that_is_worth():
    p = planted("lstm-collapse")
    for reading in p.cells["hmm-lstm"]["survey"]:
        reading["value"] = 0.26 + 0.001 * reading["where"]["seed"]
    p.score("hmm-lstm-stacked", "kl_bits", around(1.9))
    found = claim("lstm-collapse").judge(p.evidence())
    assert found.outcome == ONLY_AS and "stacked LSTM" in found.words
    for reading in p.cells["hmm-lstm-stacked"]["survey"]:
        reading["nulls"] = {"untrained": [0.99, 0.99]}
    assert claim("lstm-collapse").judge(p.evidence()).outcome == NOT


ROTATED = "random direction, equal size"


def test_roles_stand_out_from_their_own_strongest_null():
    p = planted("roles")
    assert claim("roles").judge(p.evidence()).outcome == REPRODUCED
    for reading in p.cells["hmm-transformer"]["survey"]:
        seed = reading["where"]["seed"]
        reading["nulls"] = {"untrained": [0.0], ROTATED: [reading["value"] * (1 + seed / 50)]}
    assert claim("roles").judge(p.evidence()).outcome == NOT
    for reading in p.cells["hmm-transformer"]["survey"]:
        reading["nulls"] = {}
    assert "no null to stand out from" in claim("roles").judge(p.evidence()).reasons[0]


@pytest.mark.parametrize("part", ["routing", "update", "carry"])
def test_each_role_can_fail_alone(part):
    """Carry fails although the first layers' streams, and any layer's with the header, cost three bits."""
    p = planted("roles")
    for reading in p.cells["hmm-transformer"]["survey"]:
        place = reading["where"]
        if place["role"] == part and place["layer"] in (2, "all") and place["site"] != "before it":
            reading["value"] -= 0.08
    found = claim("roles").judge(p.evidence())
    others = [f"for {role}" for role in ("routing", "update", "carry") if role != part]
    assert found.outcome == ONLY_AS and found.only_as == " and ".join(others)


def test_a_null_that_was_moved_is_read_beside_its_own_value_only():
    """As in older surveys: on few episodes nothing is lost, on all 4 bits, and so every null reads 4.  In another layer
    the nulls were not moved: pooled over layers they would take the effect of this one away, or give it one."""
    p = planted("roles")
    for reading in p.cells["hmm-transformer"]["survey"]:
        moved = 4.0 if reading["where"]["layer"] == "all" else 0.0
        reading["value"] += moved
        reading["nulls"] = {name: [moved, moved] for name in ("untrained", ROTATED)}
    assert claim("roles").judge(p.evidence()).outcome == REPRODUCED


def test_surveys_with_the_header_still_count_and_a_single_layer_does_not():
    p = planted("roles")
    survey = p.cells["hmm-transformer"]["survey"]
    survey[:] = [r for r in survey if r["where"]["site"] != "evidence before it"]
    found = claim("roles").judge(p.evidence())
    assert found.outcome == REPRODUCED and any(
        "stream of all earlier positions), after block 2" in r for r in found.reasons
    )
    survey[:] = [r for r in survey if r["where"]["role"] != "carry" or r["where"]["layer"] == 0]
    assert "needs a second layer" in claim("roles").judge(p.evidence()).reasons[0]


def test_a_recurrent_network_has_no_such_roles_and_its_state_is_told():
    p = planted("roles")
    p.reading("hmm-lstm", "bits lost without a role", around(0.4), nulls={ROTATED: [0.6, 0.6]}, role="memory")
    p.cell("hmm-lstm", model="lstm")
    found = claim("roles").judge_elsewhere(p.evidence())["hmm-lstm"]
    assert found.outcome == UNTESTED
    assert "has no attention" in found.reasons[0] and "-0.2 [" in found.reasons[0] and "costs 0.4 [" in found.reasons[0]
    assert "; its state set to the mean" in found.reasons[0]
    p.cell("hmm-lstm", model="mamba")  # whose readings may be older than the whole state
    found = claim("roles").judge_elsewhere(p.evidence())["hmm-lstm"]
    assert "its state (in surveys before revision 3: without the convolution's window) set to" in found.reasons[0]


def test_a_null_of_few_draws_is_not_a_number_without_doubt():
    """Equal twins for all seeds: what they scatter does not average out over seeds."""
    p = planted("value-manifold")
    for reading in p.cells["bijection-transformer"]["survey"]:
        reading["nulls"] = {"untrained": [0.80, 0.82, 0.84, 0.86, 0.88]}
    assert claim("value-manifold").judge(p.evidence()).outcome == REPRODUCED
    for reading in p.cells["bijection-transformer"]["survey"]:
        reading["nulls"] = {"untrained": [0.64, 0.74, 0.84, 0.94, 1.0]}  # the same mean
    assert claim("value-manifold").judge(p.evidence()).outcome == INCONCLUSIVE
    readings = p.cells["bijection-transformer"]["survey"]
    for reading in readings:
        reading["nulls"]["exact belief"] = reading["nulls"]["untrained"]
    drawn, replicated = (less_null(readings, null).noise for null in ("untrained", "exact belief"))
    assert replicated == pytest.approx(drawn * 5**0.5)  # replicates of one number are no more certain than each
    single = less_null(readings[:1], "untrained")
    assert single.high - single.low > readings[0]["high"] - readings[0]["low"]


def test_clusters_that_are_not_the_states():
    p = planted("mamba-five-clusters")
    for reading in p.cells["hmm-mamba"]["survey"]:
        if "Rand" in reading["name"]:
            reading["value"] *= 0.1
    assert claim("mamba-five-clusters").judge(p.evidence()).outcome == NOT
    p = planted("mamba-five-clusters")
    for reading in p.cells["hmm-mamba"]["survey"]:
        if reading["name"] == "clusters by silhouette":
            reading["value"] = 3.0
    assert "where the number of clusters is given" in claim("mamba-five-clusters").judge(p.evidence()).words


def test_gaps_are_judged_one_by_one_and_the_error_rate_is_kept():
    """At a true gap of four spreads, the line itself, about one verdict in twenty is wrong, to both sides together."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(1000):
        found, p_value = gap_over_spread(rng.normal(size=5), 4.0 + rng.normal(size=5), 4.0)
        assert (found.side(4.0) != "straddles") == (p_value < 0.05)
        wrong += found.side(4.0) != "straddles"
    assert 20 <= wrong <= 80
    p = Planted()
    for model, centre in (("transformer", 1e-4), ("mamba", 1e-3), ("lstm", 1.1e-3), ("mlp", 1.0)):
        p.score(f"hmm-{model}", "entropy_mae_bits", [centre * factor for factor in (0.9, 0.95, 1.0, 1.05, 1.1)])
    found = claim("seed-spread").judge(p.evidence())
    assert found.outcome == ONLY_AS
    assert found.only_as == "between transformer and mamba and between lstm and mlp"


def test_one_gap_that_is_none_refutes_though_another_straddles():
    """As told, the gap, its interval and the line are in one unit: standard deviations over seeds."""
    p = Planted()
    for model, centre in (("transformer", 1e-4), ("mamba", 1e-4), ("lstm", 1.38e-4), ("mlp", 1.0)):
        p.score(f"hmm-{model}", "entropy_mae_bits", [centre * factor for factor in (0.9, 0.95, 1.0, 1.05, 1.1)])
    found = claim("seed-spread").judge(p.evidence())
    gap = "between transformer and mamba"
    assert found.outcome == NOT and found.of == f"gap over seed spread {gap}" and found.line == 4.0
    assert found.value is not None and found.value.mean == pytest.approx(0.0, abs=1e-9)
    sizes, *gaps = found.reasons
    assert sizes.endswith("hmm-lstm 0.000138 (×/÷ 1.08), hmm-mlp 0.997 (×/÷ 1.08)")  # the seeds are not at fault
    told = {reason.split(":")[0].removeprefix("gap over seed spread "): reason for reason in gaps}
    assert told[gap].endswith("over seeds; the claim needs it above 4") and "0 [-" in told[gap]
    seeds = np.log10([0.9, 0.95, 1.0, 1.05, 1.1])
    _, p_value = gap_over_spread(seeds, seeds, 4.0)
    assert found.p_value == pytest.approx(3 * p_value)  # picked out of three gaps


def test_a_difference_of_settling_steps_is_told_no_finer_than_the_checkpoints():
    """Seeds that agree on a tenth of the distance of two checkpoints tell nothing; on twice that distance they do."""
    for shift, outcome in ((0.03, INCONCLUSIVE), (0.6, REPRODUCED)):
        p = Planted()
        for cell in ("bijection-transformer", "hmm-transformer"):
            p.summary(cell, "frame–precision dissociation", around(shift, 0.003), layer="all")
        found = claim("frame-precision").judge(p.evidence())
        assert found.outcome == outcome, found
        assert found.value is not None and found.value.noise > 0.03
