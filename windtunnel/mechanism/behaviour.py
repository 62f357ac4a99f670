"""Does it behave like Bayes?  Questions any predictor can be asked, from outside.

evidence flip    change one past piece of evidence.  With m, e the shifts (C numbers that sum to 0) of the model's and
                 of the exact probabilities,  slope = Σ m·e / Σ e·e,  correlation = Σ m·e / √(Σ m·m Σ e·e),  by lag.
                 1 and 1: exact;  slope 0 beyond lag L: a memory of L + 1 steps.  Where the exact belief moves less than
                 FAINT of what it does at its liveliest lag there is nothing to follow, and no number is given.
                 Nulls: the exact shift of another episode; untrained networks.
exchangeability  reorder evidence whose order is irrelevant (HMM: rename the states).  Value: total variation between
                 the two predictions, over that between unrelated episodes.  0: exact;  1: as if it were another
                 episode.  Episodes that look the same after it say nothing and are left out.  Nulls: unrelated
                 episodes; untrained networks.
shifted prior    worlds from another prior.  Value: KL there − KL at home, bits.  Nulls: both worlds at
                 the same mean (the bootstrap noise of either); untrained networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from windtunnel.errors import InputError, require
from windtunnel.fidelity.metrics import kl_bits, total_variation
from windtunnel.fidelity.predictor import Predictor
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.chance import DRAWS, derangement, mismatches
from windtunnel.mechanism.estimate import measured, resampled_means
from windtunnel.mechanism.losses import UNTRAINED
from windtunnel.mechanism.score import predictions
from windtunnel.mechanism.worlds import exchange, flip, left_out, middle, shifted
from windtunnel.tunnels.base import Tunnel
from windtunnel.tunnels.episodes import Episodes

LAGS = (0, 1, 2, 4, 8, 16, 32)
SHUFFLES = 199
ANOTHER, EQUAL = "exact shift of another episode", "equal means"
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


def exchangeability(
    model: Predictor,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[Predictor],
    *,
    step: int | None = None,
    shuffles: int = DRAWS,
) -> list[Measurement | Missing]:
    """How much a change that must not matter moves the prediction."""
    step = middle(tunnel, step)
    edited = exchange(tunnel, episodes, step)
    differs = edited.differs(episodes)
    if differs.sum() < 2:  # of a pair each is the other's unrelated episode
        told = f"{int(differs.sum())} of {len(episodes)} episodes look otherwise after the exchange, at least 2 must"
        return [Missing("exchangeability", f"nothing to exchange at readout {step}: {told}")]
    episodes, edited, note = episodes[differs], edited[differs], _unaltered(differs)
    chosen = edited.lag >= 0

    def moved(predictor: Predictor) -> tuple[np.ndarray, list[np.ndarray]]:
        before = predictions(predictor, tunnel, episodes.inputs)
        after = predictions(predictor, tunnel, edited.episodes.inputs)
        if edited.rename is not None:
            after = after.gather(2, edited.rename[:, None, :].expand_as(after))
        drawn = mismatches(len(before), shuffles)
        partners = [derangement(len(before), 6, draw).to(before.device) for draw in drawn]
        # the exchanged worlds of other episodes, so that value and null are drawn from the same predictions
        unrelated = [_mean_over(total_variation(before.exp(), after[p]), chosen) for p in partners]
        return _mean_over(total_variation(before.exp(), after), chosen), unrelated

    change, unrelated = moved(model)
    scale = np.mean(unrelated, 0)
    if not scale.mean() > 0:
        return [Missing("exchangeability", "the prediction is the same for every episode")]
    blank = [moved(predictor) for predictor in untrained]
    nulls = {
        "unrelated episodes": [one.mean() / scale.mean() for one in unrelated],
        UNTRAINED: [one.mean() / max(1e-300, np.mean(other)) for one, other in blank],
    }
    fields = {"where": {"step": step}, "nulls": nulls, "side": "below", "arrays": {"tv": change, "unrelated": scale}}
    return [measured("change under exchange, relative", [change, scale], lambda a, b: a / b, **fields, note=note)]


def _unaltered(differs: Tensor) -> str:
    same, count = int((~differs).sum()), len(differs)
    return f"{same} of {count} episodes left out: they look the same after the exchange" if same else ""


def _mean_over(values: Tensor, chosen: Tensor) -> np.ndarray:
    return ((values * chosen).sum(1) / chosen.sum(1).clamp_min(1)).cpu().numpy()


def shifted_prior(
    model: Predictor,
    tunnel: Tunnel,
    episodes: Episodes,
    untrained: Sequence[Predictor],
    *,
    worlds: dict[str, Tunnel] | None = None,
    seed: int = 1,
) -> list[Measurement | Missing]:
    """KL in worlds of another prior, less that at home.  Their episodes come from (seed, "test")."""
    worlds = shifted(tunnel) if worlds is None else worlds
    if not worlds:
        why = f"no other prior is defined for {type(tunnel).__name__} of this layout"
        return [Missing("shifted prior", f"{why} (windtunnel.mechanism.worlds.shifted)")]

    def bits(predictor: Predictor, world: Tunnel, sample: Episodes) -> np.ndarray:
        log_q = predictions(predictor, world, sample.inputs)
        return kl_bits(sample.posterior.double(), log_q).mean(1).cpu().numpy()

    def noise(values: np.ndarray, draw: int) -> np.ndarray:
        return resampled_means(values - values.mean(), replicates=SHUFFLES, seed=draw)

    home = bits(model, tunnel, episodes)
    results: list[Measurement | Missing] = []
    for name, world in worlds.items():
        try:
            sample = world.sample(len(episodes), seed, "test", episodes.posterior.device)
            there = bits(model, world, sample)
            blank = [bits(p, world, sample).mean() - bits(p, tunnel, episodes).mean() for p in untrained]
        except InputError as error:
            results.append(Missing(f"shifted prior, {name}", str(error)))
            continue
        nulls = {EQUAL: noise(there, 2) - noise(home, 1), UNTRAINED: blank}
        arrays = {"home": home, "there": there}
        fields = {"where": {"world": name}, "unit": "bits", "nulls": nulls, "side": "both", "arrays": arrays}
        results.append(measured("KL added by a shifted prior", [there, home], lambda a, b: a - b, **fields))
    return results
