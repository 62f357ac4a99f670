"""The entry point: what it prints without a command, what it imports, and how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

import windtunnel
from windtunnel.cli import main as entry
from windtunnel.cli.main import COMMANDS, main


def python(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_load_nothing_heavy(word):
    code = f"import sys; from windtunnel.cli.main import main; main([{word!r}]); print(*sys.modules, file=sys.stderr)"
    done = python("-c", code)
    assert done.returncode == 0 and "windtunnel" in done.stdout
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert loaded.isdisjoint({"torch", "numpy", "scipy", "tyro", "rich", "jaxtyping"})


def test_module_runs_like_the_command():
    done = python("-m", "windtunnel", "--version")
    assert (done.returncode, done.stdout) == (0, f"windtunnel {windtunnel.__version__}\n")


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(words, capsys):
    assert main(words) == 0
    shown = capsys.readouterr().out
    for command, summary in COMMANDS.items():
        assert command in shown and summary in shown


def test_every_command_has_its_module_and_help(capsys):
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        assert f"usage: windtunnel {command}" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["sampel", "--sample", ""])
def test_unknown_command(word, capsys):
    assert main([word]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("windtunnel: error: unknown")
    assert all(command in said.err for command in COMMANDS)


@pytest.fixture
def command(monkeypatch):
    """A command whose behaviour the test chooses."""

    def install(run):
        monkeypatch.setitem(entry.COMMANDS, "pretend", "for a test")
        monkeypatch.setitem(sys.modules, "windtunnel.cli.pretend", types.SimpleNamespace(run=run))

    return install


def test_interrupt_is_one_line(command, capsys):
    def run(words):
        raise KeyboardInterrupt

    command(run)
    assert main(["pretend"]) == 130
    assert capsys.readouterr().err == "windtunnel: interrupted\n"


def test_a_message_of_several_lines_becomes_one(command, capsys):
    def run(words):
        raise windtunnel.errors.InputError("first\n  second")

    command(run)
    assert main(["pretend"]) == 2
    assert capsys.readouterr().err == "windtunnel: error: first second\n"


def test_a_bug_keeps_its_traceback(command):
    def run(words):
        raise ValueError("not the user's fault")

    command(run)
    with pytest.raises(ValueError, match="not the user's fault"):
        main(["pretend"])


@pytest.mark.parametrize("words", ["sample hmm --episodes 200", "sample hmm --episodes 200 --json"])
def test_broken_pipe_is_silent(words):
    """More output than a pipe holds, and a reader that leaves after a few bytes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "windtunnel", *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=120) == 141


def test_threads_wait_without_spinning_unless_told_otherwise(monkeypatch, capsys):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert main(["--version"]) == 0 and os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert main(["--version"]) == 0 and os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
