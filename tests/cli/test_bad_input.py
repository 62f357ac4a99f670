"""Every kind of mistake, typed on the command line: exit code 2, one line, no traceback."""

from __future__ import annotations

import json
import re

import pytest

from windtunnel.cli.main import main
from windtunnel.errors import InputError, require_choice


def refusal(words: list[str], capsys) -> str:
    """The one line that a wrong command prints."""
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("windtunnel: error: ") and said.err.endswith("\n")
    assert said.err.count("\n") == 1 and "Traceback" not in said.err
    return said.err


@pytest.mark.parametrize("command", ["sample", "baselines"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("hmm --states 1", ["states = 1", "whole number"]),
        ("hmm --symbols 0", ["symbols = 0", "whole number"]),
        ("hmm --length 0", ["length = 0", "whole number"]),
        ("hmm --concentration -1", ["concentration = -1.0", "above 0"]),
        ("hmm --dynamics rotating --mixing 0.97 0.9", ["mixing = (0.97, 0.9)", "low <= high"]),
        ("hmm --dynamics sticky --mixing 0.9 1.5", ["mixing = (0.9, 1.5)", "<= 1"]),
        ("hmm --dynamics sticky --mixing 0.9", ["--mixing = '0.9'", "two numbers"]),
        ("hmm --mixing 0.9 0.97", ["mixing = (0.9, 0.97)", "left out when dynamics is dirichlet"]),
        ("hmm --header tokens", ["prior = 'dirichlet'", "released when header is tokens"]),
        ("hmm --header none", ["--header = 'none'", "--matrices FILE.json"]),
        ("hmm --header rwos", ["--header = 'rwos'", "rows, tokens, none"]),
        ("hmm --prior released --states 30", ["prior = 'released'", "dirichlet above"]),
        ("hmm --states five", ["--states = 'five'", "whole number"]),
        ("hmm --stats 5", ["--stats", "--states"]),
        ("hmm 5", ["unexpected word '5'", "hmm --help` lists"]),
        ("bijection --length 21", ["length = 21", "at most symbols = 20"]),
        ("bijection --symbols 1", ["symbols = 1", "whole number"]),
        ("bijection --layout x", ["--layout = 'x'", "plain, paper"]),
        ("bijection --states 3", ["--states", "--symbols"]),
        ("recall --noise 1", ["noise = 1.0", "[0, 1)"]),
        ("recall --noise -0.1", ["noise = -0.1", "[0, 1)"]),
        ("recall --noise nan", ["noise = nan", "[0, 1)"]),
        ("recall --queries 65", ["queries = 65", "at most pairs = 64"]),
        ("recall --pairs 300", ["pairs = 300", "at most keys = 256"]),
        ("recall --repeats 0", ["repeats = 0", "whole number"]),
        ("bijection --episodes 0", ["--episodes = 0", "at least 1"]),
        ("bijection --episodes many", ["--episodes = 'many'", "whole number"]),
        ("bijection --seed -1", ["seed = -1", "0 to 4294967295"]),
        ("bijection --stream exam", ["--stream = 'exam'", "train, validation, test"]),
        ("cave", ["tunnel = 'cave'", "bijection, hmm, recall, urn"]),
        ("", ["must be followed by a tunnel", "bijection, hmm, recall"]),
        ("--states 5 hmm", ["found '--states'", "must be followed by a tunnel"]),
    ],
)
def test_one_line(command, words, told, capsys):
    line = refusal([command, *words.split()], capsys)
    for part in told:
        assert part in line


def test_list_takes_no_words(capsys):
    assert "unexpected word 'hmm'" in refusal(["list", "hmm"], capsys)


GOOD = {"transition": [[0.9, 0.1], [0.2, 0.8]], "emission": [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, ["cannot be read"]),
        ("{", ["must be a JSON file"]),
        ([1, 2], ["transition and emission", "found list"]),
        ({"transition": GOOD["transition"]}, ["found ['transition']"]),
        (GOOD | {"emission": [[1.0], [0.5, 0.5]]}, ["emission must be a list of rows of numbers, all of one length"]),
        (GOOD | {"emission": [["a"], ["b"]]}, ["emission must be a list of rows of numbers"]),
        (GOOD | {"emission": []}, ["emission must be a list of rows of numbers"]),
        (GOOD | {"transition": [[0.9, 0.2], [0.2, 0.8]]}, ["transition = [0.9, 0.2]", "row 0 sums to 1.1"]),
        (GOOD | {"transition": [[1.5, -0.5], [0.2, 0.8]]}, ["transition = -0.5", "at least 0"]),
        (GOOD | {"transition": [[0.5, 0.25, 0.25]] * 2}, ["transition has shape (2, 3): must be (2, 2)"]),
    ],
)
def test_matrices_that_cannot_be_used(content, told, tmp_path, capsys):
    file = tmp_path / "chain.json"
    if content is not None:
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    line = refusal(["sample", "hmm", "--matrices", str(file)], capsys)
    for part in told:
        assert part in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--states 5", ["--states = 5", "must be 2"]),
        ("--symbols 2", ["--symbols = 2", "must be 3"]),
        ("--header rows", ["--header = 'rows'", "none with --matrices"]),
        ("--prior released", ["prior = 'released'", "matrices are fixed"]),
    ],
)
def test_options_that_contradict_the_matrices(words, told, tmp_path, capsys):
    file = tmp_path / "chain.json"
    file.write_text(json.dumps(GOOD), encoding="utf-8")
    line = refusal(["sample", "hmm", "--matrices", str(file), *words.split()], capsys)
    for part in told:
        assert part in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("train hmm transformer --out x --stepz 3", ["(did you mean --steps?)", "`windtunnel train hmm --help`"]),
        ("train hmm transformer --out x stray", ["unexpected word 'stray'", "`windtunnel train hmm --help`"]),
        ("sample hmm --statez 3", ["(did you mean --states?)", "`windtunnel sample hmm --help`"]),
        ("bench --only hmm/lst", ["sections (training, seeds", "TUNNEL/MODEL", "the nearest: hmm/lstm"]),
    ],
)
def test_where_there_is_much_to_choose_from_the_line_stays_short(words, told, capsys):
    """And the page it names lists everything."""
    line = refusal(words.split(), capsys)
    assert all(part in line for part in told) and len(line) < 220, line
    if page := re.search(r"`windtunnel (.*--help)`", line):
        assert main(page.group(1).split()) == 0
        flags = capsys.readouterr().out
        assert "--states" in flags and ("--steps" in flags) == words.startswith("train")


def test_of_very_many_choices_the_nearest_are_told():
    many = [f"cell-{number:03}" for number in range(100)]
    with pytest.raises(InputError) as caught:
        require_choice("only", "cel-042", many)
    assert str(caught.value).startswith("only = 'cel-042': must be one of cell-042, ")
    assert str(caught.value).endswith(", … (100 in all)") and len(str(caught.value)) < 120
    with pytest.raises(InputError, match=r"must be one of cell-000, cell-001, cell-002$"):
        require_choice("only", "x", many[:3])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "sample hmn",
            "tunnel = 'hmn' (did you mean hmm?): must be one of bijection, hmm, recall, urn; or",
        ),
        ("train hmm gru --out x", "linear-attention; or a model of your own, with --plugin MODULE"),
        ("train hmm transfomer --out x", "model = 'transfomer' (did you mean transformer?): must be one of"),
        ("evaluate hmm-transfomer", "hmm-transfomer (did you mean hmm-transformer?): there is no such folder, and no"),
        ("inspect hmm-lstm --only key", "--only = 'key' (did you mean keys?): must be one of keys, "),
        ("inspect hmm-lstm --only keys, heads", "'heads': must follow the comma without a space, as in keys,heads"),
        ("bench --what", "unknown option '--what': must be one of --device"),
        ("train urn lstm --replacement --out x", "--help` lists; --replacement is an option of bijection"),
        ("sample urn --noise=0.1", "--concentration; --noise is an option of recall"),
    ],
)
def test_what_was_probably_meant_is_told(words, told, capsys):
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1
