"""`windtunnel report DIR`: one self-contained HTML file that shows a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from windtunnel.cli import plugins
from windtunnel.cli.flags import Device, File, Runs, Switch
from windtunnel.cli.folders import require_shown
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.progress import say
from windtunnel.environment import default_device, require_device
from windtunnel.errors import InputError, require
from windtunnel.report import Asked, Source, read, write_page
from windtunnel.report.figures import missing
from windtunnel.training.files import require_writable


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page from a results folder, a run, or a folder of runs.

    Networks that it finds are run once, and the results are cached in DIR/exhibits.  The page says what is missing and
    how to make it.
    """

    out: File = None
    """Where to write the page. Default: DIR/report.html."""
    runs: Runs = ()
    """More run folders to include, with their surveys; DIR/runs is always included."""
    no_zoo: Switch = False
    """Leave out the shipped networks."""
    device: Device = None
    """Where to run the networks; a GPU if there is one."""


def run(words: list[str]) -> None:
    """Read, write, say what is missing, say where."""
    folder, options = parse_folder(Report, "report", words, "DIR")
    source, page = made(folder, options, Asked("report", words[1:], plugins.named()))
    for lack in missing(source):
        print(lack.told)
    print(path_and_size(page))


def write(folder: Path, options: Report) -> Path:
    """Write the page of a results folder."""
    return made(folder, options)[1]


def made(folder: Path, options: Report, by: Asked | None = None) -> tuple[Source, Path]:
    """What was read, and the page of it; `by` is told on the page as the way to make it again."""
    out = options.out or folder / "report.html"
    if out.is_dir():
        raise InputError(f"--out = {str(out)!r}: must be a file, not a folder")
    known = out.suffix.lower() in (".html", ".htm") or (out.exists() and not out.is_file())  # the latter: /dev/null
    require(known, "--out", str(out), "a file that ends in .html, for browsers to know it")
    require_shown(folder, "report")
    device = require_device(options.device or default_device())
    require_writable(out)  # before the minutes of looking into networks
    source = read(folder, runs=options.runs, with_zoo=not options.no_zoo, device=device, say=say, asked=by)
    return source, write_page(source, out)


def path_and_size(page: Path) -> str:
    """`report: results/paper/report.html (5.2 MB)`."""
    return f"report: {page} ({page.stat().st_size / 1e6:.1f} MB)"
