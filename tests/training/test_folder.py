"""Damaged folders: the message names the file and what is intact; asked to, training goes on from there, exactly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.training.cases import contents, spoil, states, tiny
from windtunnel.errors import InputError
from windtunnel.training import load, seed_folder, train
from windtunnel.training.folder import RunFolder
from windtunnel.training.network import Network

RECIPE = tiny(steps=8, validation_episodes=4)  # states every 2 steps, ladder 1, 3, 8


class Power(Exception):
    """The plug is pulled."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    train(recipe=RECIPE, out=folder, device="cpu")
    return contents(folder)


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    """A run cut off in step 7: states 4 and 6 are on disk, and metrics of step 6."""
    folder, advance = tmp_path_factory.mktemp("stopped"), Network.advance

    def until_six(network):
        if int(network.step) == 6:
            raise Power
        advance(network)

    Network.advance = until_six
    try:
        with pytest.raises(Power):
            train(recipe=RECIPE, out=folder, device="cpu")
    finally:
        Network.advance = advance
    return folder


@pytest.fixture
def stopped(stopped_once, tmp_path):
    return shutil.copytree(stopped_once, tmp_path / "run")


def go_on(folder, **options):
    said = []
    run = train(recipe=RECIPE, out=folder, device="cpu", say=said.append, **options)
    return run, said


def test_undamaged_it_goes_on_from_the_last_state(stopped, whole):
    run, said = go_on(stopped)
    assert said == [f"continuing {stopped} from step 6 of 8"]
    assert contents(stopped) == whole and run.finished


@pytest.mark.parametrize("how", ["truncated", "altered", "missing"])
def test_a_damaged_state_names_the_file_and_the_intact_one(stopped, whole, how):
    older, newer = states(stopped)
    assert (older.name, newer.name) == ("resume-00000004.safetensors", "resume-00000006.safetensors")
    spoil(newer, how)
    before = contents(stopped)
    with pytest.raises(InputError) as error:
        go_on(stopped)
    state = "missing" if how == "missing" else "truncated or altered"
    assert str(error.value) == (
        f"{newer}: is {state}; the checkpoint of step 4 ({older.name}) is intact; add --earlier to continue from there"
    )
    assert contents(stopped) == before  # refusing changes nothing
    run, said = go_on(stopped, earlier=True)
    assert said == [f"continuing {stopped} from step 4 of 8"]
    assert contents(stopped) == whole and run.finished


@pytest.mark.parametrize("how", ["truncated", "altered", "missing"])
def test_no_intact_state_starts_over_only_when_asked(stopped, whole, how):
    for path in states(stopped):
        spoil(path, how)
    with pytest.raises(InputError) as error:
        go_on(stopped)
    assert str(error.value).endswith("no earlier checkpoint is intact; add --earlier to start over")
    go_on(stopped, earlier=True)
    assert contents(stopped) == whole


def test_a_damaged_older_state_does_not_matter(stopped, whole):
    spoil(states(stopped)[0], "altered")
    go_on(stopped)
    assert contents(stopped) == whole


def test_earlier_without_damage_goes_on_from_the_last_state(stopped, whole):
    _, said = go_on(stopped, earlier=True)
    assert said == [f"continuing {stopped} from step 6 of 8"]
    assert contents(stopped) == whole


def test_metrics_cut_short_or_beyond_the_state_are_written_again(stopped, whole):
    metrics = stopped / "seed-0" / "metrics.jsonl"
    beyond = '{"step": 7, "loss_bits": 1.0, "kl_bits": 1.0, "entropy_mae_bits": 1.0}\n'
    metrics.write_text(metrics.read_text() + beyond + '{"step": 8, "lo')
    go_on(stopped)
    assert contents(stopped) == whole


def test_damaged_metrics_are_told_and_nothing_of_them_is_lost(stopped, whole):
    """Going on writes the file again: a line that cannot be read must not silently be missing from it then."""
    metrics = stopped / "seed-0" / "metrics.jsonl"
    good = metrics.read_text()
    first, *rest = good.splitlines(keepends=True)
    metrics.write_text("".join([first, "damaged\n", *rest]))
    before = contents(stopped)
    for attempt in (lambda: go_on(stopped), lambda: load(stopped).metrics()):
        with pytest.raises(InputError) as error:
            attempt()
        assert str(error.value).startswith(
            f"{metrics}: line 2 must be a JSON record with step, kl_bits, entropy_mae_bits, loss_bits, but is damaged"
        )
    assert contents(stopped) == before
    metrics.write_text(good)  # as the message says
    go_on(stopped)
    assert contents(stopped) == whole


def test_a_line_of_the_timings_may_be_cut_short_anywhere(stopped):
    timings = stopped / "timings.jsonl"
    whole = '{"seeds": [0], "train_s": 2.0, "setup_s": 1.0}\n'
    timings.write_text(whole + '{"seeds": [0], "tr')  # killed; the next sitting appends
    go_on(stopped)
    assert timings.read_text().splitlines()[1] == '{"seeds": [0], "tr'
    records = load(stopped).folder.timings()
    assert records[0]["train_s"] == 2.0 and len(records) == 2


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ({"step": "x"}, "line 1 must be a JSON record"),
        ({"step": -1}, "line 1 must be a JSON record"),
        ({"kl_bits": []}, "line 1 must be a JSON record"),
        ({"entropy_mae_bits": "x"}, "line 1 must be a JSON record"),
    ],
)
def test_metrics_of_another_kind_are_damage(stopped, odd, told):
    metrics = stopped / "seed-0" / "metrics.jsonl"
    first, rest = metrics.read_text().split("\n", 1)
    metrics.write_text(json.dumps(json.loads(first) | odd) + "\n" + rest)
    for attempt in (lambda: go_on(stopped), lambda: load(stopped).metrics()):
        with pytest.raises(InputError, match=f"{metrics}: {told}"):
            attempt()


@pytest.mark.parametrize("odd", [{"seeds": True}, {"train_s": {}}, {"setup_s": "1"}])
def test_timings_of_another_kind_are_passed_over(stopped, odd):
    timings = stopped / "timings.jsonl"
    before = load(stopped).seconds()
    last = json.loads(timings.read_text().splitlines()[-1])
    timings.write_text(timings.read_text() + json.dumps(last | odd) + "\n")
    assert load(stopped).seconds() == before


@pytest.mark.parametrize("content", ["3", "null", '{"a": 1}', "[", "[" * 100_000])
def test_damaged_environments_are_told_with_the_way_out(stopped, whole, content):
    path = stopped / "environment.json"
    path.write_text(content)
    with pytest.raises(InputError, match=f"{path}: .*is damaged.*; remove it to continue without it"):
        go_on(stopped)
    path.unlink()
    go_on(stopped)
    assert contents(stopped) == whole


def test_a_step_that_cannot_be_is_damage(stopped):
    path = stopped / "seed-0" / "checkpoints.json"
    listed = json.loads(path.read_text())
    for step in (-1, True):
        listed["resume"][-1]["step"] = step
        path.write_text(json.dumps(listed))
        with pytest.raises(InputError, match="must list checkpoints by step"):
            go_on(stopped)


@pytest.mark.parametrize("how", ["truncated", "altered", "missing"])
def test_damaged_weights_are_told_on_load(tmp_path, how):
    train(recipe=RECIPE, out=tmp_path, device="cpu")
    path = tmp_path / "seed-0" / "step-00000008.safetensors"
    spoil(path, how)
    with pytest.raises(InputError) as error:
        _ = load(tmp_path).models
    state = "missing" if how == "missing" else "truncated or altered"
    expected = f"{path}: is {state}; the checkpoint of step 3 (step-00000003.safetensors) is intact"
    expected += " (evaluate can use it: --step 3)"
    again = "; the command that trained the run recreates it from resume-00000008.safetensors"
    assert str(error.value) == expected + again
    assert len(load(tmp_path, step=3).models) == 1
    spoil(tmp_path / "seed-0" / "resume-00000008.safetensors", how)
    with pytest.raises(InputError) as error:
        _ = load(tmp_path).models
    assert str(error.value) == expected


@pytest.mark.parametrize("how", ["truncated", "altered", "missing"])
def test_last_weights_that_were_lost_are_made_again_from_the_last_state(tmp_path, whole, how):
    go_on(tmp_path)
    spoil(tmp_path / "seed-0" / "step-00000008.safetensors", how)
    run, said = go_on(tmp_path)
    assert contents(tmp_path) == whole and len(run.models) == 1
    made = "seed 0: the weights of step 8 were missing or damaged, and are recreated"
    assert said == [made, f"{tmp_path} is finished (8 steps); nothing to do"]


def test_last_weights_and_last_state_lost_together(tmp_path, whole):
    go_on(tmp_path)
    for file in ("step-00000008.safetensors", "resume-00000008.safetensors"):
        (tmp_path / "seed-0" / file).unlink()
    with pytest.raises(InputError, match=r"resume-00000008\.safetensors: is missing; .* add --earlier to continue"):
        go_on(tmp_path)
    _, said = go_on(tmp_path, earlier=True)
    assert said == [f"continuing {tmp_path} from step 6 of 8"]
    assert contents(tmp_path) == whole


def test_a_finished_seed_s_weights_are_made_again_while_another_goes_on(tmp_path):
    recipe = RECIPE.with_options(seeds=(0, 1))
    train(recipe=recipe, out=tmp_path / "whole", device="cpu")
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "seed-1")
    (tmp_path / "run" / "seed-0" / "step-00000008.safetensors").unlink()
    train(recipe=recipe, out=tmp_path / "run", device="cpu")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


def test_seeds_that_stand_apart_are_told_one_by_one(tmp_path):
    recipe = RECIPE.with_options(seeds=(0, 1, 2))
    train(recipe=recipe, out=tmp_path, device="cpu")
    shutil.rmtree(tmp_path / "seed-2")
    RunFolder(tmp_path).seed(1).forget_after(6)
    said = []
    train(recipe=recipe, out=tmp_path, device="cpu", say=said.append)
    assert said == [
        f"continuing {tmp_path} from step 0 to 6 of 8 (1 of 3 seeds are finished)",
        "seed 1: from step 6 of 8",
    ]


def test_a_run_is_not_kept_within_another(tmp_path):
    train(recipe=RECIPE, out=tmp_path / "run", device="cpu")
    before = contents(tmp_path / "run")
    for place in ("inner", "seed-0", "deep/down"):
        with pytest.raises(InputError, match=r"lies within the run in .*run: must be another folder$"):
            train(recipe=RECIPE, out=tmp_path / "run" / place, device="cpu")
    with pytest.raises(InputError, match=r"holds other runs \(run\): must be a folder of its own$"):
        train(recipe=RECIPE, out=tmp_path, device="cpu")
    assert contents(tmp_path / "run") == before and [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_only_points_to_a_run_or_cannot_be_read_keeps_no_run_away(tmp_path, monkeypatch):
    train(recipe=RECIPE, out=tmp_path / "elsewhere", device="cpu")
    there = tmp_path / "there"
    (there / "lost+found").mkdir(parents=True)
    (there / "link").symlink_to(tmp_path / "elsewhere")
    exists = Path.exists

    def guarded(path):
        if "lost+found" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", guarded)
    assert train(recipe=RECIPE, out=there, device="cpu").finished


def test_one_seed_that_has_to_go_back_does_not_keep_another_s_weights_from_being_made_again(tmp_path):
    recipe = RECIPE.with_options(seeds=(0, 1))
    train(recipe=recipe, out=tmp_path / "whole", device="cpu")
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    for file in ("seed-0/step-00000008", "seed-0/resume-00000008", "seed-1/step-00000008"):
        (tmp_path / "run" / f"{file}.safetensors").unlink()
    said = []
    train(recipe=recipe, out=tmp_path / "run", device="cpu", earlier=True, say=said.append)
    assert said[0] == "seed 1: the weights of step 8 were missing or damaged, and are recreated"
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize("writes", [0, 1])
def test_a_kill_while_the_part_to_be_trained_again_is_dropped_is_no_damage(stopped, whole, monkeypatch, writes):
    """Going back to step 4, before anything is dropped or after one of two files; then the same call again."""
    states(stopped)[1].unlink()
    done = 0

    def until_killed(write):
        def writing(path, *rest):
            nonlocal done
            if path.parent.name == "seed-0":
                if done == writes:
                    raise Power
                done += 1
            write(path, *rest)

        return writing

    with monkeypatch.context() as patched:
        for name in ("write_bytes", "write_json"):
            patched.setattr(seed_folder, name, until_killed(getattr(seed_folder, name)))
        with pytest.raises(Power):
            go_on(stopped, earlier=True)
    assert load(stopped).metrics()[-1]["step"] == 6  # not told as cut short
    go_on(stopped, earlier=True)
    assert contents(stopped) == whole


def cut(metrics, records):
    """Leave only so many lines, the last of them torn; none at all: the file is gone."""
    lines = metrics.read_text().splitlines(keepends=True)
    if records:
        metrics.write_text("".join(lines[:records]) + lines[records][:9])
    else:
        metrics.unlink()


@pytest.mark.parametrize(("records", "ends"), [(2, "ends at step 3"), (1, "ends at step 0"), (0, "is missing")])
def test_a_history_that_was_cut_short_is_never_taken_for_where_the_run_stands(tmp_path, records, ends):
    go_on(tmp_path)
    metrics = tmp_path / "seed-0" / "metrics.jsonl"
    cut(metrics, records)  # of 0, 3, 6, 8
    with pytest.raises(InputError) as error:
        load(tmp_path).metrics()
    assert str(error.value) == (
        f"{metrics}: {ends}, but the run was validated at step 8: it was cut short; "
        f"`windtunnel evaluate {tmp_path}` scores the weights"
    )
    run, said = go_on(tmp_path)
    assert said == [f"{tmp_path} is finished (8 steps); nothing to do"] and len(run.models) == 1
    metrics.write_text("")
    with pytest.raises(InputError, match="has no record, but the run was validated at step 8"):
        run.metrics()


def test_going_on_with_a_history_that_was_cut_short_says_so(stopped, whole):
    metrics = stopped / "seed-0" / "metrics.jsonl"
    kept = metrics.read_text().splitlines()[0]
    cut(metrics, 1)  # of 0, 3, 6
    run, said = go_on(stopped)
    told = "ends at step 0, but the run was validated at step 6: it was cut short; continuing without the missing part"
    assert said == [f"continuing {stopped} from step 6 of 8", f"{metrics}: {told}"]
    assert [record["step"] for record in run.metrics()] == [0, 8] and metrics.read_text().splitlines()[0] == kept
    written = whole["seed-0/step-00000008.safetensors"]
    assert contents(stopped)["seed-0/step-00000008.safetensors"] == written


def test_going_back_behind_the_cut_writes_all_of_it_again(stopped, whole):
    cut(stopped / "seed-0" / "metrics.jsonl", 2)  # of 0, 3, 6: the state of step 4 needs no more
    states(stopped)[1].unlink()
    _, said = go_on(stopped, earlier=True)
    assert said == [f"continuing {stopped} from step 4 of 8"] and contents(stopped) == whole


def test_a_bad_field_of_a_recipe_is_told_with_its_file(stopped):
    file = stopped / "recipe.json"
    file.write_text(file.read_text().replace('"steps": 8', '"steps": "many"'))
    before = contents(stopped)
    for attempt in (lambda: load(stopped), lambda: go_on(stopped)):
        with pytest.raises(InputError) as error:
            attempt()
        assert str(error.value) == f"{file}: steps = 'many': must be a whole number of at least 1"
    assert contents(stopped) == before


# --- several seeds that advance together, as on a GPU


# --- numbers that JSON has no word for


# --- a recipe that is gone, or another one's
@pytest.mark.parametrize(
    "left", ["seed-0/checkpoints.json", "seed-0/metrics.jsonl", "seed-0/step-*.safetensors", "seed-0/resume-*"]
)
def test_what_was_trained_never_goes_on_without_its_recipe(stopped, left):
    (stopped / "recipe.json").unlink()
    kept = sorted(stopped.glob(left))
    for path in stopped.glob("seed-0/*"):
        if path not in kept:
            path.unlink()
    before = contents(stopped) if "checkpoints" in left else None
    other = RECIPE.with_options(steps=20, lr=1e-4, supervision="posterior")
    for attempt in (lambda: train(recipe=other, out=stopped, device="cpu"), lambda: load(stopped)):
        with pytest.raises(InputError) as error:
            attempt()
        assert str(error.value) == (
            f"{stopped}: holds {kept[0].relative_to(stopped)} but no recipe.json, so how it was trained is "
            "unknown: restore recipe.json, or use another folder"
        )
    assert not (stopped / "recipe.json").exists() and sorted(stopped.glob("seed-0/*")) == kept
    assert before is None or contents(stopped) == before


def test_a_recipe_of_fewer_steps_than_were_taken_is_another_one_s(stopped):
    """`from step 6 of 5`, unfinished for ever."""
    short = RECIPE.with_options(steps=5)
    RunFolder(stopped).create(short, RunFolder(stopped).spec())
    before = contents(stopped)
    for attempt in (lambda: train(recipe=short, out=stopped, device="cpu"), lambda: load(stopped)):
        with pytest.raises(InputError) as error:
            attempt()
        assert str(error.value).startswith(f"{stopped}/seed-0: holds step 6, but the recipe has 5 steps: recipe.json")
    assert contents(stopped) == before
