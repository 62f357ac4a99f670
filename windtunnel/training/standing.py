"""Where the seeds of a run folder stand, and how each goes on from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from windtunnel.models.registry import Factory
from windtunnel.training.folder import RunFolder
from windtunnel.training.lost_checkpoints import lost_list
from windtunnel.training.network import Network
from windtunnel.training.recipe import Recipe
from windtunnel.training.same_code import require_same
from windtunnel.training.seed_folder import SeedFolder


@dataclass(frozen=True)
class Standing:
    """The seeds of a recipe as a folder has them; without a folder none has begun.

    earlier  where the last saved state is damaged, go back to the intact one before it; where the list of what is
             saved is lost, make it again
    """

    recipe: Recipe
    folder: RunFolder | None
    earlier: bool
    say: Callable[[str], None]

    def step(self, seed: int) -> int:
        """The step that a seed goes on from; −1 where nothing of it is saved."""
        return -1 if self.folder is None else self.folder.seed(seed).resume_step(self.earlier)

    def groups(self, most: int | None = None) -> list[tuple[int, ...]]:
        """Unfinished seeds that advance together, at most so many: those at the same step, the furthest first.  A seed
        never goes back for the sake of another."""
        standing: dict[int, list[int]] = {}
        for seed in self.recipe.seeds:
            standing.setdefault(self.step(seed), []).append(seed)
        standing.pop(self.recipe.steps, None)
        groups = [tuple(seeds) for _, seeds in sorted(standing.items(), reverse=True)]
        width = most or len(self.recipe.seeds)
        return [seeds[at : at + width] for seeds in groups for at in range(0, len(seeds), width)]

    def summary(self) -> str:
        """The step that training goes on from, or where seeds stand at different ones the first and the last of them;
        and how many seeds are finished."""
        every = [max(0, self.step(seed)) for seed in self.recipe.seeds]
        steps = [step for step in every if step < self.recipe.steps] or every  # those at the end may lack their weights
        text = " to ".join(map(str, sorted({min(steps), max(steps)}))) + f" of {self.recipe.steps}"
        ended = len(every) - len(steps)
        return text + f" ({ended} of {len(every)} seeds are finished)" * bool(ended)

    def require_listed(self) -> None:
        """Raise where what was trained is not this recipe's, or not listed; with `earlier` it is listed again."""
        assert self.folder is not None
        for seed in self.recipe.seeds if self.earlier else ():
            place = self.folder.seed(seed)
            if lost_list(place, self.recipe):
                for path in place.list_again(self.recipe):
                    self.say(f"seed {seed}: a file of another recipe or seed is set aside as {path.name}")
                left = place.last_step() is not None
                then = "is rebuilt from the files" if left else "there is no state to resume from: it starts over"
                self.say(f"seed {seed}: its list of checkpoints was lost, and {then}")
        self.folder.recipe()

    def complete(self, factory: Factory | None) -> bool:
        """Has every finished seed its last weights?  Those that were lost are made again from the state of that step;
        where that is damaged as well, `earlier` goes back behind it."""
        assert self.folder is not None
        steps, complete = self.recipe.steps, True
        for seed in self.recipe.seeds:
            place = self.folder.seed(seed)
            if place.last_step() != steps or place.has_weights(steps):
                continue
            state = place.last_state(self.earlier)
            if state is None or state[0] != steps:
                complete = False
                continue
            network = Network(self.recipe, seed, "cpu", factory)
            self._restore(network, place, *state)
            place.save_weights(steps, network.weights(), self.recipe, network.predictions(kept=True))
            self.say(f"seed {seed}: the weights of step {steps} were missing or damaged, and are recreated")
        return complete

    def restore(self, networks: list[Network]) -> int:
        """Put each network where its seed stands, and forget what was logged after that.  Returns the step, which is
        the same for all; −1 if nothing was saved."""
        if self.folder is None:
            return -1
        steps = set()
        for network in networks:
            place = self.folder.seed(network.seed)
            state = place.last_state(self.earlier)
            step = -1 if state is None else state[0]
            if damage := place.cut_short(self.recipe, step):
                self.say(f"{damage}; continuing without the missing part")
            if state is not None:
                self._restore(network, place, *state)
            steps.add(step)
            place.forget_after(step)
        (step,) = steps
        if step >= 0 and len(self.recipe.seeds) > 1:
            self.say(f"seed {', '.join(str(n.seed) for n in networks)}: from step {step} of {self.recipe.steps}")
        return step

    def _restore(self, network: Network, place: SeedFolder, step: int, state: dict[str, Tensor]) -> None:
        """Raise where the network's code is not the one that the state was saved with."""
        network.restore(state)
        saved = place.predictions(step, "resume")
        require_same(saved, network.model, self.recipe.tunnel, self.recipe.model, place.path, step)
