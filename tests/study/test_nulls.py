"""A number that a network without learning shows as well is no result of learning."""

from __future__ import annotations

import numpy as np
import pytest

from tests.study.planted import Planted, around
from tests.study.test_claims import PLANTS
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


def test_a_stacked_lstm_that_did_not_learn_is_told_and_left_out():
    p = planted("lstm-collapse")
    p.score("hmm-lstm-stacked", "kl_bits", around(1.9))
    found = claim("lstm-collapse").judge(p.evidence())
    assert found.outcome == REPRODUCED and "hmm-lstm-stacked has not learned" in found.reasons[-1]


def test_roles_are_read_in_single_layers_and_beyond_the_strongest_null():
    p = Planted()
    for role, site in (("routing", "at it"), ("update", "at it"), ("carry", "before it")):
        where = {"role": role, "site": site}
        p.reading("hmm-transformer", "bits lost without a role", around(0.01, 0.001), layer=0, **where)
        p.reading("hmm-transformer", "bits lost without a role", around(3.0), layer="all", **where)
    assert claim("roles").judge(p.evidence()).outcome == NOT  # all layers at once would break anything
    p = planted("roles")
    assert claim("roles").judge(p.evidence()).outcome == REPRODUCED
    for reading in p.cells["hmm-transformer"]["survey"]:
        seed = reading["where"]["seed"]
        reading["nulls"] = {"untrained": [0.0], "random direction, equal size": [reading["value"] * (1 + seed / 50)]}
    assert claim("roles").judge(p.evidence()).outcome == NOT
    for reading in p.cells["hmm-transformer"]["survey"]:
        reading["nulls"] = {}
    assert "no null to stand out from" in claim("roles").judge(p.evidence()).reasons[0]


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
        found, line, _ = gap_over_spread(rng.normal(size=5), 4.0 + rng.normal(size=5), 4.0)
        wrong += found.side(line) != "straddles"
    assert 20 <= wrong <= 80
    p = Planted()
    for model, centre in (("transformer", 1e-4), ("mamba", 1e-3), ("lstm", 1.1e-3), ("mlp", 1.0)):
        p.score(f"hmm-{model}", "entropy_mae_bits", [centre * factor for factor in (0.9, 0.95, 1.0, 1.05, 1.1)])
    found = claim("seed-spread").judge(p.evidence())
    assert found.outcome == ONLY_AS
    assert found.only_as == "between transformer and mamba and between lstm and mlp"
