"""`windtunnel figures DIR`: the figures of a results folder for print, as PDF and PNG with their numbers as CSV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from windtunnel.cli import plugins
from windtunnel.cli.flags import Device, Folder, Runs, Switch, shown
from windtunnel.cli.folders import require_shown
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.progress import say
from windtunnel.environment import default_device, require_device
from windtunnel.errors import InputError
from windtunnel.report import Asked, read, write_figures
from windtunnel.report.figures import missing, require_figures
from windtunnel.training.files import require_writable_folder


@dataclass(frozen=True)
class Figures:
    """Every chart of the report for print, as PDF and PNG, readable in grey and with colour blindness, and its numbers
    as CSV."""

    out: Folder = None
    """Where to write them. Default: DIR/figures."""
    only: Annotated[str | None, shown("NAME,NAME")] = None
    """Draw only these, by name, separated by commas; a wrong name lists them all."""
    runs: Runs = ()
    """More run folders to include, with their surveys; DIR/runs is always included."""
    no_zoo: Switch = False
    """Leave out the shipped networks."""
    device: Device = None
    """Where to run the networks; a GPU if there is one."""


def run(words: list[str]) -> None:
    """Read, draw, say what was missing."""
    folder, options = parse_folder(Figures, "figures", words, "DIR")
    out = options.out or folder / "figures"
    if out.exists() and not out.is_dir():
        raise InputError(f"--out = {str(out)!r}: must be a folder")
    only = None if options.only is None else [name for name in options.only.split(",") if name]
    if only is not None:
        require_figures(only)
    require_shown(folder, "figures")
    device = require_device(options.device or default_device())
    require_writable_folder(out)  # before the minutes of looking into networks
    by = Asked("figures", words[1:], plugins.named())
    source = read(folder, runs=options.runs, with_zoo=not options.no_zoo, device=device, say=say, asked=by)
    written = write_figures(source, out, only=only, say=say)
    for lack in missing(source):
        print(lack.told)
    print(f"figures: {out} ({len(written)} files)")
