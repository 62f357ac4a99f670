"""Scores side by side, for the commands that print them: one row or one JSON object each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from windtunnel.cli import show
from windtunnel.fidelity import Estimate, Score

_SHARED = ("tunnel", "episodes", "seed", "stream", "where", "positions", "exact_accuracy", "entropy_yardstick_bits")


def print_scores(scores: Mapping[str, Score], kind: str, beyond: Mapping[str, Score] | None = None) -> None:
    """A table of scores on the same episodes, and what exact inference and a constant entropy would have; `kind` heads
    the column of names, `beyond` has the scores beyond the trained length.  Where ± does not fit into every column, the
    KL alone keeps it."""
    columns = [kind, "KL", "entropy\nerror", "curve\nerror", "curve\nfloor", "TV", "accuracy"]
    spare = (columns[4], columns[5], columns[3])
    if beyond is not None:
        columns, spare = [*columns, "KL\nbeyond", "entropy\nerror\nbeyond"], (*spare, columns[6])
    rows = _rows(scores, _cell, beyond)
    if not show.fits(columns, rows):
        rows = _rows(scores, lambda value: show.printed(value.mean), beyond)
    show.print_table("", columns, rows, "l" + "r" * (len(columns) - 1), spare=spare)


def print_legend(kind: str) -> None:
    """What the columns of `print_scores` mean."""
    show.print_text(
        f"KL (exact ‖ {kind}) and errors in bits. Entropy error: per sequence; curve error: of the averaged curve; its "
        "floor is what sampling alone gives. TV: total variation. ±: half of a 95% interval over sequences. "
        "`constant entropy` knows the position and nothing else.",
        "dim",
    )


def plain_scores(scores: Mapping[str, Score]) -> dict[str, dict[str, Any]]:
    """Scores for JSON, without what they share."""
    return {name: {k: v for k, v in score.to_dict().items() if k not in _SHARED} for name, score in scores.items()}


def _rows(
    scores: Mapping[str, Score], cell: Callable[[Estimate], str], beyond: Mapping[str, Score] | None
) -> list[list[str]]:
    rows = [
        [
            name,
            _cell(score.kl_bits),
            cell(score.entropy_mae_bits),
            cell(score.curve_mae_bits),
            show.printed(score.curve_mae_bits.floor or 0.0),
            cell(score.tv),
            cell(score.accuracy),
        ]
        for name, score in scores.items()
    ]
    exact = next(iter(scores.values()))  # the exact belief is the same in every score
    rows.append(["constant entropy", "", show.printed(exact.entropy_yardstick_bits), "", "", "", ""])
    rows.append(["exact belief", "0", "0", "0", "", "0", show.printed(exact.exact_accuracy)])
    if beyond is None:
        return rows
    more = [[_cell(score.kl_bits), cell(score.entropy_mae_bits)] for score in beyond.values()]
    more += [["", show.printed(next(iter(beyond.values())).entropy_yardstick_bits)], ["0", "0"]]
    return [[*row, *two] for row, two in zip(rows, more, strict=True)]


def _cell(value: Estimate) -> str:
    """An interval over seeds is on a log scale, far from symmetric: ± would mislead, so the mean stands alone."""
    return show.estimate(value) if value.over == "sequences" else show.printed(value.mean)
