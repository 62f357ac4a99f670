"""Where training reports progress: anything with three methods.  None by default; nothing leaves the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from windtunnel.errors import InputError, require, require_choice
from windtunnel.fidelity.printing import printed
from windtunnel.training.recipe import Recipe

TRACKERS = ("none", "print", "tensorboard", "trackio", "wandb")


class Tracker(Protocol):
    """What a tracker does."""

    def start(self, recipe: Recipe, folder: str | None) -> None:
        """Training begins or goes on."""

    def log(self, seed: int, record: dict[str, Any]) -> None:
        """A validation record: step, loss_bits, kl_bits, … and the seed's own sequences_per_s, which files do not
        hold.  Records of seeds that train together alternate."""

    def finish(self) -> None:
        """Training ended, one way or another."""


@runtime_checkable
class StepTracker(Tracker, Protocol):
    """A tracker that also follows progress between validations; most have no use for that."""

    def advance(self, seed: int, step: int) -> None:
        """This many steps are done.  Called after each step where a seed trains alone on a CPU, and now and then where
        several do or on a GPU; it must cost next to nothing."""


class Silent:
    """Tells nobody."""

    def start(self, recipe: Recipe, folder: str | None) -> None:
        pass

    def log(self, seed: int, record: dict[str, Any]) -> None:
        pass

    def finish(self) -> None:
        pass


class Lines:
    """A line for every validation, on the error stream if no other way to tell it is given.

    name  of the training, in front of every line
    """

    def __init__(self, tell: Callable[[str], None] | None = None, name: str = "") -> None:
        self.tell, self.name = tell or say, name

    def start(self, recipe: Recipe, folder: str | None) -> None:
        self.steps = recipe.steps

    def log(self, seed: int, record: dict[str, Any]) -> None:
        parts = [self.name] * bool(self.name) + [f"seed {seed}", f"step {record['step']}/{self.steps}"]
        if "loss_bits" in record:
            parts.append(f"loss {printed(record['loss_bits'])} bits")
        parts.append(f"KL {printed(record['kl_bits'])} bits")
        parts.append(f"entropy error {printed(record['entropy_mae_bits'])} bits")
        if "sequences_per_s" in record:
            parts.append(f"{record['sequences_per_s']:,.0f} sequences/s")
        self.tell("  ".join(parts))

    def finish(self) -> None:
        pass


def say(line: str) -> None:
    """A line on the error stream, at once."""
    print(line, file=sys.stderr, flush=True)


class TensorBoard:
    """Scalars for TensorBoard, in the run folder."""

    def start(self, recipe: Recipe, folder: str | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(f"{folder}/tensorboard" if folder else None)

    def log(self, seed: int, record: dict[str, Any]) -> None:
        for name, value in record.items():
            if name != "step":
                self.writer.add_scalar(f"seed-{seed}/{name}", value, record["step"])

    def finish(self) -> None:
        self.writer.close()


class Logbook:
    """wandb, or trackio, which speaks its language.  Both are used offline unless the user's settings say otherwise."""

    def __init__(self, package: str) -> None:
        self.package = package

    def start(self, recipe: Recipe, folder: str | None) -> None:
        import importlib
        import os

        os.environ.setdefault("WANDB_MODE", "offline")
        self.module = importlib.import_module(self.package)
        self.module.init(project="windtunnel", name=recipe.name or None, config=recipe.to_dict())

    def log(self, seed: int, record: dict[str, Any]) -> None:
        # The step is told as a value: seeds that run one after the other start again at 0, and wandb drops what comes
        # with a step below the last.
        self.module.log({f"seed-{seed}/{name}": value for name, value in record.items()})

    def finish(self) -> None:
        self.module.finish()


def open_tracker(tracker: str | Tracker) -> Tracker:
    """A tracker by name, or the given one; what is none, or a missing package, is told in one line."""
    if not isinstance(tracker, str):
        able = all(callable(getattr(tracker, method, None)) for method in ("start", "log", "finish"))
        allowed = f"one of {', '.join(TRACKERS)}, or an object with start, log and finish"
        require(able and not isinstance(tracker, type), "tracker", tracker, allowed)
        return tracker
    require_choice("tracker", tracker, TRACKERS)
    if tracker in ("none", "print"):
        return Lines() if tracker == "print" else Silent()
    try:
        __import__("tensorboard" if tracker == "tensorboard" else tracker)
    except ImportError:
        raise InputError(
            f"tracker = {tracker!r}: the package of that name must be installed first (pip install {tracker})"
        ) from None
    return TensorBoard() if tracker == "tensorboard" else Logbook(tracker)
