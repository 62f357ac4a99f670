"""`windtunnel sample TUNNEL`: look at a few episodes and their exact beliefs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from windtunnel import tunnels
from windtunnel.cli import show
from windtunnel.cli.flags import Switch
from windtunnel.cli.picture import context
from windtunnel.cli.tunnel import describe, parse_tunnel
from windtunnel.errors import require_int
from windtunnel.tunnels import Episodes, Tunnel

MOST_BARS = 32  # with more classes than this, the most likely few are named instead
MOST_TOKENS = 6  # tokens shown of those that came since the step before


@dataclass(frozen=True)
class Sample:
    """Show a few episodes and their exact beliefs."""

    episodes: int = 2
    """How many episodes."""
    seed: int = 0
    """Seed of the random stream."""
    stream: Literal["train", "validation", "test"] = "test"
    """Which stream of that seed."""
    json: Switch = False
    """Print one JSON document instead: tokens, features, readout, labels, posterior, entropy, latent."""


def run(words: list[str]) -> None:
    """Sample and print."""
    tunnel, options = parse_tunnel(Sample, "sample", words)
    require_int("--episodes", options.episodes, 1)
    episodes = tunnel.sample(options.episodes, seed=options.seed, stream=options.stream)
    if options.json:
        _print_json(tunnel, options, episodes)
        return
    show.print_text(describe(tunnel), "bold")
    show.print_text(show.drawn_from(options.episodes, options.seed, options.stream))
    if tunnel.classes <= MOST_BARS:
        show.print_text(show.BARS_LEGEND, "dim")
    for index in range(options.episodes):
        _print_episode(tunnel, episodes, index)


def _print_episode(tunnel: Tunnel, episodes: Episodes, index: int) -> None:
    ahead = context(tunnel, episodes, index)
    show.print_text(f"\nepisode {index}", "bold")
    for line in ahead.lines:
        show.print_text(line, "cyan")

    names = tunnel.token_names()
    tokens = [names[token] for token in episodes.inputs.tokens[index].tolist()]
    entropy = episodes.entropy_bits[index].tolist()
    beliefs = episodes.posterior[index].tolist()
    rows, begin = [], ahead.skip
    for step, (position, truth) in enumerate(zip(episodes.inputs.readout.tolist(), episodes.labels[index].tolist())):
        new, begin = tokens[begin : position + 1], position + 1
        shown = " ".join(["…"] * (len(new) > MOST_TOKENS) + new[-MOST_TOKENS:])
        belief = beliefs[step]
        if tunnel.classes <= MOST_BARS:
            picture = show.marked(show.bars(belief), truth)
        else:
            picture = _likeliest(belief, ahead.prefix)
        bits, label = f"{entropy[step]:.3f}", f"{ahead.prefix}{truth}"
        rows.append([str(step + 1), shown, picture, bits, label, f"{belief[truth]:.3f}"])
    columns = ["step", "shown", "exact belief", "entropy bits", "truth", "P(truth)"]
    show.print_table("", columns, rows, justify="rllrlr")


def _likeliest(belief: list[float], prefix: str, count: int = 3) -> str:
    """The most likely few outcomes with their probabilities, and how many others are possible."""
    order = sorted((c for c, p in enumerate(belief) if p > 0), key=lambda c: -belief[c])
    told = [f"{prefix}{c} {belief[c]:.3f}" for c in order[:count]]
    return "  ".join(told + [f"+{len(order) - count} more"] * (len(order) > count))


def _print_json(tunnel: Tunnel, options: Sample, episodes: Episodes) -> None:
    inputs = episodes.inputs

    def told(index: int) -> dict[str, Any]:
        return {
            "tokens": inputs.tokens[index].tolist(),
            "features": None if inputs.features is None else inputs.features[index].tolist(),
            "labels": episodes.labels[index].tolist(),
            "posterior": episodes.posterior[index].tolist(),
            "entropy_bits": episodes.entropy_bits[index].tolist(),
            "latent": {name: value[index].tolist() for name, value in episodes.latent.items()},
        }

    show.print_json(
        {
            "tunnel": tunnels.to_dict(tunnel),
            "seed": options.seed,
            "stream": options.stream,
            "token_names": tunnel.token_names(),
            "readout": inputs.readout.tolist(),
            "episodes": [told(index) for index in range(len(episodes))],
        }
    )
