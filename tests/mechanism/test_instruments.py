"""Every instrument on every kind of network: numbers with nulls, or a line that says why there is none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from tests.models.cases import TUNNELS, small
from windtunnel.fidelity.metrics import kl_bits, model_entropy_bits
from windtunnel.geometry import Measurement, Missing
from windtunnel.geometry.guard import guarded
from windtunnel.mechanism import INSTRUMENTS, Bench, late, patch, roles, swap
from windtunnel.mechanism.bases import PENALISED
from windtunnel.mechanism.chance import rotation
from windtunnel.mechanism.roles import sites
from windtunnel.mechanism.swap import fitted
from windtunnel.models.taps import Edit
from windtunnel.models.trace import trace
from windtunnel.tunnels import HMM, Bijection, Recall, Urn

ABSENT = {  # what each network has not
    "transformer": {"late attention off, length 4", "late attention off, length 8", "role: memory"},
    "mamba": {"heads", "role: update"},
    "lstm-residual": {"heads"},
    "linear-attention": set(),
}
TINIEST = {
    "hmm": HMM(states=2, symbols=2, length=3),
    "bijection": Bijection(symbols=3, length=3),
    "recall": Recall(pairs=2, queries=2, filler=0, keys=3, values=3),
}
EPISODES = 8  # of six, `swap` says that they are too few
CASES = [(variant, "hmm") for variant in ABSENT] + [("transformer", "bijection"), ("transformer", "recall")]


@pytest.mark.parametrize(("variant", "kind"), CASES)
def test_every_instrument(variant, kind):
    tunnel = TINIEST[kind]
    model, fresh = small(variant, tunnel, depth=2, width=16), small(variant, tunnel, depth=2, width=16, seed=1)
    absent, count = set(), 0
    for name, instrument in INSTRUMENTS.items():
        found = guarded(name, instrument, model, tunnel, tunnel.sample(EPISODES), [fresh])
        assert found, name
        for m in found:
            json.dumps(m.to_dict())
            if isinstance(m, Missing):
                absent.add(m.name)
                assert m.reason and "\n" not in m.reason
                continue
            count += 1
            assert isinstance(m, Measurement) and m.nulls and "untrained" in m.nulls
            assert m.low <= m.value + 1e-9 and m.value <= m.high + 1e-9 and m.over == "sequences"
    if kind == "hmm":
        assert absent == ABSENT[variant]
    assert count > 30


def test_a_world_of_length_one_is_measured_once_per_length():
    tunnel = HMM(states=2, symbols=2, length=1)
    found = late(small("lstm-residual", tunnel, depth=2, width=16), tunnel, tunnel.sample(4), [], draws=1)
    places = [(m.name, m.where["length"], m.where["positions"]) for m in found if isinstance(m, Measurement)]
    assert len(set(places)) == len(places) and {length for _, length, _ in places} == {1, 2}


def test_a_swap_that_could_not_be_fitted_is_not_inert():
    """Of three episodes one would be fitted, and less its own mean nothing is left of it."""
    tunnel = HMM(states=3, symbols=3, length=6)
    model = small("transformer", tunnel, width=16)
    (refused,) = swap(model, tunnel, tunnel.sample(3), [])
    assert isinstance(refused, Missing) and refused.reason == "3 episodes of 6 readouts are too few for 3 classes"


def test_a_subspace_of_rank_0_is_missing():
    """At the first readout of a bijection everybody believes the same: nothing in the stream goes with that."""
    tunnel = Bijection(symbols=3, length=1)
    model = small("transformer", tunnel, width=16)
    found = fitted(Bench(model, tunnel, tunnel.sample(16)), "blocks.0.residual")
    empty = {name for name, basis in found.items() if isinstance(basis, Missing) and "of rank 0" in basis.reason}
    assert empty == {"decoded belief", PENALISED, "written belief"}
    assert all(basis.shape[1] > 0 for basis in found.values() if isinstance(basis, torch.Tensor))
    (refused,) = guarded("swap", swap, model, tunnel, tunnel.sample(16), [])  # nor is there anything to swap
    assert isinstance(refused, Missing) and "believe what their recipients do" in refused.reason


@pytest.mark.parametrize("predict", ["state", "symbol"])
def test_a_swap_says_whose_belief_it_means(predict):
    """`beliefs` decodes the hidden state's even where symbols are predicted; what is swapped is what is predicted."""
    tunnel = HMM(states=3, symbols=2, length=4, predict=predict)
    found = swap(small("transformer", tunnel, width=16), tunnel, tunnel.sample(16), [], draws=1)
    told = {m.where.get("belief") for m in found if isinstance(m, Measurement)}
    assert told == ({"about the next symbol"} if predict == "symbol" else {None})


def test_too_few_episodes_are_told_in_a_line():
    tunnel = TUNNELS["bijection"]
    model = small("lstm-stacked", tunnel, width=16)
    (refused,) = guarded("ablate", INSTRUMENTS["ablate"], model, tunnel, tunnel.sample(1), [])
    assert isinstance(refused, Missing) and refused.reason == "episodes = 1: must be at least 2"
    assert set(INSTRUMENTS) >= {"ablate", "heads", "ranges", "late", "patch", "dose", "swap", "roles"}


def test_late_attention_at_longer_lengths():
    tunnel = TUNNELS["hmm-rows"]
    model = small("transformer-none", tunnel, depth=3, width=16)
    episodes = tunnel.sample(6)
    both = late(model, tunnel, episodes, [small("transformer-none", tunnel, depth=3, width=16, seed=1)])
    assert not any(isinstance(m, Missing) for m in both)
    found = [m for m in both if isinstance(m, Measurement) and m.name.startswith("bits lost")]
    errors = [m for m in both if isinstance(m, Measurement) and m.name.startswith("entropy error")]
    assert [m.where for m in errors] == [m.where for m in found] and all(len(m.nulls) == 2 for m in errors)
    mute = Edit({f"blocks.{layer}.attention.out": lambda value, step: torch.zeros_like(value) for layer in (1, 2)})
    with torch.no_grad():
        off = model_entropy_bits(model.log_probs(episodes.inputs, mute).double())
    assert errors[0].value == pytest.approx(float((off - episodes.entropy_bits).abs().mean()), rel=1e-5)
    assert [(m.where["length"], m.where["positions"]) for m in found if isinstance(m, Measurement)] == [
        *((5, "all"), (8, "all"), (8, "beyond home length")),
        *((12, "all"), (12, "beyond home length")),
    ]
    assert all(m.where["layers"] == [1, 2] for m in found if isinstance(m, Measurement))
    longest, beyond = found[-2:]
    assert isinstance(longest, Measurement) and isinstance(beyond, Measurement)
    lost = longest.arrays["off"] - longest.arrays["clean"]
    assert longest.value == pytest.approx(lost.mean()) and beyond.value == pytest.approx(lost[5:].mean())


class AtTheEnd(Urn):
    """An urn that is asked about once, after all draws: it has fewer readouts than its length says."""

    @property
    def readouts(self) -> int:
        return 1

    def episodes(self, latent, dtype=torch.float64):
        whole = super().episodes(latent, dtype)
        inputs = replace(whole.inputs, readout=whole.inputs.readout[-1:])
        return replace(whole, inputs=inputs, labels=whole.labels[:, -1:], posterior=whole.posterior[:, -1:])


def test_a_world_read_at_its_end_alone_has_a_length_all_the_same():
    tunnel = AtTheEnd(symbols=3, length=4)
    model, episodes = small("lstm-residual", tunnel, depth=2, width=16), tunnel.sample(4)
    found = late(model, tunnel, episodes, [], draws=2)
    lost = [m for m in found if isinstance(m, Measurement) and m.name.startswith("bits lost")]
    assert [(m.where["length"], m.where["positions"]) for m in lost] == [
        *((4, "all"), (6, "all"), (6, "beyond home length")),
        *((10, "all"), (10, "beyond home length")),
    ]
    with torch.no_grad():  # at home it is asked on the episodes given
        clean = kl_bits(episodes.posterior, model.log_probs(episodes.inputs).double())
    assert lost[0].arrays["clean"] == pytest.approx(clean.mean(0).numpy(), rel=1e-4)


def test_roles_before_a_step_need_a_way_to_reach_it():
    """The last stream of a Transformer is read at its own position only: taking it away elsewhere costs nothing."""
    tunnel = TUNNELS["hmm-rows"]
    found = roles(small("transformer", tunnel, width=16), tunnel, tunnel.sample(8), [], draws=1)
    by = {(m.where["role"], m.where["layer"], m.where["site"]): m for m in found if isinstance(m, Measurement)}
    assert by["carry", 1, "before it"].value == 0.0 == by["update", 1, "before it"].value
    assert by["carry", 0, "before it"].value != 0.0 and by["carry", 1, "at it"].value != 0.0
    assert ("routing", "all", "at it") in by and ("carry", "all", "at it") not in by


def test_a_role_and_its_nulls_are_of_the_same_episodes_and_nothing_is_moved():
    """By hand: the tensor set to its mean at the readout, on whole sequences; and with the damage turned."""
    tunnel, step = TUNNELS["hmm-rows"], 2
    model, blank = (small("transformer", tunnel, width=16, seed=seed).double() for seed in (0, 1))
    episodes = tunnel.sample(20)  # more than the few on which other instruments draw their nulls
    position = int(episodes.inputs.readout[step])

    def lost(network, turn=None) -> float:
        x = trace(network, episodes, ["blocks.1.ff.out"])["blocks.1.ff.out"]

        def damaged(value, _):
            change = x.mean(0)[position] - value[:, position]
            value = value.clone()
            value[:, position] += change if turn is None else change @ turn
            return value

        with torch.no_grad():
            runs = [
                network.log_probs(episodes.inputs, tap).double()
                for tap in (Edit({"blocks.1.ff.out": damaged}), Edit({"blocks.1.ff.out": lambda value, _: value}))
            ]
        after, before = (kl_bits(episodes.posterior, run)[:, step].mean() for run in runs)
        return float(after - before)

    found = roles(model, tunnel, episodes, [blank], step=step, draws=3)
    (m,) = [
        m
        for m in found
        if isinstance(m, Measurement) and (m.where["role"], m.where["layer"], m.where["site"]) == ("update", 1, "at it")
    ]
    assert m.value == pytest.approx(lost(model), abs=1e-9) and m.value != 0
    assert m.nulls["untrained"] == pytest.approx([lost(blank)], abs=1e-9)
    turned = [lost(model, rotation(16, 0, draw, 0)) for draw in range(3)]
    assert m.nulls["random direction, equal size"] == pytest.approx(turned, abs=1e-9)


def test_carry_is_taken_from_the_evidence_without_the_header():
    tunnel = TINIEST["hmm"]
    assert isinstance(tunnel, HMM)
    position = tunnel.header_positions + 2
    assert sites(tunnel, "carry", position)["evidence before it"] == (position - 2, position - 1)
    assert "evidence before it" not in sites(tunnel, "routing", position)
    assert list(sites(tunnel, "carry", tunnel.header_positions)) == ["at it", "before it"]  # the first observation
    assert list(sites(Bijection(symbols=4, length=4), "carry", 0)) == ["at it"]


def test_patching_the_last_stream_of_a_network_gives_its_own_ceiling():
    tunnel = TUNNELS["hmm-rows"]
    found = patch(small("transformer", tunnel, width=16).double(), tunnel, tunnel.sample(8), [], draws=1)
    by = {(m.where["tensor"], m.where["readouts"]): m for m in found if isinstance(m, Measurement)}
    last = by["blocks.1.residual", "at the step"]
    assert last.value == pytest.approx(float(last.arrays["ceiling"][0]), abs=1e-12)
    assert by["blocks.1.residual", "after it"].value == 0.0


@pytest.mark.gpu
def test_the_survey_runs_on_a_gpu():
    tunnel = TUNNELS["hmm-rows"]
    model, fresh = (small("transformer", tunnel, width=16, seed=s).cuda() for s in (0, 1))
    for name, instrument in INSTRUMENTS.items():
        found = guarded(name, instrument, model, tunnel, tunnel.sample(EPISODES), [fresh])
        assert any(isinstance(m, Measurement) for m in found), name
    assert torch.cuda.is_available()
