"""Writes that happen as a whole or not at all; a full disk, two writers, lines cut short."""

from __future__ import annotations

import builtins
import errno
import os

import pytest
import torch

from tests.training.cases import contents, tiny
from windtunnel.errors import InputError
from windtunnel.training import files, json_lines, train
from windtunnel.training.files import (
    intact,
    read_json,
    require_writable,
    require_writable_folder,
    stored_metadata,
    stored_step,
    write_bytes,
    write_tensors,
)
from windtunnel.training.json_lines import append_line


class FullFile:
    """A file on a disk that takes half of what is written, then is full."""

    def __init__(self, file, code):
        self.file, self.code = file, code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, content):
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        raise OSError(self.code, os.strerror(self.code))


def fill_disk(monkeypatch, after: int = 0, code: int = errno.ENOSPC) -> None:
    """From the write after the next `after` ones on, the disk is full."""
    left = after

    def full_open(path, mode="r", *arguments, **options):
        nonlocal left
        file = builtins.open(path, mode, *arguments, **options)  # noqa: SIM115
        if mode.startswith("r") or os.path.basename(path) == "lock":
            return file
        left -= 1
        return file if left >= 0 else FullFile(file, code)

    for module in (files, json_lines):
        monkeypatch.setattr(module, "open", full_open, raising=False)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_file_and_no_half_one(tmp_path, monkeypatch, code):
    path = tmp_path / "a.json"
    write_bytes(path, b"old")
    fill_disk(monkeypatch, code=code)
    with pytest.raises(InputError) as error:
        write_bytes(path, b"new" * 2**20)
    assert str(error.value) == (
        f"disk full while writing {path} (3.0 MiB): what was there before is intact; "
        "free some space and run the same command again"
    )
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_other_faults_of_a_disk_are_told_in_one_line_too(tmp_path, monkeypatch):
    fill_disk(monkeypatch, code=errno.EIO)
    for write in (lambda path: write_bytes(path, b"new"), lambda path: append_line(path, {"step": 1})):
        with pytest.raises(InputError, match=f"{tmp_path / 'a'}: cannot be written \\(Input/output error\\)"):
            write(tmp_path / "a")


def test_a_full_disk_stops_training_at_any_write_and_it_can_go_on(tmp_path, monkeypatch):
    """Wherever it happens: one line, no temporary file, nothing lost, and afterwards the same call ends the run."""
    recipe = tiny(steps=4, validation_episodes=4)
    train(recipe=recipe, out=tmp_path / "whole", device="cpu")
    whole = contents(tmp_path / "whole")
    for after in range(40):
        out, told = tmp_path / str(after), ""
        with monkeypatch.context() as patch:
            fill_disk(patch, after)
            try:
                train(recipe=recipe, out=out, device="cpu")
            except InputError as error:
                told = str(error)
        if not told:
            break  # there was more room than the run needs
        assert told.startswith(f"disk full while writing {out}") and "\n" not in told
        assert not list(out.rglob("*.tmp"))
        train(recipe=recipe, out=out, device="cpu")
        assert contents(out) == whole
    assert 15 <= after < 39


# --- a place for what is not made yet
@pytest.mark.parametrize("ask", [require_writable, require_writable_folder])
def test_a_place_is_tried_and_nothing_of_the_trial_is_left(tmp_path, ask):
    (tmp_path / "kept").mkdir()
    for place in (tmp_path / "a", tmp_path / "new" / "deep" / "a", tmp_path / "kept" / "a"):
        ask(place)
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError) as error:
        ask(tmp_path / "file" / "deep" / "a")
    assert str(error.value) == f"{tmp_path / 'file' / 'deep' / 'a'}: cannot be written (Not a directory)"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept"]


@pytest.mark.parametrize("ask", [require_writable, require_writable_folder])
def test_a_trial_that_fails_half_way_leaves_no_folder(tmp_path, monkeypatch, ask):
    fill_disk(monkeypatch)
    with pytest.raises(InputError, match="disk full"):
        ask(tmp_path / "new" / "a")
    assert list(tmp_path.iterdir()) == []


def test_two_processes_that_write_one_file_each_write_a_whole_one(tmp_path, monkeypatch):
    """As `report` and `figures` of one folder, side by side: the first is half way when the other writes and ends."""
    path, fill = tmp_path / "page.html", files._fill

    def meanwhile(temporary, content):
        temporary.write_bytes(content[:4])
        monkeypatch.setattr(files, "_fill", fill)
        if (child := os.fork()) == 0:
            try:
                require_writable(path)
                write_bytes(path, b"the other")
            finally:
                os._exit(not (path.read_bytes() == b"the other" and temporary.read_bytes() == content[:4]))
        assert os.waitpid(child, 0)[1] == 0
        fill(temporary, content)

    monkeypatch.setattr(files, "_fill", meanwhile)
    write_bytes(path, b"the first")
    assert path.read_bytes() == b"the first" and [*tmp_path.iterdir()] == [path]


def test_an_interrupt_leaves_no_half_file(tmp_path, monkeypatch):
    def interrupted(temporary, content):
        temporary.write_bytes(content[:4])
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_fill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "page.html", b"a page")
    assert list(tmp_path.iterdir()) == []


def test_damaged_json_is_told_in_one_line(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": ')
    with pytest.raises(InputError, match="must be JSON, but is damaged"):
        read_json(path)
    for damaged in (b"\xff\xfe\x00", b"[" * 100_000):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="must be JSON, but is damaged"):
            read_json(path)
    path.write_bytes('\ufeff{"a": "ü"}'.encode())  # as an editor may save it
    assert read_json(path) == {"a": "ü"}
    with pytest.raises(InputError, match="cannot be read \\(No such file"):
        read_json(tmp_path / "missing.json")


def test_equal_tensors_with_equal_metadata_are_equal_files(tmp_path):
    """However many metadata there are: safetensors itself would write them in any order."""
    told = {"step": "1", "seed": "0", "recipe": "abc"}
    made = {write_tensors(tmp_path / "a.safetensors", {"a": torch.arange(4.0)}, told) for _ in range(20)}
    assert len(made) == 1 and stored_metadata(tmp_path / "a.safetensors") == told
    write_tensors(tmp_path / "b.safetensors", {"a": torch.arange(4.0)}, {"step": "7"})
    assert stored_metadata(tmp_path / "b.safetensors") == {"step": "7"} and stored_step(tmp_path / "b.safetensors") == 7
    (tmp_path / "b.safetensors").write_bytes(b"")
    assert stored_metadata(tmp_path / "b.safetensors") == {} and stored_step(tmp_path / "b.safetensors") is None


def test_a_checksum_sees_any_change(tmp_path):
    path = tmp_path / "a.safetensors"
    sha256 = write_tensors(path, {"a": torch.arange(4.0)}, {"step": "1"})
    assert intact(path, sha256)
    content = path.read_bytes()
    for changed in (content[:-1], content + b"\0", content[:-1] + bytes([content[-1] ^ 1]), b""):
        path.write_bytes(changed)
        assert not intact(path, sha256)
    path.unlink()
    assert not intact(path, sha256)
