"""The command by which a page or figures were asked for, so that advice can say what to type again, options and all."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """`windtunnel --plugin MODULE COMMAND FOLDER OPTIONS`."""

    command: str = "report"
    options: Sequence[str] = ()
    plugins: Sequence[str] = ()

    def typed(self, command: str, *words: str | Path, plugins: Sequence[str] = ()) -> str:
        """Any command of windtunnel, with the plugins of this one.

        >>> Asked(plugins=("mine",)).typed("inspect", "runs/a b", "--only", "keys")
        "windtunnel --plugin mine inspect 'runs/a b' --only keys"
        """
        flags = [word for module in (*self.plugins, *plugins) for word in ("--plugin", module)]
        return shlex.join(["windtunnel", *flags, command, *map(str, words)])

    def again(self, folder: str | Path, *, run: str = "", plugins: Sequence[str] = ()) -> str:
        """The same command for a folder; with one run more, or a plugin more.

        >>> Asked("figures", ("--no-zoo", "--runs", "a")).again("results/paper", run="RUN")
        'windtunnel figures results/paper --no-zoo --runs RUN a'
        >>> Asked("report", ("--runs=a",)).again("results/paper", run="RUN")
        'windtunnel report results/paper --runs RUN a'
        """
        words = [part for word in self.options for part in _apart(word)]
        if run and "--runs" in words:  # the option is given once, with all its folders
            words.insert(words.index("--runs") + 1, run)
        elif run:
            words += ["--runs", run]
        return self.typed(self.command, folder, *words, plugins=plugins)


def _apart(word: str) -> list[str]:
    """`--runs=a` as two words, as it is told with more than one folder."""
    return word.split("=", 1) if word.startswith("--runs=") else [word]
