"""What speed is measured on: the committed recipes on a GPU, the quick preset on a CPU, and the worlds to sample; and
what time to fidelity may be attempted with."""

from __future__ import annotations

from windtunnel.models.registry import is_built_in, names
from windtunnel.training.recipe import Recipe
from windtunnel.training.recipes import default_preset, recipe_for
from windtunnel.training.tuned_recipes import NAMED, hmm_transformer_9x256
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel, Urn

TUNNELS: dict[str, Tunnel] = {"hmm": HMM(), "bijection": Bijection(), "urn": Urn(), "recall": Recall()}
"""Every tunnel, the one with the longest episodes last: should the time run out, it is the one to miss."""

WORLDS: dict[str, Tunnel] = {
    "hmm": HMM(),
    "bijection": Bijection(),
    "urn": Urn(),
    "hmm rotating": HMM(dynamics="rotating"),
    "hmm sticky": HMM(dynamics="sticky"),
    "hmm released": HMM(prior="released"),
    "bijection replacement": Bijection(replacement=True),
    "recall": Recall(),
}
"""Every kind of world a sampler may be asked for, the plain ones first, should the time run out; `recall`
episodes are about ten times longer than the others."""

# The newcomer's first command, and the pairs that the project has set itself goals for: should the time run out, they
# are there.
_FIRST = (
    "quick",
    "hmm/transformer-9x256",
    "bijection/transformer",
    "hmm/mamba",
    "hmm/lstm",
    "hmm/mlp",
    "hmm/transformer",
)
_LAST = "recall/mamba"  # on a CPU its plain scan over 294 positions takes seconds per step


def cases(device: str) -> dict[str, Recipe]:
    """Every tunnel with every built-in architecture, as `tunnel/model`; `quick`, the smallest thing one can train; and
    on a GPU the paper's HMM shape."""
    preset = default_preset(device)
    found = {"quick": quick_case()}
    if preset == "standard":
        found["hmm/transformer-9x256"] = hmm_transformer_9x256(HMM())
    found |= {f"{world}/{model}": recipe_for(TUNNELS[world], model, preset) for world, model in _pairs()}
    order = [name for name in dict.fromkeys([*_FIRST, *found]) if name in found and name != _LAST]
    return {name: found[name] for name in [*order, _LAST]}


def _pairs() -> list[tuple[str, str]]:
    """Every tunnel with every built-in architecture."""
    return [(world, model) for world in TUNNELS for model in filter(is_built_in, names())]


PAIRS = tuple(f"{world}-{model}" for world, model in _pairs())
"""The pairs by the names that `attempted` gives them."""

# On recall the tuned recipe asks for all stored keys, as the study does; times to a KL compare only in one world.
_ATTEMPTED_IN = TUNNELS | {"recall": Recall(queries=64)}


def attempted() -> dict[str, Recipe]:
    """What time to fidelity may be attempted with: every recipe that has a name, for every pair that has none its
    standard recipe, and `quick`."""
    named = {name: make() for name, make in NAMED.items()}
    pairs = {f"{world}-{model}": recipe_for(_ATTEMPTED_IN[world], model, "standard") for world, model in _pairs()}
    return pairs | named | {"quick": quick_case()}


def quick_case() -> Recipe:
    """`windtunnel train bijection transformer --symbols 8 --length 8 --preset quick`."""
    return recipe_for(Bijection(symbols=8, length=8), "transformer", "quick")
