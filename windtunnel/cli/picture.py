"""What to say about an episode before its beliefs are shown, tunnel by tunnel.

A tunnel of one's own needs nothing here: its tokens and beliefs are shown as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from windtunnel.tunnels import HMM, Bijection, Episodes, Recall, Tunnel, Urn


@dataclass(frozen=True)
class Context:
    """The part of an episode that is shown ahead of the table.

    lines   text, one line each
    skip    number of leading input positions that the lines already tell
    prefix  how outcomes are named: prefix and class number
    """

    lines: list[str]
    skip: int = 0
    prefix: str = ""


@singledispatch
def context(tunnel: Tunnel, episodes: Episodes, index: int) -> Context:
    """Context of episode `index`.  Add yours with `@context.register(MyTunnel)`."""
    return Context([])


@context.register
def _(tunnel: Bijection, episodes: Episodes, index: int) -> Context:
    return Context([], prefix="v")


@context.register
def _(tunnel: Urn, episodes: Episodes, index: int) -> Context:
    """The shares that the belief tries to learn."""
    return Context(["shares " + " ".join(f"{p:.2f}" for p in episodes.latent["shares"][index].tolist())], prefix="c")


@context.register
def _(tunnel: HMM, episodes: Episodes, index: int) -> Context:
    """The two matrices side by side, rounded."""
    transition, emission = (episodes.latent[name][index].tolist() for name in ("transition", "emission"))
    lines = []
    for state, (row, emitted) in enumerate(zip(transition, emission, strict=True)):
        left, right = (" ".join(f"{p:.2f}" for p in side) for side in (row, emitted))
        lines.append(f"T{state:<2} {left}    E{state:<2} {right}")
    return Context(lines, skip=tunnel.header_positions, prefix="s" if tunnel.predict == "state" else "o")


@context.register
def _(tunnel: Recall, episodes: Episodes, index: int) -> Context:
    """Stored pairs in the order of their first showing; a key shown several times has several values."""
    stored, shown, _ = tunnel.read(episodes.inputs[index : index + 1])
    pairs: dict[int, list[str]] = {}
    for key, value in zip(stored[0].tolist(), shown[0].tolist(), strict=True):
        pairs.setdefault(key, []).append(f"v{value}")
    told = " ".join(f"k{key}→{','.join(values)}" for key, values in pairs.items())
    return Context([told, f"then {tunnel.filler} idle positions"], skip=4 * tunnel.slots + tunnel.filler, prefix="v")
