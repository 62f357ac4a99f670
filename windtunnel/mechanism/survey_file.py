"""A survey on disk, beside the run it is about.

    survey.json                   format, settings, environment, seconds, and every record with its nulls
    survey-<hash>.safetensors     the arrays to draw them; named after its content, so a new survey never changes the
                                  arrays of an old one before `survey.json` has been replaced as a whole
    survey.lock                   held by `windtunnel inspect` for as long as it runs: each save is of all it knows, and
                                  removes the arrays of whoever saved before

A kill at any moment leaves the old survey or the new one.  Equal arrays are stored once; words are in the JSON.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from windtunnel import __version__
from windtunnel.errors import InputError
from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.mechanism.survey import Entry, Survey
from windtunnel.training.files import intact, read_json, read_tensors, write_json, write_tensors

FORMAT = 1
NAME = "survey.json"


def save_survey(survey: Survey, folder: str | Path) -> Path:
    """Write a survey into a folder, in place of the one that was there; returns the path of its JSON."""
    folder, tensors = Path(folder), {}
    records = [_packed(entry, tensors) for entry in survey.entries]
    plain = to_dict(survey) | {"records": records, "arrays": None}
    if tensors:
        name = f"survey-{_digest(''.join(sorted(tensors)).encode())}.safetensors"
        plain["arrays"] = {"file": name, "sha256": write_tensors(folder / name, tensors, {"format": str(FORMAT)})}
    write_json(folder / NAME, plain)
    kept = plain["arrays"]["file"] if plain["arrays"] else None
    for stale in folder.glob("survey-*.safetensors*"):
        if stale.name != kept:
            stale.unlink(missing_ok=True)
    return folder / NAME


def to_dict(survey: Survey) -> dict[str, Any]:
    """Plain data for JSON, without the arrays."""
    return {
        "format": FORMAT,
        "windtunnel": __version__,
        "settings": survey.settings,
        "environment": survey.environment,
        "seconds": survey.seconds,
        "records": [_plain(entry) for entry in survey.entries],
    }


def load_survey(path: str | Path) -> Survey:
    """Read the survey of a run folder (or of a `survey.json`).  Damage is told in one line."""
    path = Path(path)
    path = path / NAME if path.is_dir() else path
    if not path.exists():
        raise InputError(f"{path}: there is no survey here; `windtunnel inspect RUN` makes one")
    plain = read_json(path)
    found = plain.get("format") if isinstance(plain, dict) else None
    if found != FORMAT:
        raise InputError(f"{path}: format = {found!r}: must be format {FORMAT}")
    try:
        tensors = _arrays(path.parent, plain.get("arrays"))
        entries = [_unpacked(record, tensors) for record in plain["records"]]
        return Survey(plain["settings"], entries, plain["seconds"], plain["environment"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: must have the fields of a survey ({type(error).__name__}: {error})") from None


def _arrays(folder: Path, listed: dict[str, str] | None) -> dict[str, np.ndarray]:
    if listed is None:
        return {}
    file = folder / Path(listed["file"]).name  # beside the JSON, wherever both were moved
    if not intact(file, listed["sha256"]):
        raise InputError(f"{file}: is missing, truncated or altered; run `windtunnel inspect` again")
    return {name: tensor.numpy() for name, tensor in read_tensors(file).items()}


def _plain(entry: Entry) -> dict[str, Any]:
    return {"instrument": entry.instrument, "seed": entry.seed, **entry.found.to_dict()}


def _packed(entry: Entry, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The record with its arrays by key; the arrays themselves go into `tensors`."""
    record = _plain(entry)
    if isinstance(entry.found, Missing):
        return record
    record["arrays"] = {}
    for name, array in entry.found.arrays.items():
        array = np.asarray(array)
        if array.dtype.kind not in "biuf":
            record["arrays"][name] = [str(word) for word in array.ravel()]
            continue
        key = _digest(str((array.dtype, array.shape)).encode() + np.ascontiguousarray(array).tobytes())
        tensors.setdefault(key, torch.from_numpy(np.array(array)))  # a copy: it may be a view that cannot be written to
        record["arrays"][name] = key
    return record


def _unpacked(record: dict[str, Any], tensors: dict[str, np.ndarray]) -> Entry:
    if "missing" in record:
        found = Missing(record["name"], record["missing"], record.get("broken", False))  # written only where true
        return Entry(record["instrument"], record["seed"], found)
    arrays = {
        name: np.array(kept) if isinstance(kept, list) else tensors[kept] for name, kept in record["arrays"].items()
    }
    return Entry(record["instrument"], record["seed"], Measurement.from_dict(record, arrays))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
