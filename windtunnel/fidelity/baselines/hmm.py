"""HMM baselines: filters that forget, that never look, or that never read the transition matrix.

Each computes a belief about the hidden state and, when the tunnel predicts symbols, pushes and emits it with the
transition matrix it believes in.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from windtunnel.errors import keep_number, keep_whole_number, require_choice
from windtunnel.fidelity.baselines.common import Baseline
from windtunnel.fidelity.metrics import kl_bits
from windtunnel.fidelity.predictor import Predictor
from windtunnel.tunnels.episodes import Inputs
from windtunnel.tunnels.filtering import forward_filter, likelihoods, predict_symbols, push
from windtunnel.tunnels.hmm import HMM

WINDOWS = (1, 2, 3, 4, 8)
TUNING_EPISODES = 4096


@dataclass(frozen=True)
class _Filter(Baseline):
    """Shared shape: read the inputs, form beliefs (K, S, n), and turn them into log-probabilities (n, K, C)."""

    kind: ClassVar = HMM
    tunnel: HMM

    @property
    def reads(self) -> tuple[str, ...]:
        """How the matrices are stated, or they themselves, and what is asked."""
        return ("states", "symbols", "header", "transition", "emission", "predict")

    def _predict(self, inputs: Inputs) -> Tensor:
        """(n, K, C) natural log."""
        transition, emission, observations = self.tunnel.read(inputs)
        transition, emission = (matrix.double().permute(1, 2, 0) for matrix in (transition, emission))
        transition = self._believed(transition)
        belief = self._beliefs(transition, likelihoods(emission, observations.T))
        if self.tunnel.predict == "symbol":
            belief = predict_symbols(belief, transition, emission)
        return torch.log(belief.permute(2, 0, 1))

    def _believed(self, transition: Tensor) -> Tensor:
        return transition

    @abstractmethod
    def _beliefs(self, transition: Tensor, likelihood: Tensor) -> Tensor:
        """Beliefs (K, S, n) from transition (S, S, n) and likelihood (K, S, n)."""


@dataclass(frozen=True)
class Marginal(_Filter):
    """Header only: pushes the uniform start through T, ignores every observation."""

    def _beliefs(self, transition: Tensor, likelihood: Tensor) -> Tensor:
        return marginals(transition, len(likelihood))


@dataclass(frozen=True)
class WindowFilter(_Filter):
    """The exact filter on only the last `window` observations.

    The belief before the window's first observation is uniform, or the marginal of that step (header only).
    """

    window: int
    restart: Literal["uniform", "marginal"] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole_number(self, "window", 1)
        require_choice("restart", self.restart, ("uniform", "marginal"))

    def _beliefs(self, transition: Tensor, likelihood: Tensor) -> Tensor:
        """All windows at once: step j of every window is one batched update over the start positions."""
        steps, states, count = likelihood.shape
        window = min(self.window, steps)
        # Steps before the window is full see everything from the start: exactly the forward filter.
        beginning = forward_filter(transition, likelihood[:window])
        if self.restart == "marginal":
            prior = marginals(transition, steps)
        else:
            prior = torch.full_like(likelihood, 1.0 / states)
        starts = steps - window + 1
        alpha = _normalise(prior[:starts] * likelihood[:starts])
        for offset in range(1, window):
            alpha = torch.einsum("ksn,sjn->kjn", alpha, transition)
            alpha = _normalise(alpha * likelihood[offset : offset + starts])
        return torch.cat([beginning[:-1], alpha])


@dataclass(frozen=True)
class BlindFilter(_Filter):
    """A filter that never reads T: it believes in (1 − ε)·I + ε/S, with ε tuned on validation episodes.

    ε = 1 forgets at every step and is the emission-only `window-1`; so a tuned filter can only gain on it.
    """

    epsilon: float | None = None
    """In [0, 1]; leave None to tune it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            keep_number(self, "epsilon", 0, 1)

    @property
    def reads(self) -> tuple[str, ...]:
        """Tuned, the prior too."""
        prior = ("dynamics", "mixing", "concentration", "prior") if self.epsilon is None else ()
        return (*super().reads, *prior)

    def _believed(self, transition: Tensor) -> Tensor:
        states = self.tunnel.states
        epsilon = tuned_epsilon(self.tunnel) if self.epsilon is None else self.epsilon
        identity = torch.eye(states, dtype=transition.dtype, device=transition.device)
        return ((1.0 - epsilon) * identity + epsilon / states)[..., None].expand_as(transition)

    def _beliefs(self, transition: Tensor, likelihood: Tensor) -> Tensor:
        return forward_filter(transition, likelihood)


@lru_cache(maxsize=64)
def tuned_epsilon(tunnel: HMM) -> float:
    """The ε in [1e-4, 1] that gives the T-blind filter its lowest KL on the validation stream."""
    sample = tunnel.sample(TUNING_EPISODES, seed=0, stream="validation")

    def cost(epsilon: float) -> float:
        log_probs = BlindFilter(tunnel, epsilon=float(epsilon)).log_probs(sample.inputs)
        return float(kl_bits(sample.posterior, log_probs).mean())

    best = minimize_scalar(cost, bounds=(1e-4, 1.0), method="bounded", options={"xatol": 1e-4})
    return 1.0 if cost(1.0) <= float(best.fun) else float(best.x)  # a bounded search never tries the end itself


def marginals(transition: Tensor, steps: int) -> Tensor:
    """(K, S, n): P(s_t) for t = 1 … K from a uniform start, no observation used.  transition (S, S, n)."""
    belief = torch.full_like(transition[0], 1.0 / len(transition))
    out = [belief]
    for _ in range(steps - 1):
        belief = push(belief, transition)
        out.append(belief)
    return torch.stack(out)


def _normalise(belief: Tensor) -> Tensor:
    return belief / belief.sum(-2, keepdim=True)


def hmm_baselines(tunnel: HMM) -> dict[str, Predictor]:
    """Name -> predictor."""
    found: dict[str, Predictor] = {"marginal": Marginal(tunnel)}
    for window in WINDOWS:
        found[f"window-{window}"] = WindowFilter(tunnel, window)
    for window in WINDOWS:
        found[f"window-{window}-marginal"] = WindowFilter(tunnel, window, "marginal")
    found["t-blind"] = BlindFilter(tunnel)
    return found
