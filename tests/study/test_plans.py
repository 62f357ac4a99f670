"""The plans themselves: equal budgets and sizes, honest estimates, one line when something is in the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.mechanism.survey import INSTRUMENTS
from windtunnel.study.claims import CLAIMS
from windtunnel.study.paper_plan import AGAIN, ARCHITECTURES, FRESH, HEADLINE, SURVEYED, paper, require_fair, served
from windtunnel.study.plan import Plan
from windtunnel.study.presets import plan_for
from windtunnel.study.primitive_shares import reference_rows
from windtunnel.study.quick_plan import quick
from windtunnel.study.running.duration import (
    Known,
    beside_seconds,
    cell_seconds,
    disk_bytes,
    duration,
    instrument_seconds,
    plan_seconds,
    require_disk,
    training_seconds,
)
from windtunnel.study.running.overlap import fingerprints, overlap
from windtunnel.study.running.sweep import short
from windtunnel.study.trials import trial
from windtunnel.study.worlds import PAIRS
from windtunnel.training.tuned_recipes import PAPER_SIZE
from windtunnel.tunnels import HMM, Bijection, Recall, Tunnel, Urn

PAPER = paper()


def test_every_architecture_has_the_same_budget_in_a_world():
    for world in PAPER.worlds:
        beside = ("mlp-position", "mamba-long")  # one has learnt all it can see, one shows what more training gives
        here = [cell for cell in PAPER.cells if cell.world == world.name and not cell.name.endswith(beside)]
        assert len({(cell.recipe.batch, cell.recipe.steps) for cell in here}) == 1, world.name
    assert {c.sequences for c in PAPER.cells if c.world == "recall"} == {256_000, 768_000}


def test_a_comparison_that_is_decided_before_it_runs_is_refused():
    def changed(**options) -> Plan:
        cells = [
            replace(c, recipe=c.recipe.with_options(**options)) if c.name == "recall-mamba" else c for c in PAPER.cells
        ]
        return replace(PAPER, cells=tuple(cells))

    require_fair(changed())
    with pytest.raises(InputError, match="recall-mamba, steps = 150: must be at least 1000"):
        require_fair(changed(steps=150))
    for budget in ({"batch": 512}, {"first_batch": 64}):
        with pytest.raises(
            InputError, match=r"recall, \(sequences, batch, steps\) = .* the same for every architecture"
        ):
            require_fair(changed(**budget))


def test_warm_up_leaves_room_to_learn():
    for cell in PAPER.cells:
        if cell.sweep:
            assert cell.recipe.schedule.warmup <= cell.recipe.steps / 10, cell.name
            assert short(cell.recipe).schedule.warmup <= short(cell.recipe).steps / 5, cell.name


def test_it_fits_into_two_hours_and_runs_only_what_is_read():
    """With the survey, which is shown for its own sake beside what the claims need."""
    assert plan_seconds(PAPER) < plan_seconds(PAPER, beside=True) <= 7200
    read = {name for claim in CLAIMS for name in claim.cells} | {cell.sweep for cell in PAPER.cells}
    assert {cell.name for cell in PAPER.cells} <= read


def test_recall_is_scored_with_numbers_of_pairs_it_was_trained_with_at_the_trained_length():
    (world,) = [world for world in PAPER.worlds if world.name == "recall"]
    (cell,) = [cell for cell in PAPER.cells if cell.name == "recall-mamba"]
    trained = cell.recipe.tunnel
    assert isinstance(trained, Recall) and trained.mixed and not world.tunnel.mixed
    slots = {c.name: c.tunnel(world.tunnel).slots for c in world.conditions}
    assert all(slots[f"pairs-{n}"] == trained.slots for n in PAIRS)
    levels = set(trained.sample(200, stream="test").latent["order"].max(1).values.add(1).tolist())
    assert set(PAIRS) <= levels


@pytest.mark.parametrize("cell", [cell for cell in PAPER.cells if cell.sweep], ids=lambda cell: cell.name)
def test_compared_networks_are_of_the_paper_size(cell):
    assert cell.name.startswith(f"{cell.world}-{cell.recipe.model}") and cell.recipe.model in ARCHITECTURES
    with torch.device("meta"):
        network = models.build(cell.recipe.model, cell.recipe.tunnel, **cell.recipe.model_options)
    assert abs(models.describe(network).params / PAPER_SIZE - 1) <= 0.01


def test_seeds_and_names():
    names = [cell.name for cell in PAPER.cells]
    assert len(set(names)) == len(names) and set(HEADLINE) <= set(names)
    for cell in PAPER.cells:
        expected = 1 if cell.world == "hmm-sticky" else 5 if cell.name in HEADLINE else 3
        assert len(cell.recipe.seeds) == AGAIN.get(cell.name, expected)
        assert (min(cell.recipe.seeds) >= FRESH) == (cell.name in AGAIN)  # of what is made again nobody has seen a seed
        assert PAPER.world(cell.world).tunnel is not None
        if cell.sweep:  # the rate is known before it is taken over
            assert names.index(cell.sweep) <= names.index(cell.name)


def test_the_other_shapes_can_be_built():
    for cell in PAPER.cells:
        if not cell.sweep:
            with torch.device("meta"):
                models.build(cell.recipe.model, cell.recipe.tunnel, **cell.recipe.model_options)


def test_quick_has_one_world_per_primitive_and_each_is_worth_something():
    plan = quick()
    asked = [trial(world.tunnel) for world in plan.worlds]
    assert [one.primitive for one in asked if one] == ["accumulation", "transport", "binding"]
    for world in plan.worlds:
        for name, row in reference_rows(world.tunnel, episodes=500).items():
            if "accumulates no more" not in name:
                assert row.state == ("absent" if name.startswith("B: ") else "realised"), name


def test_the_surveyed_cells_come_first_and_the_order_is_by_claims_per_second():
    names = [cell.name for cell in PAPER.cells]
    assert set(names[:12]) == set(SURVEYED) and names[:2] == ["hmm-transformer", "bijection-transformer"]
    for cell in PAPER.cells[:12]:
        assert {**cell.instruments, **cell.beside}.keys() >= set(INSTRUMENTS) and min(cell.beside.values()) == 3
    assert all(not cell.beside for cell in PAPER.cells[12:])
    worth = [served(cell) / cell_seconds(cell, PAPER) for cell in PAPER.cells[12:] if cell.world != "hmm-sticky"]
    assert worth == sorted(worth, reverse=True)


def test_estimates_add_up_and_learn():
    baselines = 3.0 * sum(len(world.conditions) for world in PAPER.worlds)
    total = sum(cell_seconds(cell, PAPER) for cell in PAPER.cells)
    assert plan_seconds(PAPER) == pytest.approx(total + baselines)
    more = sum(beside_seconds(cell, PAPER) for cell in PAPER.cells)
    assert plan_seconds(PAPER, beside=True) == pytest.approx(total + baselines + more)
    cells = {cell.name: cell for cell in PAPER.cells}
    recipe = cells["hmm-mamba"].recipe.to_dict()
    done = {"kind": "networks", "model": "mamba", "world": "hmm", "tokens": 8e6, "seconds": {"train": 1.0}}
    done |= {"recipe": recipe, "seeds": [0, 1], "surveyed": {"values, seed 0": 1.0, "values, seed 1": 3.0}}
    larger = done | {"model": "transformer", "recipe": cells["hmm-transformer-9x256"].recipe.to_dict()}
    known = Known.of([done, larger, {"kind": "references"}])
    assert known.rates == {("mamba", "hmm"): 8e6}  # 7.1M parameters tell nothing about 2.67M
    faster = {name for name, cell in cells.items() if training_seconds(cell, known) < training_seconds(cell)}
    assert faster == {"hmm-mamba"}
    assert instrument_seconds("values", cells["hmm-mamba"], PAPER, known) == 2.0
    assert instrument_seconds("values", cells["hmm-lstm"], PAPER, known) == 5.3
    assert instrument_seconds("heads", cells["hmm-lstm"], PAPER) == 0.0  # it has none
    assert instrument_seconds("clusters", cells["recall-mamba"], PAPER) == 0.0


def test_disk(tmp_path):
    assert 2**30 < disk_bytes(PAPER.cells) < 2**35 and disk_bytes([]) < 2**25
    assert disk_bytes(quick().cells) < 2**26  # 39 thousand parameters, whether a recipe says params or a shape
    own = [replace(cell, recipe=replace(cell.recipe, model="mine", model_options={})) for cell in PAPER.cells[:1]]
    assert disk_bytes(own) > 2**28  # not known before it is built: room for a large one
    require_disk(tmp_path / "not" / "there", 1)
    with pytest.raises(InputError, match=r"GiB free: must be at least \d+\.\d GiB"):
        require_disk(tmp_path, 2**60)


def test_durations():
    assert [duration(s) for s in (42, 600, 9000, 300_000)] == ["42 s", "10 min", "2.5 h", "3.5 days"]


def test_unknown_preset():
    with pytest.raises(InputError, match="preset = 'huge': must be one of quick, paper"):
        plan_for("huge")


@pytest.mark.parametrize("tunnel", [Bijection(), HMM(), Recall(pairs=4, queries=1, keys=8, values=8), Urn()], ids=repr)
def test_fingerprints_tell_worlds_apart(tunnel: Tunnel):
    latent = tunnel.sample(500, seed=3, stream="test").latent
    found = fingerprints(tunnel, latent)
    assert len(set(found.tolist())) == 500
    assert torch.equal(found, fingerprints(tunnel, tunnel.sample(500, seed=3, stream="test").latent))


def test_overlap_counts_what_is_there():
    from tests.training.cases import tiny

    few = tiny(Bijection(symbols=3, length=3), batch=50, steps=4)  # six worlds in all: every test world was trained on
    assert overlap(few, 30, "cpu") == {"trained": 200, "test": 30, "shared": 30}
    many = tiny(Bijection(), batch=50, steps=4, seeds=(0, 1))
    assert overlap(many, 30, "cpu") == {"trained": 400, "test": 30, "shared": 0}
    growing = tiny(Bijection(), batch=48, first_batch=12, steps=6)
    assert overlap(growing, 30, "cpu") == {"trained": 2 * (12 + 24 + 48), "test": 30, "shared": 0}
