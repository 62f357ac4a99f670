"""Does changed evidence move the prediction as it moves the exact belief?  Asked of any predictor, from outside.

One past piece of evidence is changed.  With m, e the shifts (C numbers that sum to 0) of the model's and of the exact
probabilities, by lag:

    slope = Σ m·e / Σ e·e        correlation = Σ m·e / √(Σ m·m Σ e·e)

1 and 1: exact;  slope 0 beyond lag L: a memory of L + 1 steps.  Where the exact belief moves less than FAINT of what it
does at its liveliest lag there is nothing to follow, and no number is given.

Nulls: the exact shift of another episode; untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from windtunnel.errors import require
from windtunnel.fidelity.predictor import Predictor
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.chance import derangement, mismatches
from windtunnel.mechanism.estimate import measured
from windtunnel.mechanism.losses import UNTRAINED
from windtunnel.mechanism.score import predictions
from windtunnel.mechanism.worlds import flip, left_out, middle
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

LAGS = (0, 1, 2, 4, 8, 16, 32)
SHUFFLES = 199
ANOTHER = "exact shift of another episode"
FAINT = 1e-4  # root mean square; a network's own rounding and error move its prediction by more


def slope(products: np.ndarray) -> np.ndarray:
    """(…, 3) means of m·e, e·e, m·m -> Σ m·e / Σ e·e; 0 where nothing should move."""
    return products[..., 0] / np.where(products[..., 1] > 0, products[..., 1], 1.0)


def correlation(products: np.ndarray) -> np.ndarray:
    """The same -> Σ m·e / √(Σ m·m Σ e·e); 0 where nothing moves."""
    norm = np.sqrt(products[..., 1] * products[..., 2])
    return products[..., 0] / np.where(norm > 0, norm, 1.0)


@dataclass(frozen=True)
class Shifts:
    """What flips at S steps do to probabilities, the steps side by side.

    models    (P, n, S·K, C) shifts of each predictor; 0 in episodes that are left out
    exact     (n, S·K, C) shifts of the exact belief, likewise
    lag       (n, S·K) int64, see `Edited`
    possible  (n, S) bool: can the flipped episode happen?  If not it is left out as a whole
    """

    models: Float64[Tensor, "P n SK C"]
    exact: Float64[Tensor, "n SK C"]
    lag: Tensor
    possible: Tensor


def flip_shifts(predictors: Sequence[Predictor], tunnel: Tunnel, episodes: Episodes, steps: Sequence[int]) -> Shifts:
    """Shifts of each predictor's and of the exact probabilities under flips at `steps`."""
    before = [predictions(predictor, tunnel, episodes.inputs).exp() for predictor in predictors]
    belief = episodes.posterior.double()
    models, exact, lags, possible = [], [], [], []
    for step in steps:
        edited = flip(tunnel, episodes, step)
        kept = edited.episodes.possible.all(1)
        models.append(torch.zeros(len(predictors), *belief.shape, dtype=torch.float64, device=belief.device))
        exact.append(torch.zeros_like(belief))
        if kept.any():  # an exact predictor has nothing to say of the others, and no network was asked to
            changed = edited.episodes[kept]
            after = [predictions(predictor, tunnel, changed.inputs).exp() for predictor in predictors]
            models[-1][:, kept] = torch.stack([b - a[kept] for b, a in zip(after, before)])
            exact[-1][kept] = changed.posterior.double() - belief[kept]
        lags.append(edited.lag)
        possible.append(kept)
    return Shifts(torch.cat(models, 2), torch.cat(exact, 1), torch.cat(lags, 1), torch.stack(possible, 1))


def _products(model: Tensor, exact: Tensor, chosen: Tensor) -> np.ndarray:
    """(n, 3): sums of m·e, e·e, m·m over the chosen readouts of each sequence."""
    pairs = ((model, exact), (exact, exact), (model, model))
    return np.stack([((a * b).sum(-1) * chosen).sum(1).cpu().numpy() for a, b in pairs], 1)


def evidence_flip(
    model: Predictor,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[Predictor],
    *,
    steps: Sequence[int] | None = None,
    lags: Sequence[int] = LAGS,
    shuffles: int = SHUFFLES,
) -> list[Measurement | Missing]:
    """Slope and correlation of the model's shift on the exact one, by lag."""
    if steps is None:
        count = tunnel.readouts
        steps = sorted({0, count // 4, count // 2, 3 * count // 4})
    require(len(steps) > 0, "steps", steps, "at least one")
    steps = [middle(tunnel, step) for step in steps]
    found = flip_shifts([model, *untrained], tunnel, episodes, steps)
    shifts, exact, note = found.models, found.exact, left_out(found.possible)
    lag = torch.where(found.possible.repeat_interleave(tunnel.readouts, 1), found.lag, -1)
    partners = [derangement(len(episodes), 5, draw).to(exact.device) for draw in mismatches(len(episodes), shuffles)]
    gone = [wanted for wanted in lags if (found.lag == wanted).any() and not (lag == wanted).any()]
    results: list[Measurement | Missing] = [Missing(f"evidence flip, lag {wanted}", note) for wanted in gone]
    moves = {wanted: float(exact[lag == wanted].square().mean().sqrt()) for wanted in lags if (lag == wanted).any()}
    liveliest = max(moves.values(), default=0.0)
    for wanted, move in moves.items():
        chosen, where = lag == wanted, {"lag": wanted, "steps": list(steps)}
        if not move > FAINT * liveliest:
            share = f"{move / liveliest:.1g} of what it does at its liveliest lag" if move else "not at all"
            reason = f"nothing to follow: the exact belief itself moves {share}"
            results.append(Missing(f"evidence flip, lag {wanted}", reason))
            continue
        products = _products(shifts[0], exact, chosen)
        # The lags of a flip differ between episodes of some tunnels: a pair counts where both have this lag.
        shuffled = [_products(shifts[0], exact[p], chosen & chosen[p]).mean(0) for p in partners]
        blank = [_products(one, exact, chosen).mean(0) for one in shifts[1:]]
        size = np.sqrt(products.mean(0)[1:] / max(1e-300, float(chosen.double().mean(0).sum())))
        for name, statistic in (("slope", slope), ("correlation", correlation)):
            nulls = {ANOTHER: shuffled, UNTRAINED: blank}
            values = {key: [float(statistic(one)) for one in runs] for key, runs in nulls.items()}
            fields: dict[str, Any] = {"where": where, "nulls": values, "arrays": {"rms_shift_exact_model": size}}
            results.append(measured(f"evidence flip, {name}", [products], statistic, **fields, note=note))
    return results
