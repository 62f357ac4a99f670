"""`windtunnel baselines TUNNEL`: what simple predictors score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windtunnel import tunnels
from windtunnel.cli import show
from windtunnel.cli.flags import Switch
from windtunnel.cli.progress import bar_or_lines
from windtunnel.cli.scores import plain_scores, print_legend, print_scores
from windtunnel.cli.tunnel import describe, parse_tunnel
from windtunnel.errors import require_int
from windtunnel.fidelity import Score, baselines, evaluate_all
from windtunnel.tunnels import Tunnel


@dataclass(frozen=True)
class Baselines:
    """What simple predictors score on a tunnel, in bits from the exact belief."""

    episodes: int = 20_000
    """Episodes to score on."""
    seed: int = 1
    """Seed of the random stream."""
    stream: Literal["train", "validation", "test"] = "test"
    """Which stream of that seed."""
    json: Switch = False
    """Print one JSON document instead of a table; infinity is the string "inf"."""


def run(words: list[str]) -> None:
    """Score every baseline of the tunnel and print the table."""
    tunnel, options = parse_tunnel(Baselines, "baselines", words)
    require_int("--episodes", options.episodes, 1)
    found = baselines(tunnel)
    drawn = {"episodes": options.episodes, "seed": options.seed, "stream": options.stream}
    with bar_or_lines(not options.json) as progress:
        scores = evaluate_all(found, tunnel, **drawn, progress=progress)
    if options.json:
        _print_json(tunnel, options, scores)
    else:
        _print_table(tunnel, options, scores)


def _print_table(tunnel: Tunnel, options: Baselines, scores: dict[str, Score]) -> None:
    show.print_text(describe(tunnel), "bold")
    show.print_text(show.drawn_from(options.episodes, options.seed, options.stream))
    print_scores(scores, "baseline")
    print_legend("baseline")


def _print_json(tunnel: Tunnel, options: Baselines, scores: dict[str, Score]) -> None:
    exact = next(iter(scores.values()))
    show.print_json(
        {
            "tunnel": tunnels.to_dict(tunnel),
            "episodes": options.episodes,
            "seed": options.seed,
            "stream": options.stream,
            "exact_accuracy": exact.exact_accuracy,
            "entropy_yardstick_bits": exact.entropy_yardstick_bits,
            "baselines": plain_scores(scores),
        }
    )
