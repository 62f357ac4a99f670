"""What the commands print, as text and as JSON, against the library."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import pytest

import windtunnel as wt
from windtunnel.cli.main import main
from windtunnel.fidelity.baselines import SUMMARIES
from windtunnel.tunnels import registry


@pytest.fixture
def output(capsys, monkeypatch):
    """Run a command that must succeed; its output, at a fixed width."""
    monkeypatch.setenv("COLUMNS", "160")

    def run(words: str) -> str:
        assert main(words.split()) == 0
        said = capsys.readouterr()
        assert said.err == "" and "\x1b" not in said.out
        return said.out

    return run


@pytest.fixture
def chain(tmp_path):
    file = tmp_path / "chain.json"
    matrices = {"transition": [[0.9, 0.1], [0.2, 0.8]], "emission": [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]}
    file.write_text(json.dumps(matrices), encoding="utf-8")
    return file


# --- list
def test_list_names_everything(output):
    shown = output("list")
    for name in (*wt.tunnels.names(), *wt.models.summaries(), *SUMMARIES):
        assert re.search(rf"^ {re.escape(name)} ", shown, re.MULTILINE), name
    assert "∞" in shown and "61.1" in shown


def test_list_json(output):
    told = json.loads(output("list --json"))
    assert list(told["tunnels"]) == wt.tunnels.names()
    assert told["tunnels"]["hmm"]["hypotheses_log2"] == "inf"
    assert told["tunnels"]["bijection"]["primitives"] == ["accumulation"]
    assert told["models"] == wt.models.summaries() and told["baselines"] == SUMMARIES
    assert told["versions"]["windtunnel"] == wt.__version__


# --- sample
def test_sample_bijection_text(output):
    """Permutation of four: the belief is known by heart."""
    shown = output("sample bijection --symbols 4 --length 4 --episodes 1")
    rows = [line.split() for line in shown.splitlines() if re.match(r" +\d ", line)]
    latent = wt.tunnels.Bijection(4, 4).sample(1, seed=0, stream="test").latent
    keys, values = latent["keys"][0].tolist(), latent["values"][0].tolist()
    for step, row in enumerate(rows):
        left = 4 - step
        bar = {4: "▃", 3: "▃", 2: "▅", 1: "█"}[left]
        picture = "".join("·" if value in values[:step] else bar for value in range(4))
        before = [f"v{values[step - 1]}"] if step else []
        expected = [*before, f"k{keys[step]}", picture, f"{np.log2(left):.3f}", f"v{values[step]}", f"{1 / left:.3f}"]
        assert row == [str(step + 1), *expected]
    assert len(rows) == 4


def test_sample_hmm_text_shows_the_matrices(output):
    shown = output(
        "sample hmm --states 3 --symbols 2 --length 5 --dynamics rotating --mixing 0.9 0.95 --predict symbol"
    )
    assert shown.startswith("hmm: states 3, symbols 2, length 5, dynamics rotating, mixing (0.9, 0.95)")
    tunnel = wt.tunnels.HMM(3, 2, 5, dynamics="rotating", mixing=(0.9, 0.95), predict="symbol")
    transition = tunnel.sample(2, seed=0, stream="test").latent["transition"]
    for episode in range(2):
        for state in range(3):
            assert f"T{state}  " + " ".join(f"{p:.2f}" for p in transition[episode, state].tolist()) in shown
    assert len(re.findall(r"^ +\d  o[01] +[·▁▂▃▄▅▆▇█]{2} +[01]\.\d{3}  o[01] ", shown, re.MULTILINE)) == 10


def test_sample_recall_text(output):
    shown = output("sample recall --pairs 3 --queries 2 --filler 4 --episodes 1 --noise 0.2 --repeats 2")
    assert len(re.findall(r"k\d+→v\d+,v\d+", shown)) == 3
    assert "then 4 idle positions" in shown
    assert len(re.findall(r"QUERY k\d+ +v\d+ [01]\.\d{3}  v\d+ \d", shown)) == 2 and "more" in shown
    exact = output("sample recall --pairs 3 --queries 2 --filler 0 --episodes 1")
    assert len(re.findall(r"QUERY k\d+ +(v\d+) 1\.000 +0\.000 +\1 ", exact)) == 2


@pytest.mark.parametrize(
    ("words", "tunnel"),
    [
        (
            "bijection --replacement --layout paper --symbols 6",
            wt.tunnels.Bijection(6, replacement=True, layout="paper"),
        ),
        (
            "hmm --prior released --header tokens --length 4",
            wt.tunnels.HMM(prior="released", header="tokens", length=4),
        ),
        ("hmm --dynamics sticky --length 3", wt.tunnels.HMM(dynamics="sticky", length=3)),
        ("recall --pairs 4 --noise 0.5 --values 9", wt.tunnels.Recall(pairs=4, noise=0.5, values=9)),
    ],
)
def test_sample_json_is_what_the_library_samples(words, tunnel, output):
    told = json.loads(output(f"sample {words} --episodes 3 --seed 7 --stream train --json"))
    assert wt.tunnels.from_dict(told["tunnel"]) == tunnel
    assert (told["seed"], told["stream"]) == (7, "train")
    episodes = tunnel.sample(3, seed=7, stream="train")
    assert told["readout"] == episodes.inputs.readout.tolist() and told["token_names"] == tunnel.token_names()
    for index, episode in enumerate(told["episodes"]):
        assert episode["tokens"] == episodes.inputs.tokens[index].tolist()
        features = episodes.inputs.features
        assert episode["features"] == (None if features is None else features[index].tolist())
        assert episode["labels"] == episodes.labels[index].tolist()
        assert episode["posterior"] == episodes.posterior[index].tolist()
        assert np.allclose(np.sum(episode["posterior"], axis=-1), 1.0, atol=1e-12)
        assert episode["entropy_bits"] == episodes.entropy_bits[index].tolist()
        assert set(episode["latent"]) == set(episodes.latent)


def test_matrices_from_a_file(output, chain):
    told = json.loads(output(f"sample hmm --matrices {chain} --length 4 --json"))["tunnel"]
    assert (told["states"], told["symbols"], told["header"], told["length"]) == (2, 3, None, 4)
    assert np.allclose(told["transition"], [[0.9, 0.1], [0.2, 0.8]])
    again = f"sample hmm --matrices {chain} --length 4 --header none --states 2 --symbols 3 --json"
    assert json.loads(output(again))["tunnel"] == told
    assert "transition fixed, emission fixed" in output(f"sample hmm --matrices {chain}")


# --- baselines
def test_baselines_text(output):
    shown = output("baselines bijection --replacement --symbols 5 --length 6 --episodes 200")
    assert shown.startswith(
        "bijection: symbols 5, length 6, replacement True, layout plain\n200 episodes, seed 1, stream test"
    )
    names = re.findall(r"^ ([a-z][a-z-]*(?: [a-z]+)?)  ", shown, re.MULTILINE)
    assert names[1:] == [
        "uniform",
        "set-complement",
        "familiarity",
        "last-observation",
        "constant entropy",
        "exact belief",
    ]
    assert re.search(r"^ set-complement +∞ ", shown, re.MULTILINE)

    tunnel = wt.tunnels.Bijection(5, 6, replacement=True)
    score = wt.evaluate(wt.baselines(tunnel)["uniform"], tunnel, episodes=200, seed=1)
    half = (score.kl_bits.high - score.kl_bits.low) / 2
    assert re.search(rf"^ uniform +{score.kl_bits.mean:.4f} ±{half:.4f} ", shown, re.MULTILINE)
    assert re.search(rf"^ constant entropy +{score.entropy_yardstick_bits:.4f} *$", shown, re.MULTILINE)
    assert re.search(rf"^ exact belief .* {score.exact_accuracy:.4f} *$", shown, re.MULTILINE)


def test_baselines_json(output, chain):
    told = json.loads(output(f"baselines hmm --matrices {chain} --length 3 --episodes 100 --seed 5 --json"))
    tunnel = wt.tunnels.from_dict(told["tunnel"])
    assert (told["episodes"], told["seed"], told["stream"]) == (100, 5, "test")
    assert list(told["baselines"]) == list(wt.baselines(tunnel))
    score = wt.evaluate(wt.baselines(tunnel)["window-2"], tunnel, episodes=100, seed=5)
    written = told["baselines"]["window-2"]
    for name in ("kl_bits", "entropy_mae_bits", "curve_mae_bits", "tv", "excess_log_loss_bits", "accuracy"):
        expected = getattr(score, name)
        assert [written[name][end] for end in ("mean", "low", "high")] == [expected.mean, expected.low, expected.high]
    assert written["curve_mae_bits"]["floor"] == score.curve_mae_bits.floor
    assert told["exact_accuracy"] == score.exact_accuracy
    assert told["entropy_yardstick_bits"] == score.entropy_yardstick_bits
    assert set(told["versions"]) == {"windtunnel", "torch", "python"}


def test_baselines_json_writes_infinity_as_a_string(output):
    told = json.loads(output("baselines bijection --replacement --symbols 4 --length 6 --episodes 50 --json"))
    assert told["baselines"]["set-complement"]["kl_bits"]["mean"] == "inf"


# --- help, and worlds of one's own
def test_help_of_a_tunnel(output):
    shown = output("sample hmm --help")
    for part in (
        "--states INT",
        "S: hidden states.",
        "{dirichlet,rotating,sticky}",
        "--mixing FLOAT FLOAT",
        "FILE.json",
    ):
        assert part in shown
    assert "--transition" not in shown and "--emission" not in shown


@dataclass(frozen=True)
class Tiny(wt.tunnels.Bijection):
    """A registered world."""

    symbols: int = 3
    length: int = 3


def test_a_registered_tunnel(output, monkeypatch):
    monkeypatch.setattr(registry, "_TUNNELS", dict(registry._TUNNELS))
    wt.tunnels.register("tiny-world", Tiny)
    assert "tiny-world" in output("list") and "tiny-world" in output("sample --help")
    assert json.loads(output("sample tiny-world --length 2 --json"))["tunnel"] == {
        "name": "tiny-world",
        "symbols": 3,
        "length": 2,
        "replacement": False,
        "layout": "plain",
    }


@dataclass(frozen=True)
class Clash(Tiny):
    """A world with a field that is also an option."""

    seed: int = 3


def test_a_registered_tunnel_with_a_taken_name(monkeypatch, capsys):
    monkeypatch.setattr(registry, "_TUNNELS", dict(registry._TUNNELS))
    wt.tunnels.register("clash", Clash)
    assert main(["sample", "clash"]) == 2
    assert "tunnel clash: its field 'seed' must be renamed" in capsys.readouterr().err
