"""From a recipe to a run: exact, resumable, fast."""

from windtunnel.training.failures import Diverged
from windtunnel.training.recipe import Optimiser, Recipe, Schedule
from windtunnel.training.recipes import recipe_for
from windtunnel.training.run import Run, load
from windtunnel.training.signals import Interrupted
from windtunnel.training.start import train
from windtunnel.training.trackers import StepTracker, Tracker

__all__ = [
    "Diverged",
    "Interrupted",
    "Optimiser",
    "Recipe",
    "Run",
    "Schedule",
    "StepTracker",
    "Tracker",
    "load",
    "recipe_for",
    "train",
]
