"""The primitives table on the real tunnels: every B stands at 0, what has the primitive at 1, whatever it lacks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import windtunnel as wt
from tests.study.micro import micro
from tests.study.planted import around
from windtunnel.errors import InputError
from windtunnel.study.plan import World
from windtunnel.study.predictors import Counter, Lookup
from windtunnel.study.primitive_shares import reference_rows, shares
from windtunnel.study.quantity import Quantity
from windtunnel.study.running import measure
from windtunnel.study.share import Share
from windtunnel.study.trials import trial
from windtunnel.tunnels import HMM, Bijection, Recall, Urn

TUNNELS = {
    "urn": Urn(),
    "bijection": Bijection(),
    "bijection-replacement": Bijection(replacement=True),
    "hmm-rotating": HMM(dynamics="rotating", mixing=(0.90, 0.97), length=64),
    "recall": Recall(),
}
PRIMITIVE = {
    "urn": "accumulation",
    "bijection": "accumulation",
    "bijection-replacement": "binding",
    "hmm-rotating": "transport",
    "recall": "binding",
}


@pytest.mark.parametrize("name", TUNNELS)
def test_reference_rows_come_out_as_constructed(name):
    rows = reference_rows(TUNNELS[name], episodes=300)
    assert {row.primitive for row in rows.values()} == {PRIMITIVE[name]}
    for told, row in rows.items():
        assert row.base_bits > 0.3  # the primitive is worth something here
        if told.startswith("B: "):
            assert row.state == "absent" and abs(row.share.mean) < 0.02, told
        elif "accumulates no more" in told:
            assert row.state == "partial", told
        else:  # lacks other primitives, has this one
            assert row.state == "realised" and row.share.mean == pytest.approx(1.0, abs=1e-9), told
    windows = [row.share.mean for told, row in rows.items() if "accumulates no more" in told]
    assert windows == sorted(windows) and bool(windows) == (name == "hmm-rotating")  # the more it gathers, the better
    assert any(told.startswith("B: ") for told in rows) and any("(no " in told for told in rows)


def test_worlds_that_are_no_evidence_have_no_trial():
    for tunnel in (HMM(), HMM(dynamics="sticky"), Recall(noise=0.2, repeats=2)):
        assert trial(tunnel) is None and reference_rows(tunnel) == {}
    with pytest.raises(InputError, match=r"must be one that tests a primitive: Urn, .*'rotating'.*study\.trial"):
        shares({}, HMM())


def test_binding_is_scored_on_seen_keys_only():
    """Lookup is useless on new keys and perfect on seen ones."""
    tunnel = Bijection(symbols=6, length=12, replacement=True)
    assert shares({"x": [Lookup(tunnel)]}, tunnel, episodes=200)["x"].share.mean == 1.0
    everywhere = wt.evaluate(Lookup(tunnel), tunnel, episodes=200).kl_bits.mean
    assert everywhere > 0.3


def test_a_share_is_a_ratio_of_means_and_not_clipped():
    tunnel = Urn(symbols=4, length=6)
    uniform, last = (wt.baselines(tunnel)[name] for name in ("uniform", "last-observation"))
    found = shares({"x": [uniform], "y": [last, Counter(tunnel)]}, tunnel, episodes=500)
    kl = {name: wt.evaluate(p, tunnel, episodes=500).kl_bits.mean for name, p in (("u", uniform), ("l", last))}
    assert found["x"].share.mean == pytest.approx(1 - kl["u"] / kl["l"], abs=1e-9) and found["x"].share.mean < 0
    assert found["x"].share.over == "sequences" and found["x"].share.low < found["x"].share.mean < found["x"].share.high
    assert found["y"].per_seed == pytest.approx((0.0, 1.0), abs=1e-9) and found["y"].share.over == "seeds"
    assert found["y"].bimodal and found["y"].successes == 1 and "1 of 2 seeds, median share 0.5" in found["y"].told


def test_chunks_do_not_matter():
    tunnel = Urn(symbols=4, length=6)
    uniform = {"x": [wt.baselines(tunnel)["uniform"]]}
    a, b = (shares(uniform, tunnel, episodes=100, chunk=chunk)["x"] for chunk in (100, 7))
    assert a.share.mean == pytest.approx(b.share.mean, abs=1e-12)
    assert (a.share.low, a.share.high) == pytest.approx((b.share.low, b.share.high), abs=1e-12)


def test_diverged_seeds_count_as_a_uniform_guess():
    """As the study has it: the guess stands in the list of networks, and how many there are is told."""
    plan, world = micro(), World("urn", Urn())
    guess, counter = wt.baselines(world.tunnel)["uniform"], Counter(Urn())
    record = measure.primitive([counter] * 3 + [guess] * 2, 2, world, plan, "cpu")
    assert record is not None and record["diverged"] == 2 and "2 diverged" in record["told"]
    alone = measure.primitive([guess], 1, world, plan, "cpu")
    assert alone is not None and alone["share"]["mean"] < 0
    assert record["per_seed"] == pytest.approx([1, 1, 1, alone["share"]["mean"], alone["share"]["mean"]])
    assert record["state"] != "realised" and record["successes"] == 3


@pytest.mark.parametrize(
    ("seeds", "state"),
    [
        (around(0.99, 0.005), "realised"),
        (around(0.5), "partial"),
        (around(0.02, 0.005), "absent"),
        (around(-3.0), "absent"),
        (around(0.95, 0.02), "unclear"),
        (around(0.10, 0.02), "unclear"),
        ([0.99, 0.01, 0.98], "unclear"),
    ],
)
def test_states(seeds, state):
    share = Share("binding", Quantity.of_seeds(seeds), 0.1, "B", 1.0, tuple(seeds))
    assert share.state == state and share.to_dict()["state"] == state
    assert Share("binding", Quantity.of_seeds(seeds), 0.1, "B", 0.29, tuple(seeds)).state == "void"


def test_lookup_is_exact_where_nothing_else_is_needed():
    tunnel = Recall(pairs=5, queries=3, filler=2, keys=8, values=8)
    assert wt.evaluate(Lookup(tunnel), tunnel, episodes=100).kl_bits.mean == 0
    for layout in ("plain", "paper"):
        tunnel = Bijection(symbols=4, length=7, replacement=True, layout=layout)
        episodes = tunnel.sample(50, stream="test")
        found = Lookup(tunnel).log_probs(episodes.inputs).exp()
        seen = tunnel.subsets(episodes)["seen"]
        assert torch.equal(found[seen], episodes.posterior[seen])
        np.testing.assert_allclose(found[~seen].numpy(), 0.25, atol=1e-15)
    assert math.isfinite(wt.evaluate(Lookup(tunnel), tunnel, episodes=50).kl_bits.mean)
