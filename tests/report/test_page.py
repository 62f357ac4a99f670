"""The page as text: escaped, self-contained, and honest about what is missing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shlex
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from tests.report.demo import NAUGHTY
from windtunnel.cli.main import main
from windtunnel.errors import CodeChanged, InputError
from windtunnel.mechanism import inspect, save_survey
from windtunnel.report import Asked, read
from windtunnel.report.episodes import inflate
from windtunnel.report.making import _usual
from windtunnel.report.page import EPISODE_BYTES, embedded, episodes, render
from windtunnel.report.sections import sections
from windtunnel.report.subjects import _names
from windtunnel.report.words import shareable
from windtunnel.study import zoo
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.presets import plan_for
from windtunnel.training import load
from windtunnel.tunnels import Urn, registry


def without_plotly(text: str) -> str:
    """The page without the 5 MB that are not ours."""
    return text[: text.rindex('<script type="text/plain"')]


def test_a_tunnel_without_defaults_is_told_in_full(monkeypatch):
    @dataclass(frozen=True)
    class Own(Urn):
        extra: int = field(kw_only=True)

    monkeypatch.setattr(registry, "_TUNNELS", {"own": Own, "urn": Urn})
    assert _usual("own") == _usual("never heard of") == {} and _usual("urn")["symbols"] == 10


def test_the_policy_allows_exactly_the_scripts_of_the_page(demo):
    text = (demo / "report.html").read_text()
    policy = html.unescape(re.search(r'Security-Policy" content="([^"]*)"', text).group(1))
    (own,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    (packed,) = re.findall(r'<script type="text/plain" id="plotly">(.*?)</script>', text, re.S)
    scripts = [own, inflate(packed)]
    hashes = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts}
    assert set(re.findall(r"'sha256-([^']*)'", policy)) == hashes
    assert policy.startswith("default-src 'none';") and "http" not in policy and "unsafe-eval" not in policy
    assert "script-src" in policy and "'unsafe-inline'" not in policy.split("style-src")[0]


def test_nothing_is_fetched_from_anywhere(demo):
    own = without_plotly((demo / "report.html").read_text())
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", own)
    assert "@import" not in own and "url(" not in own


def test_names_from_users_are_text(demo):
    own = without_plotly((demo / "report.html").read_text())
    assert NAUGHTY not in own
    assert html.escape(NAUGHTY) in own


def test_embedded_json_cannot_end_its_element():
    text = embedded({"</script><script>": "<!-- & \u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script><script>": "<!-- & \u2028"}


def test_the_command_on_the_page_is_the_one_that_makes_it(demo):
    own = html.unescape(without_plotly((demo / "report.html").read_text()))
    assert f"windtunnel report {demo.name} --no-zoo\n" in own
    assert f"windtunnel reproduce --preset demo --out {demo.name}\n" in own


def test_a_page_that_is_sent_on_names_no_folder_above_its_own(scratch):
    found = read(scratch, with_zoo=False, asked=Asked(options=["--no-zoo", "--runs", str(scratch.parent / "more")]))
    judged = [entry | {"outcome": "reproduced"} for entry in found.ledger]
    text = without_plotly(render(replace(found, ledger=judged, judge=Path("/home/me/results/paper"))))
    assert (
        "Judged by the full-size study in <code>paper</code>" in text and "says the full-size study in paper." in text
    )
    assert f"windtunnel report {scratch.name} --no-zoo --runs more\n" in text and "Not here yet" in text
    assert str(scratch.parent) not in text and "/home" not in text
    near = render(replace(found, judge=Path("results/paper"), path=Path("here/study")))
    assert "<code>results/paper</code>" in near and "windtunnel report here/study" in near


def test_exhibits_outlive_the_networks(scratch, demo):
    shutil.rmtree(scratch / "runs")
    again = read(scratch, with_zoo=False)
    assert again.exhibits == read(demo, with_zoo=False).exhibits
    text = render(again)
    assert 'id="stepper"' in text and 'id="chart-manifold"' in text


def test_a_folder_with_nothing_but_a_head_names_every_missing_part(tmp_path):
    StudyFolder(tmp_path / "bare").begin("paper")
    text = html.unescape(without_plotly(render(read(tmp_path / "bare", with_zoo=False))))
    for section in ("verdict", "fidelity", "episode", "geometry", "mechanism", "made"):
        assert f'<section id="{section}"' in text
    assert text.count("Not here yet") == 5
    for command in ("windtunnel reproduce --preset paper", "--only keys,values", "--only ablate,heads", "--runs RUN"):
        assert command in text
    assert "No network and no verdict yet." in text


def test_the_command_beside_a_missing_part_makes_it(scratch):
    """Typed as it stands on the page."""
    before = {lack.command for part in sections(read(scratch, with_zoo=False)) for lack in part.lacks}
    (command,) = (command for command in before if "--only clusters" in command)
    first, second = (shlex.split(one) for one in command.split(" && "))
    assert first[:2] == ["windtunnel", "inspect"] and second == ["windtunnel", "report", str(scratch)]
    assert main([*first[1:], "--episodes", "8", "--untrained", "1"]) == 0
    assert main([*second[1:], "--no-zoo"]) == 0
    assert 'id="chart-clusters"' in (scratch / "report.html").read_text()
    after = {lack.command for part in sections(read(scratch, with_zoo=False)) for lack in part.lacks}
    assert not any("--only clusters" in command for command in after)


def test_networks_that_a_study_has_not_come_to_are_named(tmp_path):
    StudyFolder(tmp_path / "begun").begin("quick")
    text = html.unescape(without_plotly(render(read(tmp_path / "begun", with_zoo=False))))
    count = len(plan_for("quick").cells)
    assert f"{count} of {count} networks of this study (small-urn-transformer" in text
    assert "windtunnel reproduce --preset quick --out begun" in text
    assert "windtunnel reproduce --preset paper</pre>" in text  # the full-size one goes into a folder of its own


def test_a_gpu_is_said_to_be_shared_only_where_it_was(source):
    def told(*sittings: dict) -> str:
        seconds = {"total": 90.0, "gpu": 80.0, "held": 40.0}
        text = without_plotly(render(replace(source, head=source.head | {"seconds": seconds, "sittings": sittings})))
        return re.search(r"recipes, (.*?)\. The study", text).group(1)

    one = {"began": "", "seconds": 40.0, "device": "cuda"}
    assert told(one, one | {"lanes": 1}, one | {"lanes": 3, "device": "cpu"}).endswith("GPU; a GPU was held for 40")
    assert told(one | {"lanes": 4}, one).endswith("GPU; with up to 4 cells on it at a time, a GPU was held for 40")


def test_half_a_study(scratch):
    """No ledger, no exhibits, no runs, one cell without a score: still a page."""
    for part in ("runs", "exhibits"):
        shutil.rmtree(scratch / part)
    (scratch / "claims.json").unlink()
    path = scratch / "cells" / "hmm-transformer.json"
    cell = json.loads(path.read_text())
    cell["conditions"]["home"] = {"missing": "not scored"}
    cell["survey"] = [{"name": "keys", "missing": "it has none"}]
    path.write_text(json.dumps(cell))
    text = without_plotly(render(read(scratch, with_zoo=False)))
    assert 'id="chart-distance"' in text and 'id="chart-ablation"' not in text and 'id="ledger"' not in text
    assert "entropy curves, KL per step" not in text and "entropy curves, calibration and training histories" in text


def test_a_run_folder_without_a_study(scratch):
    found = read(scratch / "runs" / "hmm-lstm", with_zoo=False)
    text = html.unescape(without_plotly(render(found)))
    assert list(found.exhibits) == ["hmm-lstm"] and 'id="chart-entropy"' in text
    assert "<code>hmm-lstm</code> is" in text


def test_a_network_that_cannot_be_opened_costs_only_itself(scratch):
    shutil.rmtree(scratch / "exhibits")
    (weights,) = (scratch / "runs" / "urn-transformer" / "seed-0").glob("step-*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-10])
    for name in ("hmm-transformer", "bijection-replacement-transformer"):
        shutil.rmtree(scratch / "runs" / name)
    found = read(scratch, with_zoo=False)
    assert "truncated or altered" in str(found.refused["urn-transformer"])
    assert set(found.exhibits) == {"hmm-lstm", "bijection-replacement-mlp"}
    assert "truncated or altered" in without_plotly(render(found))
    (lack,) = [lack for part in sections(found) for lack in part.lacks if lack.what.startswith("urn-transformer (")]
    assert lack.command.startswith("windtunnel train TUNNEL MODEL --out RUN && windtunnel report")  # its cell is done
    found = replace(found, cells={name: cell for name, cell in found.cells.items() if name != "urn-transformer"})
    (lack,) = [lack for part in sections(found) for lack in part.lacks if lack.what.startswith("urn-transformer (")]
    assert lack.command.startswith(f"rm -r {scratch / 'runs' / 'urn-transformer'} && windtunnel reproduce")
    found = replace(found, refused={"urn-transformer": CodeChanged("its code has changed")})
    (lack,) = [lack for part in sections(found) for lack in part.lacks if lack.what.startswith("urn-transformer (")]
    assert lack.command == f"windtunnel report {scratch}"


def test_a_run_that_cannot_be_read_costs_only_itself(scratch):
    """Whether its recipe is damaged or gone; and where there is nothing else, it is the reason that is told."""
    (scratch / "runs" / "hmm-lstm" / "recipe.json").write_text("{}")
    (scratch / "runs" / "urn-transformer" / "recipe.json").unlink()
    (scratch / "runs" / "bijection-replacement-mlp" / "seed-0" / "checkpoints.json").write_text("no")
    said: list[str] = []
    found = read(scratch, with_zoo=False, say=said.append)
    why = {"hmm-lstm": "format = None", "urn-transformer": "no recipe.json", "bijection-replacement-mlp": "JSON"}
    assert found.refused.keys() == why.keys() and set(found.exhibits).isdisjoint(why)
    for name, part in why.items():
        told = shareable(f"{name} ({found.refused[name]})", scratch)
        assert part in told and told in html.unescape(render(found))
        assert f"{name}: left out: {found.refused[name]}" in said
    assert set(found.exhibits) == {"hmm-transformer", "bijection-replacement-transformer"}
    shutil.rmtree(scratch / "runs" / "hmm-transformer")
    shutil.rmtree(scratch / "runs" / "bijection-replacement-transformer")
    with pytest.raises(InputError, match=r"bijection-replacement-mlp \(and 2 more\) cannot be shown: .* must be JSON"):
        read(scratch / "runs", with_zoo=False)
    with pytest.raises(InputError, match="device = 'tpu'"):
        read(scratch, with_zoo=False, device="tpu")


def test_a_study_is_not_told_to_remove_a_run_that_only_needs_its_plugin(scratch):
    path = scratch / "runs" / "hmm-lstm" / "recipe.json"
    record = json.loads(path.read_text())
    record["recipe"]["tunnel"]["name"] = "own"
    path.write_text(json.dumps(record))
    found = read(scratch, with_zoo=False)
    (lack,) = [lack for part in sections(found) for lack in part.lacks if lack.what.startswith("hmm-lstm (")]
    assert lack.command == f"windtunnel --plugin MODULE report {scratch}"


def test_no_command_removes_a_run_from_elsewhere(scratch):
    """A damaged run that was handed over beside is none of the page's own."""
    (weights,) = (scratch / "runs" / "urn-transformer" / "seed-0").glob("step-*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-10])
    good, damaged = scratch / "runs" / "hmm-lstm", scratch / "runs" / "urn-transformer"
    found = read(good, runs=[damaged], with_zoo=False)
    assert found.refused.keys() == {"urn-transformer"}
    assert not any("rm -r" in lack.command for part in sections(found) for lack in part.lacks)


def test_networks_of_the_zoo_are_looked_into(demo, tmp_path, monkeypatch):
    zoo.export(load(demo / "runs" / "hmm-lstm"), "shipped", seed=1, out=tmp_path / "zoo", episodes=64)
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path / "zoo"))
    StudyFolder(tmp_path / "bare").begin("quick")
    found = read(tmp_path / "bare")
    assert list(found.exhibits) == ["shipped"] and found.exhibits["shipped"]["history"] is None
    text = without_plotly(render(found))
    assert 'id="chart-entropy"' in text and "training histories" in text
    assert "<code>shipped</code> is" in text  # with none of one's own, the page is about these


def test_networks_of_the_zoo_that_an_earlier_page_showed_are_left_out_if_asked(scratch, tmp_path, monkeypatch):
    zoo.export(load(scratch / "runs" / "urn-transformer"), "shipped", seed=0, out=tmp_path / "zoo", episodes=64)
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path / "zoo"))
    run = scratch / "runs" / "hmm-lstm"
    assert set(read(run).exhibits) == {"hmm-lstm", "shipped"} and (run / "exhibits" / "shipped.json").exists()
    found = read(run, with_zoo=False)
    assert set(found.exhibits) == {"hmm-lstm"} and "shipped" not in without_plotly(render(found))


def test_a_run_of_its_own_is_not_told_to_make_what_it_cannot_have(scratch, tmp_path, monkeypatch):
    zoo.export(load(scratch / "runs" / "hmm-transformer"), "shipped", seed=0, out=tmp_path / "zoo", episodes=64)
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path / "zoo"))

    def told(*runs) -> str:
        found = read(runs[0], runs=runs[1:])
        return " ".join(f"{lack.what}: {lack.command}" for part in sections(found) for lack in part.lacks)

    urn, mlp, hmm = (scratch / "runs" / name for name in ("urn-transformer", "bijection-replacement-mlp", "hmm-lstm"))
    assert "clusters" not in told(urn) and "keys" not in told(urn) and "simplices" not in told(urn)
    assert f"windtunnel inspect {urn} --only ablate,heads" in told(urn)
    assert "heads" not in told(mlp) and "late attention" not in told(mlp)
    assert f"windtunnel inspect {mlp} --only values" in told(mlp)
    assert f"windtunnel inspect {hmm} --only values,beliefs,clusters" in told(hmm)
    assert "windtunnel inspect RUN --only clusters" in told(urn, hmm)  # a run that fits, but from elsewhere


def test_a_damaged_survey_is_told_in_one_line_before_networks_are_looked_into(scratch):
    run = scratch / "runs" / "hmm-lstm"
    (run / "survey.json").write_text('{"format": 1, "rec')
    shutil.rmtree(scratch / "exhibits")
    said: list[str] = []
    for folder in (run, scratch):
        with pytest.raises(InputError, match=r"survey.json: must be JSON, .* --replace` measures again"):
            read(folder, with_zoo=False, say=said.append)
    assert said == []


def test_a_shipped_network_does_not_replace_the_exhibit_of_its_run(scratch, tmp_path, monkeypatch):
    zoo.export(load(scratch / "runs" / "hmm-lstm"), "hmm-lstm", seed=1, out=tmp_path / "zoo", episodes=64)
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path / "zoo"))
    shutil.rmtree(scratch / "runs")
    assert read(scratch).exhibits["hmm-lstm"]["seeds"] == [0, 1]


def test_a_stale_exhibit_is_made_anew(scratch):
    path = scratch / "exhibits" / "bijection-replacement-mlp.json"
    record = json.loads(path.read_text())
    record["origin"]["steps"] = 1
    path.write_text(json.dumps(record))
    said: list[str] = []
    read(scratch, with_zoo=False, say=said.append)
    assert said == ["bijection-replacement-mlp: looking into 1 network"]
    assert json.loads(path.read_text())["origin"]["steps"] == 60


def other_weights(folder) -> None:
    """Put other weights in place of the last ones, as a second training of the same recipe may."""
    run = load(folder)
    weights = {name: value + 0.01 * torch.ones_like(value) for name, value in run.models[0].state_dict().items()}
    run.folder.seed(run.recipe.seeds[0]).save_weights(run.ladder()[-1], weights)


def test_an_exhibit_of_other_weights_is_made_anew(scratch):
    name = "bijection-replacement-mlp"
    other_weights(scratch / "runs" / name)
    before = json.loads((scratch / "exhibits" / f"{name}.json").read_text())
    said: list[str] = []
    found = read(scratch, with_zoo=False, say=said.append).exhibits[name]
    assert said == [f"{name}: looking into 1 network"]
    assert found["origin"]["weights"] == load(scratch / "runs" / name).checksums() != before["origin"]["weights"]
    assert found["curves"]["kl_bits"] != before["curves"]["kl_bits"]
    read(scratch, with_zoo=False, say=said.append)
    assert len(said) == 1


def test_a_survey_of_other_weights_is_not_shown_as_theirs(scratch):
    run = scratch / "runs" / "bijection-replacement-mlp"
    save_survey(inspect(load(run), only=["lens"], episodes=8, untrained=1), run)
    assert read(run, with_zoo=False).readings[run.name]
    other_weights(run)
    with pytest.raises(InputError, match=r"survey.json: must be of the run's present weights.* --replace` measures"):
        read(run, with_zoo=False)


def test_an_exhibit_of_a_shipped_network_is_made_anew_once_it_is_exported_again(scratch, tmp_path, monkeypatch):
    run = scratch / "runs" / "bijection-replacement-mlp"
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path / "zoo"))
    StudyFolder(tmp_path / "bare").begin("quick")
    said: list[str] = []
    for _ in range(2):
        zoo.export(load(run), "shipped", seed=0, out=tmp_path / "zoo", episodes=64)
        for _ in range(2):
            read(tmp_path / "bare", say=said.append)
        other_weights(run)
    assert said == ["shipped: looking into 1 network"] * 2


def test_runs_of_one_name_are_told_apart(scratch, tmp_path):
    runs, top = scratch / "runs", tmp_path / "top"
    for place, name in (("a/first", "bijection-replacement-mlp"), ("b/first", "urn-transformer")):
        shutil.copytree(runs / name, top / place)
    shutil.copytree(runs / "urn-transformer", top / "second")
    found = read(top, runs=[top / "a", top / "second"], with_zoo=False)  # given twice: shown once
    assert set(found.exhibits) == {"a-first", "b-first", "second"}
    assert {path.stem for path in (top / "exhibits").iterdir()} == set(found.exhibits)
    assert found.exhibits["a-first"]["model"] == "mlp" and found.exhibits["b-first"]["model"] == "transformer"
    text = without_plotly(render(found))
    assert "a-first" in text and "b-first" in text


def test_every_run_has_a_name_of_its_own(tmp_path):
    def named(*places: tuple[str, str]) -> list[str]:
        return _names([(tmp_path / folder, tmp_path / place) for folder, place in places])

    assert named(("x", "x/a/first"), ("x", "x/second")) == ["first", "second"]
    assert named(("x", "x/a/first"), ("x", "x/b/first")) == ["a-first", "b-first"]
    assert named(("x", "x/first"), ("y", "y/first")) == ["first", "y-first"]  # a study's own cell keeps its name
    assert named(("a/first", "a/first"), ("b/first", "b/first")) == ["first", "b-first"]
    many = named(("x", "x/a/b/c"), ("x", "x/a-b/c"), ("x", "x/a-b-c"), ("x", "x/x-a-b-c"), ("y/x", "y/x/a/b/c"))
    assert len(set(many)) == 5 and many[2:4] == ["a-b-c", "x-a-b-c"] and not any("/" in name for name in many)


def test_episodes_keep_within_their_bytes(source):
    shown, blocks, left_out = episodes(source)
    assert [one["name"] for one in shown][:2] == ["hmm-transformer", "hmm-lstm"] and left_out == []
    assert sum(map(len, blocks)) < EPISODE_BYTES
    data = inflate(blocks[0])
    assert len(data["tokens"]) == shown[0]["count"] == 24
    assert len(data["exact"][0][0]) == 3 and data["classes"] == ["s0", "s1", "s2"]


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda f: (f / "study.json").write_text('{"format": 99}'), "format = 99"),
        (lambda f: (f / "exhibits" / "hmm-lstm.json").write_text('{"format": 7}'), "format = 7: must be format 1"),
        (lambda f: shutil.rmtree(f), "must be a folder that exists"),
    ],
)
def test_bad_folders_in_one_line(scratch, spoil, line):
    spoil(scratch)
    with pytest.raises(InputError, match=line) as caught:
        read(scratch, with_zoo=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("with_zoo", [False, True])
def test_a_folder_of_something_else_is_no_results_folder(tmp_path, with_zoo):
    (tmp_path / "notes.txt").write_text("nothing to do with it")
    with pytest.raises(InputError, match=r"must be a results folder \(it has no study.json\), or hold finished runs"):
        read(tmp_path, with_zoo=with_zoo)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]  # and nothing was begun in it
