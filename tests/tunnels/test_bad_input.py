"""A wrong option raises a ValueError in one line that names the field, the value and what is allowed."""

from __future__ import annotations

import json
from dataclasses import InitVar, dataclass, fields

import numpy as np
import pytest
import torch

import windtunnel as wt
from windtunnel.errors import require_choice, require_int
from windtunnel.tunnels import HMM, Bijection, Recall, Urn
from windtunnel.tunnels.random import check_seed

IDENTITY = ((1.0, 0.0), (0.0, 1.0))
BAD = [
    (Bijection, {"symbols": 1}, "symbols = 1", "at least 2"),
    (Bijection, {"symbols": "many"}, "symbols = 'many'", "whole number"),
    (Bijection, {"symbols": 5, "length": 6}, "length = 6", "at most symbols = 5"),
    (Bijection, {"layout": "triples"}, "layout = 'triples'", "plain, paper"),
    (Bijection, {"layout": np.array(["plain", "paper"])}, "layout = array(['plain', 'paper']", "one of plain, paper"),
    (Bijection, {"replacement": 1}, "replacement = 1", "True or False"),
    (Bijection, {"replacement": np.array([True, False])}, "replacement = array([ True, False])", "True or False"),
    (HMM, {"stats": 5}, "HMM option = 'stats'", "one of states, symbols"),
    (HMM, {"states": 1}, "states = 1", "from 2 to 127"),
    (HMM, {"length": 0}, "length = 0", "at least 1"),
    (HMM, {"dynamics": "periodic"}, "dynamics = 'periodic'", "rotating"),
    (HMM, {"dynamics": "rotating", "mixing": (0.9, 0.8)}, "mixing = (0.9, 0.8)", "0 <= low <= high <= 1"),
    (HMM, {"dynamics": "sticky", "mixing": (0.9, 1.2)}, "mixing = (0.9, 1.2)", "0 <= low <= high <= 1"),
    (HMM, {"dynamics": "sticky", "mixing": 0.9}, "mixing = 0.9", "a band (low, high)"),
    (Bijection, {"replacement": "no"}, "replacement = 'no'", "True or False"),
    (HMM, {"mixing": (0.9, 0.95)}, "mixing = (0.9, 0.95)", "left out when dynamics is dirichlet"),
    (HMM, {"concentration": 0.0}, "concentration = 0.0", "a finite number above 0"),
    (HMM, {"concentration": True}, "concentration = True", "number above 0"),
    (HMM, {"concentration": float("nan")}, "concentration = nan", "finite"),
    (HMM, {"concentration": 10**400}, "concentration = 1000", "finite"),
    (
        HMM,
        {"concentration": 1e-310},
        "concentration = 1e-310",
        "from 1e-300 to 1e+30: beyond, rows or beliefs overflow",
    ),
    (HMM, {"dynamics": "sticky", "mixing": (True, True)}, "mixing = (True, True)", "a band (low, high)"),
    (HMM, {"summary": "x"}, "HMM option = 'summary'", "one of states, symbols"),
    (HMM, {"header": "tokens"}, "prior = 'dirichlet'", "released when header is tokens"),
    (HMM, {"prior": "released", "dynamics": "sticky"}, "dynamics = 'sticky'", "dirichlet when prior is released"),
    (HMM, {"prior": "released", "states": 21}, "prior = 'released'", "above 20"),
    (HMM, {"header": None}, "transition = None", "given when header is None"),
    (HMM, {"transition": IDENTITY}, "transition", "left out unless header is None"),
    (
        HMM,
        {"states": 2, "symbols": 2, "header": None, "transition": IDENTITY, "emission": ((0.5, 0.6), (0, 1))},
        "emission = [0.5, 0.6]",
        "row 0 sums to 1.1",
    ),
    (
        HMM,
        {"states": 2, "symbols": 2, "header": None, "transition": ((1.5, -0.5), (0, 1)), "emission": IDENTITY},
        "transition = -0.5",
        "at least 0",
    ),
    (
        HMM,
        {"states": 3, "symbols": 2, "header": None, "transition": IDENTITY, "emission": IDENTITY},
        "transition has shape (2, 2)",
        "must be (3, 3)",
    ),
    (
        HMM,
        {"states": 2, "symbols": 2, "header": None, "transition": "eye", "emission": IDENTITY},
        "transition",
        "matrix of numbers",
    ),
    (
        HMM,
        {"states": 2, "symbols": 2, "header": None, "transition": IDENTITY, "emission": IDENTITY, "concentration": 2},
        "concentration = 2",
        "left at 1.0 when the matrices are fixed",
    ),
    (Recall, {"noise": 1.0}, "noise = 1.0", "[0, 1)"),
    (Recall, {"noise": -0.1}, "noise = -0.1", "[0, 1)"),
    (Recall, {"noise": False}, "noise = False", "[0, 1)"),
    (Recall, {"pairs": 2, "queries": 3}, "queries = 3", "at most pairs = 2"),
    (Recall, {"pairs": 300}, "pairs = 300", "at most keys = 256"),
    (Recall, {"pairs": 8, "values": 4}, "pairs = 8", "at most values = 4"),
    (Recall, {"filler": -1}, "filler = -1", "at least 0"),
    (Urn, {"symbols": 1}, "symbols = 1", "from 2 to 127"),
    (Urn, {"length": 0}, "length = 0", "at least 1"),
    (Urn, {"concentration": -1.0}, "concentration = -1.0", "above 0"),
    (
        Urn,
        {"concentration": 1e-310},
        "concentration = 1e-310",
        "from 1e-300 to 1e+30: beyond, rows or beliefs overflow",
    ),
    (Urn, {"concentration": 1e308}, "concentration = 1e+308", "from 1e-300 to 1e+30: beyond, rows or beliefs overflow"),
    (Urn, {"concentration": True}, "concentration = True", "above 0"),
    (Urn, {"colours": 3}, "Urn option = 'colours'", "one of symbols, length"),
]


@pytest.mark.parametrize(("cls", "options", "names", "allows"), BAD)
def test_bad_options(cls, options, names, allows):
    with pytest.raises(ValueError, match="must be") as caught:
        cls(**options)
    message = str(caught.value)
    assert names in message
    assert allows in message
    assert "\n" not in message


@pytest.mark.parametrize("cls", [Bijection, HMM, Recall, Urn])
def test_only_what_can_be_given_is_offered_as_an_option(cls):
    with pytest.raises(ValueError, match="option = 'foo': must be one of") as caught:
        cls(foo=1)
    offered = str(caught.value).partition("one of ")[2].split(", ")
    assert offered == [field.name for field in fields(cls)]
    assert cls(**{name: getattr(cls(), name) for name in offered}) == cls()


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"count": 0}, "count = 0"),
        ({"count": 5, "seed": -1}, "seed = -1"),
        ({"count": 5, "seed": 2**32}, "seed = 4294967296"),
        ({"count": 5, "stream": "exam"}, "stream = 'exam'"),
        ({"count": 5, "start": -1}, "start = -1"),
        ({"count": 5, "start": 2**63}, "start = "),
        ({"count": 5, "device": "gpu"}, "device = 'gpu'"),
        ({"count": 5, "dtype": torch.int64}, "dtype = torch.int64"),
    ],
)
def test_bad_sampling(options, names):
    with pytest.raises(ValueError, match=names):
        HMM().sample(**options)


@pytest.mark.parametrize(
    ("theirs", "plain"),
    [
        (Bijection(symbols=np.int64(5), length=np.uint8(4)), Bijection(symbols=5, length=4)),
        (HMM(states=np.int32(3), symbols=np.int64(4), length=np.int64(6)), HMM(states=3, symbols=4, length=6)),
        (Recall(pairs=np.int64(8), keys=np.int16(20)), Recall(pairs=8, keys=20)),
        (Urn(symbols=np.int64(5)).with_length(np.int64(4)), Urn(symbols=5, length=4)),
        (Bijection(replacement=np.bool_(True)), Bijection(replacement=True)),
        (Recall(noise=np.float32(0.25), mixed=np.bool_(False)), Recall(noise=0.25)),
        (Recall(noise=np.float64(0.25)), Recall(noise=0.25)),
        (Urn(concentration=np.int64(2)), Urn(concentration=2)),
        (HMM(concentration=np.float16(0.5)), HMM(concentration=0.5)),
        (HMM(dynamics="sticky", mixing=(np.float32(0.5), np.int8(1))), HMM(dynamics="sticky", mixing=(0.5, 1))),
    ],
    ids=lambda tunnel: type(tunnel).__name__,
)
def test_numbers_of_numpy_are_kept_as_plain_ones(theirs, plain):
    assert theirs == plain and repr(theirs) == repr(plain)
    assert json.dumps(wt.tunnels.to_dict(theirs)) == json.dumps(wt.tunnels.to_dict(plain))
    drawn = theirs.sample(np.int64(3), seed=np.uint32(2**32 - 1), start=np.int64(5))
    assert all(map(torch.equal, drawn.tensors(), plain.sample(3, seed=2**32 - 1, start=5).tensors()))


def test_what_keeps_a_number_as_it_was_given_asks_for_a_plain_one():
    """And says so: `np.int64(3): must be a whole number` would be no help."""
    with pytest.raises(ValueError, match=r"^steps = np\.int64\(3\): must be a plain int, 3$"):
        require_int("steps", np.int64(3), 1)
    with pytest.raises(ValueError, match=r"^seeds = np\.uint8\(3\): must be a plain int, 3$"):
        check_seed(np.uint8(3), "seeds")
    for other in (np.True_, np.float64(3), 3.0, "3", True, 0, np.int64(0)):
        with pytest.raises(ValueError, match=r"^steps = .*: must be a whole number of at least 1$"):
            require_int("steps", other, 1)


def test_with_length_checks_again():
    with pytest.raises(ValueError, match="length = 30"):
        Bijection().with_length(30)
    with pytest.raises(ValueError, match="no length"):
        Recall().with_length(30)


UNFIT_NAMES: list = [3, ["mine"], "", "a/b", "../esc", "--out", ".hidden", "my net", "net\n", "n" * 101]
"""As the names of a model or a tunnel: what no command line can be given, or no file be called."""


def test_registry_errors():
    with pytest.raises(ValueError, match="tunnel = 'wind': must be one of bijection, hmm, recall, urn"):
        wt.tunnels.get("wind")
    with pytest.raises(ValueError, match="not taken"):
        wt.tunnels.register("hmm", HMM)
    with pytest.raises(ValueError, match="subclasses"):
        wt.tunnels.register("mine", int)  # type: ignore[arg-type]
    for name in UNFIT_NAMES:
        with pytest.raises(ValueError, match=r"^name = .*: must be 1 to 100 letters, digits and signs, "):
            wt.tunnels.register(name, HMM)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tunnel option = 'colour'"):
        wt.tunnels.from_dict({"name": "hmm", "colour": 3})


def test_an_unfinished_tunnel_is_refused_as_it_is_registered():
    @dataclass(frozen=True)
    class Coin(wt.tunnels.Tunnel):
        vocabulary = 3
        feature_width = 0
        positions = readouts = 4

    lacking = "classes, draw, episodes, hypotheses_log2, primitives"
    with pytest.raises(ValueError, match=rf"^cls = Coin: must define {lacking}, as windtunnel\.tunnels\.Tunnel says$"):
        wt.tunnels.register("coin", Coin)
    assert "coin" not in wt.tunnels.names()


def test_a_tunnel_of_ones_own_may_be_given_more_than_it_keeps():
    @dataclass(frozen=True)
    class Larger(Urn):
        times: InitVar[int] = 1

        def __post_init__(self, times: int) -> None:
            object.__setattr__(self, "symbols", self.symbols * times)

    assert Larger(symbols=3, times=2).symbols == 6
    with pytest.raises(
        ValueError, match="Larger option = 'twice': must be one of symbols, length, concentration, times"
    ):
        Larger(twice=2)


def test_where_there_is_nothing_to_choose_the_line_says_so():
    with pytest.raises(ValueError, match=r"^preset = 'x': must be left out: there is none to choose$"):
        require_choice("preset", "x", ())
    require_choice("step", np.int64(3), (1, 3))
    with pytest.raises(ValueError, match=r"^step = tensor\(\[1, 3\]\): must be one of 1, 3$"):
        require_choice("step", torch.tensor([1, 3]), (1, 3))


def test_a_very_long_value_is_told_by_its_beginning():
    with pytest.raises(ValueError) as error:
        require_choice("kind", list(range(100_000)), ("a", "b"))
    assert len(str(error.value)) < 400 and str(error.value).endswith("…: must be one of a, b")
