"""How large a model is, and where its parameters sit."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import nn

from windtunnel.models.base import SequenceModel

# In the order in which data meets them.
_FLOW: tuple[str, ...] = ("embedding", "features", "position", "mixing", "blocks", "final_norm", "head")


@dataclass(frozen=True)
class Description:
    """A parameter count with its breakdown; prints as one line.

    name    of the architecture
    shape   the config's fields
    params  number of parameters
    parts   the same by top-level part (embedding, position, blocks, head, …); they add up to `params`
    """

    name: str
    shape: dict[str, int | float | str]
    params: int
    parts: dict[str, int]

    def __str__(self) -> str:
        shape = ", ".join(f"{field}={value}" for field, value in self.shape.items())
        parts = " + ".join(f"{part} {count:,}" for part, count in self.parts.items())
        equals = f" = {parts}" if len(self.parts) > 1 else ""  # one part is the whole
        return f"{self.name}({shape}): {self.params:,} parameters{equals}"


def describe(model: nn.Module) -> Description:
    """Count the parameters of a model, built-in or not, by top-level part."""
    parts: dict[str, int] = dict.fromkeys(_FLOW, 0)
    for path, parameter in model.named_parameters():  # each shared parameter is counted once
        part = path.partition(".")[0]
        parts[part] = parts.get(part, 0) + parameter.numel()
    parts = {part: count for part, count in parts.items() if count}
    shape = asdict(model.config) if isinstance(model, SequenceModel) else {}
    name = getattr(model, "name", type(model).__name__)
    return Description(name, shape, sum(parts.values()), parts)
