"""What a benchmark measures and how long it may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from windtunnel.errors import InputError, require, require_choice, require_int
from windtunnel.training.speed.cases import cases

SECTIONS: dict[str, str] = {
    "training": "sequences per second of whole training steps, and their share of the matrix rate",
    "seeds": "what five seeds together cost, against one",
    "sampling": "episodes per second with their exact posteriors",
    "evaluation": "episodes per second scored against the exact belief",
    "growth": "time and memory as width, depth, length, batch and seeds grow",
    "profile": "where the time of a step goes",
    "startup": "from a new process to the first step",
    "compile": "what compilation costs, with an empty cache and a warm one",
}
"""Section -> one line."""

# Seconds that a section may take: (quick, full) on a CPU; on a GPU compilation dominates, and nobody waits for it.
_LIMITS_S = {
    "training": (10, 40),
    "seeds": (4, 10),
    "sampling": (5, 12),
    "evaluation": (3, 8),
    "growth": (8, 30),
    "profile": (4, 10),
    "startup": (10, 20),
    "compile": (0, 50),
}
_GPU_LIMIT_S = (120, 900)


@dataclass(frozen=True)
class Plan:
    """sections   which, in the order of SECTIONS
    cases      `tunnel/model` names that training, seeds and profile are restricted to; empty for all
    batch      instead of the recipe's
    seeds      numbers of seeds trained together in `training`
    quick      shorter measurements and fewer of them
    turn       file of the turns that several benchmarks on one card take; None: this one is alone"""

    device: str = "cpu"
    sections: tuple[str, ...] = tuple(SECTIONS)
    cases: tuple[str, ...] = ()
    batch: int | None = None
    seeds: tuple[int, ...] = (1,)
    quick: bool = False
    turn: Path | None = None

    def __post_init__(self) -> None:
        for section in self.sections:
            require_choice("section", section, SECTIONS)
        for case in self.cases:
            require_choice("case", case, cases(self.device))
        if self.batch is not None:
            require_int("batch", self.batch, 1)
        require(len(self.seeds) > 0, "seeds", self.seeds, "one number of seeds or several")
        for count in self.seeds:
            require_int("seeds", count, 1)

    def limit_s(self, section: str) -> float:
        """Seconds that a section may take; 0 leaves it out of a quick run unless it was asked for by name."""
        limits = _LIMITS_S[section] if self.device == "cpu" else _GPU_LIMIT_S
        named = set(self.sections) != set(SECTIONS)
        return limits[0] or (limits[1] * named) if self.quick else limits[1]

    @property
    def about_s(self) -> float:
        """Seconds that one measurement should take."""
        return (0.3 if self.quick else 1.0) if self.device == "cpu" else (1.0 if self.quick else 3.0)


def chosen(words: Sequence[str], device: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sections and cases from the words of `--only`, which may name either; cases alone ask for their training."""
    known = cases(device)
    for word in words:
        if word not in SECTIONS and word not in known:
            near = ", ".join(get_close_matches(word, known, n=2, cutoff=0.0))
            raise InputError(
                f"--only = {word!r}: must be sections ({', '.join(SECTIONS)}) or cases, "
                f"TUNNEL/MODEL as in hmm/lstm ({len(known)} here; the nearest: {near})"
            )
    sections = tuple(section for section in SECTIONS if section in words)
    named = tuple(case for case in known if case in words)
    return sections or (("training",) if named else tuple(SECTIONS)), named
