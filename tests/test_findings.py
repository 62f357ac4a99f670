"""Sentences of the pages stand only while the numbers of the study, or of a benchmark's file, carry them."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "docs" / "making")]

import readers  # noqa: E402
import results_page  # noqa: E402
import speed_parts  # noqa: E402
import study_findings  # noqa: E402
import tables  # noqa: E402
import unshown  # noqa: E402
import unshown_page  # noqa: E402

from windtunnel.study.evidence import Evidence, NotMeasured  # noqa: E402
from windtunnel.study.folder.results import StudyFolder  # noqa: E402
from windtunnel.training.tuned_recipes import hmm_transformer  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture(scope="module")
def study() -> Evidence:
    return StudyFolder(ROOT / "results" / "paper").evidence()


def scored(cell, value: float, condition: str = "home") -> None:
    cell["conditions"][condition]["metrics"]["entropy_mae_bits"] |= {"mean": value, "low": value, "high": value}


def lowered(cell, name: str, factor: float) -> None:
    for reading in cell["survey"]:
        if reading["name"] == name:
            reading["value"] *= factor


def played(cell, **bits: float) -> None:
    """Roles without which so many bits are lost."""
    for reading in cell["survey"]:
        if reading["name"] == "bits lost without a role" and (role := reading["where"]["role"]) in bits:
            reading["value"] = bits[role]


UNTRUE = {
    "filtering: the paper's stack learns": ("hmm-lstm-stacked", lambda c: scored(c, 0.41)),
    "filtering: ours uses observations": ("hmm-lstm-stacked-swept", lambda c: scored(c, 0.3)),
    "binding: an MLP is better than one who cannot bind": (
        "recall-mlp",
        lambda c: c["primitive"].update(share=c["primitive"]["share"] | {"mean": 0.1}),
    ),
    "binding: not all are trained on the same episodes": (
        "recall-mamba-long",
        lambda c: c["recipe"]["tunnel"].update(mixed=False),
    ),
    "length: nobody goes on": ("hmm-mamba", lambda c: scored(c, 0.5, "length-200-beyond")),
    "pictures: clusters of something else": (
        "hmm-mamba",
        lambda c: lowered(c, "adjusted Rand with the symbol just seen", 0.5),
    ),
    "pictures: no head dominates with replacement": (
        "bijection-replacement-transformer",
        lambda c: lowered(c, "share of the largest head", 0.05),
    ),
    "what_holds: another role fails than that of the stream": (
        "hmm-transformer",
        lambda c: played(c, carry=1.0, update=0.0),
    ),
}
"""Finding, and what is changed in which cell so that its words are no longer true."""


@pytest.mark.parametrize("what", UNTRUE)
def test_a_finding_of_the_study_falls_with_what_it_says_in_both_its_forms(study, what):
    (finding,) = [one for one in study_findings.FINDINGS if one.words.__name__ == what.split(":")[0]]
    assert len(finding.words(study)) == 2 and all(finding.words(study))
    name, change = UNTRUE[what]
    cell = copy.deepcopy(study.cells[name])
    change(cell)
    with pytest.raises(NotMeasured):
        finding.words(Evidence({**study.cells, name: cell}))


def test_the_two_stacked_lstms_are_told_apart(study):
    """0.41 bits are what the header tells here and a uniform guess in the paper: no match."""
    brief, full = study_findings.filtering(study)
    assert "LSTM stacked without skip connections" in brief and "0.41" not in brief
    guess, header = full.index("stays at a uniform guess"), full.index("what the header alone gives away (")
    assert guess < header and "0.51" in full[guess:header] and "2.67M" in full[guess:header]


def test_on_which_episodes_recall_was_trained_is_told(study):
    """In the study some have fewer pairs, which is easier; the times to fidelity stand beside it and are of others."""
    models = ("transformer", "linear-attention", "mamba", "mamba-long", "lstm", "mlp")
    cells = {f"recall-{name}": copy.deepcopy(study.cells[f"recall-{name}"]) for name in models}
    for cell in cells.values():
        cell["recipe"]["tunnel"] |= {"pairs": 32, "mixed": False}
    for told in study_findings.binding(study):
        assert "ecall of 64 pairs" in told and "episodes of up to 64 pairs" in told
    for told in study_findings.binding(Evidence({**study.cells, **cells})):
        assert "ecall of 32 pairs" in told and "episodes of 32 pairs each" in told and "fewer" not in told
    (line,) = tables.on_recall(["hmm", "recall queries=64"])
    assert "every episode of training has all 64 pairs here" in line
    assert tables.on_recall(["hmm", "recall queries=64 mixed=True"]) == []


def test_seconds_of_a_shared_card_have_an_asterisk_and_say_why(tmp_path):
    for name in ("bijection-transformer", "hmm-mlp"):
        kept(tmp_path, Path("h200") / "reach" / f"{name}.json", lambda plain: plain.pop("note", None))
    folder = tmp_path / "h200" / "reach"
    assert "*" not in "".join(results_page.reach_part(folder))
    kept(tmp_path, Path("h200") / "reach" / "hmm-mlp.json", lambda plain: plain.update(note="beside a friend"))
    lines = results_page.reach_part(folder)
    marked = [line for line in lines if "* |" in line]
    assert len(marked) == 1 and marked[0].startswith("| hmm-mlp |")
    assert any("with an asterisk, the card was shared (hmm-mlp: beside a friend)" in line for line in lines)


def test_whether_seeds_cost_less_than_the_batch_is_counted(tmp_path):
    file = Path("h200") / "seeds" / "seeds.json"

    def told(cost: float) -> str:
        folder = kept(tmp_path, file, lambda plain: plain["seeds"][0].update(cost_of_one=cost))
        return "\n".join(speed_parts.seeds_part([folder / file]))

    assert "in no case measured did five seeds cost less" in told(5.0)
    assert "; in 1 of " in told(0.5)


def kept(folder: Path, file: Path, change) -> Path:
    """A results folder with one committed file, changed."""
    plain = json.loads((RESULTS / file).read_text())
    change(plain)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(plain))
    return folder


def searched(plain, world: str, what: str):
    return [r for r in plain["worlds"][world]["survey"] if r["name"] == what + unshown_page.SEARCHED]


@pytest.mark.parametrize(
    ("world", "what", "value"),
    [
        ("dirichlet-0.3", "belief decoded, R²", 0.2),  # hardly more than an untrained network tells
        ("dirichlet-0.3", "belief beyond next token, R²", 0.2),
        ("dirichlet-0.3", "belief beyond windows 1 and 2, R²", -0.01),  # no more than its null on one seed
        ("dirichlet", "belief beyond windows 1 and 2, R²", 0.2),  # something after all
    ],
)
def test_the_sentence_on_beliefs_that_were_not_shown_falls_with_any_of_its_parts(tmp_path, world, what, value):
    def lower(plain):
        searched(plain, world, what)[0]["value"] = value

    assert unshown_page.finding(kept(tmp_path / "as it is", unshown_page.FILE, lambda plain: None))
    assert unshown_page.finding(kept(tmp_path / "changed", unshown_page.FILE, lower)) is None


def test_without_a_file_or_a_world_there_is_no_sentence(tmp_path):
    assert unshown_page.finding(tmp_path) is None and unshown_page.section(tmp_path) == []
    only = kept(tmp_path, unshown_page.FILE, lambda plain: plain["worlds"].pop("dirichlet"))
    assert unshown_page.finding(only) is None and len(unshown_page.section(only)) > 3


def test_the_sentence_on_readers_needs_a_best_reader_that_is_inert(tmp_path):
    def used(plain):
        best = max((r for r in plain["decoded"] if r["target"] == "belief"), key=lambda row: row["r_squared"])
        best["high"] = 0.5

    assert readers.finding(kept(tmp_path / "as it is", readers.FILE, lambda plain: None))
    assert readers.finding(kept(tmp_path / "changed", readers.FILE, used)) is None


@pytest.mark.parametrize("networks", [(), (readers.ONE,), ("hmm-mamba",)])
def test_the_sentence_on_readers_needs_another_network_that_is_alike(tmp_path, networks):
    """And falls away without one."""

    def only(*names: str):
        return lambda plain: plain.update(decoded=[row for row in plain["decoded"] if row["network"] in names])

    assert readers.finding(kept(tmp_path / "fewer", readers.FILE, only(*networks))) is None
    brief, full = readers.finding(kept(tmp_path / "two", readers.FILE, only(readers.ONE, "hmm-mamba"))) or ("", "")
    assert "The same holds in 1 other network." in brief and "The same holds in Mamba (" in full


def test_what_the_page_reads_is_what_the_benchmark_writes(monkeypatch, capsys):
    """A small network, hardly trained: every reading is there, and it has nothing beyond chance to tell."""
    small = {"depth": 1, "width": 16, "heads": 1, "positions": "none"}

    def tiny(tunnel):
        options = {"model_options": small, "batch": 8, "precision": "float32", "validation_episodes": 16}
        return hmm_transformer(tunnel).with_options(**options)

    monkeypatch.setattr(unshown, "hmm_transformer", tiny)
    monkeypatch.setattr(unshown, "INSTRUMENTS", ("beliefs",))
    found = json.loads(json.dumps(unshown.measure("dirichlet", seeds=2, steps=2, episodes=16, device="cpu")))
    unshown.tell("dirichlet", found)
    assert "KL of the next symbol" in capsys.readouterr().out
    assert found["recipe"]["supervision"] == "labels" and found["recipe"]["tunnel"]["predict"] == "symbol"
    for what in unshown_page.READ:
        readings = [r for r in found["survey"] if r["name"] == what + unshown_page.SEARCHED]
        assert [r["where"]["seed"] for r in readings] == [0, 1]
        assert all(r["value"] < 0.3 and {"untrained", "shuffled episodes"} <= r["nulls"].keys() for r in readings)
