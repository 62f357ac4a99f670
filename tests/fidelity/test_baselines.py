"""Baselines against one-episode-at-a-time twins, and against the numbers they are known to score."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import windtunnel as wt
from windtunnel.errors import InputError
from windtunnel.fidelity.baselines.bijection import LastPair, ValueSets
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.fidelity.baselines.hmm import BlindFilter, Marginal, WindowFilter, tuned_epsilon
from windtunnel.fidelity.baselines.recall import StoredValues
from windtunnel.fidelity.baselines.urn import LastDraw
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.tunnels import HMM, Bijection, Recall, Urn


def naive_filter(transition, emission, observations, prior):
    """Forward filter over one episode's observations, in NumPy; the belief after the last one."""
    belief = prior
    for t, symbol in enumerate(observations):
        belief = (belief @ transition if t else belief) * emission[:, symbol]
        belief = belief / belief.sum()
    return belief


@pytest.mark.parametrize("restart", ["uniform", "marginal"])
@pytest.mark.parametrize("window", [1, 3, 7, 20])
@pytest.mark.parametrize("options", [{}, {"prior": "released", "header": "tokens"}], ids=["rows", "tokens"])
def test_window_filter_equals_its_naive_twin(window, restart, options):
    tunnel = HMM(states=4, symbols=3, length=7, **options)
    episodes = tunnel.sample(5, seed=2, stream="test")
    found = WindowFilter(tunnel, window, restart).log_probs(episodes.inputs).exp().numpy()
    for i in range(5):
        transition, emission = (episodes.latent[name][i].numpy() for name in ("transition", "emission"))
        observations = episodes.latent["observations"][i].tolist()
        for t in range(7):
            first = max(0, t - window + 1)
            prior = np.full(4, 0.25)
            if restart == "marginal":
                prior = prior @ np.linalg.matrix_power(transition, first)
            expected = naive_filter(transition, emission, observations[first : t + 1], prior)
            np.testing.assert_allclose(found[i, t], expected, atol=1e-12)


@pytest.mark.parametrize("predict", ["state", "symbol"])
def test_a_window_over_everything_is_exact(predict):
    tunnel = HMM(length=12, predict=predict)
    episodes = tunnel.sample(50, seed=0, stream="test")
    found = WindowFilter(tunnel, 12).log_probs(episodes.inputs).exp()
    torch.testing.assert_close(found, episodes.posterior, atol=1e-12, rtol=0)


def test_marginal_ignores_observations():
    tunnel = HMM(length=6)
    episodes = tunnel.sample(20, seed=0, stream="test")
    found = Marginal(tunnel).log_probs(episodes.inputs).exp()
    start = torch.full((20, 1, 5), 0.2, dtype=torch.float64)
    for t in range(6):
        power = torch.linalg.matrix_power(episodes.latent["transition"], t)
        torch.testing.assert_close(found[:, t], (start @ power)[:, 0], atol=1e-12, rtol=0)


def test_blind_filter_never_reads_the_transition_matrix():
    tunnel = HMM(length=6)
    episodes = tunnel.sample(20, seed=0, stream="test")
    edited = {**episodes.latent, "transition": episodes.latent["transition"].roll(1, 1)}
    blind = BlindFilter(tunnel, epsilon=0.3)
    assert torch.equal(blind.log_probs(episodes.inputs), blind.log_probs(tunnel.episodes(edited).inputs))


def test_bijection_uniform_equals_its_closed_form():
    score = wt.evaluate(wt.baselines(Bijection())["uniform"], Bijection(), episodes=200)
    expected = np.mean([math.log2(20) - math.log2(20 - k) for k in range(20)])
    assert score.entropy_mae_bits.mean == pytest.approx(expected, abs=1e-12)
    assert score.entropy_mae_bits.mean == pytest.approx(1.268, abs=5e-4)
    assert score.kl_bits.mean == pytest.approx(expected, abs=1e-12)
    assert score.accuracy.mean == pytest.approx(0.05, abs=1e-12)


@pytest.mark.parametrize("layout", ["plain", "paper"])
def test_set_complement_is_exact_without_replacement_and_impossible_with(layout):
    once = Bijection(symbols=6, length=6, layout=layout)
    assert wt.evaluate(wt.baselines(once)["set-complement"], once, episodes=100).kl_bits.mean == 0
    again = Bijection(symbols=6, length=12, replacement=True, layout=layout)
    blind = wt.baselines(again)["set-complement"]
    assert wt.evaluate(blind, again, episodes=100).kl_bits.mean == math.inf
    assert wt.evaluate(blind, again, episodes=100, where="unseen").kl_bits.mean == 0


def test_familiarity_knows_sets_but_not_bindings():
    """On a seen key its KL is log2 d, d the number of distinct values shown; on a new one it is exact."""
    tunnel = Bijection(symbols=6, length=12, replacement=True)
    episodes = tunnel.sample(300, seed=4, stream="test")
    log_probs = wt.baselines(tunnel)["familiarity"].log_probs(episodes.inputs)
    truth = log_probs.gather(2, episodes.labels[..., None])[..., 0] / math.log(2)
    keys = episodes.latent["keys"]
    for i in range(300):
        for t in range(12):
            before = set(keys[i, :t].tolist())
            choices = len(before) if int(keys[i, t]) in before else 6 - len(before)
            assert -float(truth[i, t]) == pytest.approx(math.log2(choices), abs=1e-12)


def test_last_observation_of_an_urn_is_exact_at_the_first_draw():
    """After one draw there is nothing else to know; later its KL is what counting is worth."""
    tunnel = Urn(symbols=4, length=6, concentration=0.5)
    last = wt.baselines(tunnel)["last-observation"]
    assert wt.evaluate(last, tunnel, episodes=200, positions=[0]).kl_bits.mean == pytest.approx(0, abs=1e-15)
    episodes = tunnel.sample(3, seed=0, stream="test")
    found = last.log_probs(episodes.inputs).exp()
    for i in range(3):
        for t, colour in enumerate(tunnel.read(episodes.inputs)[i].tolist()):
            expected = [(0.5 + (v == colour)) / 3 for v in range(4)]
            np.testing.assert_allclose(found[i, t].numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("replacement", "layout"), [(False, "plain"), (True, "paper")])
def test_last_observation_of_a_bijection_knows_one_pair(replacement, layout):
    tunnel = Bijection(symbols=5, length=5, replacement=replacement, layout=layout)
    episodes = tunnel.sample(50, seed=1, stream="test")
    found = wt.baselines(tunnel)["last-observation"].log_probs(episodes.inputs).exp()
    keys, values = (episodes.latent[name].tolist() for name in ("keys", "values"))
    for i in range(50):
        for t in range(5):
            expected = np.full(5, 0.2)
            if t:
                same = keys[i][t] == keys[i][t - 1]
                expected = np.eye(5)[values[i][t - 1]] if same else (1 - np.eye(5)[values[i][t - 1]]) / 4
            np.testing.assert_allclose(found[i, t].numpy(), expected, atol=1e-12)


def test_what_accumulation_is_worth():
    """Without it at least 0.3 bits are lost, so that a share of them means something."""
    for tunnel in (Urn(), Bijection()):
        score = wt.evaluate(wt.baselines(tunnel)["last-observation"], tunnel, episodes=2000)
        assert score.kl_bits.low > 0.3


def test_stored_values_is_uniform_over_the_store():
    tunnel = Recall(pairs=8, queries=2, filler=3, keys=16, values=16)
    score = wt.evaluate(wt.baselines(tunnel)["stored-values"], tunnel, episodes=200)
    assert score.kl_bits.mean == pytest.approx(3.0, abs=1e-12)
    noisy = Recall(pairs=8, queries=2, filler=3, keys=16, values=16, noise=0.3, repeats=2)
    kl = wt.evaluate(wt.baselines(noisy)["stored-values"], noisy, episodes=200).kl_bits.mean
    assert 0 < kl < wt.evaluate(wt.baselines(noisy)["uniform"], noisy, episodes=200).kl_bits.mean


def test_released_prior_scores_the_known_numbers():
    """Per-sequence entropy error on the released prior at K = 20: uniform 0.414, window 1/2/3 0.159/0.047/0.0145."""
    tunnel = HMM(prior="released")
    known = {"uniform": 0.414, "marginal": 0.33, "window-1": 0.159, "window-2": 0.047, "window-3": 0.0145}
    known |= {"window-1-marginal": 0.080, "window-2-marginal": 0.025}
    predictors = wt.baselines(tunnel)
    for name, expected in known.items():
        score = wt.evaluate(predictors[name], tunnel, episodes=8000)
        assert score.entropy_mae_bits.mean == pytest.approx(expected, rel=0.04), name
        assert score.entropy_yardstick_bits == pytest.approx(0.186, abs=0.004)
        if name in ("uniform", "window-2"):
            assert score.entropy_mae_bits.mean == pytest.approx(expected, abs=0.004 if name == "uniform" else 0.002)


def test_rotating_chains_defeat_the_blind_filter_and_sticky_ones_do_not():
    """Transport: without T nothing is gained on rotating chains; on sticky ones nearly everything is."""
    for dynamics, gains in (("rotating", False), ("sticky", True)):
        tunnel = HMM(dynamics=dynamics, mixing=(0.90, 0.97))
        blind, emission_only = (
            wt.evaluate(wt.baselines(tunnel)[name], tunnel, episodes=3000).kl_bits.mean
            for name in ("t-blind", "window-1")
        )
        if gains:
            assert blind < 0.2 * emission_only
        else:
            assert blind >= emission_only - 1e-9
            assert tuned_epsilon(tunnel) == 1.0


def test_underflow_on_sharp_chains_decides_no_mean():
    """Rows of Dirichlet(0.002) reach 1e-320; the window's product of them may be 0 where the exact belief's is not."""
    tunnel = HMM(concentration=0.002)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the search for ε must not meet an infinite cost either
        assert 0 < tuned_epsilon(tunnel) < 1
    episodes = tunnel.sample(4096, stream="validation")
    log_q = WindowFilter(tunnel, 1).log_probs(episodes.inputs)
    assert bool(((episodes.posterior > 0) & log_q.isneginf()).any())  # the accident is in this sample
    assert float(kl_bits(episodes.posterior, log_q).mean()) == pytest.approx(0.599, abs=0.001)


def test_equivalent_window_finds_windows():
    tunnel = HMM(length=12)
    for window in (1, 3):
        score = wt.evaluate(WindowFilter(tunnel, window), tunnel, episodes=1000)
        assert wt.equivalent_window(score) == pytest.approx(window, abs=0.05)
    assert wt.equivalent_window(wt.evaluate(wt.baselines(tunnel)["uniform"], tunnel, episodes=1000)) == pytest.approx(0)
    with pytest.raises(ValueError, match="window"):
        wt.equivalent_window(wt.evaluate(wt.baselines(Bijection())["uniform"], Bijection(), episodes=10))


# --- what is refused
SMALL = [Bijection(symbols=6, length=4), HMM(states=3, symbols=3, length=4), Recall(pairs=4, keys=8, values=8), Urn()]
every_world = pytest.mark.parametrize("tunnel", SMALL, ids=lambda tunnel: type(tunnel).__name__)


@every_world
def test_baselines_read_inputs_and_nothing_else(tunnel):
    episodes = tunnel.sample(2)
    for name, baseline in wt.baselines(tunnel).items():
        for other in (episodes, tunnel, episodes.inputs.tokens):
            with pytest.raises(InputError, match=r"^inputs = .*: must be the inputs of episodes, episodes\.inputs$"):
                baseline.log_probs(other)
        assert baseline.log_probs(episodes.inputs).shape == episodes.posterior.shape, name


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (LastPair, "Bijection"),
        (lambda tunnel: ValueSets(tunnel, "familiarity"), "Bijection"),
        (Marginal, "HMM"),
        (lambda tunnel: WindowFilter(tunnel, 2), "HMM"),
        (BlindFilter, "HMM"),
        (StoredValues, "Recall"),
        (LastDraw, "Urn"),
    ],
)
def test_baselines_are_made_for_one_kind_of_tunnel_and_nothing_else(build, kind):
    for other in (SMALL[1].sample(2), *(tunnel for tunnel in SMALL if type(tunnel).__name__ != kind)):
        with pytest.raises(InputError, match=rf"^tunnel = .*: must be a tunnel of the kind {kind}$"):
            build(other)
    with pytest.raises(InputError, match=r"^classes = Urn\(.*\): must be a whole number of at least 1$"):
        Uniform(Urn())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^rule = 'sets': must be one of set-complement, familiarity$"):
        ValueSets(SMALL[0], "sets")  # type: ignore[arg-type]


def test_the_leak_of_a_blind_filter_is_a_probability():
    tunnel, inputs = SMALL[1], SMALL[1].sample(4).inputs
    for epsilon in (5.0, -0.1, float("nan"), "0.5", True):
        with pytest.raises(InputError, match=r"^epsilon = .*: must be a number in \[0, 1\]$"):
            BlindFilter(tunnel, epsilon=epsilon)  # type: ignore[arg-type]
    for epsilon in (0, 1, np.float32(0.5)):
        assert not BlindFilter(tunnel, epsilon=epsilon).log_probs(inputs).isnan().any()


@every_world
def test_baselines_are_not_scored_on_another_tunnel(tunnel):
    for baseline in list(wt.baselines(tunnel).values())[1:]:  # a uniform guess is one anywhere
        for other in SMALL:
            if other is not tunnel:
                with pytest.raises(InputError, match=r"^the model's \w+ = \d+: must be the tunnel's \d+$"):
                    wt.evaluate(baseline, other, episodes=4)


RECALL = Recall(pairs=8, queries=2, filler=3, keys=16, values=16)
ROWS = ((0.5, 0.5), (0.1, 0.9))
FIXED = HMM(states=2, symbols=2, length=4, header=None, transition=ROWS, emission=ROWS)


@pytest.mark.parametrize(
    ("tunnel", "name", "change", "told"),
    [
        (RECALL, "stored-values", {"pairs": 4}, "the baseline's pairs = 8: must be the tunnel's 4"),
        (RECALL, "stored-values", {"repeats": 2}, "the baseline's repeats = 1: must be the tunnel's 2"),
        (RECALL, "stored-values", {"noise": 0.3}, "the baseline's noise = 0.0: must be the tunnel's 0.3"),
        (RECALL, "stored-values", {"keys": 20, "values": 12}, "the model's classes = 16: must be the tunnel's 12"),
        (
            Bijection(symbols=6, length=4),
            "set-complement",
            {"replacement": True},
            "the baseline's replacement = False: must be the tunnel's True",
        ),
        (
            Urn(),
            "last-observation",
            {"concentration": 2.0},
            "the baseline's concentration = 0.2: must be the tunnel's 2",
        ),
        (HMM(), "window-2", {"predict": "symbol"}, "the baseline's predict = 'state': must be the tunnel's 'symbol'"),
        (
            HMM(),
            "t-blind",
            {"dynamics": "sticky"},
            "the baseline's dynamics = 'dirichlet': must be the tunnel's 'sticky'",
        ),
        (
            FIXED,
            "marginal",
            {"transition": ROWS[::-1]},
            r"the baseline's transition = \(\(0\.5, .*: must be the tunnel's",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_baselines_are_not_scored_on_another_tunnel_of_their_kind(tunnel, name, change, told):
    """Where they would predict something else than their namesake there: a traceback, or another number."""
    baseline = wt.baselines(tunnel)[name]
    with pytest.raises(InputError, match=f"^{told}"):
        wt.evaluate(baseline, replace(tunnel, **change), episodes=4)


@pytest.mark.parametrize(
    ("tunnel", "change"),
    [
        (RECALL, {"filler": 9, "queries": 3}),
        (Bijection(symbols=6, length=4), {"length": 6}),
        (Urn(), {"length": 30}),
        (HMM(), {"length": 30}),
        (FIXED, {"length": 30}),
    ],
    ids=repr,
)
def test_baselines_are_scored_where_they_predict_the_same(tunnel, change):
    other = replace(tunnel, **change)
    for name in list(wt.baselines(tunnel)):
        if name != "t-blind":  # tuned on the length it was made for
            scores = [
                wt.evaluate(wt.baselines(made)[name], other, episodes=20).kl_bits.mean for made in (tunnel, other)
            ]
            assert scores[0] == scores[1], name
    if isinstance(tunnel, HMM) and tunnel.header:
        rotating = replace(tunnel, dynamics="rotating")  # its header says so
        assert wt.evaluate(WindowFilter(tunnel, 2), rotating, episodes=20).kl_bits.mean > 0
        assert wt.evaluate(BlindFilter(tunnel, epsilon=0.5), rotating, episodes=20).kl_bits.mean > 0


def test_baselines_are_not_scored_on_another_kind_of_the_same_sizes():
    still, shown = torch.eye(10), torch.eye(10, 11)
    alike = HMM(states=10, symbols=11, header=None, transition=still, emission=shown)
    assert (alike.vocabulary, alike.feature_width, alike.classes) == (Urn().vocabulary, 0, Urn().classes)
    with pytest.raises(InputError, match=r"^tunnel = HMM\(.*: must be of the baseline's kind, Urn$"):
        wt.evaluate(LastDraw(Urn()), alike, episodes=4)
