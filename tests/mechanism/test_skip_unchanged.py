"""What cannot have changed is not computed, and nobody can tell: bit for bit the whole run."""

from __future__ import annotations

import pytest
import torch

from tests.models.cases import TUNNELS, VARIANTS, small
from windtunnel.mechanism import Bench, Place, ablation
from windtunnel.mechanism.ablate import METHODS, targets
from windtunnel.mechanism.anatomy import Anatomy
from windtunnel.mechanism.skip_unchanged import Start, start

TUNNEL = TUNNELS["hmm-rows"]
EPISODES = TUNNEL.sample(7)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def bench(variant: str, **options) -> Bench:
    return Bench(small(variant, TUNNEL, depth=3, **options), TUNNEL, EPISODES, chunk=4)


def ran(model, run) -> set[str]:
    """The modules that were called in it, by their paths before it."""
    called: set[str] = set()
    hooks = [
        module.register_forward_pre_hook(lambda *_, path=path: called.add(path))
        for path, module in model.named_modules()
    ]
    run()
    for hook in hooks:
        hook.remove()
    return called


def whole(one: Bench, changes) -> torch.Tensor:
    """The same run from the beginning."""
    one._resumable = False
    try:
        return one.run(changes)
    finally:
        one._resumable = True


@every_variant
@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_starts_at_the_change_is_the_whole_run(variant, method):
    one = bench(variant)
    assert one._resumable
    one.record(name for name in one.anatomy.shapes if name not in one.anatomy.recurrent)
    modules = dict(one.model.named_modules())
    for name in one.anatomy.shapes:
        changes = ablation(one, [Place(name)], method)
        assert torch.equal(one.run(changes), whole(one, changes)), name
    for target in targets(one.anatomy):
        changes = ablation(one, target.places, method)
        assert torch.equal(one.run(changes), whole(one, changes)), target.where
    assert dict(one.model.named_modules()) == modules  # everything is back in its place


@every_variant
def test_draws_side_by_side_start_there_too(variant):
    one = bench(variant)
    one.model.double()
    for target in targets(one.anatomy):
        several = [ablation(one, target.places, "mean", turn=turn) for turn in range(3)]
        each = one.run_each(several)
        for found, changes in zip(each, several, strict=True):
            assert torch.allclose(found, whole(one, changes), rtol=0, atol=1e-12), target.where


def test_only_what_comes_after_the_change_is_computed():
    one = bench("transformer", heads=4)
    parts = {f"blocks.{i}.{part}" for i in range(3) for part in ("attention.qkv", "attention.out", "ff.up")}
    one.record(f"blocks.1.{name}" for name in ("attention.head_out", "attention.out", "ff.out"))
    last = {"blocks.2.attention.qkv", "blocks.2.attention.out", "blocks.2.ff.up"}
    for name, own in {
        "blocks.1.attention.q": {"blocks.1.attention.qkv", "blocks.1.attention.out", "blocks.1.ff.up"},
        "blocks.1.attention.head_out": {"blocks.1.attention.out", "blocks.1.ff.up"},
        "blocks.1.attention.out": {"blocks.1.ff.up"},
        "blocks.1.ff.hidden": {"blocks.1.ff.up"},
        "blocks.1.ff.out": set(),
        "blocks.1.residual": set(),
    }.items():
        changes = ablation(one, [Place(name)], "zero")
        assert ran(one.model, lambda changes=changes: one.run(changes)) & parts == last | own, name
    assert ran(one.model, lambda: one.run({})) & parts == parts


def test_what_a_module_returns_is_seen_not_guessed():
    """A block whose feed-forward part is scaled after it was handed over returns no tensor that is known."""
    model = small("transformer", TUNNEL)
    returned = Anatomy.of(model, EPISODES.inputs).returned
    assert returned["blocks.1"] == "blocks.1.residual" and returned["blocks.1.ff"] == "blocks.1.ff.out"
    assert returned["blocks.0.attention"] == "blocks.0.attention.out"
    assert "blocks.0.attention_norm" not in returned and "blocks.0.attention.qkv" not in returned

    model.blocks[1].ff = Scaled(model.blocks[1].ff)
    model.blocks[0].ff.down = torch.nn.Sequential(model.blocks[0].ff.down, torch.nn.Identity())
    returned = Anatomy.of(model, EPISODES.inputs).returned
    assert "blocks.1.ff" not in returned and returned["blocks.1.ff.inner"] == "blocks.1.ff.out"
    assert not any("down" in path for path in returned)
    one = Bench(model, TUNNEL, EPISODES)
    one.record(["blocks.1.attention.out", "blocks.1.ff.out"])
    changes = ablation(one, [Place("blocks.1.ff.out")], "mean")
    assert torch.equal(one.run(changes), whole(one, changes))


class Scaled(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, tap, name):
        return 0.5 * self.inner(x, tap, name)


def test_a_start_needs_no_more_than_it_reads():
    order = ["embed", "blocks.0.ff.out", "blocks.0.residual", "blocks.1.ff.out", "blocks.1.residual", "final"]
    returned = {
        f"blocks.{i}{part}": f"blocks.{i}{name}"
        for i in (0, 1)
        for part, name in (("", ".residual"), (".ff", ".ff.out"))
    }
    streams = {"blocks.0.residual", "blocks.1.residual"}
    assert start(returned, order, ["final"], streams) == Start(
        {"blocks.0": "blocks.0.residual", "blocks.1": "blocks.1.residual"}, frozenset({"blocks.1.residual"})
    )
    assert start(returned, order, ["final", "blocks.1.ff.out"], streams).needed == {"blocks.0.residual"}
    assert start(returned, order, ["blocks.0.ff.out"], streams) == Start()
    assert start(returned, order, ["blocks.*.ff.out"], set(order)) == Start()  # a pattern: from the beginning
    assert start(returned, order, [], set(order)) == Start()
