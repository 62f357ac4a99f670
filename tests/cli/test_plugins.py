"""Worlds and architectures of one's own on the command line."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import pytest

from windtunnel.cli.main import main
from windtunnel.cli.plugins import taken_out
from windtunnel.models import registry as model_registry
from windtunnel.tunnels import registry

MODULE = '''
from dataclasses import dataclass
from torch import nn
import windtunnel as wt

@dataclass(frozen=True)
class Small(wt.tunnels.Bijection):
    """A world."""
    symbols: int = 3
    length: int = 3

class Blind(nn.Module):
    """Sees one position."""
    def __init__(self, tunnel, width=8, bright=True):
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(tunnel.vocabulary, width), nn.Linear(width, tunnel.classes))

    def forward(self, tokens, features, readout, tap=None):
        return self.layers(tokens)[:, readout]

wt.tunnels.register("small-world", Small)
wt.models.register("blind", Blind)
'''


def windtunnel(folder, *words: object, **environment: str) -> subprocess.CompletedProcess:
    """The command in a process of its own, as plugins change what a process knows."""
    command = [sys.executable, "-P", "-m", "windtunnel", *map(str, words)]  # -P: as the installed script, no cwd
    settings = {**os.environ, "COLUMNS": "160", "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, env=settings)


def test_an_option_that_is_on_or_off_is_never_a_word(tmp_path):
    """`bright=false` was kept as a word, and so was on."""
    (tmp_path / "mine.py").write_text(MODULE)
    words = ("--plugin", "mine", "train", "small-world", "blind", "--steps", 2, "--batch", 8, "--device", "cpu")
    for text in ("false", "False", "true"):
        done = windtunnel(tmp_path, *words, "--option", f"bright={text}", "--out", text)
        assert done.returncode == 0, done.stderr
        recipe = json.loads((tmp_path / text / "recipe.json").read_text())["recipe"]
        assert recipe["model_options"]["bright"] is (text == "true")
    done = windtunnel(tmp_path, *words, "--option", "bright=off", "--out", "off")
    assert done.returncode == 2 and done.stderr.endswith("--option bright=off: must be bright=true or bright=false\n")


def test_a_plugin_serves_every_command(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    shown = windtunnel(tmp_path, "--plugin", "mine", "list").stdout
    assert "small-world" in shown and "Sees one position." in shown
    small = ("--steps", 2, "--batch", 8, "--validation-episodes", 8, "--device", "cpu")
    done = windtunnel(tmp_path, "train", "small-world", "blind", *small, "--out", "r", "--plugin=mine")
    assert done.returncode == 0, done.stderr
    assert "for the test set: windtunnel --plugin mine evaluate r" in done.stdout
    done = windtunnel(tmp_path, "evaluate", "r", "--episodes", 20, "--json", WINDTUNNEL_PLUGINS="mine")
    assert json.loads(done.stdout)["tunnel"]["name"] == "small-world"
    (run,) = json.loads(windtunnel(tmp_path, "--plugin", "mine", "runs", ".", "--json").stdout)["runs"]
    assert run["state"] == "finished" and run["parameters"] == json.loads(done.stdout)["parameters"] > 0
    done = windtunnel(tmp_path, "--plugin", "mine", "inspect", "r", "--only", "flip", "--episodes", 8)
    assert done.returncode == 0 and "evidence flip" in done.stdout
    done = windtunnel(tmp_path, "--plugin", "mine", "inspect", "r", "--only", "flip,values,swap,roles", "--episodes", 8)
    reasons = [line.rpartition(": ")[2] for line in done.stdout.splitlines() if line.startswith("not measured: ")]
    assert done.returncode == 0 and reasons and len(reasons) == len(set(reasons))  # one line for all who share one

    (bare,) = json.loads(windtunnel(tmp_path, "runs", ".", "--json").stdout)["runs"]  # without the plugin
    needs = "r: its tunnel 'small-world' must be registered first"
    assert bare.pop("needs").startswith(needs) and bare["told"] == "small-world"
    assert bare | {"told": run["told"]} == run
    shown = windtunnel(tmp_path, "runs", ".").stdout
    assert f"needs its plugin: {needs}" in shown and "finished" in shown and "damaged" not in shown
    recipe = (tmp_path / "r" / "recipe.json").read_text()
    (tmp_path / "r" / "recipe.json").write_text(recipe.replace('"steps": 2', '"steps": "two"'))
    assert "damaged: r: steps = 'two': must be a whole number" in windtunnel(tmp_path, "runs", ".").stdout
    (tmp_path / "r" / "recipe.json").write_text(recipe)

    done = windtunnel(tmp_path, "evaluate", "r")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "its tunnel 'small-world' must be registered first" in done.stderr and "--plugin MODULE" in done.stderr


OWN = """
from dataclasses import dataclass, field, replace
import windtunnel as wt

@dataclass(frozen=True)
class Own(wt.tunnels.{base}):
    {body}

wt.tunnels.register("own", Own)
"""
HALVED = """def episodes(self, latent, dtype):
        found = super().episodes(latent, dtype)
        return replace(found, posterior=found.posterior / 2)"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A plugin with one tunnel, in the working folder; afterwards forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(registry, "_TUNNELS", dict(registry._TUNNELS))

    def write(base: str, body: str) -> None:
        (tmp_path / "own_world.py").write_text(OWN.format(base=base, body=body))
        importlib.invalidate_caches()

    yield write
    sys.modules.pop("own_world", None)


@pytest.mark.parametrize("command", ["sample own", "baselines own", "train own transformer --steps 1 --out run"])
def test_a_tunnel_whose_belief_is_no_distribution_is_refused_by_every_command(command, own, refusal, tmp_path):
    own("Urn", HALVED)
    line = refusal("--plugin", "own_world", *command.split())
    assert "error: tunnel Own: posterior = [" in line and "in all 0.5: must be probabilities" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["list", "sample own"])
def test_an_unfinished_tunnel_is_told_in_one_line(command, own, refusal):
    own("Tunnel", "vocabulary = 3")
    line = refusal("--plugin", "own_world", *command.split())
    assert "--plugin own_world: cls = Own: must define classes, draw, episodes, feature_width" in line


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("first_one: int = field(kw_only=True)", "(--first-one must be given)"),
        ("length: int = 0", "(fails at its defaults: length = 0: must be a whole number of at least 1)"),
        ("primitives = property(lambda self: self.none)", "(fails at its defaults: AttributeError in own_world.py:7: "),
    ],
    ids=["no default", "wrong default", "wrong property"],
)
def test_a_tunnel_that_cannot_be_made_as_it_is_hides_no_other_from_the_list(body, told, own, output):
    own("Urn", body)
    shown = output("--plugin", "own_world", "list")
    assert told in " ".join(shown.split()) and "bijection" in shown
    assert json.loads(output("--plugin", "own_world", "list", "--json"))["tunnels"]["own"]["primitives"] is None


TRIAL = """

@wt.study.trial.register
def _(tunnel: Own) -> wt.study.Trial:
    return wt.study.Trial("accumulation", {trial})
"""


@pytest.mark.parametrize(
    ("trial", "told"),
    [
        ('{"uniform": wt.baselines(tunnel)["uniform"]}, where="late"', "trial of Own: where = 'late': must be None or"),
        ("{}", "trial of Own: Trial without = {}: must be at least one predictor by name"),
        ("tunnel.none", "trial of Own: must give a Trial or None, but failed (AttributeError in own_world.py:"),
    ],
    ids=["unknown subset", "no candidate", "raises"],
)
def test_a_wrong_trial_of_ones_own_is_told_in_one_line(trial, told, own, refusal, capsys):
    own("Urn", "pass" + TRIAL.replace("{trial}", trial))
    words = ("own", "mlp", "--steps", 1, "--batch", 4, "--validation-episodes", 4, "--device", "cpu")
    assert main(["--plugin", "own_world", "train", *map(str, words), "--out", "run"]) == 0
    capsys.readouterr()
    assert told in refusal("--plugin", "own_world", "evaluate", "run", "--episodes", 8)


def test_a_factory_that_fails_is_told_in_one_line(tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(model_registry, "_REGISTERED", {})
    body = "def narrow(tunnel):\n    raise ValueError('too narrow')\nwindtunnel.models.register('narrow', narrow)"
    (tmp_path / "narrow_model.py").write_text(f"import windtunnel\n{body}")
    line = refusal("--plugin", "narrow_model", "train", "urn", "narrow", "--steps", 1, "--out", "run")
    assert "model narrow: its factory failed" in line and "(ValueError in narrow_model.py:3: too narrow)" in line


@pytest.mark.parametrize(("tunnel", "model"), [("bijection", "blind"), ("small-world", "mlp")])
def test_a_page_of_a_run_that_needs_a_plugin_says_what_to_type(tunnel, model, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    small = ("--steps", 2, "--batch", 8, "--validation-episodes", 8, "--device", "cpu")
    sizes = ("--symbols", 3, "--length", 3, *small)
    for *what, out in ((tunnel, model, "all/own"), ("bijection", "mlp", "all/built-in")):
        done = windtunnel(tmp_path, "--plugin", "mine", "train", *what, *sizes, "--out", out)
        assert done.returncode == 0, done.stderr
    for words in (("report", "all/own"), ("figures", "all/own", "--no-zoo")):  # not a page of the zoo without the run
        done = windtunnel(tmp_path, *words)
        assert done.returncode == 2 and not (tmp_path / "all" / "own" / "report.html").exists()
        assert f"`windtunnel --plugin MODULE {' '.join(words)}`" in done.stderr.splitlines()[-1]
        assert done.stderr.count("must be registered first") == 1
        assert "no study.json" not in done.stderr
    done = windtunnel(tmp_path, "report", "all", "--no-zoo")  # beside one that can be shown it is named
    assert done.returncode == 0 and "missing: own (" in done.stdout
    assert "--plugin MODULE): windtunnel --plugin MODULE report all --no-zoo\n" in done.stdout
    done = windtunnel(tmp_path, "--plugin", "mine", "report", "all", "--no-zoo")
    assert done.returncode == 0 and "own (" not in done.stdout
    assert "windtunnel --plugin mine inspect all/" in done.stdout
    assert "windtunnel --plugin mine report all --no-zoo\n" in (tmp_path / "all" / "report.html").read_text()


def test_an_architecture_that_is_not_registered_is_told(runs, tmp_path, refusal, output):
    place = tmp_path / "own"
    place.mkdir()
    for file in (runs / "hmm").rglob("*"):
        if file.is_file():
            copy = place / file.relative_to(runs / "hmm")
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(file.read_bytes())
    record = json.loads((place / "recipe.json").read_text())
    record["recipe"]["model"], record["model"], record["parameters"] = "blind", None, None
    (place / "recipe.json").write_text(json.dumps(record))
    assert "its architecture 'blind' must be registered first" in refusal("evaluate", place)
    (run,) = json.loads(output("runs", place, "--json"))["runs"]
    assert run["state"] == "finished" and run["parameters"] is None  # and what there is without it is told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--plugin no_such_module list", ["--plugin no_such_module", "ModuleNotFoundError"]),
        ("list --plugin", ["--plugin has no value", "Python module"]),
        ("--plugin --json list", ["--plugin has no value"]),
        ("list --plugin=", ["--plugin has no value"]),
        ("list --plugin broken", ["--plugin broken", "ZeroDivisionError: division by zero"]),
        ("list --plugin taken", ["--plugin taken", "name = 'lstm': must be a name that is not taken"]),
        ("list --plugin broken.py", ["name the module as it is imported: broken\n"]),
        ("list --plugin models/net.py", ["name the module as it is imported: models.net\n"]),
        ("list --plugin ./broken", ["name the module as it is imported: broken\n"]),
        ("list --plugin /tmp/my.py", ["--plugin /tmp/my.py: must be", "No module named '/tmp/my')\n"]),
        ("list --plugin ../my.py", ["--plugin ../my.py: must be", "relative"]),
        ("list --plugin ending", ["--plugin ending: must be", "it ended the process, with 3"]),
        ("list --plugin leaving", ["--plugin leaving: must be", "(it ended the process)\n"]),
    ],
)
def test_one_line(words, told, tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "ending.py").write_text("import sys; sys.exit(3)")
    (tmp_path / "leaving.py").write_text("import sys; sys.exit()")
    (tmp_path / "taken.py").write_text("import windtunnel as wt\nwt.models.register('lstm', print)")
    line = refusal(*words.split())
    assert all(part in line for part in told)


def test_the_environment_is_named_where_it_is_wrong(monkeypatch, refusal):
    monkeypatch.setenv("WINDTUNNEL_PLUGINS", " , no_such_module")
    assert "WINDTUNNEL_PLUGINS=no_such_module: must be a Python module" in refusal("list")


def test_a_file_in_the_working_folder_hides_no_installed_package(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    (tmp_path / "yes.py").write_text("")
    assert main(["--plugin", "yes", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) and sys.path[-1] == str(tmp_path)


def test_words_around_a_plugin_stay_as_they_are():
    assert taken_out(["a", "--plugin", "m", "b", "--plugin=n", "--c"]) == (["m", "n"], ["a", "b", "--c"])
