"""Folders that a command is given: what is in them, and which command fits when it is something else."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from windtunnel.cli.progress import say
from windtunnel.errors import InputError, Unregistered, did_you_mean, require
from windtunnel.study import zoo
from windtunnel.training import Run, load
from windtunnel.training.folder import RunFolder

RUN, STUDY = "recipe.json", "study.json"  # the file by which each is known


def require_folder(folder: Path) -> None:
    """Raise unless it is a folder."""
    if not folder.exists():
        raise InputError(f"{folder}: there is no such folder")
    if not folder.is_dir():
        raise InputError(f"{folder}: must be a folder, but is a file")


def is_shipped(folder: Path) -> bool:
    """Is this the name of a shipped network, and no folder?"""
    return not folder.exists() and str(folder) in zoo.names()


def open_run(folder: Path, command: str, *, step: int | None = None, device: str = "cpu") -> Run:
    """The run in a folder, with those of its seeds that have weights; which have not, or not the last, is told.

    The name of a shipped network serves as well.  Where there is something else, the line says what, and what to type
    instead.
    """
    if is_shipped(folder):
        require(step is None, "--step", step, "left out for a shipped network, which has only its final weights")
        return zoo.as_run(str(folder), device)
    if not folder.exists() and folder.name == str(folder) and (names := zoo.names()):
        hint = did_you_mean(str(folder), names)
        shipped = f"no shipped network of that name ({', '.join(names)})"
        raise InputError(f"{folder}{hint}: there is no such folder, and {shipped}")
    require_folder(folder)
    if str(folder) in zoo.names():
        say(f"{folder}: the folder here, not the shipped network of that name")
    if not (folder / RUN).exists():
        if (folder / STUDY).exists():
            runs = folder / "runs"
            where = f"its runs are in {runs}" if runs.is_dir() else "its networks are not kept with it"
            raise InputError(
                f"{folder}: holds a study, not a run: `{_typed('claims', folder)}` shows its verdicts, "
                f"`{_typed('report', folder)}` makes its page; {where}"
            )
        RunFolder(folder).require_known()
        if run := next(_below(folder, RUN), None):
            raise InputError(f"{folder}: holds runs, but is not one itself: give one of them, `{_typed(command, run)}`")
        raise InputError(f"{folder}: must be a run folder (it has no {RUN}); `windtunnel train` makes one")
    whole = load(folder, step=step, device=device)
    subject = whole.at_hand()
    if told := _unfinished(whole, subject, step):
        say(f"{folder}: {told}")
    return subject


def _unfinished(whole: Run, subject: Run, step: int | None) -> str:
    """Seeds that are not all the way: those taken as they are, and those left out."""
    steps, told = whole.recipe.steps, []
    for seed in whole.recipe.seeds:
        rungs = whole.ladder(seed)
        if seed not in subject.recipe.seeds:
            told.append(f"seed {seed} is left out ({f'not at step {step}' if rungs else 'no weights'} yet)")
        elif step is None and rungs[-1] < steps:
            told.append(f"seed {seed} is unfinished (weights of step {rungs[-1]} of {steps})")
    return "; ".join(told)


def require_finished(folder: Path) -> None:
    """Raise at a run that is not all the way; anything else may pass."""
    if not (folder / RUN).exists():
        return
    try:
        run = load(folder)
    except Unregistered:  # `read` says so with the whole command, its options and the plugin
        return
    if not run.finished:
        raise InputError(
            f"{folder}: the run must be finished, but is at step {run.steps} of {run.recipe.steps}: the command "
            f"that trained it resumes it, or says why it cannot; `{_typed('evaluate', folder)}` scores it as it is"
        )


def require_shown(folder: Path, command: str) -> None:
    """Raise unless there is something here to make a page of: a study, a run that is all the way, runs below; a folder
    that only holds a study further down would make a page without it."""
    if is_shipped(folder):
        raise InputError(f"{folder}: is a shipped network, with no folder to make a page of: must be a run or a study")
    require_folder(folder)
    RunFolder(folder).require_known()
    require_finished(folder)
    here = any((folder / file).exists() for file in (STUDY, RUN)) or next(folder.glob(f"[!.]*/{RUN}"), None)
    if not here and (study := next(_below(folder, STUDY), None)):
        raise InputError(f"{folder}: holds a study further down: `{_typed(command, study)}`")


def require_study(folder: Path, command: str) -> None:
    """Raise unless the folder holds a study."""
    require_folder(folder)
    if not (folder / STUDY).exists():
        if (folder / RUN).exists():
            raise InputError(
                f"{folder}: holds a run, not a study: `{_typed('evaluate', folder)}` scores it, "
                f"`{_typed('report', folder)}` makes its page"
            )
        if study := next(_below(folder, STUDY), None):
            raise InputError(f"{folder}: holds a study further down: `{_typed(command, study)}`")
        raise InputError(f"{folder}: must be a study folder (it has no {STUDY}); `windtunnel reproduce` makes one")


def _below(folder: Path, file: str) -> Iterator[Path]:
    """Folders with that file, up to three levels down: a hint must not search a whole disk, nor hidden folders."""
    found = chain.from_iterable(sorted(folder.glob(f"{'[!.]*/' * level}{file}")) for level in (1, 2, 3))
    return (path.parent for path in found)


def _typed(command: str, folder: Path) -> str:
    return f"windtunnel {command} {shlex.quote(str(folder))}"
