"""Histories: what a kill cut short is left out, what is damaged is told, and nothing else is lost."""

from __future__ import annotations

import pytest
import torch

from windtunnel.errors import InputError
from windtunnel.training.json_lines import append_line, read_lines

STEP = {"step": lambda value: isinstance(value, int)}


def test_lines_come_back_and_one_cut_short_is_left_out(tmp_path):
    path = tmp_path / "lines.jsonl"
    assert read_lines(path) == []
    for step in range(3):
        append_line(path, {"step": step})
    assert path.read_text() == '{"step": 0}\n{"step": 1}\n{"step": 2}\n'
    path.write_text(path.read_text()[:-3])
    assert read_lines(path) == [{"step": 0}, {"step": 1}]


def test_a_line_after_one_cut_short_is_not_lost(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"step": 0}\n{"st')
    append_line(path, {"step": 1})
    append_line(path, {"step": 2})
    assert read_lines(path, cut_anywhere=True) == [{"step": 0}, {"step": 1}, {"step": 2}]


def test_an_empty_line_is_no_damage(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"step": 0}\n\n{"step": 1}\n\n')
    assert read_lines(path, STEP) == [{"step": 0}, {"step": 1}]


@pytest.mark.parametrize("odd", [b'{"st', b"[1]", b"3", b'{"x": 1}', b'{"step": "\xff"}', b"\x00\x00"])
@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_line_that_is_no_record_is_told_with_its_number_unless_it_was_cut_at_the_end(tmp_path, odd, line):
    path = tmp_path / "lines.jsonl"
    lines = [b'{"step": 0}', b'{"step": 1}']
    lines.insert(line - 1, odd)
    path.write_bytes(b"\n".join(lines) + b"\n")
    told = (
        f"{path}: line {line} must be a JSON record with step, but is damaged; remove the line to continue without it"
    )
    with pytest.raises(InputError) as error:
        read_lines(path, STEP)
    assert str(error.value) == told
    assert read_lines(path, STEP, cut_anywhere=True) == [{"step": 0}, {"step": 1}]
    path.write_bytes(b'{"step": 0}\n{"step": 1}\n' + odd)  # a kill leaves the beginning of a line, and not its end
    assert read_lines(path, STEP) == [{"step": 0}, {"step": 1}]


def test_a_last_line_that_lacks_only_its_end_counts(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"step": 0}\n{"step": 1}')
    assert read_lines(path) == [{"step": 0}, {"step": 1}]


def test_numbers_survive_a_line_to_the_last_bit(tmp_path):
    values = torch.randn(200, dtype=torch.float64).tolist()
    append_line(tmp_path / "a", {"values": values})
    assert read_lines(tmp_path / "a")[0]["values"] == values
