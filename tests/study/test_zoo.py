"""Shipped networks: written, found, loaded, and held to their cards."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

import windtunnel as wt
from tests.training.cases import tiny
from windtunnel.errors import InputError
from windtunnel.study import zoo
from windtunnel.training import train
from windtunnel.training.files import write_json

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "making"))

import zoo_page  # noqa: E402


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    recipe = tiny(wt.tunnels.Urn(symbols=3, length=5), "transformer", steps=20, checkpoint_every=10, seeds=(0, 1))
    return train(recipe=recipe, out=tmp_path_factory.mktemp("run"), device="cpu")


@pytest.fixture
def planted(run, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path))
    zoo.export(run, "urn-transformer", episodes=400)
    return tmp_path


@pytest.mark.parametrize("name", zoo.names())
def test_every_shipped_network_is_what_its_card_says(name):
    tunnel = zoo.tunnel(name)
    found = zoo.check(name, episodes=max(64, 20_000 // tunnel.positions))
    assert found.agrees, f"{name}: {found.live} now, {found.card} on its card"


def test_the_shipped_networks_are_listed_and_small():
    assert (ROOT / "zoo" / "README.md").read_text() == zoo_page.page()
    assert sum(path.stat().st_size for path in (ROOT / "zoo").rglob("*.safetensors")) <= zoo.MOST_BYTES


def test_export_load_check(planted, run):
    assert wt.zoo.names() == ["urn-transformer"]
    model = wt.zoo.load("urn-transformer")
    assert not model.training and model.tunnel == run.tunnel
    card = json.loads((planted / "urn-transformer" / "card.json").read_text())
    assert model.card == card and card["parameters"] == wt.models.describe(model).params
    assert card["recipe"]["seeds"] == [zoo.best_seed(run)] and card["environment"]["versions"]["torch"]
    stored = wt.evaluate(model, episodes=400).kl_bits  # a network from the zoo knows its tunnel
    assert stored.mean == pytest.approx(card["scores"]["home"]["kl_bits"]["mean"], abs=1e-12)  # scored as stored
    found = zoo.check("urn-transformer", episodes=400)
    assert found.agrees and found.live.mean != found.card.mean
    assert "| urn-transformer | urn, symbols 3, length 5 | transformer, " in zoo_page.page()


def test_float16_only_where_it_costs_nothing(run, tmp_path, monkeypatch):
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path))
    dtypes = {}
    for allowed in (1e9, -1e9):
        monkeypatch.setattr(zoo, "LOSSLESS", allowed)
        zoo.export(run, "x", episodes=100)
        dtypes[allowed] = zoo.card("x")["dtype"]
        assert all(value.dtype == torch.float32 for value in zoo.load("x").state_dict().values())
    assert dtypes == {1e9: "float16", -1e9: "float32"}
    full = run.model(zoo.best_seed(run)).state_dict()
    assert all(torch.equal(value, full[key]) for key, value in zoo.load("x").state_dict().items())


def test_float16_is_refused_where_it_costs_what_the_score_could_hide(run, tmp_path, monkeypatch):
    """A rise of a tenth of a per cent is within 1% of the KL, but more than a tenth of so narrow an interval."""
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path))
    told = iter([1.0, 1.001])

    def scores(model, run, episodes):
        kl = {"mean": next(told), "low": 0.995, "high": 1.005, "over": "sequences", "scale": "linear", "per_seed": []}
        return {"kl_bits": kl}

    monkeypatch.setattr(zoo, "_scores", scores)
    zoo.export(run, "x", episodes=10)
    assert zoo.card("x")["dtype"] == "float32" and zoo.card("x")["kl_bits_by_dtype"]["float16"] == 1.001


def test_a_card_tells_the_commit_of_the_training(run, planted, monkeypatch):
    sittings = json.loads((run.path / "environment.json").read_text())
    monkeypatch.setattr(zoo, "environment", lambda device: {"commit": "that-of-the-export"})
    zoo.export(run, "late", episodes=20)
    card = zoo.card("late")
    assert card["commit"] == sittings[-1]["commit"] and card["exported"]["commit"] == "that-of-the-export"


def test_a_card_that_promises_too_much_is_found_out(planted):
    path = planted / "urn-transformer" / "card.json"
    card = json.loads(path.read_text())
    for part in ("mean", "low", "high"):
        card["scores"]["home"]["kl_bits"][part] /= 100
    write_json(path, card)
    assert not zoo.check("urn-transformer", episodes=400).agrees


def test_bad_input(planted, run, monkeypatch, tmp_path_factory):
    with pytest.raises(InputError, match="network = 'y': must be one of urn-transformer"):
        zoo.load("y")
    with pytest.raises(InputError, match="seed = 7: must be one of 0, 1"):
        zoo.export(run, "z", seed=7)
    monkeypatch.setattr(zoo, "MOST_BYTES", 10)
    with pytest.raises(InputError, match=r"zoo = .* must be at most"):
        zoo.export(run, "z", episodes=50)
    weights = planted / "urn-transformer" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"weights\.safetensors: is missing, truncated or altered"):
        zoo.load("urn-transformer")
    write_json(planted / "urn-transformer" / "card.json", {"format": 9})
    with pytest.raises(InputError, match=r"format = 9, made by windtunnel .*: must be format 1"):
        zoo.load("urn-transformer")
    monkeypatch.setenv("WINDTUNNEL_ZOO", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(InputError, match="there is none in"):
        zoo.load("urn-transformer")


def test_an_installed_package_brings_its_networks(monkeypatch, tmp_path):
    """Beside the package if it was built with them, else the repository's folder."""
    monkeypatch.delenv("WINDTUNNEL_ZOO", raising=False)
    assert zoo.folder() == ROOT / "zoo"
    package = tmp_path / "windtunnel"
    (package / "zoo_data").mkdir(parents=True)
    monkeypatch.setattr(wt, "__file__", str(package / "__init__.py"))
    assert zoo.folder() == package / "zoo_data"


def test_a_network_trained_apart_from_the_study_is_told_apart(planted):
    assert "Each but urn-transformer is the seed of its cell" in zoo_page.page()
    assert "; urn-transformer was trained separately." in zoo_page.page()


def test_the_rest_are_seeds_of_the_study():
    """A sweep may have chosen the rate, as it did for hmm-transformer."""
    assert "Each but urn-transformer is" in zoo_page.page()


def test_a_card_is_a_dict_that_is_shown_on_one_line(planted):
    card = zoo.card("urn-transformer")
    assert json.loads(json.dumps(card)) == card and len(repr(card)) < 300
    assert repr(card).startswith("<Card of urn-transformer: ") and "bits; keys format, " in repr(card)
