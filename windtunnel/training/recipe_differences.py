"""In what two recipes differ, by the names under which `train` takes the options."""

from __future__ import annotations

from typing import Any

from windtunnel.errors import shown
from windtunnel.training.recipe import Recipe
from windtunnel.training.schedule import shortened

MOST = 3  # differences that are named; of more, their number
_ABSENT = object()


def differences(there: Recipe, here: Recipe) -> str:
    """`steps = 12, not 13, and lr = 0.01, not 0.02`; nothing where the recipes are the same.

    Of a tunnel and of a model's options only the fields that differ are told; a tunnel of another kind shares none.
    """
    ours, theirs = _parts(there), _parts(here)
    found = []
    for one, other in zip(ours, theirs, strict=True):
        if "tunnel" in one and one["tunnel"] != other["tunnel"]:
            one, other = {"tunnel": one["tunnel"]}, {"tunnel": other["tunnel"]}
        for name in dict.fromkeys([*one, *other]):
            told = one.get(name, _ABSENT), other.get(name, _ABSENT)
            if told[0] != told[1] and not (name == "warmup" and _follows(there, here)):
                found.append(_told(name, *told))
    if len(found) > MOST:
        found[MOST:] = [f"{len(found) - MOST} more"]
    return ", and ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


def _follows(there: Recipe, here: Recipe) -> bool:
    """Is one's warm-up that of the other, shortened to fit its steps?  Nobody asked for that one."""
    pairs = ((there, here), (here, there))
    return there.steps != here.steps and any(
        shortened(one.schedule.warmup, other.steps) == other.schedule.warmup for one, other in pairs
    )


def _told(name: str, there: object, here: object) -> str:
    """`steps = 12, not 13`; an option may also have been left out."""
    if there is _ABSENT:
        return f"no {name}, not {shown(here)}"
    return f"{name} = {shown(there)}, not {'left out' if here is _ABSENT else shown(here)}"


def _parts(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The tunnel's fields (its kind as `tunnel`), the recipe's own with those of its parts, and the model's options:
    apart, as a name may stand in two of them."""
    plain = recipe.to_dict()
    tunnel, options = plain.pop("tunnel"), plain.pop("model_options")
    parts = plain.pop("optimiser") | plain.pop("schedule")
    own = plain | {"first_batch": recipe.first_batch, "optimiser": parts.pop("kind")} | parts
    return {"tunnel": tunnel.pop("name"), **tunnel}, own, options
