"""Weights of the user's own code are read back by the code that they were saved with, or by none."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn

from tests.training.cases import Counts, contents, counts, on_cpu, one_line, tiny
from windtunnel import models
from windtunnel.errors import InputError
from windtunnel.fidelity import evaluate
from windtunnel.models import registry
from windtunnel.training import load, train
from windtunnel.training.same_code import predictions, require_same
from windtunnel.training.seed_folder import SeedFolder
from windtunnel.tunnels import Urn

OWN = tiny(model="own", model_options={}, steps=6)
CHANGED = "the code of model own, or of its world, has changed since these weights were saved"


class Edited(Counts):
    """The same weights, another function of them."""

    def forward(self, tokens, features, readout):
        x = self.table(tokens).cumsum(1)
        return self.last(torch.relu(self.mix(x)))[:, readout]


class Renamed(Counts):
    """The same function, written otherwise."""

    def forward(self, tokens, features, readout):
        running = torch.cumsum(self.table(tokens), dim=1)[:, readout]
        return self.last(torch.tanh(self.mix(running)))


class Noisy(Counts):
    """Draws whenever it is asked."""

    def forward(self, tokens, features, readout):
        return torch.dropout(super().forward(tokens, features, readout), 0.5, True)


class Keeping(Counts):
    """Adds up what it was ever asked."""

    asked = 0.0

    def forward(self, tokens, features, readout):
        self.asked += 1.0
        return super().forward(tokens, features, readout) + self.asked * torch.arange(4.0)


class Halved(nn.Module):
    def __init__(self, inside, on):
        super().__init__()
        self.inside, self.on = inside, on

    def forward(self, tokens, features, readout):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.on):
            return 2 * self.inside(tokens, features, readout).float()


class Late(Urn):
    """Its inputs may change from the thirtieth readout on."""

    flipped = False

    def episodes(self, latent, dtype=torch.float64):
        found = super().episodes(latent, dtype)
        if type(self).flipped:
            found.inputs.tokens[:, 30:] = (found.inputs.tokens[:, 30:] + 1) % 3
        return found


class Flagged(Urn):
    """A world of the user's own, whose beliefs do not matter here."""

    flipped = False

    def episodes(self, latent, dtype=torch.float64):
        found = super().episodes(latent, dtype)
        if type(self).flipped:
            found.inputs.tokens[:] = found.inputs.tokens.flip(1)
        return found


def begun(folder, model, steps=4, **options):
    """A run that is stopped after some of its steps."""
    import windtunnel.training.sitting as sitting

    looks = iter(range(100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sitting.Sitting, "_should_stop", lambda *_: next(looks) >= steps)
        return on_cpu(OWN, folder, model=model, **options)


def stored(path) -> dict[str, str]:
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["windtunnel"])


def test_training_does_not_go_on_with_other_code(tmp_path):
    begun(tmp_path, Counts)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=CHANGED) as error:
        on_cpu(OWN, tmp_path, model=Edited)
    assert "restore the code, or train in another folder" in one_line(error)
    weights = {path: kept for path, kept in before.items() if str(path).endswith(".safetensors")}
    assert weights and {path: contents(tmp_path)[path] for path in weights} == weights
    whole = on_cpu(OWN, model=Counts).models[0].state_dict()
    again = on_cpu(OWN, tmp_path, model=Renamed).models[0].state_dict()  # code that does the same may be another text
    assert all(torch.allclose(again[name], whole[name], atol=1e-4) for name in whole)


def test_a_finished_run_is_not_given_to_other_code(tmp_path):
    on_cpu(OWN, tmp_path, model=Counts)
    with pytest.raises(InputError, match=CHANGED):
        on_cpu(OWN, tmp_path, model=Edited)
    with pytest.raises(InputError, match=CHANGED):
        evaluate(load(tmp_path, model=Edited), episodes=8)
    same, other = (evaluate(load(tmp_path, model=one), episodes=8).kl_bits.mean for one in (Counts, Renamed))
    assert same == pytest.approx(other, rel=1e-4)


def test_code_of_another_shape_is_told_by_the_first_tensor(tmp_path):
    on_cpu(OWN, tmp_path, model=Counts)
    with pytest.raises(InputError) as error:
        on_cpu(OWN, tmp_path, model=lambda tunnel: Counts(tunnel, width=4))
    told = "table.weight is (8, 8) in the file and (8, 4) in the model; has its code changed?"
    assert one_line(error).endswith(f"the weights of seed 0 must fit its model, but do not: {told}")


def test_a_world_that_has_changed_is_found_out(tmp_path, monkeypatch):
    network = on_cpu(tiny(world := Flagged(symbols=3, length=6))).models[0]
    saved = predictions(network, world)
    require_same(saved, network, world, "transformer", tmp_path, 6)
    monkeypatch.setattr(Flagged, "flipped", True)
    with pytest.raises(InputError, match="or of its world, has changed"):
        require_same(saved, network, world, "transformer", tmp_path, 6)


def test_a_model_that_draws_is_held_to_what_it_draws_from_one_seed(tmp_path):
    with warnings.catch_warnings(action="ignore"):
        on_cpu(OWN, tmp_path, model=Noisy)
        assert on_cpu(OWN, tmp_path, model=Noisy).finished
        with pytest.raises(InputError, match=CHANGED):
            on_cpu(OWN, tmp_path, model=Counts)


def test_where_nothing_can_be_told_it_is_said_so(tmp_path):
    said: list[str] = []
    with warnings.catch_warnings(action="ignore"):
        for _ in range(2):
            on_cpu(OWN, tmp_path, model=Keeping, say=said.append)
    hint = "(if the code of own has changed since, use another folder)"
    assert said == [f"{tmp_path} is finished (6 steps); nothing to do {hint}"]
    assert SeedFolder(tmp_path / "seed-0").predictions(6) == ""


def test_half_precision_may_round_otherwise_on_another_device():
    """A model that computes in bfloat16 where it can, with weights in float32."""
    world, network = tiny().tunnel, Counts(tiny().tunnel)
    halved, whole = (models.build(lambda tunnel, on=on: Halved(network, on), world) for on in (True, False))
    saved = predictions(halved, world)
    assert saved.split()[0] == f"{torch.finfo(torch.bfloat16).eps:.6g}"
    require_same(saved, whole, world, "own", Path(), 6)
    require_same(predictions(whole, world), halved, world, "own", Path(), 6)


def test_predictions_are_of_all_readouts(tmp_path):
    """A world that changes late, after more readouts than are asked."""
    world = Late(symbols=3, length=40)
    network = on_cpu(tiny(world, steps=2)).models[0]
    saved = predictions(network, world)
    Late.flipped = True
    try:
        with pytest.raises(InputError, match="has changed"):
            require_same(saved, network, world, "transformer", tmp_path, 2)
    finally:
        Late.flipped = False


def test_a_finished_run_is_given_back_without_its_plugin(tmp_path):
    on_cpu(OWN, tmp_path, model=Counts)
    assert train(recipe=OWN, out=tmp_path, device="cpu").finished


def test_a_lambda_has_a_name_that_can_be_registered(tmp_path, monkeypatch):
    train(OWN.tunnel, lambda tunnel: Counts(tunnel), out=tmp_path, preset="quick", steps=1, device="cpu")
    name = load(tmp_path).recipe.model
    monkeypatch.setattr("windtunnel.models.registry._REGISTERED", dict(registry._REGISTERED))
    models.register(name, Counts)
    assert load(tmp_path).models


def test_only_what_is_not_ours_is_asked(tmp_path):
    ours, own = tmp_path / "ours", tmp_path / "own"
    on_cpu(tiny(), ours)
    on_cpu(OWN, own, model=counts)
    for kind in ("step", "resume"):
        name = f"seed-0/{kind}-{6:08d}.safetensors"
        assert "predictions" not in stored(ours / name) and len(stored(own / name)["predictions"].split()) == 1 + 8


def test_raw_and_averaged_weights_are_asked_apart(tmp_path):
    """What a rung keeps is the average; what training goes on from is not."""
    on_cpu(OWN, tmp_path, model=Counts)
    place = SeedFolder(tmp_path / "seed-0")
    assert place.predictions(6) != place.predictions(6, "resume")
