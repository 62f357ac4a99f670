"""What is said when a training breaks: numbers that are not finite, or code of the user's own that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from windtunnel.accidents import accident, is_of_memory
from windtunnel.errors import InputError
from windtunnel.models.registry import is_ours
from windtunnel.training.folder import RunFolder
from windtunnel.training.network import Network
from windtunnel.training.seed_folder import SeedFolder
from windtunnel.tunnels.checking import is_foreign


class Diverged(InputError):
    """Loss, weights or predictions of one seed were no longer numbers.

    seed     whose
    found    what was found and what is left, without the advice, which a study follows by itself
    at_once  with the first weights: the model gives no numbers, whatever the learning rate
    """

    def __init__(self, found: str, seed: int, advice: str = "", at_once: bool = False) -> None:
        super().__init__(f"{found}; {advice}" if advice else found)
        self.found, self.seed, self.at_once = found, seed, at_once


def diverged(network: Network, folder: RunFolder | None, what: str, step: int) -> Diverged:
    """The error for what broke at a step: what is left of the seed, and what to try."""
    recipe = network.recipe
    left = "there is no checkpoint" if folder is None else _left(folder.seed(network.seed), step)
    found = f"seed {network.seed}: {what}; {left}"
    if step == 0:  # what is computed with the first weights no learning rate has touched
        advice = "the model itself is the cause: check its initial weights and its forward"
        halved = recipe.precision != "float32"
        return Diverged(found, network.seed, advice + "; precision float32 may help" * halved, at_once=True)
    where = "" if folder is None else "in another folder "  # this one goes on with its own recipe alone
    advice = f"try {where}a lower learning rate (lr is {recipe.optimiser.lr:g}), a longer warm-up, or"
    return Diverged(found, network.seed, f"{advice} precision float32")


def require_finite(networks: list[Network], folder: RunFolder | None, step: int, weights: bool) -> None:
    """Stop at a loss that is not finite; with `weights`, before anything is kept, at weights that are not."""
    for network in networks:
        broken = int(network.broken_at)
        what = f"the loss was not finite at step {broken}"
        if broken < 0 and weights and not network.finite():
            broken, what = step, f"the weights were not finite after step {step}"
        if broken >= 0:
            raise diverged(network, folder, what, broken)


@contextmanager
def users_code(networks: list[Network], step: int, folder: RunFolder | None) -> Iterator[None]:
    """Around what a model and a tunnel do.  Those of the user's own may fail at the full batch alone, or late: that is
    one line.  The step is the last known to have ended, as a GPU that has failed cannot be asked."""
    recipe, seed = networks[0].recipe, networks[0].seed
    try:
        yield
    except (InputError, torch.cuda.OutOfMemoryError, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        built_in = is_ours(recipe.model, networks[0].factory) and not is_foreign(recipe.tunnel)
        if built_in or is_of_memory(error):
            raise  # a mistake of ours is to be seen whole
        # No saved number is to blame, so what was saved at this very step is as good as any.
        left = "nothing was saved" if folder is None else _left(folder.seed(seed), step + 1)
        whose = f"model {recipe.model} on {type(recipe.tunnel).__name__}"
        raise InputError(f"{whose}: training failed after step {step} ({accident(error)}); {left}") from error


def _left(place: SeedFolder, broken: int) -> str:
    """What there is on disk of a seed that broke at a step.

    All that was saved before that step gave a loss that was a number.  What was saved at that very step is suspect: its
    own loss, the one that broke, was computed afterwards.
    """
    state, rungs = place.last_step(), place.ladder()
    if state is not None:
        return f"the last {'good ' * (state < broken)}checkpoint is step {state}"
    if rungs:
        suspect = ", which may predict NaN" * (rungs[-1] >= broken)
        return f"there is no checkpoint to resume from, and the last weights kept are from step {rungs[-1]}{suspect}"
    return "there is no checkpoint yet"
