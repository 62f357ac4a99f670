"""The entry point: what it prints without a command, what it imports, and how it fails."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import types

import pytest

import windtunnel
from windtunnel.accidents import is_in_own_code
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


def test_a_bug_of_ours_keeps_its_traceback(command):
    command(lambda words: windtunnel.errors.unknown("option", "step", None))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not iterable"):
        main(["pretend"])


def test_a_mistake_in_code_of_the_user_s_is_told_in_one_line(command, capsys):
    def run(words):
        raise ValueError("a slip\nand a long story")

    command(run)
    assert main(["pretend"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("windtunnel: error: code of your own failed (ValueError in test_main.py:")
    assert told.endswith(": a slip)\n")


def test_an_error_of_the_system_in_code_of_the_user_s_is_told_too(command, capsys):
    def run(words):
        raise OSError("no such device")

    command(run)
    assert main(["pretend"]) == 2
    assert "code of your own failed (OSError in test_main.py:" in capsys.readouterr().err


def test_what_a_compiler_wrote_is_not_the_user_s(tmp_path):
    folder = tmp_path / "torchinductor_somebody"
    folder.mkdir()
    (folder / "made.py").write_text("raise ValueError('a bug of the compiler')")
    with pytest.raises(ValueError, match="a bug of the compiler") as error:
        runpy.run_path(str(folder / "made.py"))
    assert not is_in_own_code(error.value)


@pytest.mark.parametrize("code", [None, 0, 3, "a farewell"])
def test_code_of_the_user_s_cannot_end_the_command_unseen(command, capsys, code):
    command(lambda words: sys.exit(code))
    assert main(["pretend"]) == 2
    assert "error: code of your own failed (SystemExit in test_main.py:" in capsys.readouterr().err


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


FULL = "windtunnel: error: standard output: No space left on device\n"
CLOSED = "windtunnel: error: standard output is closed: must be open; `> /dev/null` discards results\n"
UNKNOWN = "windtunnel: error: unknown option '--nonsense': must be one of --json\n"
STREAMS = {  # what is typed -> how it ends, and what is said on the stream that is left; None: the results
    "list > /dev/full": (2, FULL),
    "sample hmm --json > /dev/full": (2, FULL),
    "--help > /dev/full": (2, FULL),
    "list --help > /dev/full": (2, FULL),
    "list >&-": (2, CLOSED),
    "list >&- 2>&-": (2, ""),
    "list --nonsense 2>&-": (2, UNKNOWN),
    "list --nonsense 2>/dev/full": (2, UNKNOWN),
    "list --nonsense > /dev/full 2>/dev/full": (2, ""),
    "list 2>&-": (0, None),
    "sample urn 2>&-": (0, None),
    "list 2>/dev/full": (0, None),
}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("typed", [*STREAMS, "PYTHONUNBUFFERED=1 list > /dev/full"])
def test_a_stream_that_is_full_or_closed_is_one_line_on_the_other(typed):
    """Without a buffer there is nothing left to flush, from which it could be seen which stream it was."""
    unbuffered = "PYTHONUNBUFFERED=1 "
    environment = os.environ | {"PYTHONUNBUFFERED": "1" * typed.startswith(unbuffered)}
    typed = typed.removeprefix(unbuffered)
    code, wanted = STREAMS[typed]
    command = f"exec {sys.executable} -m windtunnel {typed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, env=environment)
    said = done.stdout + done.stderr
    assert "Traceback" not in said and "Exception ignored" not in said
    assert done.returncode == code
    assert said == wanted if wanted is not None else said.count("\n") > 10 and done.stderr == ""


def test_messages_that_find_no_room_are_told_on_the_other_stream(tmp_path):
    """What a command wants to say on the way, not its results: it ends, rather than train unwatched."""
    options = "hmm lstm --preset quick --steps 1 --params 2000 --device cpu"
    command = f"exec {sys.executable} -m windtunnel train {options} --out {tmp_path / 'run'} 2>/dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "windtunnel: error: standard error: No space left on device\n")


def test_threads_wait_without_spinning_unless_told_otherwise(monkeypatch, capsys):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert main(["--version"]) == 0 and os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert main(["--version"]) == 0 and os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
