"""`windtunnel scorecard MODEL …`: which primitives architectures realise, with a second, longer chance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from windtunnel.cli import plugins, show
from windtunnel.cli.flags import Device, Float, Folder, Switch
from windtunnel.cli.ledger import print_share_legend
from windtunnel.cli.parse import leading, parse
from windtunnel.cli.progress import interruptible, say, watch
from windtunnel.errors import require_choice
from windtunnel.models import names
from windtunnel.report import Asked
from windtunnel.study import Scorecard, scorecard
from windtunnel.study.scorecard_plan import LONGER, PRESET, STEPS


@dataclass(frozen=True)
class Options:
    """What can an architecture infer in context?  Name built-in models, or your own with --plugin: each is trained on
    one small world per primitive (accumulation, transport, binding) and scored against the exact belief.

    Where a primitive is not realised, training is repeated from scratch for four times as long, so that too little
    training is not mistaken for a limit of the architecture.  A built-in model takes a minute or two on a CPU.

    Run the same command again to resume: finished work is kept, and you may add models.  If a model's code has changed
    since, add --replace.
    """

    out: Folder = None
    """Results folder, for `windtunnel report`. Default: results/scratch/scorecard."""
    steps: int = STEPS
    """Steps of each training."""
    longer: int = LONGER
    """How many times as long the second attempt trains; 1: no second attempt."""
    seeds: int = 1
    """Networks of each model in each world: seeds 0, 1, …"""
    max_minutes: Float = None
    """Stop after this many minutes, with everything saved; run the same command again to resume."""
    replace: Switch = False
    """Retrain these models from scratch, even where they are finished."""
    device: Device = None
    """Where to compute. Default: the CPU."""
    json: Switch = False
    """Print one JSON document instead of a table."""


def run(words: list[str]) -> None:
    """Train what is not trained yet, then show it."""
    asked, rest = _split(words)
    options = parse(Options, rest, prog="windtunnel scorecard MODEL [MODEL …]")
    out = options.out or Path("results") / "scratch" / PRESET
    budget = {"steps": options.steps, "longer": options.longer, "seeds": options.seeds}
    limits = {"device": options.device, "max_minutes": options.max_minutes, "replace": options.replace}
    again = f"the same command {'without --replace' if options.replace else 'again'}"
    with interruptible(out, again):
        card = scorecard(asked, out, **budget, **limits, say=say, watch=watch)
    if options.json:
        show.print_json(card.to_dict())
    else:
        _print(card, again)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The models, and the options after them."""
    if words[:1] in (["-h"], ["--help"]):
        return [], words
    leading("scorecard", words, f"one or more models, of {', '.join(names())}")
    count = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    with plugins.of_ones_own("model"):
        for model in words[:count]:
            require_choice("model", model, names())
    return words[:count], words[count:]


def _print(card: Scorecard, again: str) -> None:
    columns = ["architecture", "parameters", *(f"{primitive}\n{world}" for primitive, world in card.worlds.items())]
    rows = [[model, card.size(model), *("\n".join(card.told(model, p)) for p in card.worlds)] for model in card.models]
    bases = (card.bases.get(primitive) for primitive in card.worlds)
    rows.append(["B, the best without it", "", *("" if base is None else base.told for base in bases)])
    show.print_table("", columns, rows, "l" * len(columns))
    for line in card.remarks():
        show.print_text(f"{line}.")
    if card.longer == 1 and card.remarks():
        show.print_text(f"No second chance was given: --longer {LONGER} gives one, four times as long.")
    if not card.finished:
        show.print_text(f"Unfinished: run {again} to train the rest.", "bold")
    print_share_legend("KL is taken at the readouts that need the primitive.")
    folder = card.folder.path
    page = Asked(plugins=plugins.named()).typed("report", folder, "--no-zoo")
    show.print_text(f"results: {folder}; as a page: {page}")
