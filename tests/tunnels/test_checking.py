"""A tunnel from outside with a planted fault is refused in one line, wherever it enters; a sound one never is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

import windtunnel as wt
from tests.fidelity.toys import Reads, Shown
from windtunnel.errors import InputError
from windtunnel.fidelity.baselines.common import Uniform
from windtunnel.tunnels import HMM, Bijection, Episodes, Recall, Urn, checking


def own(base: type = Urn, **methods):
    """A tunnel of somebody else's, built upon one of ours."""
    return dataclass(frozen=True)(type("Own", (base,), {"__module__": "somebody", **methods}))


def faulty(change, base: type = Urn):
    """The same whose episodes come out changed."""

    def episodes(self, latent, dtype=torch.float64):
        return change(base.episodes(self, latent, dtype))

    return own(base, episodes=episodes)(length=4)


def belief(change):
    return lambda found: replace(found, posterior=change(found.posterior))


def inputs(**changes):
    def change(found: Episodes) -> Episodes:
        new = {name: made(getattr(found.inputs, name)) for name, made in changes.items()}
        return replace(found, inputs=replace(found.inputs, **new))

    return change


def late_nan(posterior):
    """Wrong once in a hundred episodes."""
    posterior[100:101] = torch.nan
    return posterior


NOT_PROBABILITIES = r"must be probabilities: finite, at least 0, in all 1 within 1e-0\d$"
FAULTS = {
    "halved": (
        belief(lambda p: p * 0.5),
        rf"posterior = \[.*\] at readout 0 of episode 0, in all 0\.5: {NOT_PROBABILITIES}",
    ),
    "doubled": (belief(lambda p: p * 2), rf"posterior = .*, in all 2: {NOT_PROBABILITIES}"),
    "a little": (belief(lambda p: p * (1 + 3e-5)), rf"posterior = .*, in all 1\.0000(3|29)\d*: {NOT_PROBABILITIES}"),
    "nan": (belief(lambda p: p * torch.nan), rf"posterior = \[nan, .*, in all nan: {NOT_PROBABILITIES}"),
    "infinite": (belief(lambda p: p / 0), rf"posterior = \[inf, .*, in all inf: {NOT_PROBABILITIES}"),
    "negative": (belief(lambda p: p * 3 - p.roll(1, -1) * 2), rf"posterior = \[.*-.*: {NOT_PROBABILITIES}"),
    "logs": (belief(lambda p: p.log()), rf"posterior = \[-.*: {NOT_PROBABILITIES}"),
    "impossible": (
        lambda found: replace(found, posterior=torch.eye(10).to(found.posterior)[(found.labels + 1) % 10]),
        r"posterior = \[.*\] at readout 0 of episode 0, where the label is \d: must be above 0 for what happened$",
    ),
    "belief shape": (
        belief(lambda p: p[:, 1:]),
        r"posterior = shape \(\d+, 3, 10\), float\d\d on cpu: must be a tensor of shape \(n, readouts, classes\) = "
        r"\(\d+, 4, 10\), float\d\d on cpu$",
    ),
    "belief type": (belief(lambda p: p.half()), r"posterior = shape \(.*\), float16 on cpu: must be .* float\d\d on"),
    "list": (
        belief(lambda p: p.tolist()),
        r"posterior = a value of type list: must be a tensor of shape \(n, readouts, classes\)",
    ),
    "labels": (
        lambda found: replace(found, labels=found.labels + 10),
        r"labels = 1\d: must be from 0 to 9, as classes = 10$",
    ),
    "label below": (lambda found: replace(found, labels=found.labels - 11), r"labels = -\d+: must be from 0 to 9"),
    "label type": (lambda found: replace(found, labels=found.labels.float()), r"labels = shape .*, float32 .* int64"),
    "tokens": (inputs(tokens=lambda t: t + 3), r"tokens = 13: must be from 0 to 10, as vocabulary = 11$"),
    "tokens shape": (inputs(tokens=lambda t: t[:, 1:]), r"tokens = shape \(\d+, 4\), .* \(n, positions\) = \(\d+, 5\)"),
    "readout": (inputs(readout=lambda r: r + 1), r"readout = 5: must be from 0 to 4, as positions = 5$"),
    "readouts": (inputs(readout=lambda r: r[1:]), r"readout = shape \(3,\), .*\(readouts,\) = \(4,\)"),
    "features": (
        lambda found: replace(found, inputs=replace(found.inputs, features=torch.zeros(len(found), 5, 2))),
        r"features = shape \(\d+, 5, 2\), float32 on cpu: must be None, as feature_width is 0$",
    ),
    "latent": (lambda found: replace(found, latent={"x": torch.ones(2, 3, 3)}), r"latent\['x'\] = shape \(2, 3, 3\)"),
    "no episodes": (vars, r"episodes = a value of type dict: must be windtunnel\.tunnels\.Episodes$"),
    "no inputs": (
        lambda found: replace(found, inputs=found.inputs.tokens),
        r"inputs = shape .*: must be windtunnel\.tunnels\.Inputs$",
    ),
    "raises": (
        lambda found: found.labels[1000],
        r"draw or episodes failed \(IndexError in test_checking\.py:\d+: index 1000 is out of bounds",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refused_in_one_line_wherever_the_tunnel_enters(fault):
    change, told = FAULTS[fault]
    tunnel = faulty(change)
    for use in (
        lambda: tunnel.sample(40),
        lambda: wt.evaluate(Uniform(10), tunnel, episodes=40),
        lambda: wt.train(tunnel, "transformer", steps=1, device="cpu", params=2000),
        lambda: wt.tunnels.check(tunnel),
    ):
        with pytest.raises(InputError, match=rf"^tunnel Own: {told}") as error:
            use()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f: None, r"features = None: must be a tensor of shape \(n, positions, feature_width\)"),
        (lambda f: f[..., 1:], r"features = shape \(\d+, 14, 4\), .*\(n, positions, feature_width\) = \(\d+, 14, 5\)"),
        (lambda f: f / 0, "features = values from nan to nan: must be finite numbers"),
    ],
    ids=["none", "width", "nan"],
)
def test_features_are_looked_at(change, told):
    with pytest.raises(InputError, match=rf"^tunnel Own: {told}"):
        faulty(inputs(features=change), HMM).sample(2)


def test_a_fault_that_comes_late_is_found_where_it_comes():
    tunnel = faulty(belief(late_nan))
    assert wt.evaluate(Uniform(10), tunnel, episodes=100).kl_bits.mean > 0
    with pytest.raises(InputError, match=r"^tunnel Own: posterior = \[nan, .* at readout 0 of episode 100, in all nan"):
        wt.evaluate(Uniform(10), tunnel, episodes=101)
    with pytest.raises(InputError, match=r"episode 10100, "):  # in blocks, on several threads, with their numbers
        tunnel.sample(10_000, start=10_000)


def test_belief_in_one_dtype_alone():
    """Training reads float32, scores read float64."""
    single = own(episodes=lambda self, latent, dtype=torch.float64: Urn.episodes(self, latent, torch.float32))()
    double = own(episodes=lambda self, latent, dtype=torch.float64: Urn.episodes(self, latent, torch.float64))()
    for tunnel, asked in ((single, "float64"), (double, "float32")):
        with pytest.raises(InputError, match=rf"^tunnel Own: posterior = shape .* must be .* {asked} on cpu$"):
            wt.tunnels.check(tunnel)


def test_chance_of_ones_own_is_refused():
    """An episode is a function of seed, stream and number: else no score could be repeated, no run resumed."""

    def draw(self, source):
        return {"shares": torch.zeros(len(source.episodes), 10), "draws": torch.randint(10, (len(source.episodes), 21))}

    told = r"^tunnel Own: tokens = different ones for episode 1 when .*: must be the same: all chance comes from"
    for use in (wt.tunnels.check, lambda tunnel: wt.train(tunnel, "mlp", steps=1, device="cpu")):
        with pytest.raises(InputError, match=told):
            use(own(draw=draw)())


def mixed_at_the_first_place(value):
    """In the batch's first episode, whichever it is, every row a little nearer to uniform: still a distribution."""
    value[0] = 0.999 * value[0] + 0.001 / value.shape[-1]
    return value


@pytest.mark.parametrize(
    ("change", "field", "base"),
    [
        (belief(mixed_at_the_first_place), "posterior", Urn),
        (inputs(features=mixed_at_the_first_place), "features", HMM),
    ],
    ids=["posterior", "features"],
)
def test_a_number_that_depends_on_its_place_in_the_batch_is_refused(change, field, base):
    """Nothing else of the episode does: tokens and labels are what they should be."""
    tunnel = faulty(change, base)
    assert len(tunnel.sample(4)) == 4
    told = rf"^tunnel Own: {field} = different ones for episode 1 when it is drawn as the second of 64 and as the first"
    with pytest.raises(InputError, match=told):
        wt.tunnels.check(tunnel)


def test_rounding_may_depend_on_the_place():
    def rounded(posterior):
        posterior[0] = posterior[0] * (1 + 1e-12)
        return posterior

    wt.tunnels.check(faulty(belief(rounded)))


@pytest.mark.parametrize("other", ["urn", Urn, None, Urn().sample(2)], ids=["name", "class", "none", "episodes"])
def test_only_a_tunnel_is_checked(other):
    with pytest.raises(InputError, match=r"^tunnel = .*: must be a tunnel, e\.g\. windtunnel\.tunnels\.HMM\(\)$"):
        wt.tunnels.check(other)


@pytest.mark.parametrize(
    ("size", "value", "told"),
    [
        ("classes", 10.0, r"classes = 10\.0: must be a whole number of at least 1$"),
        ("positions", "five", r"positions = 'five': must be a whole number"),
        ("feature_width", -1, r"feature_width = -1: must be a whole number of at least 0$"),
        (
            "readouts",
            property(lambda self: self.nothing),
            r"readouts failed \(AttributeError in test_checking\.py:\d+: ",
        ),
    ],
)
def test_sizes_are_whole_numbers(size, value, told):
    tunnel = own(**{size: value})()
    for use in (
        lambda: tunnel.sample(2),
        lambda: wt.evaluate(Uniform(10), tunnel, episodes=2),
        lambda: wt.train(tunnel, "mlp", steps=1, device="cpu"),
    ):
        with pytest.raises(InputError, match=rf"^tunnel Own: {told}"):
            use()


@pytest.mark.parametrize("base", [Urn, Bijection, HMM, Recall, Shown])
def test_a_sound_tunnel_is_taken_as_it_is(base):
    theirs = own(base)()
    wt.tunnels.check(theirs)
    assert checking.is_foreign(theirs)
    for dtype in (torch.float32, torch.float64):
        ours = base().sample(50, dtype=dtype)
        assert all(map(torch.equal, ours.tensors(), theirs.sample(50, dtype=dtype).tensors()))


def test_beliefs_may_be_certain_and_many():
    wt.tunnels.check(own(Bijection)(symbols=100, length=100))  # the last belief is all on one value
    wt.tunnels.check(own(Recall)(keys=2000, values=2000, pairs=8))
    assert wt.evaluate(Reads(), own(Shown)(), episodes=100).kl_bits.mean < 1e-9


def test_a_latent_world_may_be_of_a_type_that_numpy_lacks():
    half = faulty(lambda found: replace(found, latent={"shares": found.latent["shares"].bfloat16()}))
    wt.tunnels.check(half)
    whole, part = half.sample(5000).latent["shares"], half.sample(10, start=4990).latent["shares"]
    assert whole.dtype == torch.bfloat16 and torch.equal(whole[-10:], part)


def test_ours_are_not_looked_at(monkeypatch):
    """What their tests have shown costs nothing in use."""
    monkeypatch.setattr("windtunnel.tunnels.base.draw_checked", None)
    monkeypatch.setattr("windtunnel.tunnels.base.require_sizes", None)
    for tunnel in (Urn(), Bijection(), HMM(), Recall()):
        assert len(tunnel.sample(2)) == 2
