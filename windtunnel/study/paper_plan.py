"""The full-size study: one H200, at most two hours, the whole survey included.

Every compared architecture has 2.67M parameters (±1%) and, in each world, the same batch, steps and so the same number
of training sequences, and its own learning-rate sweep.  Five seeds for the headline cells, three elsewhere, one for the
control.  Beside them run the paper's optimiser and shapes at our budget: its own 100,000 and more steps are beyond two
hours.

The twelve networks whose geometry is surveyed (three architectures in four worlds) come first, and one training serves
both the claims and the survey; then whatever serves most claims per second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.errors import require
from windtunnel.geometry.instruments import LADDER
from windtunnel.mechanism.survey import NAMES
from windtunnel.study.claims import CLAIMS
from windtunnel.study.plan import Cell, Plan
from windtunnel.study.running.duration import cell_seconds
from windtunnel.study.worlds import WORLDS
from windtunnel.training import Recipe, recipe_for
from windtunnel.training.tuned_recipes import PAPER_SIZE
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel

ARCHITECTURES = ("transformer", "mamba", "lstm", "mlp", "linear-attention")
ONLY_IN = {
    "bijection-replacement": ARCHITECTURES,
    "recall": ARCHITECTURES,
    "hmm-sticky": ("lstm", "mlp"),
}
"""Worlds with other architectures than the paper's four.  The linear-attention model is there for binding, which is
said to need softmax; sticky chains are the control of those that are said to lack transport."""
HEADS = (1, 12)
"""Heads of the head-count sweep, at 6 layers of width 192; the paper's shape has 6."""
AGAIN = {
    "hmm-transformer": 6,
    "hmm-mamba": 5,
    "hmm-lstm": 5,
    "bijection-transformer": 6,
    "bijection-lstm": 5,
    "bijection-replacement-transformer": 6,
    "hmm-rotating-transformer": 5,
    "hmm-transformer-9x256": 5,
    "hmm-transformer-9x256-learned": 3,
}
"""Cells that were made once before, with fewer seeds, by an older rule or with fewer instruments, and left a statement
open: made again on so many seeds that nobody had looked at (`FRESH` and on), so that the first look counts for
nothing."""
FRESH = 10
HEADLINE = (
    *("hmm-transformer", "hmm-mamba", "hmm-lstm", "hmm-transformer-9x256"),
    *("bijection-transformer", "bijection-replacement-transformer"),
    *("recall-transformer", "recall-mamba"),
)
"""Cells whose own numbers are published or tested over seeds: five seeds.  The others are held against lines far from
where they come out, or read for "cannot", which one network that can refutes."""
LEAST_STEPS = 1000
"""With fewer, a cell would tell how fast an architecture starts, not what it reaches."""
BATCH = 1024
STEPS = {
    "bijection": 4000,
    "hmm": 3000,
    **dict.fromkeys(("urn", "recall"), LEAST_STEPS),
    **dict.fromkeys(("bijection-replacement", "hmm-rotating", "hmm-sticky"), 2000),
}
"""Of each world, for every architecture but the position-wise MLP, which has learnt by 500 steps all it can see
(`benchmarks/results/h200/reach/hmm-mlp-position.json`)."""
RECALL_BATCH = 256
"""Long sequences: 256,000 of them, whatever the architecture."""
LONG_RECALL = 3000
"""Steps of Mamba beside the comparison: after 1,000 it was still learning, one seed of five having begun to bind."""
LONGEST = 2 * HMM.states + 50
"""Positions that learned position embeddings must cover for the paper's length test."""

READ = {
    "bijection-transformer": ("keys", "alignment", "values", "ablate", "heads", LADDER),
    "bijection-replacement-transformer": ("values", "alignment"),
    "hmm-transformer": ("beliefs", "late", "roles", LADDER),
    "hmm-mamba": ("values", "clusters"),
    "hmm-lstm": ("values",),
    "hmm-lstm-stacked": ("values",),
    "hmm-transformer-9x256": ("late",),
    "hmm-transformer-9x256-learned": ("late",),
}
"""Instruments that a claim reads: a cell is finished with these."""
READ_BESIDE = {"hmm-mamba": ("beliefs",), "hmm-lstm": ("beliefs",)}
"""Instruments that a claim reads as well, of all seeds, though cells were called finished before it did."""
READ_SEEDS, BESIDE_SEEDS = 4, 3
"""On so many seeds, and where there are more on all of them; the rest of the survey, which is shown and decides
nothing, on fewer."""
SURVEYED = (
    *(f"{w}-{m}" for w in ("hmm", "bijection", "bijection-replacement") for m in ("transformer", "mamba", "lstm")),
    *("recall-transformer", "recall-mamba-long", "recall-lstm"),
)
"""Cells that get the whole survey.  On recall Mamba learns nothing to be surveyed within the compared budget."""
RECALL_SURVEY = 24
"""Episodes of recall that are surveyed: 416 positions each, and 64 readouts; 1,536 in all, 2,560 in the others' 128."""
LADDER_RUNGS = 12
PUBLISHED = {
    "optimiser": "adamw",
    "betas": (0.9, 0.999),
    "weight_decay": 0.01,
    "clip": 1.0,
    "decay": "cosine",
    "decay_share": 1.0,
}
"""The paper's optimiser; batch and steps are ours."""


def paper() -> Plan:
    """The plan."""
    cells = [
        _main(world.name, world.tunnel, model)
        for world in WORLDS
        for model in ONLY_IN.get(world.name, ARCHITECTURES[:4])
    ]
    plan = Plan("paper", WORLDS, tuple(_finished(cell) for cell in [*cells, *_beside()]))
    require_fair(plan)
    return replace(plan, cells=tuple(in_order(plan)))


def served(cell: Cell) -> int:
    """How many claims read a cell, not counting those that only sum up others."""
    return sum(cell.name in claim.cells for claim in CLAIMS if claim.sums_up is None)


def in_order(plan: Plan) -> list[Cell]:
    """Surveyed cells first, then by claims served per second; a cell that takes over a rate comes after its owner."""
    worth = {cell.name: served(cell) / cell_seconds(cell, plan) for cell in plan.cells}
    ranked = sorted(plan.cells, key=lambda cell: (cell.name not in SURVEYED, -worth[cell.name]))
    followers = [cell for cell in ranked if cell.sweep not in (None, cell.name)]
    ordered = [cell for cell in ranked if cell not in followers]
    for cell in followers:
        owner = next(index for index, one in enumerate(ordered) if one.name == cell.sweep)
        ordered.insert(owner + 1, cell)
    return ordered


def require_fair(plan: Plan) -> None:
    """Refuse a comparison that is decided before it runs: too few steps, or unequal ones, in a world."""
    for world in plan.worlds:
        compared = [cell for cell in plan.cells if cell.world == world.name and cell.sweep is not None]
        for cell in compared:
            steps = cell.recipe.steps
            require(steps >= LEAST_STEPS, f"{cell.name}, steps", steps, f"at least {LEAST_STEPS}")
        budgets = sorted({(cell.sequences, cell.recipe.batch, cell.recipe.steps) for cell in compared})
        what = f"{world.name}, (sequences, batch, steps)"
        require(len(budgets) <= 1, what, budgets, "the same for every architecture")


def at_budget(recipe: Recipe, world: str) -> Recipe:
    """The recipe with the world's batch and steps, and a warm-up of at most a tenth of them."""
    tunnel = recipe.tunnel
    batch = RECALL_BATCH if isinstance(tunnel, Recall) else BATCH
    steps = STEPS[world]
    warmup = min(recipe.schedule.warmup, steps // 10)
    budget = {"batch": batch, "first_batch": 0, "steps": steps}
    return recipe.with_options(**budget, warmup=warmup, validate_every=max(1, steps // 12), ladder=0)


def trained_on(tunnel: Tunnel) -> Tunnel:
    """The tunnel to train in: recall mixes numbers of pairs, so that all numbers of pairs scored were also trained."""
    return replace(tunnel, mixed=True) if isinstance(tunnel, Recall) else tunnel


def _main(world: str, tunnel: Tunnel, model: str) -> Cell:
    recipe = at_budget(recipe_for(trained_on(tunnel), model, "standard"), world)
    # The control shows what the same recipe does without the primitive, so it takes over the chosen rate.
    sweep = f"hmm-rotating-{model}" if world == "hmm-sticky" else f"{world}-{model}"
    return Cell(f"{world}-{model}", world, recipe, sweep=sweep, overlap=model == "transformer")


def _beside() -> list[Cell]:
    """The 7.1M shape, the paper's optimiser and shapes, the position-wise MLP, and the head-count sweep."""
    hmm, bijection = HMM(), Bijection()
    slow = PUBLISHED | {"lr": 3e-4, "warmup": 1000}
    learned = {"preset": "paper-hmm", "positions": "learned", "max_length": LONGEST}
    position, stacked = {"params": PAPER_SIZE, "context": "position"}, {"params": PAPER_SIZE, "style": "stacked"}
    found = [
        _variant("hmm-transformer-9x256", hmm, "transformer", {"preset": "paper-hmm", "positions": "none"}),
        _variant("hmm-transformer-9x256-learned", hmm, "transformer", learned),
        _variant("hmm-transformer-paper", hmm, "transformer", learned, **slow),
        _variant("hmm-lstm-stacked", hmm, "lstm", {"preset": "paper-hmm"}, **slow),
        _swept(_variant("hmm-lstm-stacked-swept", hmm, "lstm", stacked)),
        _variant("hmm-mlp-position", hmm, "mlp", position, steps=LEAST_STEPS),
        _variant("bijection-mlp-position", bijection, "mlp", position, steps=LEAST_STEPS),
    ]
    # At the rate that its sweep chose for the compared budget.
    third = {"lr": 0.002 / 3, "muon_lr": 0.02 / 3}
    recall = trained_on(Recall(queries=64))
    found.append(_variant("recall-mamba-long", recall, "mamba", {"params": PAPER_SIZE}, steps=LONG_RECALL, **third))
    for heads in HEADS:
        shape = {"depth": 6, "width": 192, "ff_width": 768, "heads": heads, "positions": "none"}
        found.append(_variant(f"hmm-transformer-heads-{heads}", hmm, "transformer", shape))
    return found


def _variant(name: str, tunnel: Tunnel, model: str, shape: dict[str, Any], **options: Any) -> Cell:
    """The standard recipe of the pair with another shape or other settings; no sweep unless `_swept`."""
    world = name.partition("-")[0]
    recipe = at_budget(recipe_for(tunnel, model, "standard"), world)
    return Cell(name, world, recipe.with_options(model_options=shape, **options))


def _swept(cell: Cell) -> Cell:
    """With a learning-rate sweep of its own: a shape must not fail for a rate that suits another."""
    return replace(cell, sweep=cell.name)


def _finished(cell: Cell) -> Cell:
    """With its name, seeds and instruments; checkpoints along the way only where their dynamics are studied."""
    count = 1 if cell.world == "hmm-sticky" else 5 if cell.name in HEADLINE else 3
    seeds = range(FRESH, FRESH + AGAIN[cell.name]) if cell.name in AGAIN else range(count)
    read = dict.fromkeys(READ.get(cell.name, ()), max(len(seeds), READ_SEEDS))
    whole = [name for name in NAMES if name != LADDER or cell.recipe.model == "transformer"]
    rest = dict.fromkeys((name for name in whole if name not in read), BESIDE_SEEDS) if cell.name in SURVEYED else {}
    rest |= dict.fromkeys(READ_BESIDE.get(cell.name, ()), len(seeds))
    ladder = LADDER_RUNGS if LADDER in read | rest else 0
    recipe = cell.recipe.with_options(name=cell.name, ladder=ladder, seeds=tuple(seeds))
    episodes = RECALL_SURVEY if isinstance(recipe.tunnel, Recall) else None
    return replace(cell, recipe=recipe, instruments=read, beside=rest, survey_episodes=episodes)
