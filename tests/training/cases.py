"""What the training tests share: every architecture in a tiny size, recipes that last a moment, what a run left.

Nothing here needs more than torch and pytest, so GPU tests may use it on a bare image.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from windtunnel.training import Optimiser, Recipe, Run, Schedule, train
from windtunnel.training.engine import Engine
from windtunnel.training.network import Network
from windtunnel.tunnels import HMM, Bijection, Tunnel

BIJECTION = Bijection(symbols=4, length=4)
SMALL_HMM = HMM(states=3, symbols=3, length=6)

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {"depth": 2, "width": 16, "heads": 2}),
    "mamba": ("mamba", {"depth": 2, "width": 16}),
    "lstm-residual": ("lstm", {"depth": 2, "width": 16, "style": "residual"}),
    "lstm-stacked": ("lstm", {"depth": 2, "width": 16, "style": "stacked"}),
    "mlp-full": ("mlp", {"depth": 2, "width": 16, "context": "full"}),
    "mlp-position": ("mlp", {"depth": 2, "width": 16, "context": "position"}),
    "linear-attention": ("linear-attention", {"depth": 2, "width": 16, "heads": 2}),
}


def tiny(tunnel: Tunnel = BIJECTION, variant: str = "transformer", **options: Any) -> Recipe:
    """A recipe of a few steps that uses all there is to lose: both optimisers, an average, a schedule, a ladder."""
    model, shape = VARIANTS[variant]
    recipe = Recipe(
        tunnel,
        model,
        shape,
        Optimiser(kind="muon", lr=3e-3, average=0.5),
        Schedule(warmup=2, decay="linear"),
        batch=8,
        steps=6,
        validate_every=3,
        validation_episodes=8,
        checkpoint_every=2,
        ladder=3,
    )
    return recipe.with_options(**options)


class Compiling(Engine):
    """Compiles on a CPU as well, as an engine does on a GPU, and takes a step."""

    def __init__(self, networks: list[Network]) -> None:
        super().__init__(networks)
        for network in networks:
            network.compile()
            network.advance()


def broken_compiler(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """In place of `torch.compile`: fails at the first forward pass, and leaves samplers as they are."""

    def fail(*arguments: Any) -> None:
        raise RuntimeError("no compiler here\nand a long story")

    return fail if function.__name__ == "forward" else function


def no_compiler(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """In place of `torch.compile`: fails at the first call of anything, samplers too, in torch's own way."""
    from torch._dynamo.exc import TorchDynamoException

    def fail(*arguments: Any) -> None:
        raise TorchDynamoException("no compiler at all\n\nSet TORCHDYNAMO_VERBOSE=1 for a long story")

    return fail


MUST_COMPILE = pytest.mark.filterwarnings("error::windtunnel.models.compiled.NotCompiled")
"""For tests of what is compiled: it may not fall back, with a warning, on the plain form that it is held against."""


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run that must depend on its recipe alone, by name; strays show.

    Left out: what has a clock or a machine in it, and states no longer listed (a kill just before their removal).
    """
    apart = {"lock", "environment.json", "timings.jsonl"}
    listed = {path for place in folder.glob("seed-*") for path in states(folder, int(place.name[5:]))}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in apart]
    kept = [path for path in files if path in listed or not path.match("resume-*.safetensors")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def spoil(path: Path, how: str) -> None:
    """Damage a file as a disk, a crash or a person would."""
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "altered":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        path.unlink()


def states(folder: Path, seed: int = 0) -> list[Path]:
    """Files of the resumable states that are listed, oldest first."""
    place = folder / f"seed-{seed}"
    return [place / entry["file"] for entry in json.loads((place / "checkpoints.json").read_text())["resume"]]


class Counts(nn.Module):
    """A module of one's own: logits from a running count of tokens."""

    def __init__(self, tunnel: Tunnel, width: int = 8) -> None:
        super().__init__()
        self.table = nn.Embedding(tunnel.vocabulary, width)
        self.mix = nn.Linear(width, width)
        self.last = nn.Linear(width, tunnel.classes)

    def forward(self, tokens: Tensor, features: Tensor | None, readout: Tensor) -> Tensor:
        x = self.table(tokens).cumsum(1)
        return self.last(torch.tanh(self.mix(x)))[:, readout]


def counts(tunnel: Tunnel, width: int = 8) -> nn.Module:
    """The factory of that module."""
    return Counts(tunnel, width)


def on_cpu(recipe: Recipe, out=None, **options) -> Run:
    """Train there, whatever this machine has."""
    return train(recipe=recipe, out=out, device="cpu", **options)


def one_line(error) -> str:
    """What was raised, which must be one line."""
    message = str(error.value)
    assert "\n" not in message
    return message
