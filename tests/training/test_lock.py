"""One writer at a time, and anybody may ask whether there is one."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading

import pytest

from tests.training.cases import tiny
from windtunnel.errors import InputError
from windtunnel.training import load, train
from windtunnel.training.lock import is_locked, locked

HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
file.truncate(0); file.write("4711"); file.flush()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path):
    recipe = tiny()
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(InputError) as error:
            train(recipe=recipe, out=tmp_path, device="cpu")
        assert str(error.value) == f"{tmp_path}: another process (pid 4711) is writing this run; wait for it to end"
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
        load_is_no_writer = tmp_path / "recipe.json"
        load_is_no_writer.write_text(json.dumps({"format": 1, "recipe": recipe.to_dict(), "model": None}))
        assert load(tmp_path).recipe == recipe
        load_is_no_writer.unlink()
        assert is_locked(tmp_path)
    finally:
        holder.kill()
        holder.wait()
    assert not is_locked(tmp_path)
    assert train(recipe=recipe, out=tmp_path, device="cpu").finished


def test_the_lock_is_real_within_one_process_too_and_is_let_go_after_an_error(tmp_path):
    with locked(tmp_path):
        with pytest.raises(InputError, match=f"another process \\(pid {os.getpid()}\\)"), locked(tmp_path):
            pass
        with pytest.raises(InputError):
            train(recipe=tiny(), out=tmp_path, device="cpu")
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    with locked(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_who_only_looks_is_in_nobody_s_way(tmp_path):
    assert not is_locked(tmp_path) and not list(tmp_path.iterdir())
    with locked(tmp_path):
        assert is_locked(tmp_path)
    with open(tmp_path / "lock") as looking:  # the moment in which somebody looks, drawn out
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.03, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        with locked(tmp_path):
            assert is_locked(tmp_path)
