"""Metrics against answers known by hand, by high-precision arithmetic and by inequalities."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from windtunnel.fidelity import metrics


def row(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- known answers


def test_identical_distributions_are_exactly_zero_apart():
    p = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(7), size=200))
    assert (metrics.kl_bits(p, p.log()) == 0).all()
    assert metrics.total_variation(p, p.log()).max() < 1e-15


@pytest.mark.parametrize(
    ("p", "q", "kl", "tv"),
    [
        ((0.5, 0.5), (0.25, 0.75), 0.5 * math.log2(4 / 3), 0.25),
        ((0.75, 0.25), (0.5, 0.5), 1 - (0.75 * math.log2(4 / 3) + 0.25 * 2), 0.25),
        ((1.0, 0.0), (0.125, 0.875), 3.0, 0.875),  # a point mass
        ((0.5, 0.5, 0.0), (0.25, 0.25, 0.5), 1.0, 0.5),  # mass where there should be none
        ((0.0, 1.0), (0.0, 1.0), 0.0, 0.0),
        ((0.5, 0.5), (1.0, 0.0), math.inf, 0.5),  # rules out what is possible
        ((1e-310, 1.0), (0.5, 0.5), 1.0, 0.5),  # log(q/p) beyond what exp can hold
        ((1e-299, 1.0), (0.0, 1.0), math.inf, 5e-300),  # hardly possible, but float64 has all its digits …
        ((1e-301, 1.0), (0.0, 1.0), 0.0, 5e-302),  # … and where it may have lost some, 0 is as good an answer
        ((5e-324, 1.0), (0.0, 1.0), 0.0, 0.0),
    ],
)
def test_hand_computed_pairs(p, q, kl, tv):
    p, log_q = row(*p), row(*q).log()
    assert metrics.kl_bits(p, log_q).item() == pytest.approx(kl, rel=1e-14, abs=0)
    assert metrics.total_variation(p, log_q).item() == pytest.approx(tv, rel=1e-14, abs=0)


def test_entropy_of_belief_and_model():
    q = torch.stack([row(0.5, 0.25, 0.25, 0.0), row(1.0, 0.0, 0.0, 0.0), row(0.25, 0.25, 0.25, 0.25)])
    expected = row(1.5, 0.0, 2.0)
    torch.testing.assert_close(metrics.model_entropy_bits(q.log()), expected, rtol=1e-15, atol=1e-15)
    torch.testing.assert_close(metrics.entropy_bits(q), expected, rtol=1e-15, atol=1e-15)


def test_log_loss_and_its_excess():
    log_q = torch.stack([row(0.5, 0.25, 0.25), row(0.5, 0.25, 0.25), row(0.0, 1.0, 0.0)]).log()
    p = torch.stack([row(0.25, 0.25, 0.5), row(1.0, 0.0, 0.0), row(0.5, 0.5, 0.0)])
    labels = torch.tensor([1, 0, 0])
    torch.testing.assert_close(metrics.log_loss_bits(log_q, labels), row(2.0, 1.0, math.inf))
    torch.testing.assert_close(metrics.excess_log_loss_bits(p, log_q, labels), row(0.0, 1.0, math.inf))


def test_accuracy_shares_ties():
    scores = torch.stack([row(0.1, 0.7, 0.2), row(0.1, 0.7, 0.2), row(0.4, 0.2, 0.4), row(0.4, 0.2, 0.4)])
    assert metrics.accuracy(scores.log(), torch.tensor([1, 0, 0, 1])).tolist() == [1.0, 0.0, 0.5, 0.0]
    uniform = torch.full((20, 20), -math.log(20), dtype=torch.float64)
    torch.testing.assert_close(metrics.accuracy(uniform, torch.arange(20)), torch.full((20,), 0.05).double())


def test_every_metric_is_elementwise():
    generator = np.random.default_rng(0)
    p, q = (torch.from_numpy(generator.dirichlet(np.ones(5), size=(3, 4))) for _ in range(2))
    log_q = q.log()
    labels = torch.from_numpy(generator.integers(5, size=(3, 4)))
    whole = [
        metrics.kl_bits(p, log_q),
        metrics.total_variation(p, log_q),
        metrics.excess_log_loss_bits(p, log_q, labels),
        metrics.accuracy(log_q, labels),
        metrics.model_entropy_bits(log_q),
    ]
    one = [
        metrics.kl_bits(p[1, 2], log_q[1, 2]),
        metrics.total_variation(p[1, 2], log_q[1, 2]),
        metrics.excess_log_loss_bits(p[1, 2], log_q[1, 2], labels[1, 2]),
        metrics.accuracy(log_q[1, 2], labels[1, 2]),
        metrics.model_entropy_bits(log_q[1, 2]),
    ]
    for all_values, value in zip(whole, one, strict=True):
        assert all_values.shape == (3, 4)
        assert all_values[1, 2].item() == pytest.approx(value.item(), rel=1e-13)


def test_what_is_no_number_stays_none():
    """0/0 is no belief: nothing measured against it may look like a distance."""
    nothing, sure, labels = row(math.nan, math.nan), row(0.25, 0.75), torch.tensor(0)
    found = [
        metrics.kl_bits(nothing, sure.log()),
        metrics.kl_bits(sure, nothing),
        metrics.kl_bits(row(1.0, 0.0), nothing),
        metrics.kl_bits(row(math.nan, 0.0), sure.log()),
        metrics.kl_bits(row(5e-324, 1.0), row(math.nan, 0.0)),
        metrics.entropy_bits(nothing),
        metrics.model_entropy_bits(nothing),
        metrics.total_variation(nothing, sure.log()),
        metrics.total_variation(sure, nothing),
        metrics.log_loss_bits(nothing, labels),
        metrics.excess_log_loss_bits(nothing, sure.log(), labels),
        metrics.accuracy(nothing, labels),
    ]
    assert all(math.isnan(value.item()) for value in found)
    both = metrics.kl_bits(torch.stack([nothing, sure]), torch.stack([sure, sure]).log())
    assert both[0].isnan() and both[1] == 0  # its neighbour is not touched


# --- stability near zero


@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-6, 1e-7, 1e-8])
def test_small_kl_agrees_with_fifty_digits(size):
    """Relative perturbations of 1e-8 are a KL of about 1e-16 bits, seven orders below the promise of 1e-9."""
    generator = np.random.default_rng(3)
    with mpmath.workdps(50):
        for _ in range(20):
            p = generator.dirichlet(np.ones(6))
            exact_p = [mpmath.mpf(x) for x in p]
            exact_p = [x / mpmath.fsum(exact_p) for x in exact_p]
            noise = generator.standard_normal(6)
            exact_q = [x * (1 + size * mpmath.mpf(e)) for x, e in zip(exact_p, noise, strict=True)]
            exact_q = [x / mpmath.fsum(exact_q) for x in exact_q]
            log_q = row(*(float(mpmath.log(x)) for x in exact_q))
            kl = mpmath.fsum(x * mpmath.log(x / y, 2) for x, y in zip(exact_p, exact_q, strict=True))
            assert metrics.kl_bits(torch.from_numpy(p), log_q).item() == pytest.approx(float(kl), rel=1e-5, abs=0)


@pytest.mark.parametrize("leak", [1e-3, 1e-9, 1e-12, 1e-15])
def test_small_kl_at_a_point_mass(leak):
    """−log2(1 − leak), where 1 − leak itself has few digits left."""
    log_q = torch.stack([torch.log1p(row(-leak))[0], row(leak).log()[0]])
    expected = -math.log1p(-leak) / math.log(2)
    assert metrics.kl_bits(row(1.0, 0.0), log_q).item() == pytest.approx(expected, rel=1e-9, abs=0)


# --- properties


@st.composite
def distribution_pairs(draw):
    """Two distributions over the same 2 … 6 classes, with zeros, and at most 1e12 between the weights."""
    classes = draw(st.integers(2, 6))
    weight = st.one_of(st.just(0.0), st.floats(1e-12, 1.0))
    weights = st.lists(weight, min_size=classes, max_size=classes).filter(lambda w: sum(w) > 0)
    p, q = (row(*draw(weights)) for _ in range(2))
    return p / p.sum(), q / q.sum()


@given(distribution_pairs())
def test_kl_is_a_divergence_that_bounds_total_variation(pair):
    p, q = pair
    kl = metrics.kl_bits(p, q.log()).item()
    tv = metrics.total_variation(p, q.log()).item()
    assert kl >= 0
    assert tv <= math.sqrt(kl * math.log(2) / 2) + 1e-12  # Pinsker
    assert (kl == math.inf) == bool(((p > 0) & (q == 0)).any())
    if kl < math.inf:
        chi_square = ((p - q) ** 2 / torch.where(q > 0, q, 1.0)).sum().item()
        assert kl <= math.log2(1 + chi_square) + 1e-12


@given(distribution_pairs())
def test_entropy_gap_is_bounded_by_total_variation(pair):
    """|H(p) − H(q)| ≤ TV log2(C − 1) + h(TV): equal beliefs cannot differ in entropy."""
    p, q = pair
    tv = metrics.total_variation(p, q.log()).clamp(0, 1)
    gap = (metrics.entropy_bits(p) - metrics.model_entropy_bits(q.log())).abs().item()
    binary = metrics.entropy_bits(torch.stack([tv, 1 - tv])).item()
    assert gap <= tv.item() * math.log2(max(len(p) - 1, 1)) + binary + 1e-9


@given(distribution_pairs())
def test_kl_equals_its_textbook_formula(pair):
    p, q = pair
    if ((p > 0) & (q == 0)).any():
        return
    textbook = sum(a * math.log2(a / b) for a, b in zip(p.tolist(), q.tolist(), strict=True) if a > 0)
    assert metrics.kl_bits(p, q.log()).item() == pytest.approx(textbook, rel=1e-9, abs=1e-12)
