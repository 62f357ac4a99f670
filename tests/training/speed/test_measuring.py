"""What speed is measured with: tiny sizes, and numbers that are known."""

from __future__ import annotations

import sys
import time

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.training.cases import SMALL_HMM, VARIANTS, Compiling, broken_compiler, no_compiler, tiny
from windtunnel import tunnels
from windtunnel.models.compiled import CompilationFailed
from windtunnel.models.registry import is_built_in, names
from windtunnel.training import recipe_for
from windtunnel.training.network import Network
from windtunnel.training.speed import Plan, bench, parts, rates, startup
from windtunnel.training.speed.cases import PAIRS, TUNNELS, WORLDS, attempted, cases
from windtunnel.training.speed.clock import Limit, covered, seconds_each
from windtunnel.training.speed.growth import AXES, base_case, grown, parameters_of, steps_of_growth
from windtunnel.training.speed.memory import counted_bytes
from windtunnel.training.speed.parts import operations
from windtunnel.training.speed.rates import AS_TRAINED, evaluation_rate, matrix_rate, training_rate, work_of
from windtunnel.training.speed.sampling import by_choice, by_search, numpy_episode, numpy_rate, sampling_rate
from windtunnel.training.speed.startup import seconds_to_line
from windtunnel.training.speed.tables import notes
from windtunnel.training.tuned_recipes import NAMED


def test_seconds_each_counts_every_call():
    calls = []

    def advance(steps: int) -> None:
        calls.append(steps)
        time.sleep(0.002 * steps)

    each = seconds_each(advance, "cpu", about_s=0.1)
    assert 0.002 <= each < 0.02 and len(calls) > 3


def test_a_limit_names_what_it_left_out():
    limit = Limit(60.0)
    assert limit.allows("a") and limit.left_out == []
    over = Limit(0.0)
    assert not over.allows("b") and over.left_out == ["b"] and over.left_s() == 0.0


def test_there_is_a_case_for_every_pair():
    for device, extra in (("cpu", {"quick"}), ("cuda", {"quick", "hmm/transformer-9x256"})):
        pairs = {f"{world}/{model}" for world in TUNNELS for model in names() if is_built_in(model)}
        assert set(cases(device)) == pairs | extra
    assert next(iter(cases("cpu"))) == "quick"
    assert cases("cuda")["hmm/lstm"] == recipe_for(TUNNELS["hmm"], "lstm")


def test_every_pair_can_be_attempted():
    """Those without a tuned recipe too; all pairs of a tunnel are in one world, or their times say nothing."""
    known = attempted()
    assert set(TUNNELS) == {world.split()[0] for world in WORLDS} == set(tunnels.names())
    assert set(PAIRS) == {f"{world}-{model}" for world in TUNNELS for model in names() if is_built_in(model)}
    assert set(known) == {*NAMED, *PAIRS, "quick"}
    for name in PAIRS:
        world, _, model = name.partition("-")
        assert known[name].model == model and known[name].tunnel == known[f"{world}-transformer"].tunnel
    assert all(known[name] == make() for name, make in NAMED.items())
    assert known["urn-mamba"].optimiser.weight_decay == 0.1 and known["urn-lstm"].name == "urn-lstm"
    assert known["bijection-mamba"] == recipe_for(TUNNELS["bijection"], "mamba", "standard")


def test_operations_of_a_model_of_known_shape():
    """A position-wise MLP: 2 · weights per position in the forward pass, twice that in the backward pass."""
    recipe = tiny(SMALL_HMM, "mlp-position")
    model = Network(recipe, 0, "cpu").model
    work = work_of(recipe)
    assert work.parameters == sum(p.numel() for p in model.parameters())
    inner = sum(p.numel() for n, p in model.named_parameters() if n.endswith(("up.weight", "down.weight")))
    everywhere = SMALL_HMM.positions * 2 * inner
    assert 3 * everywhere <= work.flops_per_sequence <= 3.6 * everywhere  # and the maps at both ends


@pytest.mark.parametrize("positions", ["none", "learned", "rope", "alibi"])
def test_operations_of_a_transformer_by_hand(positions):
    """2 per weight and position that goes through it, thrice for both passes; twice for the features, which need no
    gradient of their own.  In the last block only what is read goes on after attention."""
    options = {"depth": 3, "width": 8, "heads": 2, "ff_width": 12, "positions": positions}
    tunnel = SMALL_HMM
    length, read, width, hidden = tunnel.positions, tunnel.readouts, 8, 12
    assert read < length
    after = width * width + 2 * width * hidden  # output projection, feed-forward
    linear = 3 * length * 3 * width * width + (2 * length + read) * after + read * width * tunnel.classes
    attention = 3 * 2 * length * length * width  # scores and mixture of every block
    features = length * tunnel.feature_width * width
    work = work_of(tiny(tunnel, model_options=options))
    assert work.flops_per_sequence == 2 * (3 * (linear + attention) + 2 * features)
    assert work.flops_counted == AS_TRAINED


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_product_hides_from_the_count(variant):
    """The path with taps writes all of them out.  It does more in the last block of a Transformer, and less in linear
    attention, whose chunks are products where its loop has none."""
    recipe = tiny(SMALL_HMM, variant)
    model, inputs = Network(recipe, 0, "cpu").model, SMALL_HMM.sample(2, dtype=torch.float32).inputs
    with FlopCounterMode(display=False) as counter:
        model(inputs.tokens, inputs.features, inputs.readout, tap=lambda name, value: value).sum().backward()
    done, written_out = work_of(recipe).flops_per_sequence, counter.get_total_flops() / 2
    if recipe.model == "transformer":
        assert 0.8 * written_out < done < written_out
    elif recipe.model == "linear-attention":
        assert written_out < done < 2 * written_out
    else:
        assert done == written_out


def test_matrix_rate_is_a_rate():
    assert 1e8 < matrix_rate("cpu", size=128) < 1e14


@pytest.mark.parametrize("variant", VARIANTS)
def test_training_rate(variant):
    row = training_rate(tiny(SMALL_HMM, variant), "cpu", about_s=0.02, seeds=2)
    assert row["sequences_per_s"] == pytest.approx(2 * row["batch"] / (row["ms_per_step"] / 1e3))
    assert row["seeds"] == 2 and row["setup_s"] > 0 and row["memory_mib"] > 0


def test_nothing_is_measured_that_should_have_been_compiled_and_was_not(monkeypatch):
    monkeypatch.setattr(rates, "Engine", Compiling)
    monkeypatch.setattr(torch, "compile", broken_compiler)
    with pytest.raises(CompilationFailed, match=r"^not measured.*: no compiler here$"):
        training_rate(tiny(SMALL_HMM, "mlp-full"), "cpu", about_s=0.02)
    with pytest.raises(CompilationFailed, match=r"^not measured"):
        parts.step_parts(tiny(SMALL_HMM), "cpu", about_s=0.02)
    assert training_rate(tiny(SMALL_HMM, "lstm-residual"), "cpu", about_s=0.02)["ms_per_step"] > 0  # on purpose


def test_a_compilation_that_fails_leaves_its_row_out_and_says_why(monkeypatch):
    """In a child without a compiler: no row of an uncompiled step, and the other sections are kept."""
    monkeypatch.setattr(
        startup, "_COMPILE", "import sys; print('a\\nlong story\\nb: no compiler', file=sys.stderr); sys.exit(1)"
    )
    told = bench(Plan("cpu", ("compile",)))
    assert told["compile"] == [] and told["failed"] == {"compile": ["quick: b: no compiler"]}
    assert notes(told) == ["compile: failed: quick: b: no compiler"] and told["kernels_in_use"] == []


def test_the_child_that_compiles_says_how_long_it_took(monkeypatch, capsys):
    """Its words, run here; the compiler is replaced, as the real one takes long."""
    monkeypatch.setattr(sys, "argv", ["-c", "cpu", "quick"])
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    exec(startup._COMPILE, {})
    assert float(capsys.readouterr().out) > 0


@pytest.mark.parametrize(("compiler", "why"), [(broken_compiler, "compiler here"), (no_compiler, "compiler at all")])
def test_the_child_that_compiles_says_in_one_line_if_it_cannot(monkeypatch, capsys, compiler, why):
    """Also where it is the sampler that does not compile, which comes first."""
    monkeypatch.setattr(sys, "argv", ["-c", "cpu", "quick"])
    monkeypatch.setattr(torch, "compile", compiler)
    with pytest.raises(SystemExit, match=rf"^not measured[^\n]*: no {why}$"):
        exec(startup._COMPILE, {})
    assert not capsys.readouterr().out


def test_without_a_compiler_the_reason_is_told(monkeypatch):
    """The real thing: nothing is planted but the compiler's absence."""
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    told = bench(Plan("cpu", ("compile",)))
    assert told["compile"] == [] and set(told["failed"]) == {"compile"}
    (line,) = told["failed"]["compile"]
    assert line.startswith("quick: not measured") and "/nonexistent/g++" in line and "\n" not in line


def test_a_child_that_is_killed_is_told_as_that(monkeypatch):
    monkeypatch.setattr(startup, "_COMPILE", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    told = bench(Plan("cpu", ("compile",)))
    assert told["failed"] == {"compile": ["quick: its process ended without a word, with -9"]}


def test_what_does_not_compile_leaves_its_row_out_and_the_others_stay(monkeypatch):
    """An LSTM is not compiled on purpose, so it is what is left."""
    monkeypatch.setattr(rates, "Engine", Compiling)
    monkeypatch.setattr(torch, "compile", broken_compiler)
    monkeypatch.setattr(Plan, "limit_s", lambda self, section: 600.0)
    sections = ("training", "seeds", "growth", "profile")
    told = bench(Plan("cpu", sections, ("quick", "hmm/lstm"), batch=8, quick=True))
    assert {section: [row["case"] for row in told[section]] for section in sections if section != "growth"} == {
        "training": ["hmm/lstm"],
        "seeds": ["hmm/lstm"],
        "profile": ["hmm/lstm"],
    }
    assert told["growth"] == [] and set(told["failed"]) == set(sections) and told["left_out"] == {}
    for section in ("training", "seeds", "profile"):
        (line,) = told["failed"][section]
        assert line.startswith("quick: not measured") and line.endswith(": no compiler here")
    assert len(told["failed"]["growth"]) == len([*steps_of_growth(quick=True)])
    assert any(line.startswith("training: failed: quick: not measured") for line in notes(told))


def test_a_sampler_or_a_start_that_fails_leaves_the_others(monkeypatch):
    def rate(tunnel, device, about_s, episodes):
        if tunnel == WORLDS["urn"]:
            raise CompilationFailed("no compiler at all")
        return {"episodes_per_s": 1.0}

    monkeypatch.setattr(sys.modules["windtunnel.training.speed.bench"], "sampling_rate", rate)
    monkeypatch.setattr(startup, "_LIBRARY", "print('a\\nlong story')")
    told = bench(Plan("cpu", ("sampling", "startup"), quick=True))
    assert [row["tunnel"] for row in told["sampling"]] == [name for name in WORLDS if name != "urn"]
    assert told["failed"]["sampling"] == ["urn: no compiler at all"] and told["startup"] == []
    (line,) = told["failed"]["startup"]
    assert line.startswith("first step: ") and line.endswith("never said 'step 1/1': a long story")


def test_counted_memory_grows_with_the_batch_and_holds_the_state():
    small, large = (Network(tiny(SMALL_HMM, batch=batch), 0, "cpu") for batch in (8, 80))
    state = sum(value.nbytes for value in small.state().values())
    below, above = counted_bytes(small) - state, counted_bytes(large) - state
    assert below > 0 and 9 < above / below < 11
    assert counted_bytes(small) == counted_bytes(small)


@pytest.mark.parametrize("tunnel", ["hmm", "recall"])
def test_sampling_and_evaluation_rates(tunnel):
    assert sampling_rate(WORLDS[tunnel], "cpu", 0.02, episodes=16)["episodes_per_s"] > 0
    recipe = tiny(SMALL_HMM)
    row = evaluation_rate(recipe, "cpu", 0.02, episodes=8)
    assert row["episodes_per_s"] > 0 and row["episodes_per_call"] == 8


@pytest.mark.parametrize("draw", [by_choice, by_search])
def test_the_plain_way_is_right(draw):
    """Its beliefs are those of the tunnel's own filter, on its own episode."""
    import numpy as np

    from windtunnel.tunnels import HMM

    transition, emission, observations, beliefs = numpy_episode(np.random.default_rng(3), draw, 3, 4, 6)
    latent = {
        "transition": torch.tensor(transition)[None],
        "emission": torch.tensor(emission)[None],
        "states": torch.zeros(1, 6, dtype=torch.int64),
        "observations": torch.tensor(observations)[None],
    }
    exact = HMM(states=3, symbols=4, length=6).episodes(latent).posterior[0]
    torch.testing.assert_close(torch.tensor(beliefs), exact)
    assert numpy_rate(draw, 0.01) > 0


def test_growth_changes_one_size():
    base = base_case("cpu")
    for axis, factor in steps_of_growth(quick=False):
        size, recipe, seeds = grown(base, axis, factor)
        options, tunnel = recipe.model_options, recipe.tunnel
        sizes = {"width": options["width"], "depth": options["depth"], "length": tunnel.length}
        sizes |= {"batch": recipe.batch, "seeds": seeds}
        assert sizes[axis] == size
        usual = {"width": 48, "depth": 2, "length": 20, "batch": base.batch, "seeds": 1}
        assert {name: value for name, value in sizes.items() if name != axis} == {
            name: value for name, value in usual.items() if name != axis
        }
        assert parameters_of(recipe) > 0
    assert {axis for axis, _ in steps_of_growth(quick=True)} == set(AXES)


def test_the_parts_of_a_step_are_differences(monkeypatch):
    """Planted times; the backward pass seems faster than the forward pass it contains, as noise may have it."""
    planted = {"sampling": 0.001, "forward": 0.005, "backward": 0.004, "optimiser": 0.007, "calls": 0.002}
    monkeypatch.setattr(parts, "_in_turns", lambda pieces, device, about_s: {name: planted[name] for name in pieces})
    row = parts.step_parts(tiny(SMALL_HMM), "cpu", about_s=0.1)
    told = {"sampling_ms": 1.0, "forward_ms": 4.0, "backward_ms": 0.0, "optimiser_ms": 2.0, "calls_ms": 2.0}
    assert {name: row[name] for name in told} == pytest.approx(told) and row["ms_per_step"] == pytest.approx(7.0)


@pytest.mark.parametrize("batch", [8, 128])  # the larger is worked on in halves
def test_the_parts_of_a_step_are_timed(batch):
    row = parts.step_parts(tiny(SMALL_HMM, batch=batch), "cpu", about_s=0.05)
    assert all(row[f"{part}_ms"] >= 0 for part in parts.PARTS) and row["ms_per_step"] > 0 and row["calls_ms"] > 0


def test_covered_length_of_intervals():
    assert covered([]) == 0.0
    assert covered([(5.0, 6.0), (0.0, 10.0), (9.0, 12.0), (20.0, 21.0)]) == 13.0


def test_the_most_expensive_operations_are_listed_first():
    found = operations(tiny(SMALL_HMM), "cpu", steps=2, most=8)
    assert len(found) == 8 and any("mm" in entry["operation"] for entry in found)
    assert [entry["ms"] for entry in found] == sorted((entry["ms"] for entry in found), reverse=True)
    assert 0 < sum(entry["share"] for entry in found) <= 1.0


def test_seconds_to_a_line_of_another_process():
    code = "import time; time.sleep(0.2); print('step 1/1', flush=True); time.sleep(0.2)"
    assert 0.2 <= seconds_to_line([sys.executable, "-c", code]) < 10
    with pytest.raises(CompilationFailed, match="never said 'step 1/1': nothing"):
        seconds_to_line([sys.executable, "-c", "print('nothing')"])
