"""`windtunnel export DIR`: the training history of all runs below a folder as one tidy table."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from windtunnel.cli import show
from windtunnel.cli.flags import File, shown
from windtunnel.cli.folders import require_folder
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.progress import say
from windtunnel.cli.runs import DAMAGE, reason
from windtunnel.cli.tunnel import brief
from windtunnel.errors import InputError, require
from windtunnel.training import Run, load
from windtunnel.training.files import require_writable, write_bytes
from windtunnel.training.run_folders import run_folders

COLUMNS: tuple[str, ...] = ("run", "tunnel", "model", "seed", "step", "loss_bits", "kl_bits", "entropy_mae_bits")


@dataclass(frozen=True)
class Export:
    """The training history of all runs below a folder, one row per run, seed and validated step."""

    format: Annotated[Literal["parquet", "csv"] | None, shown("{parquet,csv}")] = None
    """File format. Default: by the ending of --out, or parquet without --out."""
    out: File = None
    """File to write, replaced if it exists. Default: metrics.parquet or metrics.csv in DIR."""


def run(words: list[str]) -> None:
    """Gather, write, say what was written."""
    folder, options = parse_folder(Export, "export", words, "DIR")
    kind = _kind(options)
    out = options.out or folder / f"metrics.{kind}"
    require_folder(folder)
    require_writable(out)  # before hundreds of runs are read
    rows, runs = [], 0
    for path in run_folders(folder):
        try:
            rows += _rows(load(path))
            runs += 1
        except DAMAGE as error:
            say(f"left out {reason(path, error)}")
    require(runs > 0, "DIR", str(folder), "a folder with at least one readable run in it")
    content = _parquet(rows) if kind == "parquet" else _csv(rows)
    write_bytes(out, content)
    show.print_text(f"{len(rows)} rows of {runs} run{'s' * (runs != 1)} written to {out}")


def _kind(options: Export) -> str:
    """The format that was asked for, in so many words or by the name of the file; a name must not promise another."""
    out, kind = options.out, options.format
    if out is None:
        return kind or "parquet"
    require(not out.is_dir(), "--out", str(out), "a file, not a folder")
    ending = out.suffix.lower().removeprefix(".")
    if kind is None:
        require(ending in ("parquet", "csv"), "--out", str(out), "a .parquet or .csv file")
    else:  # any other name promises nothing
        contradicts = ending in ("parquet", "csv") and ending != kind
        require(not contradicts, "--out", str(out), f"a .{kind} file, as --format {kind} says")
    return kind or ending


def _rows(run: Run) -> list[dict[str, Any]]:
    same = {"run": str(run.path), "tunnel": brief(run.tunnel), "model": run.recipe.model}
    measured = COLUMNS[4:]
    return [
        {**same, "seed": seed, **{name: record[name] for name in measured}}
        for seed in run.recipe.seeds
        for record in run.metrics(seed)
    ]


def _csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError(
            "--format = 'parquet': must be csv unless the package pyarrow is installed (pip install pyarrow)"
        ) from None
    kinds = [pyarrow.string()] * 3 + [pyarrow.int64()] * 2 + [pyarrow.float64()] * 3
    schema = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)))
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), buffer)
    return buffer.getvalue()
