"""`windtunnel bench`: how fast training, sampling, evaluation and starting are on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from windtunnel.cli import show
from windtunnel.cli.flags import Device, File, Switch, shown
from windtunnel.cli.parse import parse
from windtunnel.cli.progress import say
from windtunnel.environment import default_device, require_device
from windtunnel.errors import require
from windtunnel.training.files import read_json, write_json
from windtunnel.training.speed import Plan, bench
from windtunnel.training.speed.plan import chosen
from windtunnel.training.speed.tables import headline, notes, plain_text, tables


@dataclass(frozen=True)
class Bench:
    """How fast this machine trains, samples, evaluates and starts.  About three minutes on two cores.

    Sections: training, seeds, sampling, evaluation, growth, profile, startup, compile.
    """

    device: Device = None
    """Where to measure; a GPU if there is one."""
    only: Annotated[tuple[str, ...], shown("WORD…")] = ()
    """Sections to measure, and cases (hmm/lstm) to restrict them to; cases alone: their training throughput."""
    quick: Switch = False
    """Under a minute: shorter measurements, fewer of them, no compilation."""
    json: File = None
    """Write the result here."""
    plot: File = None
    """Draw it here (.png, .svg or .pdf)."""
    read: File = None
    """Show the result in this file, made here or elsewhere, instead of measuring."""


def run(words: list[str]) -> None:
    """Measure or read, then print, write and draw."""
    options = parse(Bench, words, "windtunnel bench")
    if options.plot is not None:
        require(options.plot.suffix in (".png", ".svg", ".pdf"), "--plot", str(options.plot), "a .png, .svg or .pdf")
    result = _measured(options) if options.read is None else _read(options.read)
    if options.json is not None:
        write_json(options.json, result)
    _print(result)
    if options.plot is not None:
        from windtunnel.cli.bench_plot import draw

        draw(result, options.plot)


def _measured(options: Bench) -> dict[str, Any]:
    device = require_device(options.device or default_device())
    sections, named = chosen([part for word in options.only for part in word.split(",") if part], device)
    return bench(Plan(device, sections, named, quick=options.quick), say)


def _read(path: Path) -> dict[str, Any]:
    result = read_json(path)
    try:
        ok = bool(headline(result)) and all(table.columns for table in tables(result)) and notes(result) is not None
    except (LookupError, TypeError, ValueError, AttributeError):  # it holds something else than a result
        ok = False
    require(ok, "--read", str(path), "a file that `windtunnel bench --json` wrote")
    return result


def _print(result: dict[str, Any]) -> None:
    try:
        import rich  # noqa: F401
    except ImportError:
        print(headline(result), *map(plain_text, tables(result)), *notes(result), sep="\n")
        return
    show.print_text(headline(result), "bold")
    for table in tables(result):
        show.print_table(table.title, table.columns, table.rows, table.justify, spare=table.columns[:3:-1])
    for line in notes(result):
        show.print_text(line, "dim")
