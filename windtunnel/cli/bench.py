"""`windtunnel bench`: how fast training, sampling, evaluation and starting are on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from windtunnel.cli import show
from windtunnel.cli.bench_plot import draw, require_picture
from windtunnel.cli.flags import Device, File, Int, Switch, shown
from windtunnel.cli.parse import given, parse
from windtunnel.cli.progress import say
from windtunnel.environment import default_device, require_device
from windtunnel.errors import InputError, require
from windtunnel.training.files import read_json, require_writable
from windtunnel.training.speed import SECTIONS, Plan, bench
from windtunnel.training.speed.partial_result import PartialResult
from windtunnel.training.speed.plan import chosen
from windtunnel.training.speed.tables import headline, notes, tables


@dataclass(frozen=True)
class Bench:
    """How fast this machine trains, samples, evaluates and starts.  About three minutes on two cores.

    Sections: training, seeds, sampling, evaluation, growth, profile, startup, compile.
    """

    device: Device = None
    """Where to measure; a GPU if there is one."""
    only: Annotated[tuple[str, ...], shown("WORD…")] = ()
    """Sections to measure, and cases (such as hmm/lstm) to restrict them to; cases alone: their training speed."""
    batch: Int = None
    """Sequences per step instead of the recipe's, in training, seeds and profile."""
    quick: Switch = False
    """Under a minute: shorter measurements, fewer of them, no compilation."""
    json: File = None
    """Write the result here; while measuring, rows go to FILE.part."""
    plot: File = None
    """Draw the result here (.png, .svg or .pdf)."""
    read: File = None
    """Show the result in this file instead of measuring."""


def run(words: list[str]) -> None:
    """Measure or read, then print, write and draw.  What can be refused is refused before the minutes of measuring."""
    options = parse(Bench, words, "windtunnel bench")
    kept = PartialResult(options.json)
    if options.read is not None:
        for name in ("device", "only", "batch", "quick"):
            if given(words, name):
                raise InputError(f"--{name}: must be left out with --read, which shows a result as it is")
        result = _read(options.read)
        _require_places(options, [section for section in SECTIONS if result.get(section)])
    else:
        plan = _plan(options)
        _require_places(options, plan.sections)
        with _interruptible(kept):
            result = bench(plan, say, kept.rows)
    try:
        _print(result)
    finally:  # also if whoever was to read the tables has gone
        kept.whole(result)
        if options.plot is not None:
            draw(result, options.plot)
    if options.read is None:  # whoever only reads a result has got all of it
        _require_rows(result)


def _plan(options: Bench) -> Plan:
    device = require_device(options.device or default_device())
    sections, named = chosen([part for word in options.only for part in word.split(",") if part], device)
    return Plan(device, sections, named, options.batch, quick=options.quick)


@contextmanager
def _interruptible(kept: PartialResult) -> Iterator[None]:
    """Whatever ends the measurement early: where the rows so far are."""
    try:
        yield
    except KeyboardInterrupt:
        if kept.part is not None:
            raise KeyboardInterrupt(f"interrupted; the rows so far are in {kept.part}") from None
        raise
    except Exception:
        if kept.part is not None:
            say(f"the rows so far are in {kept.part}")
        raise


def _require_places(options: Bench, sections: Sequence[str]) -> None:
    """Raise unless there will be something to draw, and both files can be written."""
    if options.plot is not None:
        require(options.plot.suffix in (".png", ".svg", ".pdf"), "--plot", str(options.plot), "a .png, .svg or .pdf")
        require_picture(options.plot, sections)
    for path in (options.json, options.plot):
        if path is not None:
            require_writable(path)


def _require_rows(result: dict[str, Any]) -> None:
    """Raise if a measurement has failed.  Its reason is among the notes as well, but a script sees only the exit code:
    a result in which rows are missing must not pass for a whole one (`benchmarks/training.py` does the same)."""
    why = [line for lines in result["failed"].values() for line in lines]
    if why:
        raise InputError(f"without a row: {'; '.join(why)}")


def _read(path: Path) -> dict[str, Any]:
    result = read_json(path)
    try:
        ok = bool(headline(result)) and all(table.columns for table in tables(result)) and notes(result) is not None
    except (LookupError, TypeError, ValueError, AttributeError):  # it holds something else than a result
        ok = False
    require(ok, "--read", str(path), "a file that `windtunnel bench --json` wrote")
    return result


def _print(result: dict[str, Any]) -> None:
    show.print_text(headline(result), "bold")
    for table in tables(result):
        show.print_table(table.title, table.columns, table.rows, table.justify, spare=table.columns[:3:-1])
    for line in notes(result):
        show.print_text(line, "dim")
