"""Bars, numbers and where they are printed."""

from __future__ import annotations

import math

import pytest

import windtunnel as wt
from windtunnel.cli import show
from windtunnel.cli.sample import _likeliest
from windtunnel.fidelity.printing import resolved


def test_bars_known_answers():
    assert show.bars([0.0, 0.004, 0.005, 0.124, 0.125, 0.25, 0.5, 0.874, 0.875, 1.0]) == "··▁▁▂▃▅▇██"
    assert show.bars([k / 8 + 0.01 for k in range(8)]) == show.LEVELS
    assert show.bars([1.0000000001]) == "█"


def test_sparkline_known_answers():
    assert show.sparkline(range(8)) == show.LEVELS
    assert show.sparkline([0.0, 0.0]) == "▁▁" and show.sparkline([]) == ""
    assert show.sparkline([math.nan, 1e-9, math.inf]) == " ██"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.26813, "1.2681"),
        (0.41371, "0.4137"),
        (0.04712, "0.0471"),
        (0.001412, "0.00141"),
        (7.5e-5, "7.50e-05"),
        (2e-16, "0"),
        (0.0, "0"),
        (-0.25, "-0.2500"),
        (math.inf, "∞"),
    ],
)
def test_numbers(value, text):
    assert show.printed(value) == text


def test_likeliest():
    assert _likeliest([0.0, 1.0, 0.0], "v") == "v1 1.000"
    assert _likeliest([0.1, 0.5, 0.1, 0.2, 0.1], "s") == "s1 0.500  s3 0.200  s0 0.100  +2 more"


def test_what_rounding_leaves_is_zero_everywhere():
    """One helper decides: tables, and a score that is printed in Python."""
    tunnel = wt.tunnels.Bijection(symbols=6, length=6)
    score = wt.evaluate(wt.baselines(tunnel)["set-complement"], tunnel, episodes=50)
    assert 0 < abs(score.entropy_mae_bits.mean) < 1e-12  # else this tests nothing
    assert "e-1" not in str(score) and "entropy error      0.00 [0.00, 0.00]" in str(score)
    assert show.estimate(score.entropy_mae_bits) == "0 ±0"
    assert resolved(1.1e-12) == 1.1e-12 and resolved(-9e-13) == 0.0 and f"{resolved(-9e-13)}" == "0.0"


def test_text_fits_the_width_that_is_set(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    show.print_text("word " * 20)
    show.print_table("", ["name", "what"], [["window-8-marginal", "a long description of it " * 3]], "lr")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert any("window-8-marginal" in line for line in lines)


def test_colour_on_a_terminal_only(monkeypatch, capsys):
    show.print_text("plain", "green")
    assert capsys.readouterr().out == "plain\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    show.print_text("green", "green")
    assert "\x1b[32m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    show.print_text("green", "green")
    assert "\x1b[32m" not in capsys.readouterr().out
