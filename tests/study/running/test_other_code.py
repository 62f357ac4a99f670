"""What was made with other code of one's own is put aside and made anew; nothing is lost and nothing else touched."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import windtunnel as wt
from tests.study.micro import micro, recipe
from windtunnel.errors import InputError
from windtunnel.models import registry as models
from windtunnel.study import StudyFolder, reproduce
from windtunnel.study.plan import Cell, Plan, World
from windtunnel.study.running import making
from windtunnel.study.running.other_code import made_otherwise, put_aside
from windtunnel.study.running.rate import planned
from windtunnel.tunnels import registry as tunnels

NETS = """
from torch import nn

SLOPE = 1.0

class Net(nn.Module):
    def __init__(self, tunnel):
        super().__init__()
        self.embed = nn.Embedding(tunnel.vocabulary, tunnel.classes)

    def forward(self, tokens, features, readout):
        return SLOPE * self.embed(tokens)[:, readout]
"""
EDITED = NETS.replace("SLOPE = 1.0", "SLOPE = 3.0")
WORLDS = """
from dataclasses import dataclass
import windtunnel as wt

@dataclass(frozen=True)
class Own(wt.tunnels.Urn):
    symbols: int = 3
    length: int = 4
"""
NET, OURS = "own-world-own-net", "own-world-mlp"
DONE = ["2 of 2 cells are done and kept"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Register what two plugins hold, written anew; the plan has that network and one of ours in that world."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for registry, known in ((models, "_REGISTERED"), (tunnels, "_TUNNELS")):
        monkeypatch.setattr(registry, "_CODE", {})
        monkeypatch.setattr(registry, known, dict(getattr(registry, known)))

    def written(nets: str = NETS, worlds: str = WORLDS) -> Plan:
        for module, text in (("own_nets", nets), ("own_worlds", worlds)):
            (tmp_path / f"{module}.py").write_text(text)
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        models._REGISTERED.pop("own-net", None)
        tunnels._TUNNELS.pop("own-world", None)
        wt.models.register("own-net", importlib.import_module("own_nets").Net)
        own = importlib.import_module("own_worlds").Own
        wt.tunnels.register("own-world", own)
        world = World("own-world", own())
        ours = recipe(world, "mlp-full")
        cells = (
            Cell(NET, world.name, ours.with_options(model="own-net", model_options={})),
            Cell(OURS, world.name, ours),
        )
        return replace(micro(), worlds=(world,), cells=cells)

    yield written
    for module in ("own_nets", "own_worlds"):
        sys.modules.pop(module, None)


def ran(out: Path, plan: Plan, **options: Any) -> list[str]:
    """A sitting on the CPU; what it said."""
    said: list[str] = []
    reproduce(out=out, plan=plan, device="cpu", say=said.append, **options)
    return said


def files(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def kl(out: Path) -> float:
    return StudyFolder(out).cell(NET)["conditions"]["home"]["metrics"]["kl_bits"]["mean"]


def test_an_edited_network_alone_is_made_anew(mine, tmp_path):
    """Another comment is not an edit.  What is put aside is whole, and a second time has a place of its own."""
    out = tmp_path / "study"
    ran(out, mine())
    made, was = files(out), kl(out)
    assert ran(out, mine(NETS + "# the end\n")) == DONE

    said, aside = ran(out, mine(EDITED)), out / ".other-code"
    assert said[:3] == [
        f"the code of model own-net has changed or is not known: what it made is kept in {aside}, and made anew",
        "1 of 2 cells are done and kept",
        f"cell 1 of 2: {NET}",
    ]
    assert kl(out) != was and f"cells/{NET}.json" in files(aside)
    assert files(aside).items() <= made.items() and len(files(aside)) == sum(f"/{NET}" in name for name in made)
    assert all(files(out)[kept] == made[kept] for kept in (f"cells/{OURS}.json", "cells/own-world-references.json"))
    assert f"kept in {aside}-2" in ran(out, mine())[0] and kl(out) == was


def test_an_edited_world_is_made_anew_with_its_baselines(mine, tmp_path):
    ran(tmp_path, mine())
    (line, *rest) = ran(tmp_path, mine(EDITED, WORLDS + "STRANGE = 1\n"))
    assert line.startswith("the code of model own-net and world own-world has changed")
    assert "own-world: baselines" in rest and len(files(tmp_path / ".other-code" / "cells")) == 3


def test_only_what_is_asked_for_is_put_aside(mine, tmp_path):
    """And that only where it can be made anew."""
    ran(tmp_path, mine())
    made, plan = files(tmp_path / "cells"), mine(EDITED)
    with pytest.raises(InputError, match="must have a GPU"):
        ran(tmp_path, replace(plan, gpu=True))
    ran(tmp_path, replace(plan, cells=plan.cells[1:]))
    assert files(tmp_path / "cells") == made and not (tmp_path / ".other-code").exists()


def test_a_training_that_was_killed_does_not_go_on_with_other_code(mine, tmp_path, monkeypatch):
    """The weights that are there are those of the old code."""
    real, out, whole = making.train, tmp_path / "study", tmp_path / "whole"

    def killed(**options: Any) -> None:
        real(**options | {"max_minutes": 1e-9})
        raise KeyboardInterrupt

    plan = mine()
    with monkeypatch.context() as patch:
        patch.setattr(making, "train", killed)
        with pytest.raises(KeyboardInterrupt):
            ran(out, plan)
    assert (out / "runs" / NET / "recipe.json").exists() and not StudyFolder(out).finished(NET)
    assert made_otherwise(StudyFolder(out), plan) == {}
    plan = mine(EDITED)
    assert ran(out, plan)[0].startswith("the code of model own-net has changed")
    ran(whole, plan)
    assert kl(out) == kl(whole)


def test_a_kill_while_it_is_put_aside_leaves_what_is_moved_next_time(mine, tmp_path, monkeypatch):
    ran(tmp_path, mine())
    made, plan, rename = files(tmp_path), mine(EDITED), Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name == f"{NET}.json":
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            ran(tmp_path, plan)
    ran(tmp_path, plan)
    kept = files(tmp_path / ".other-code") | files(tmp_path / ".other-code-2")
    assert kept == {name: text for name, text in made.items() if f"/{NET}" in name}


@pytest.mark.parametrize("known", ["then", "now"])
def test_code_that_is_not_known_counts_as_other_code_but_only_once(mine, tmp_path, known):
    """As in results of earlier versions, or where a network moves between a prompt and a file."""
    out, plan = tmp_path / "study", mine()
    codes = dict(models._CODE)
    if known == "now":
        models._CODE.clear()
    ran(out, plan)
    assert ran(out, plan) == DONE
    models._CODE.clear() if known == "then" else models._CODE.update(codes)
    assert ran(out, plan)[0].startswith("the code of model own-net has changed or is not known")
    assert ran(out, plan) == DONE


def test_networks_without_a_word_of_their_code_are_not_gone_on_with(mine, tmp_path):
    plan = mine()
    ran(tmp_path, plan)
    for name in (NET, OURS):
        (tmp_path / "cells" / f"{name}.json").unlink()
    both = {"model own-net", "world own-world"}
    assert made_otherwise(StudyFolder(tmp_path), plan) == {NET: both, OURS: {"world own-world"}}


def test_the_trials_of_a_rate_go_with_their_cell(mine, tmp_path):
    def swept(nets: str = NETS) -> Plan:
        plan = mine(nets)
        return replace(plan, cells=(replace(plan.cells[0], sweep=NET),))

    plan, study, said = swept(), StudyFolder(tmp_path), list[str]()
    study.begin(plan.preset)
    study.write_sweep(NET, {"planned": planned(plan, plan.cells[0]), "kl_bits": {"0": 0.5, "1": 0.6, "-1": 0.1}})
    (tmp_path / "sweeps" / f"{NET}-2").mkdir()  # one that was not finished
    (tmp_path / "sweeps" / f"{NET}-longer.json").write_text("{}")  # another cell's
    assert made_otherwise(study, plan) == {}
    put_aside(study, swept(EDITED), said.append)
    assert len(said) == 1
    assert {path.name for path in (tmp_path / ".other-code" / "sweeps").iterdir()} == {f"{NET}.json", f"{NET}-2"}
    assert [path.name for path in (tmp_path / "sweeps").iterdir()] == [f"{NET}-longer.json"]


def test_two_folders_made_with_other_code_are_not_put_together(mine, tmp_path):
    ran(tmp_path / "one", mine())
    ran(tmp_path / "two", mine(EDITED))
    with pytest.raises(InputError, match=rf"{NET}\.json: was made with another code: "):
        StudyFolder(tmp_path / "one").take(StudyFolder(tmp_path / "two"))
