"""A recipe: everything needed to train, as plain frozen data.  recipe -> JSON -> recipe is the identity."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Real
from typing import Any, Literal, Self

from windtunnel import tunnels
from windtunnel.errors import (
    InputError,
    is_number,
    keep_number,
    keep_whole_number,
    plain_number,
    require,
    require_choice,
)
from windtunnel.training.batch_stages import Stage, stage_at, stages_of
from windtunnel.tunnels import Tunnel
from windtunnel.tunnels.base import require_tunnel
from windtunnel.tunnels.random import whole_seed


@dataclass(frozen=True)
class Optimiser:
    """How weights move.

    `adamw` moves everything with AdamW at `lr`.  `muon` moves the weight matrices inside the blocks with Muon at
    `muon_lr` (orthogonalised momentum) and the rest (embeddings, head, norms, biases) with AdamW at `lr`.  In a module
    of your own, the matrices inside are those of every nn.Linear that is not called `head` or `features`, and of every
    nn.LSTM, nn.GRU and nn.RNN, so call the last map `head`, as ours do.
    """

    kind: Literal["adamw", "muon"] = "adamw"
    lr: float = 1e-3
    """Peak learning rate of AdamW."""
    muon_lr: float = 0.02
    """Peak learning rate of Muon."""
    betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's decay rates of the gradient's mean and square."""
    momentum: float = 0.95
    """Muon's momentum."""
    weight_decay: float = 0.01
    """Decoupled, on weight matrices only."""
    clip: float = 1.0
    """Gradient norm is clipped here; 0 for no clipping."""
    average: float = 0.0
    """Decay per step of an exponential moving average of the weights, which is then what is scored; 0 for none."""

    def __post_init__(self) -> None:
        require_choice("optimiser", self.kind, ("adamw", "muon"))
        for name in ("lr", "muon_lr"):
            keep_number(self, name, 0, above=True)
        for name in ("weight_decay", "clip"):
            keep_number(self, name, 0)
        betas = tuple(map(plain_number, self.betas)) if isinstance(self.betas, list | tuple) else ()
        ok = len(betas) == 2 and all(is_number(beta) and 0 <= beta < 1 for beta in betas)
        require(ok, "betas", self.betas, "two numbers in [0, 1)")
        object.__setattr__(self, "betas", betas)
        for name in ("momentum", "average"):
            keep_number(self, name, 0, 1, below=True)


@dataclass(frozen=True)
class Schedule:
    """Learning rate over time as a share of its peak: up in a line, flat, then down."""

    warmup: int = 100
    """Steps of linear warm-up."""
    decay: Literal["cosine", "linear", "none"] = "cosine"
    """How the learning rate falls."""
    decay_share: float = 1.0
    """Final share of the steps, over which the learning rate falls; flat before."""
    floor: float = 0.0
    """Learning rate at the end, as a share of the peak."""

    def __post_init__(self) -> None:
        keep_whole_number(self, "warmup", 0)
        require_choice("decay", self.decay, ("cosine", "linear", "none"))
        for name in ("decay_share", "floor"):
            keep_number(self, name, 0, 1)


@dataclass(frozen=True)
class Recipe:
    """Everything needed to train.  A run of it ends the same wherever it is interrupted and resumed."""

    tunnel: Tunnel
    model: str = "transformer"
    """Architecture: a name that `models.build` knows."""
    model_options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Options of `models.build`: params, or depth, width, heads, …"""
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    supervision: Literal["labels", "posterior"] = "labels"
    """What the loss compares with: the sampled truth, or the exact belief itself."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the forward and backward pass; weights are float32 either way."""
    batch: int = 256
    """Episodes per step, always fresh."""
    first_batch: int = 0
    """Initial episodes per step, doubled at equal intervals until they reach `batch`; 0: `batch` throughout."""
    steps: int = 2000
    seeds: tuple[int, ...] = (0,)
    """Each seed is one network: its data, initialisation and schedule depend on nothing else."""
    validate_every: int = 200
    """Steps between scores on the validation stream."""
    validation_episodes: int = 1024
    checkpoint_every: int = 500
    """Steps between resumable checkpoints."""
    ladder: int = 12
    """Log-spaced weight snapshots kept for the study of training dynamics; 0 for the last one only."""
    name: str = ""
    """What to call it in tables."""

    def __post_init__(self) -> None:
        require_tunnel(self.tunnel)
        require(isinstance(self.model, str), "model", self.model, "the name of an architecture")
        require(isinstance(self.optimiser, Optimiser), "optimiser", self.optimiser, "a windtunnel.training.Optimiser")
        require(isinstance(self.schedule, Schedule), "schedule", self.schedule, "a windtunnel.training.Schedule")
        object.__setattr__(self, "model_options", _plain(self.model_options))
        require_choice("supervision", self.supervision, ("labels", "posterior"))
        require_choice("precision", self.precision, ("float32", "bfloat16"))
        for option in ("batch", "steps", "validate_every", "validation_episodes", "checkpoint_every"):
            keep_whole_number(self, option, 1)
        keep_whole_number(self, "first_batch", 0)
        halved = [self.batch >> times for times in range(self.batch.bit_length()) if self.batch % (1 << times) == 0]
        smaller = ", ".join(map(str, halved[1:])) or "it has none"
        allowed = f"batch = {self.batch} or one of its halvings ({smaller}); or 0"
        require(self.first_batch in (0, *halved), "first_batch", self.first_batch, allowed)
        object.__setattr__(self, "first_batch", self.first_batch if self.first_batch < self.batch else 0)
        keep_whole_number(self, "ladder", 0)
        require(self.ladder <= 10_000, "ladder", self.ladder, "at most 10000")
        require(isinstance(self.seeds, list | tuple | range), "seeds", self.seeds, "a tuple of different numbers")
        object.__setattr__(self, "seeds", tuple(whole_seed(seed, "seeds") for seed in self.seeds))
        require(
            len(self.seeds) > 0 and len(set(self.seeds)) == len(self.seeds), "seeds", self.seeds, "different numbers"
        )
        require(isinstance(self.name, str), "name", self.name, "a string")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stretches of equal batch; one, unless `first_batch` asks for more."""
        return stages_of(self.first_batch, self.batch, self.steps)

    def sequences(self, step: int | None = None) -> int:
        """Sequences that each seed has seen before a step; by default in all."""
        step = self.steps if step is None else step
        return stage_at(self.stages, step).until(step)

    def with_options(self, **options: Any) -> Self:
        """The same recipe with some options changed; each goes to the part that owns it."""
        parts: dict[str, dict[str, Any]] = {"optimiser": {}, "schedule": {}}
        own: dict[str, Any] = {}
        owners = {"optimiser": _names(Optimiser), "schedule": _names(Schedule)}
        for name, value in options.items():
            if name == "optimiser" and isinstance(value, str):
                parts["optimiser"]["kind"] = value
            elif name in _names(type(self)):
                own[name] = value
            else:
                owner = next((part for part, owned in owners.items() if name in owned), None)
                allowed = sorted({*_names(type(self)), *owners["optimiser"], *owners["schedule"]})
                require(owner is not None, "recipe option", name, "one of " + ", ".join(allowed))
                parts[str(owner)][name] = value
        for part, values in parts.items():
            if values:
                own[part] = replace(own.get(part, getattr(self, part)), **values)
        return replace(self, **own)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON.  `first_batch` is left out where the batch does not grow, so that older
        recipes stay equal."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        if not self.first_batch:
            del plain["first_batch"]
        plain["tunnel"] = tunnels.to_dict(self.tunnel)
        plain["optimiser"], plain["schedule"] = asdict(self.optimiser), asdict(self.schedule)
        return plain

    def digest(self) -> str:
        """SHA-256 of all that decides what becomes of a seed, the same for equal recipes.  Its name, and which other
        seeds it has, decide nothing."""
        plain = {name: value for name, value in self.to_dict().items() if name not in ("seeds", "name")}
        alike = json.loads(json.dumps(plain), parse_int=float)  # 1 and 1.0 are equal
        return hashlib.sha256(json.dumps(alike, sort_keys=True).encode()).hexdigest()

    @classmethod
    def from_dict(cls, plain: Any) -> Self:
        """The recipe that `to_dict` described."""
        values = dict(plain) if isinstance(plain, dict) else {}
        for name in values:
            require_choice("recipe option", name, _names(cls))
        try:
            values["tunnel"] = tunnels.from_dict(values["tunnel"])
            values["optimiser"] = Optimiser(**values["optimiser"])
            values["schedule"] = Schedule(**values["schedule"])
            return cls(**values)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"recipe: must have the fields of windtunnel.training.Recipe ({error})") from None


def _plain(options: object) -> dict[str, Any]:
    """A copy as JSON would give it back, so that a recipe read from a folder equals the one that was written."""
    try:
        plain: Any = json.loads(json.dumps(options, default=_as_number))
    except (TypeError, ValueError):
        plain = None
    if not isinstance(plain, dict):
        raise InputError(f"model_options = {options!r}: must be names with numbers, strings or lists of them")
    return plain


def _as_number(value: object) -> int | float:
    """What JSON does not know, if it is a number after all: NumPy's."""
    if not isinstance(value, Real):
        raise TypeError
    return plain_number(value)


def _names(cls: type) -> list[str]:
    return [f.name for f in fields(cls)]
