"""The whole path from predictor to score: closed forms, streaming, and what is refused."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.fidelity.toys import ERRORS, ESTIMATES, Network, Reads, Shown, tempered
from windtunnel.errors import InputError
from windtunnel.fidelity import evaluate, evaluate_parts
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.fidelity.intervals import t_interval
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.fidelity.predictor import checked_log_probs
from windtunnel.training import Run
from windtunnel.tunnels import Bijection

# --- closed forms


def test_the_exact_belief_scores_zero():
    score = evaluate(Reads(), Shown(), episodes=300)
    assert score.kl_bits.mean < 1e-28
    for name in ERRORS:
        assert abs(getattr(score, name).mean) < 1e-14
    assert score.accuracy.mean == score.exact_accuracy


def test_a_uniform_guess_on_bijection_has_its_closed_form():
    """Knowing nothing costs log2 V − log2(V − k + 1) at step k, in entropy and in KL alike: 1.268 on average."""
    score = evaluate(Uniform(20), Bijection(symbols=20, length=20), episodes=200)
    expected = np.log2(20) - np.log2(20 - np.arange(20))
    for name in ("kl_bits", "entropy_mae_bits", "curve_mae_bits", "excess_log_loss_bits"):
        estimate = getattr(score, name)
        np.testing.assert_allclose(estimate.per_position, expected, atol=1e-12)
        assert estimate.mean == pytest.approx(expected.mean(), abs=1e-12)
    assert score.entropy_mae_bits.mean == pytest.approx(1.268, abs=5e-4)
    np.testing.assert_allclose(score.tv.per_position, np.arange(20) / 20, atol=1e-12)
    np.testing.assert_allclose(score.accuracy.per_position, 0.05, atol=1e-12)
    assert score.exact_accuracy == pytest.approx(np.mean(1 / (20 - np.arange(20))), abs=1e-12)
    assert score.entropy_yardstick_bits == pytest.approx(0.0, abs=1e-12)  # entropy is a function of position alone
    assert score.curve_mae_bits.floor == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(score.exact_entropy_curve, np.log2(20 - np.arange(20)), atol=1e-12)
    np.testing.assert_allclose(score.model_entropy_curve, [np.full(20, np.log2(20))], atol=1e-12)


def test_every_number_equals_a_plain_computation():
    tunnel, power = Shown(classes=3, readouts=5), 1.7
    score = evaluate(tempered(power), tunnel, episodes=400, seed=9, stream="validation", chunk=64)
    episodes = tunnel.sample(400, seed=9, stream="validation")
    p = episodes.posterior.numpy()
    q = p**power / (p**power).sum(-1, keepdims=True)
    labels = episodes.labels.numpy()[..., None]
    exact, model = (-(x * np.log2(x)).sum(-1) for x in (p, q))
    right = (q.argmax(-1) == labels[..., 0]).astype(float)
    plain = {
        "kl_bits": (p * np.log2(p / q)).sum(-1),
        "entropy_mae_bits": np.abs(model - exact),
        "tv": 0.5 * np.abs(p - q).sum(-1),
        "excess_log_loss_bits": np.log2(np.take_along_axis(p / q, labels, -1))[..., 0],
        "accuracy": right,
    }
    for name, values in plain.items():
        np.testing.assert_allclose(getattr(score, name).per_position, values.mean(0), rtol=1e-10)
        assert getattr(score, name).mean == pytest.approx(values.mean(), rel=1e-10)
    gap = model - exact
    np.testing.assert_allclose(score.curve_mae_bits.per_position, np.abs(gap.mean(0)), rtol=1e-10)
    assert score.curve_mae_bits.mean == pytest.approx(np.abs(gap.mean(0)).mean(), rel=1e-10)
    assert score.curve_mae_bits.floor == pytest.approx(0.8 * gap.std(0).mean() / 20, rel=5e-3)
    assert score.entropy_yardstick_bits == pytest.approx(np.abs(exact - np.median(exact, 0)).mean(), rel=1e-10)
    np.testing.assert_allclose(score.exact_entropy_curve, exact.mean(0), rtol=1e-12)
    np.testing.assert_allclose(score.model_entropy_curve[0], model.mean(0), rtol=1e-12)


def test_curves_can_agree_while_beliefs_do_not():
    """Each episode gets its neighbour's belief: the same entropies on average, the wrong ones everywhere."""
    score = evaluate(Reads(lambda p: p.log().roll(1, dims=0)), Shown(), episodes=500)
    assert score.curve_mae_bits.mean < 1e-12
    assert score.entropy_mae_bits.mean > 0.2
    assert score.kl_bits.mean > 0.5
    assert score.curve_mae_bits.floor is not None
    assert score.curve_mae_bits.floor > 0.005


def test_the_floor_is_what_sampling_alone_gives():
    """Beliefs drawn afresh from the same law: the true curves are equal, and what is left is the floor."""
    tunnel = Shown(readouts=300)
    stranger = Reads(lambda p: tunnel.sample(len(p), seed=77).posterior.log())
    curve = evaluate(stranger, tunnel, episodes=400, chunk=400).curve_mae_bits  # it begins anew with every chunk
    assert curve.mean == pytest.approx(curve.floor, rel=0.15)


def test_float32_predictions_are_good_to_a_billionth_of_a_bit():
    """Without renormalising, the textbook sum would be wrong by hundreds of times the promise."""
    tunnel = Shown(classes=8)

    def nearly(p: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax((1 + 1e-4) * p.log(), -1)

    rounding = Reads(lambda p: nearly(p).float())
    double, single = (evaluate(predictor, tunnel, episodes=500).kl_bits for predictor in (Reads(nearly), rounding))
    assert 1e-10 < double.mean < 1e-8
    np.testing.assert_allclose(single.per_position, double.per_position, atol=1e-11)

    episodes = tunnel.sample(500, seed=1, stream="test")
    p, rounded = episodes.posterior, nearly(episodes.posterior).float().double()
    naive = (p * (p.log() - rounded)).sum(-1) / math.log(2)
    per_readout = kl_bits(p, checked_log_probs(rounding, episodes.inputs, tunnel))
    truth = kl_bits(p, nearly(p))
    assert (per_readout - truth).abs().max() < 1e-9
    assert (naive - truth).abs().max() > 1e-8


# --- seeds and sequences


def test_one_network_is_bootstrapped_over_sequences():
    tunnel = Shown()
    score = evaluate(tempered(0.5), tunnel, episodes=2000)
    p = tunnel.sample(2000, seed=1, stream="test").posterior
    kl = kl_bits(p, torch.log_softmax(0.5 * p.log(), -1))
    half = 1.96 * kl.mean(1).std().item() / math.sqrt(2000)  # sequences are the unit, not readouts
    for name in ESTIMATES:
        estimate = getattr(score, name)
        assert estimate.over == "sequences"
        assert estimate.low < estimate.mean < estimate.high
    assert score.kl_bits.mean - score.kl_bits.low == pytest.approx(half, rel=0.2)
    assert score.kl_bits.high - score.kl_bits.mean == pytest.approx(half, rel=0.2)


def test_several_networks_give_t_intervals_over_seeds_on_the_same_episodes():
    networks = [tempered(power) for power in (0.5, 0.6, 0.5)]
    score = evaluate(networks, Shown(), episodes=300)
    alone = evaluate(networks[1], Shown(), episodes=300)
    for name in ESTIMATES:
        estimate = getattr(score, name)
        assert estimate.over == "seeds"
        assert estimate.per_seed[0] == estimate.per_seed[2]
        assert estimate.per_seed[1] == pytest.approx(getattr(alone, name).mean, rel=1e-12)
        assert estimate.mean == pytest.approx(estimate.per_seed.mean())
        scale = "linear" if name in ("accuracy", "excess_log_loss_bits") else "log"
        assert (estimate.low, estimate.high, estimate.scale) == t_interval(estimate.per_seed, scale)
    assert score.model_entropy_curve.shape == (3, 6)


def test_a_run_brings_its_own_tunnel_but_can_be_scored_elsewhere():
    run = SimpleNamespace(models=[tempered(0.5), tempered(0.7)], tunnel=Shown(readouts=3))
    assert evaluate(run, episodes=20).kl_bits.per_position.shape == (3,)
    assert evaluate(run, Shown(readouts=7), episodes=20).kl_bits.per_position.shape == (7,)


# --- streaming


def flat_numbers(value, path: str = "") -> dict[str, float]:
    """Every number in a nested structure, by its path."""
    if isinstance(value, dict):
        return {k: x for name, item in value.items() for k, x in flat_numbers(item, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {k: x for i, item in enumerate(value) for k, x in flat_numbers(item, f"{path}[{i}]").items()}
    return {path: value} if isinstance(value, int | float) else {}


@pytest.mark.parametrize("subject", [tempered(0.5), [tempered(0.5), tempered(2.0)]], ids=["one", "two"])
def test_chunks_change_no_number(subject):
    def score(chunk: int) -> dict[str, float]:
        return flat_numbers(evaluate(subject, Shown(), episodes=120, where="sure", chunk=chunk).to_dict())

    whole = score(1000)
    assert len(whole) > 100
    for chunk in (7, 50):
        assert score(chunk) == pytest.approx(whole, rel=1e-10, abs=1e-13)


def test_only_a_bounded_number_of_entropies_is_kept(monkeypatch):
    """The yardstick uses the first episodes only, whatever the chunking."""
    monkeypatch.setattr("windtunnel.fidelity.tally.RESERVOIR", 50)
    entropy = Shown().sample(50, seed=1, stream="test").entropy_bits.numpy()
    expected = np.abs(entropy - np.median(entropy, 0)).mean()
    for chunk in (13, 200):
        score = evaluate(Uniform(4), Shown(), episodes=200, chunk=chunk)
        assert score.entropy_yardstick_bits == pytest.approx(expected, rel=1e-12)


# --- networks


def test_evaluation_mode_is_set_and_every_submodule_restored():
    network = Network()
    score = evaluate(network, Shown(), episodes=50, chunk=20)
    assert network.called_in_training == [False, False, False]
    assert score.kl_bits.mean < 1e-20  # dropout was off
    assert network.training and network.dropout.training and not network.frozen.training


def test_training_mode_is_restored_after_a_failure():
    network = Network(fails=True)
    with pytest.raises(RuntimeError, match="broken inside"):
        evaluate(network, Shown(), episodes=5)
    assert network.training and network.dropout.training and not network.frozen.training


# --- what is refused


@pytest.mark.parametrize(
    ("log_q", "found"),
    [
        (lambda p: p.log()[:, :-1], "shape (8, 5, 4)"),
        (lambda p: p.log().half(), "float16"),
        (lambda p: p.log().bfloat16(), "bfloat16"),
        (lambda p: p.log().long(), "int64"),
        (lambda p: p.log() * math.nan, "NaN"),
        (lambda p: p.log() + math.inf, "+inf"),
        (lambda p: p.log() + 0.01, "logsumexp is off by 0.01"),
        (lambda p: torch.full_like(p, -math.inf), "logsumexp is off by inf"),
        (lambda p: p, "logsumexp"),  # probabilities rather than logs
        (lambda p: p.log().numpy(), "a value of type ndarray"),
    ],
)
def test_bad_predictions_are_refused_in_one_line(log_q, found):
    with pytest.raises(InputError) as error:
        evaluate(Reads(log_q), Shown(), episodes=8)
    message = str(error.value)
    assert message.startswith("Reads.log_probs returned ")
    assert found in message
    assert "float32 or float64 log-probabilities of shape (8, 6, 4)" in message
    assert "\n" not in message


def test_a_slip_in_normalisation_is_accepted_and_removed():
    """Every probability 1e-4 too large: the belief is right all the same."""
    score = evaluate(Reads(lambda p: p.log().float() + 1e-4), Shown(), episodes=100)
    assert score.kl_bits.mean < 1e-12
    assert abs(score.excess_log_loss_bits.mean) < 1e-6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"where": "nowhere"}, "one of sure, unsure"),
        ({"where": lambda e: torch.ones(3, dtype=torch.bool)}, "bool tensor of shape (10, 6)"),
        ({"where": lambda e: e.labels}, "bool tensor"),
        ({"where": lambda e: e.labels > 99}, "selects no readout"),
        ({"positions": slice(6, None)}, "0 to 5"),
        ({"positions": [6]}, "0 to 5"),
        ({"positions": []}, "0 to 5"),
        ({"positions": ["a"]}, "0 to 5"),
        ({"positions": 3}, "0 to 5"),
        ({"episodes": 0}, "episodes = 0"),
        ({"episodes": 10.0}, "episodes = 10.0"),
        ({"chunk": 0}, "chunk = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"stream": "exam"}, "one of train, validation, test"),
        ({"device": "foo"}, "device = 'foo': must be cpu, cuda or cuda:N"),
        ({"device": torch.device("meta")}, "device = 'meta': must be cpu, cuda or cuda:N"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, words):
    with pytest.raises(InputError) as error:
        evaluate(tempered(0.5), Shown(), **{"episodes": 10, **options})
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("subject", "tunnel", "words"),
    [
        (Reads(), None, "must be a tunnel"),
        (Reads(), None, "tunnels.HMM(); only a run and a network from the zoo bring their own"),
        (Reads(), "hmm", "must be a tunnel"),
        (Reads(), Shown, "must be a tunnel"),
        (Reads(), Network(), "tunnel = a value of type Network: must be a tunnel"),
        (Reads, Shown(), "subject = the class Reads: must be an instance of it"),
        ([Reads(), Reads], Shown(), "subject = the class Reads"),
        (Run, Shown(), "subject = the class Run"),
        ([], Shown(), "at least one"),
        (3, Shown(), "subject = a value of type int"),
        ([Reads(), "x"], Shown(), "subject = a value of type str"),
        ("runs/first", Shown(), "a run's folder is opened by load(…), a shipped network by zoo.load(…)"),
    ],
)
def test_bad_subjects_are_refused_in_one_line(subject, tunnel, words):
    with pytest.raises(InputError) as error:
        evaluate(subject, tunnel, episodes=10)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_absent_is_told_before_any_network_is_loaded():
    class Heavy:
        @property
        def models(self):
            raise AssertionError("loaded")

    with pytest.raises(InputError, match=r"^device = 'cuda': must be cpu: torch sees no GPU here"):
        evaluate(Heavy(), Shown(), device="cuda")
    with pytest.raises(InputError, match=r"^device = 'cuda': must be cpu: torch sees no GPU here"):
        evaluate_parts({"a": Heavy()}, Shown(), {"": None}, device="cuda")


# --- telling


def test_a_score_is_json_even_where_it_is_infinite_or_empty():
    first_only = Reads(lambda p: torch.nn.functional.one_hot(torch.zeros(p.shape[:2]).long(), 4).double().log())
    score = evaluate(first_only, Shown(), episodes=20, positions=[1])
    told = json.loads(json.dumps(score.to_dict(), allow_nan=False))
    assert score.kl_bits.mean == math.inf
    assert told["kl_bits"]["mean"] == "inf"
    assert told["kl_bits"]["per_position"][:2] == [None, "inf"]
    assert told["tv"]["over"] == "sequences"
    assert told["tunnel"] == {"type": "Shown", "classes": 4, "readouts": 6}
    assert told["subset"] == "readouts 1"
    assert told["curve_mae_bits"]["floor"] == pytest.approx(score.curve_mae_bits.floor)
    assert math.isfinite(score.entropy_mae_bits.high) and math.isfinite(score.tv.high)


def test_a_score_prints_as_a_table():
    score = evaluate([tempered(0.5), tempered(0.6)], Shown(), episodes=50)
    text = str(score)
    assert f"KL(exact‖model)    {score.kl_bits} bits" in text
    assert "2 networks, 95% interval over seeds" in text
    assert len(text.splitlines()) == 9


def test_where_it_is_only_named_a_score_takes_one_line():
    score = evaluate(tempered(0.5), Shown(), episodes=1500)
    told = repr(score)
    assert told == f"<Score KL {score.kl_bits} bits on {Shown()}, all readouts, 1,500 episodes>"
    assert repr(score.tv) == f"<Estimate {score.tv}, over sequences, 1,500 episodes>"


def test_whole_numbers_of_numpy_are_as_good_as_plain_ones():
    numbers = {"episodes": np.int64(20), "seed": np.uint32(3), "chunk": np.int16(8)}
    theirs = evaluate(Uniform(np.int64(4)), Shown(), **numbers)
    plain = evaluate(Uniform(4), Shown(), **{name: int(number) for name, number in numbers.items()})
    assert json.dumps(theirs.to_dict()) == json.dumps(plain.to_dict())
    assert type(theirs.episodes) is type(theirs.seed) is int
