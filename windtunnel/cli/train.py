"""`windtunnel train TUNNEL MODEL --out DIR`: from a recipe to a run folder; the same command again continues it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from windtunnel import models, tunnels
from windtunnel.cli import plugins, show
from windtunnel.cli.flags import Device, Float, Switch
from windtunnel.cli.parse import leading
from windtunnel.cli.plugins import of_ones_own
from windtunnel.cli.progress import Several, say, watch
from windtunnel.cli.recipe import RecipeFlags, recipe_from
from windtunnel.cli.tunnel import describe, parse_tunnel
from windtunnel.environment import default_device, require_device
from windtunnel.errors import require_choice
from windtunnel.json_numbers import record_to_json
from windtunnel.training import Run, train
from windtunnel.training.recipes import default_preset
from windtunnel.training.trackers import open_tracker


@dataclass(frozen=True, kw_only=True)
class Train(RecipeFlags):
    """Train a model on a tunnel.  Run the same command again to resume an unfinished run; a finished one is left alone.
    A folder in which no step was trained can be reused with other options."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of the run."""
    max_minutes: Float = None
    """Stop after this many minutes, with everything saved; run the same command again to resume."""
    device: Device = None
    """Where to train; a GPU if there is one."""
    tracker: Literal["none", "tensorboard", "trackio", "wandb"] = "none"
    """Where else to log; each needs the pip extra of the same name."""
    earlier: Switch = False
    """If the last checkpoint is damaged, resume from the one before it; if checkpoints.json is lost, rebuild it."""
    json: Switch = False
    """Print one JSON document at the end instead of a table."""


def run(words: list[str]) -> None:
    """Train, then say where the run stands and what to type next."""
    model, words = _split(words)
    others = (models.option_names(model) or []) if model else []
    tunnel, options = parse_tunnel(Train, "train", words, then="MODEL", others=others)
    device = require_device(options.device or default_device())
    notes: list[str] = []
    recipe = recipe_from(tunnel, model, options, device, notes.append)
    network = models.build(model, tunnel, **recipe.model_options)  # a bad option is told before any folder
    size = models.describe(network)
    if options.preset is None and default_preset(device) == "quick":
        notes.append("no GPU, so this is the small `quick` recipe; --preset standard for the committed one")
    heading = "\n".join([str(size), *notes])
    trained = train(
        recipe=recipe,
        out=options.out,
        device=options.device,
        tracker=Several(open_tracker(options.tracker), watch(heading)),
        max_minutes=options.max_minutes,
        earlier=options.earlier,
        say=say,
    )
    if options.json:
        show.print_json(_record(trained, size.params))
    else:
        _print_table(trained)


def _split(words: list[str]) -> tuple[str, list[str]]:
    """The model, and the words without it; words that do not begin with a tunnel are left for the tunnel's parser."""
    if not words or words[0] not in tunnels.names() or words[1:2] in (["-h"], ["--help"]):
        return "", words
    model, rest = leading(f"train {words[0]}", words[1:], f"a model, one of {', '.join(models.names())}")
    with of_ones_own("model"):
        require_choice("model", model, models.names())
    return model, [words[0], *rest]


def _record(trained: Run, parameters: int) -> dict[str, Any]:
    return {
        "run": str(trained.path),
        "recipe": trained.recipe.to_dict(),
        "parameters": parameters,
        "finished": trained.finished,
        "steps": trained.steps,
        "seconds": trained.seconds(),
        "seeds": [record_to_json(_last(trained, seed)) for seed in trained.recipe.seeds],
    }


def _last(trained: Run, seed: int) -> dict[str, Any]:
    """Where a seed stands: its last validation, and its seconds in the loop over all sittings."""
    records = trained.metrics(seed)
    seconds = sum(record["train_s"] for record in trained.folder.timings() if seed in record["seeds"])
    return {"seed": seed, **(records[-1] if records else {"step": 0}), "seconds": seconds}


def _print_table(trained: Run) -> None:
    recipe = trained.recipe
    rows = []
    for seed in recipe.seeds:
        last = _last(trained, seed)
        scores = [show.printed(last[name]) if name in last else "" for name in ("kl_bits", "entropy_mae_bits")]
        rows.append([str(seed), f"{last['step']}/{recipe.steps}", *scores, f"{last['seconds']:.1f}"])
    show.print_text(f"{recipe.model} on {describe(recipe.tunnel)}", "bold")
    show.print_table("", ["seed", "step", "KL bits", "entropy error bits", "seconds"], rows, "rrrrr")
    from windtunnel.report import Asked  # here: training must not wait for it

    by = Asked(plugins=plugins.named())
    if trained.finished:
        show.print_text(f"validation scores; for the test set: {by.typed('evaluate', str(trained.path))}")
    else:
        show.print_text(
            f"unfinished: run the same command again to resume; all runs: {by.typed('runs', str(trained.path))}"
        )
