"""The `windtunnel` command: finds the subcommand, runs it, and turns a user's mistake into one line.

Only the standard library is imported here, so that `windtunnel --help` answers at once; a command's own module, and
with it torch, is imported when that command is asked for.

Exit codes: 0 done, 2 the user's mistake or what could not be measured, 130 interrupted, 143 terminated, 129 the
terminal is gone, 141 nobody reads our output any more.
"""

from __future__ import annotations

import importlib
import io
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress

from windtunnel import __version__
from windtunnel.accidents import accident, is_in_own_code, is_of_memory
from windtunnel.cli import plugins, streams
from windtunnel.cli.pages import HelpShown
from windtunnel.environment import limit_threads
from windtunnel.errors import InputError, unknown

COMMANDS = {
    "list": "tunnels, models, baselines and shipped networks, one line each",
    "sample": "show a few episodes and their exact beliefs",
    "baselines": "what simple predictors score on a tunnel, in bits",
    "train": "train a model on a tunnel; run the same command again to resume",
    "evaluate": "how far a run is from the exact belief, next to baselines",
    "inspect": "geometry and mechanism of a run, each number next to its nulls",
    "runs": "a table of all runs below a folder",
    "scorecard": "which primitives an architecture realises, built-in or yours",
    "reproduce": "test the paper's claims, small on a CPU or full-size on a GPU",
    "claims": "every claim of a study with its verdict",
    "report": "one HTML page: verdicts, charts, episodes to step through",
    "figures": "the figures of a results folder for print, as PDF, PNG and CSV",
    "export": "the training history of all runs as one Parquet or CSV file",
    "bench": "how fast this machine trains, samples, evaluates and starts",
}
"""Command -> one line.  The module of the same name in this folder has `run(words)`."""

NARROWEST = 40


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the one this process was started with) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    width = shutil.get_terminal_size().columns
    if width < NARROWEST or os.environ.get("COLUMNS") == "0":  # no table or help page can be laid out in less
        os.environ["COLUMNS"] = str(max(width, NARROWEST))
    limit_threads()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no bars prints ? rather than failing
    try:
        streams.require_output()
        code = _run(words)
        sys.stdout.flush()  # a reader that has gone away should be noticed here, not while Python shuts down
    except InputError as error:
        return _refuse(_as_typed(str(error), words))
    except KeyboardInterrupt as stop:  # training says what it saved, and which signal stopped it
        streams.tell(f"windtunnel: {str(stop) or 'interrupted'}")
        return getattr(stop, "code", 130)
    except BrokenPipeError:  # as in `windtunnel sample hmm | head -1`
        streams.given_up()
        return 141
    except OSError as error:  # a file, folder or stream that cannot be used; anything else is ours to mend
        if error.filename is not None:
            return _refuse(f"{os.fsdecode(error.filename)}: {error.strerror}")
        if streams.is_full(error):
            return _refuse(f"{streams.given_up() or 'nothing more can be written'}: {error.strerror}")
        if not is_in_own_code(error):
            raise
        return _refuse(_own(error))
    except SystemExit as error:  # nothing of ours does that: own code would end the command, and seem to have succeeded
        return _refuse(_own(error))
    except Exception as error:
        if is_of_memory(error):
            less = "fewer episodes, a shorter length, a smaller batch or a smaller model"
            return _refuse(f"not enough memory: try {less}")
        if not is_in_own_code(error):
            raise
        return _refuse(_own(error))
    return code


def _own(error: BaseException) -> str:
    return f"code of your own failed ({accident(error)})"


def _as_typed(line: str, words: Sequence[str]) -> str:
    """What the library says of a field is told of the option, if one was typed: `--lr = -1.0: must be …`."""
    field, equals, rest = line.partition(" = ")
    flag = "--" + field.replace("_", "-")
    typed = any(word.split("=")[0].replace("_", "-") == flag for word in words)
    return f"{flag} = {rest}" if equals and field.isidentifier() and typed else line


def _refuse(why: str) -> int:
    streams.tell(f"windtunnel: error: {' '.join(why.split())}")
    return 2


def _run(words: list[str]) -> int:
    modules, words = plugins.taken_out(words)
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
    elif words[0] in ("-V", "--version"):
        print(f"windtunnel {__version__}")
    elif words[0] not in COMMANDS:
        kind = "option" if words[0].startswith("-") else "command"
        raise InputError(unknown(kind, words[0], [*COMMANDS, "--help", "--version"]))
    else:
        plugins.load(modules)
        command = importlib.import_module(f"windtunnel.cli.{words[0]}")
        with suppress(HelpShown):
            command.run(words[1:])
    return 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: windtunnel [--plugin MODULE] COMMAND …",
            "",
            "How many bits is a sequence model from exact Bayesian inference?",
            "",
            *lines,
            "",
            "windtunnel COMMAND --help shows its options; --version prints the version.",
            "--plugin MODULE first imports a Python module that registers your own tunnels",
            "or models; so does WINDTUNNEL_PLUGINS=MODULE in the environment.",
        ]
    )
