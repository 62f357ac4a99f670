"""Scores side by side, for the commands that print them: one row or one JSON object each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.cli import show
from windtunnel.fidelity import Estimate, Score

_SHARED = ("tunnel", "episodes", "seed", "stream", "where", "positions", "exact_accuracy", "entropy_yardstick_bits")


def print_scores(scores: Mapping[str, Score], kind: str) -> None:
    """A table of scores on the same episodes, and what exact inference and a constant entropy would have; `kind` heads
    the column of names."""
    errors = ["entropy error\nper sequence", "entropy error\naveraged curve"]
    columns = [kind, "KL", *errors, "its\nfloor", "TV", "accuracy"]
    rows = [
        [
            name,
            _cell(score.kl_bits),
            _cell(score.entropy_mae_bits),
            _cell(score.curve_mae_bits),
            show.number(score.curve_mae_bits.floor or 0.0),
            _cell(score.tv),
            _cell(score.accuracy),
        ]
        for name, score in scores.items()
    ]
    exact = next(iter(scores.values()))  # the exact belief is the same in every score
    rows.append(["constant entropy", "", show.number(exact.entropy_yardstick_bits), "", "", "", ""])
    rows.append(["exact belief", "0", "0", "0", "", "0", show.number(exact.exact_accuracy)])
    show.print_table("", columns, rows, "lrrrrrr")


def print_legend(kind: str) -> None:
    """What the columns of `print_scores` mean."""
    show.print_text(
        f"KL (exact ‖ {kind}) and entropy errors in bits; TV is total variation; ± is half of a 95% interval over "
        "sequences. The floor is what sampling alone puts into the averaged curve. "
        "`constant entropy` knows the position and nothing else.",
        "dim",
    )


def plain_scores(scores: Mapping[str, Score]) -> dict[str, dict[str, Any]]:
    """Scores for JSON, without what they share."""
    return {name: {k: v for k, v in score.to_dict().items() if k not in _SHARED} for name, score in scores.items()}


def _cell(value: Estimate) -> str:
    """An interval over seeds is on a log scale, far from symmetric: ± would mislead, so the mean stands alone."""
    return show.estimate(value) if value.over == "sequences" else show.number(value.mean)
