"""A scorecard tells what planted architectures realise, gives a second chance where one is needed, and goes on."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import windtunnel as wt
from windtunnel.errors import InputError
from windtunnel.report.making import commands
from windtunnel.report.shares import realised
from windtunnel.report.source import Source
from windtunnel.study import Scorecard, StudyFolder, reproduce
from windtunnel.study.folder.discard import discard
from windtunnel.study.plan import World
from windtunnel.study.quick_plan import quick
from windtunnel.study.running import making
from windtunnel.study.scorecard_plan import EPISODES, STEPS, WORLDS, plan

URN = World("few-draws", wt.tunnels.Urn(symbols=5, length=8))
PAIRS = World("few-pairs", wt.tunnels.Bijection(symbols=3, length=5, replacement=True))
TINY = (URN, PAIRS)
BUDGET: dict[str, Any] = {"worlds": TINY, "steps": 12, "longer": 20}


class Counting(nn.Module):
    """Of an urn the exact belief is told by the counts: right at a scale of 1.  It looks nothing up."""

    def __init__(self, tunnel, scale: float):
        super().__init__()
        self.scale, self.classes = nn.Parameter(torch.tensor(scale)), tunnel.classes
        self.alpha = tunnel.concentration if isinstance(tunnel, wt.tunnels.Urn) else None

    def forward(self, tokens, features, readout):
        if self.alpha is None:
            return 0.0 * self.scale + torch.zeros(len(tokens), len(readout), self.classes)
        seen = nn.functional.one_hot(tokens, self.classes + 1)[..., :-1].cumsum(1)  # the last token is START
        return self.scale * torch.log(seen + self.alpha)[:, readout]


@pytest.fixture(scope="module", autouse=True)
def planted():
    """An architecture that counts from the start, one that has to learn it, and others that cannot be trained."""
    own = {
        "counter": lambda tunnel: Counting(tunnel, 1.0),
        "slow": lambda tunnel: Counting(tunnel, 0.0),
        "slow-longer": lambda tunnel: Counting(tunnel, 0.0),
        "references": lambda tunnel: Counting(tunnel, 1.0),
        "ahead": lambda tunnel: Ahead(tunnel),
        "urns-only": lambda tunnel: Counting(tunnel, tunnel.colours),
    }
    for name, factory in own.items():
        wt.models.register(name, factory)
    yield
    for name in own:
        wt.models.unregister(name)


class Ahead(nn.Module):
    """Reads the whole sequence at once."""

    def __init__(self, tunnel):
        super().__init__()
        self.embed = nn.Embedding(tunnel.vocabulary, tunnel.classes)

    def forward(self, tokens, features, readout):
        return self.embed(tokens).sum(1, keepdim=True).expand(-1, len(readout), -1)


@pytest.fixture(scope="module")
def card(tmp_path_factory) -> Scorecard:
    """Both counters, uninterrupted."""
    return wt.scorecard(["counter", "slow"], tmp_path_factory.mktemp("card") / "study", **BUDGET)


def test_what_was_planted_is_told(card):
    assert card.realised == {"counter": ("accumulation",), "slow": ("accumulation",)} and card.finished
    assert card.models == ("counter", "slow") and card.size("counter") == "1"


def test_a_second_chance_is_taken_only_where_it_is_needed(card):
    steps = {pair: [attempt.steps for attempt in made] for pair, made in card.attempts.items()}
    assert steps == {
        ("counter", "accumulation"): [12],
        ("counter", "binding"): [12, 240],
        ("slow", "accumulation"): [12, 240],
        ("slow", "binding"): [12, 240],
    }
    first, second = card.attempts["slow", "accumulation"]
    assert first.share.state in ("absent", "partial") and second.share.state == "realised"
    assert second.cell == "few-draws-slow-longer" and second.seeds == first.seeds == (0,)
    assert (card.folder.path / "runs" / "few-draws-slow-longer" / "recipe.json").exists()
    assert not (card.folder.path / "runs" / "few-draws-counter-longer").exists()


def test_both_budgets_and_what_they_do_not_show_are_told(card):
    first, second = card.attempts["slow", "accumulation"]
    lines = str(card).splitlines()
    kl = first.share.kl_bits
    told = f"  accumulation: {first.share.brief}, KL {kl:.3g} bits after 12 steps, {second.share.brief}, KL "
    assert lines[3] == "slow, 1 parameters" and lines[4].startswith(told) and lines[4].endswith("after 240 steps")
    assert lines[2].startswith("  binding: absent (no better than B) -")
    assert "B, the best without binding: familiarity: 0, KL " in str(card)
    assert lines[-2] == (
        "counter did not realise binding (absent) within 240 steps: what it reached with this budget, not what the "
        "architecture cannot do"
    )
    assert len(card.remarks()) == 2


def test_the_plain_data(card):
    told = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    slow = told["models"]["slow"]["accumulation"]
    assert told["finished"] and told["longer"] == 20 and slow["state"] == "realised" and not slow["to_come"]
    assert [one["steps"] for one in slow["attempts"]] == [12, 240]
    assert told["bases"]["accumulation"]["name"] == "last-observation"
    assert slow["attempts"][0]["share"]["state"] == card.attempts["slow", "accumulation"][0].share.state


def test_the_page_counts_the_second_chance_and_names_the_command(card):
    source = Source(card.folder.path, head=card.folder.head(), cells=card.folder.cells())
    assert realised(source) == (
        "`counter` and `slow` realise accumulation (binding no better than without it),"
        " within the steps that each was given."
    )
    study = f"windtunnel scorecard counter slow --steps 12 --longer 20 --out {card.folder.path}"
    assert commands(source)[0] == study
    mine = {"kind": "networks", "model": "slow-longer", "recipe": {"steps": STEPS}, "seeds": [0]}
    named = Source(Path("here"), head=card.folder.head(), cells={"few-draws-slow-longer": mine})
    assert commands(named)[0] == "windtunnel scorecard slow-longer --out here"
    begun = Source(Path("here"), head=card.folder.head(), cells={})
    assert commands(begun)[0] == "windtunnel scorecard MODEL --out here"


def test_without_a_second_chance(card):
    again = wt.scorecard("slow", card.folder.path, **BUDGET | {"longer": 1})  # nothing is trained for it
    assert len(again.attempts["slow", "accumulation"]) == 1 and again.realised == {"slow": ()} and again.finished
    (remark,) = again.remarks()
    assert "did not realise accumulation (absent) and binding (absent) within 12 steps: " in remark


def test_numbers_may_be_those_of_numpy(card):
    budget: dict[str, Any] = BUDGET | {"steps": np.int64(12), "longer": np.int32(20), "max_minutes": np.float32(9)}
    assert wt.scorecard("slow", card.folder.path, **budget).finished


def test_what_is_made_is_kept_and_others_may_be_added(card):
    before = {path: path.stat().st_mtime_ns for path in card.folder.path.glob("cells/*.json")}
    said: list[str] = []
    again = wt.scorecard(["slow", "counter"], card.folder.path, **BUDGET, say=said.append)
    kept = "counter, slow: what is done is kept; if the code has changed since: --replace, in Python replace=True"
    assert said == [kept, "4 of 4 cells are done and kept", "3 of 3 cells are done and kept"]
    assert {path: path.stat().st_mtime_ns for path in card.folder.path.glob("cells/*.json")} == before
    assert again.attempts == card.attempts


@pytest.mark.parametrize("trainings", [1, 3, 5])
def test_it_goes_on_after_an_interrupt(trainings, card, tmp_path, monkeypatch):
    """In the first chances, between them and the second ones, and among those."""
    done, real = 0, making.train

    def interrupted(**options):
        nonlocal done
        done += 1
        if done > trainings:
            raise KeyboardInterrupt
        return real(**options)

    monkeypatch.setattr(making, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        wt.scorecard(["counter", "slow"], tmp_path, **BUDGET)
    trainings = 10**9
    assert wt.scorecard(["counter", "slow"], tmp_path, **BUDGET).attempts == card.attempts


def test_a_little_at_a_time(card, tmp_path):
    said: list[str] = []
    part = wt.scorecard(["counter", "slow"], tmp_path, **BUDGET, max_minutes=1e-4, say=said.append)
    assert not part.finished and "still to come" in str(part) and not part.remarks()
    assert part.to_dict()["models"]["slow"]["binding"] == {"state": None, "attempts": [], "to_come": True}
    assert "run the same command again to resume" in said[-1]
    assert wt.scorecard(["counter", "slow"], tmp_path, **BUDGET, max_minutes=10).attempts == card.attempts


def test_the_time_is_for_both_chances_together(tmp_path, monkeypatch):
    given = []

    def noted(*words, max_minutes, **options):
        given.append(max_minutes)
        return reproduce(*words, max_minutes=None, **options)

    monkeypatch.setattr(sys.modules["windtunnel.study.scorecard"], "reproduce", noted)  # the room has its function
    wt.scorecard("slow", tmp_path, **BUDGET, max_minutes=5)
    assert given[0] == 5 and 0 < given[1] < 5


def test_seeds_that_fall_apart_are_told_by_number(card):
    first = card.attempts["counter", "accumulation"][0]
    some = replace(first.share, per_seed=(0.99, 0.98, 0.1), diverged=1)
    assert some.brief == "realised in 2 of 3 seeds, median 0.98, 1 diverged"


# --- the plan
def test_the_budget_is_that_of_the_quick_study():
    names = [*wt.models.names()[:5], "counter"]
    made = {cell.name: cell.recipe for cell in plan(names, WORLDS, STEPS, 1).cells}
    known = {cell.name: cell.recipe.with_options(ladder=0) for cell in quick().cells}
    assert {name: made[name] for name in known} == known and EPISODES == quick().episodes
    own, ours = made["small-urn-counter"], made["small-urn-lstm"]
    assert own.model_options == {} and own == ours.with_options(
        model="counter", model_options={}, name="small-urn-counter"
    )


# --- what is refused, before anything is trained
@pytest.mark.parametrize(
    ("models", "options", "line"),
    [
        ("gruu", {}, "model = 'gruu': must be one of transformer"),
        ([], {}, "models = []: must be one or more names"),
        (Counting, {}, "must be one or more names, such as 'transformer'"),
        (["counter", "counter"], {}, "models = 'counter': must be given once each"),
        (["counter", "ahead"], {}, "in the world few-draws: model ahead"),
        (["counter", "urns-only"], {}, "in the world few-draws: model urns-only: its factory failed"),
        ("references", {}, "few-draws-references would be two things"),
        (["slow", "slow-longer"], {}, "few-draws-slow-longer would be two things"),
        ("counter", {"steps": 0}, "steps = 0: must be"),
        ("counter", {"longer": 0}, "longer = 0: must be"),
        ("counter", {"seeds": 0}, "seeds = 0: must be"),
        ("counter", {"max_minutes": 0}, "max_minutes = 0: must be a finite number above 0"),
        ("counter", {"max_minutes": "long"}, "max_minutes = 'long': must be a finite number above 0"),
        ("counter", {"out": 3}, "out = 3: must be a path"),
        ("counter", {"device": "tpu"}, "device = 'tpu'"),
        ("counter", {"worlds": ()}, "worlds = (): must be"),
        ("counter", {"worlds": (URN, replace(URN, name="other"))}, "which no other world tests"),
        ("counter", {"worlds": (replace(URN, name="urn"),)}, "world = 'urn': must be another name than those of the"),
        ("counter", {"worlds": (World("plain", wt.tunnels.HMM()),)}, "world plain = HMM("),
    ],
)
def test_refusals(models, options, line, tmp_path):
    given: dict[str, Any] = BUDGET | {"out": tmp_path / "out"} | options
    with pytest.raises(InputError) as refused:
        wt.scorecard(models, **given)
    assert line in str(refused.value) and "\n" not in str(refused.value) and not (tmp_path / "out").exists()


def test_what_has_changed_is_trained_anew_where_it_is_said_so(tmp_path, monkeypatch):
    """An edited network of equal size: its old numbers stay until they are replaced, those of others for good."""
    once = BUDGET | {"worlds": (URN,), "longer": 1}
    scale = {"made": 0.0}
    wt.models.register("edited", lambda tunnel: Counting(tunnel, scale["made"]))
    try:
        before = wt.scorecard(["edited", "counter"], tmp_path, **once).attempts["edited", "accumulation"][0].share
        scale["made"] = 1.0  # the edit: it counts from the start
        cell = tmp_path / "cells" / "few-draws-counter.json"
        untouched = cell.stat().st_mtime_ns
        said: list[str] = []
        kept = wt.scorecard("edited", tmp_path, **once, say=said.append).attempts["edited", "accumulation"][0].share
        assert kept == before and said[0].startswith("edited: what is done is kept; if the code has changed")
        with monkeypatch.context() as patch:
            patch.setattr(making, "train", lambda **options: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                wt.scorecard("edited", tmp_path, **once, replace=True)
        assert not (tmp_path / "cells" / "few-draws-edited.json").exists()
        assert not (tmp_path / "runs" / "few-draws-edited").exists()  # old weights are not gone on with
        after = wt.scorecard("edited", tmp_path, **once).attempts["edited", "accumulation"][0].share
        assert after.per_seed[0] > 0.99 > before.per_seed[0] and cell.stat().st_mtime_ns == untouched
        more = wt.scorecard("edited", tmp_path, **once | {"steps": 13}, replace=True)  # another budget is not refused
        assert more.attempts["edited", "accumulation"][0].steps == 13
    finally:
        wt.models.unregister("edited")


def test_a_network_that_gives_no_numbers_has_no_score(tmp_path):
    """It would be told with the uniform guess in its place, as one whose training diverged is."""
    wt.models.register("nan", lambda tunnel: Counting(tunnel, float("nan")))
    try:
        with pytest.raises(InputError, match="few-draws-nan: seed 0: the predictions were not finite before any step"):
            wt.scorecard("nan", tmp_path, **BUDGET)
    finally:
        wt.models.unregister("nan")
    assert not list(tmp_path.glob("cells/*nan*.json"))


def test_what_is_being_replaced_goes_whole_even_if_a_kill_comes_in_between(tmp_path, monkeypatch):
    """Old numbers of some cells among new ones of others would be taken for those of one network."""
    once = BUDGET | {"longer": 1}
    wt.scorecard("mlp", tmp_path, **once)
    cells = [tmp_path / "cells" / f"{world.name}-mlp.json" for world in once["worlds"]]
    before = {cell: cell.stat().st_mtime_ns for cell in cells}

    def stopped(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["windtunnel.study.scorecard"], "rehearse", stopped)
        with pytest.raises(KeyboardInterrupt, match="before anything was replaced; earlier results are as they were"):
            wt.scorecard("mlp", tmp_path, **once, replace=True)
    assert {cell: cell.stat().st_mtime_ns for cell in cells} == before
    with monkeypatch.context() as patch:
        gone: list[Path] = []

        def one_and_no_more(folder):
            if gone:
                raise KeyboardInterrupt
            gone.append(folder)
            discard(folder)

        patch.setattr("windtunnel.study.folder.results.discard", one_and_no_more)
        with pytest.raises(KeyboardInterrupt):
            wt.scorecard("mlp", tmp_path, **once, replace=True)
    assert sum(cell.exists() for cell in cells) == len(cells) - 1
    wt.scorecard("mlp", tmp_path, **once)
    assert all(cell.stat().st_mtime_ns > before[cell] for cell in cells)
    assert not (tmp_path / "to-forget.json").exists()


@pytest.mark.parametrize("names", ["../cells", "", "..", 3])
def test_a_list_of_what_to_forget_that_names_no_cell_is_refused(card, tmp_path, names):
    """An empty name would be that of all networks together."""
    copy = shutil.copytree(card.folder.path, tmp_path / "copy")
    there = sorted(path for path in copy.rglob("*"))
    (copy / "to-forget.json").write_text(json.dumps([names]))
    with pytest.raises(InputError, match=r"to-forget\.json: must be a list of names of cells"):
        StudyFolder(copy).finish_forgetting()
    assert sorted(path for path in copy.rglob("*") if path.name != "to-forget.json") == there


def test_what_is_half_made_is_replaced_too(tmp_path):
    """Its networks stayed on another machine: only the draft of the cell is here."""
    once = BUDGET | {"worlds": (URN,), "longer": 1}
    said: list[str] = []
    wt.scorecard("mlp", tmp_path, **once)
    cell = tmp_path / "cells" / "few-draws-mlp.json"
    cell.rename(cell.with_suffix(".part"))
    shutil.rmtree(tmp_path / "runs")
    more = wt.scorecard("mlp", tmp_path, **once | {"steps": 13}, replace=True, say=said.append)
    assert more.attempts["mlp", "accumulation"][0].steps == 13 and said[0].startswith("started over")
    assert not cell.with_suffix(".part").exists()


def test_where_nothing_is_there_nothing_is_started_over(tmp_path):
    said: list[str] = []
    once = BUDGET | {"worlds": (URN,), "longer": 1}
    wt.scorecard("mlp", tmp_path, **once)
    wt.scorecard("counter", tmp_path, **once, replace=True, say=said.append)
    assert not any("started over" in line for line in said)


def test_replacing_throws_nothing_away_before_all_is_checked(card):
    there = sorted(card.folder.path.rglob("*"))
    for models, options in (("counter", {"device": "tpu"}), (["counter", "ahead"], {}), ("counter", {"steps": 0})):
        with pytest.raises(InputError):
            wt.scorecard(models, card.folder.path, **BUDGET | options, replace=True)
    assert sorted(card.folder.path.rglob("*")) == there


def test_a_folder_with_something_else_is_refused_at_once(card, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "train", lambda **options: pytest.fail("nothing may be trained"))
    with pytest.raises(
        InputError, match=r"few-draws-counter.json: was made with steps = 12, not 13: give .* or --replace"
    ):
        wt.scorecard(["transformer", "counter"], card.folder.path, **BUDGET | {"steps": 13})
    with pytest.raises(InputError, match=r"few-pairs-counter-longer.json: was made with steps = 240, not 252: give"):
        wt.scorecard(["transformer", "counter"], card.folder.path, **BUDGET | {"longer": 21})
    (tmp_path / "study.json").write_text((card.folder.path / "study.json").read_text().replace("scorecard", "quick"))
    with pytest.raises(InputError, match="holds a study of preset 'quick': must be 'scorecard'"):
        wt.scorecard("counter", tmp_path, **BUDGET)


def test_a_run_and_a_study_do_not_share_a_folder(card, tmp_path):
    few = {"steps": 1, "params": 2000, "validation_episodes": 8, "device": "cpu"}
    wt.train(URN.tunnel, "mlp", out=tmp_path, **few)
    there = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for mixing in (lambda: wt.scorecard("mlp", tmp_path, **BUDGET), lambda: reproduce(out=tmp_path, device="cpu")):
        with pytest.raises(InputError, match="holds a run, not a study: must be another folder"):
            mixing()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == there
    there = sorted(card.folder.path.rglob("*"))
    with pytest.raises(InputError, match="holds a study, not a run: must be another folder"):
        wt.train(URN.tunnel, "mlp", out=card.folder.path, **few)
    assert sorted(card.folder.path.rglob("*")) == there


@pytest.mark.parametrize("part", ["cells", "runs"])
def test_a_run_is_not_kept_in_a_part_of_a_study(card, part):
    few = {"steps": 1, "params": 2000, "validation_episodes": 8, "device": "cpu"}
    with pytest.raises(InputError, match=rf"{part}: is a part of the study in .*: must be another folder"):
        wt.train(URN.tunnel, "mlp", out=card.folder.path / part, **few)


def test_what_was_only_begun_with_other_options_may_be_replaced(tmp_path):
    """Stopped in its first training: there is neither a record nor a draft, but a run."""
    once = BUDGET | {"worlds": (URN,), "longer": 1}
    wt.scorecard("mlp", tmp_path, **once)
    (tmp_path / "cells" / "few-draws-mlp.json").unlink()
    other = once | {"steps": 13}
    with pytest.raises(
        InputError, match=r"few-draws-mlp: was begun with steps = 12, not 13: give the same .*--replace"
    ):
        wt.scorecard("mlp", tmp_path, **other)
    assert wt.scorecard("mlp", tmp_path, **other, replace=True).attempts["mlp", "accumulation"][0].steps == 13


def test_an_architecture_that_has_changed_its_size_is_not_shown_with_old_numbers(card):
    def larger(tunnel):
        made = Counting(tunnel, 0.0)
        made.more = nn.Parameter(torch.zeros(2))
        return made

    wt.models.unregister("slow")
    wt.models.register("slow", larger)
    with pytest.raises(InputError, match=r"few-draws-slow.json: was made with 1 parameters, slow has 3 now"):
        wt.scorecard("slow", card.folder.path, **BUDGET)
    wt.models.unregister("slow")
    wt.models.register("slow", lambda tunnel: Counting(tunnel, 0.0))
