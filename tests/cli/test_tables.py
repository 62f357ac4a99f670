"""Tables at the width of the terminal: no word is broken, and what had to be left out is named."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windtunnel.cli import show
from windtunnel.cli.main import main
from windtunnel.cli.tables import fits, lay_out, wrapped

COLUMNS = ["name", "what it is", "value", "more"]
ROWS = [["window-8-marginal", "a filter that forgets", "0.0443 ±0.00085", "accumulation, transport"]]


def shown(capsys, monkeypatch, width: int, spare: tuple[str, ...] = ()) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    show.print_table("", COLUMNS, ROWS, "llrl", spare)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    return lines


def test_wide_enough_for_one_line_each(capsys, monkeypatch):
    (row,) = [line for line in shown(capsys, monkeypatch, 100) if "window" in line]
    assert [cell.strip() for cell in row.split("  ") if cell.strip()] == ROWS[0]


def test_text_wraps_at_words_and_numbers_never_do(capsys, monkeypatch):
    text = "\n".join(shown(capsys, monkeypatch, 70))
    assert "0.0443 ±0.00085" in text and "not shown" not in text
    for word in " ".join(ROWS[0]).split():
        assert word in text


def test_the_spare_columns_go_first_and_are_named(capsys, monkeypatch):
    text = "\n".join(shown(capsys, monkeypatch, 50, ("more", "what it is")))
    assert "not shown, for lack of width: more" in text and "transport" not in text and "forgets" in text
    text = "\n".join(shown(capsys, monkeypatch, 39, ("more", "what it is")))
    assert "not shown, for lack of width: what it \nis, more" in text and "window-8-marginal  0.0443 ±0.00085" in text


def test_a_long_path_breaks_after_its_slashes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    show.print_table("", ["run", "KL"], [["results/scratch/quick/runs/small-hmm-lstm", "0.25"]], "lr")
    lines = capsys.readouterr().out.splitlines()
    path = "".join(line.split()[0] for line in lines if "/" in line or "lstm" in line)
    assert path == "results/scratch/quick/runs/small-hmm-lstm" and max(map(len, lines)) <= 50


WORDS = st.text("abc", min_size=1, max_size=9)
CELLS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4), st.integers(40, 120))
def test_no_word_is_broken_where_the_longest_fit(rows, width):
    """Three columns of words of at most nine letters always fit into 40."""
    layout = lay_out(["x", "y", "z"], rows, "lll", (), width)
    assert layout.shown == [0, 1, 2] and sum(layout.widths) + 2 * 3 + 1 <= width
    for row in rows:
        for cell, column in zip(row, layout.widths):
            lines = wrapped(cell, column).split("\n")
            assert " ".join(lines) == cell and max(map(len, lines)) <= column
    if fits(["x", "y", "z"], rows, width):
        assert all(max(len(row[i]) for row in rows) <= w for i, w in enumerate(layout.widths))


@given(st.text("ab-/ ", max_size=60), st.integers(1, 30))
def test_wrapping_loses_no_letter(text, width):
    lines = wrapped(text, width).split("\n")
    assert max(map(len, lines)) <= width
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


# --- every command that prints tables
def broken(text: str, known: str) -> list[str]:
    """Words of a narrow output that the wide one does not have."""
    vocabulary = set(re.findall(r"[A-Za-z]{3,}", known)) | {"not", "shown", "for", "lack", "width"}
    return [word for word in re.findall(r"[A-Za-z]{3,}", text) if word not in vocabulary]


@pytest.mark.parametrize("words", ["list", "baselines hmm --episodes 20", "runs {runs}", "evaluate {runs}/hmm"])
def test_no_word_is_broken_at_80_columns(words, runs, monkeypatch, capsys):
    printed = {}
    for width in (80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(words.format(runs=runs).split()) == 0
        printed[width] = capsys.readouterr().out
    assert max(map(len, printed[80].splitlines())) <= 80
    table = [line for line in printed[80].splitlines() if not line.startswith("below")]  # a path may be of any length
    assert broken("\n".join(table), printed[200]) == []


def test_a_score_keeps_the_interval_of_its_kl_on_a_narrow_terminal(monkeypatch, capsys):
    row = {}
    for width in (80, 160):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(["baselines", "hmm", "--episodes", "50"]) == 0
        (row[width],) = re.findall(r"^ window-2 .*", capsys.readouterr().out, re.MULTILINE)
    assert row[80].count("±") == 1 and row[160].count("±") == 5
    assert row[80].split()[:3] == row[160].split()[:3]


# --- help
@pytest.mark.parametrize("width", [80, 60])
def test_every_help_page_fits_and_starts_alike(width, monkeypatch, capsys):
    from windtunnel.cli.main import COMMANDS

    monkeypatch.setenv("COLUMNS", str(width))
    for words in (*([command] for command in COMMANDS), ["train", "hmm"], ["sample", "urn"]):
        assert main([*words, "--help"]) == 0
        page = capsys.readouterr().out
        assert page.startswith(f"usage: windtunnel {words[0]}") and "(about)" not in page
        assert max(map(len, page.splitlines())) <= width, words
        assert "(default: False)" not in page and "(default: None)" not in page


def test_the_help_of_windtunnel_fits_into_80(capsys):
    assert main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_presets_of_reproduce_are_paragraphs_of_their_own(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["reproduce", "--help"]) == 0
    page = capsys.readouterr().out
    assert "\n\n--preset quick is a demonstration" in page and "\n\n--preset paper is the full-size study" in page
