"""The `windtunnel` command: finds the subcommand, runs it, and turns a user's mistake into one line.

Only the standard library is imported here, so that `windtunnel --help` answers at once; a command's own module, and
with it torch, is imported when that command is asked for.

Exit codes: 0 done, 2 the user's mistake, 130 interrupted, 143 terminated, 141 nobody reads our output any more.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from windtunnel import __version__
from windtunnel.errors import InputError

COMMANDS = {
    "list": "tunnels, models and baselines, one line each",
    "sample": "a readable picture of a few episodes and their exact beliefs",
    "baselines": "what simple predictors score on a tunnel, in bits from the exact belief",
    "train": "train a model on a tunnel into a run folder; the same command again continues it",
    "evaluate": "how far a run is from the exact belief, beside the baselines of its tunnel",
    "inspect": "geometry and mechanism of a run's networks, every number beside its nulls; written into the run",
    "runs": "a table of all runs below a folder, with their distance from Bayes",
    "reproduce": "the paper put to the test: a demonstration here, or the full-size study on a GPU",
    "claims": "every claim of a study with its verdict",
    "report": "one HTML page that shows a results folder: verdicts, charts, episodes to step through",
    "figures": "the figures of a results folder for print, as PDF and PNG",
    "export": "the training history of all runs below a folder, as one Parquet or CSV file",
    "bench": "how fast this machine trains, samples, evaluates and starts",
}
"""Command -> one line.  The module of the same name in this folder has `run(words)`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the one this process was started with) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no bars prints ? rather than failing
    try:
        code = _run(words)
        sys.stdout.flush()  # a reader that has gone away should be noticed here, not while Python shuts down
    except InputError as error:
        line = " ".join(str(error).split())
        print(f"windtunnel: error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:  # training says what it saved, and which signal stopped it
        print(f"windtunnel: {str(stop) or 'interrupted'}", file=sys.stderr)
        return getattr(stop, "code", 130)
    except BrokenPipeError:  # as in `windtunnel sample hmm | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
    elif words[0] in ("-V", "--version"):
        print(f"windtunnel {__version__}")
    elif words[0] not in COMMANDS:
        kind = "option" if words[0].startswith("-") else "command"
        raise InputError(f"unknown {kind} {words[0]!r}: must be one of {', '.join(COMMANDS)}, --help, --version")
    else:
        command = importlib.import_module(f"windtunnel.cli.{words[0]}")
        try:
            command.run(words[1:])
        except SystemExit as done:  # the option parser leaves like this after it has printed a command's help
            return done.code if isinstance(done.code, int) else 0
    return 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: windtunnel COMMAND …",
            "",
            "How many bits is a sequence model from exact Bayesian inference?",
            "",
            *lines,
            "",
            "windtunnel COMMAND --help tells more; windtunnel --version prints the version.",
        ]
    )
