"""Writing that cannot leave half a file: temporary file, fsync, rename; and a checksum for what is read back."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from torch import Tensor

from windtunnel.errors import InputError


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file as a whole, or leave it as it was.  A full disk is told in one line."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            size = len(content) / 2**20
            raise InputError(
                f"disk full while writing {path} ({size:.1f} MiB): what was there before is intact; "
                "free some space and give the same command again"
            ) from None
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def write_json(path: Path, content: Any) -> None:
    """JSON, atomically."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Parsed JSON; a missing or broken file is told in one line."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: must be JSON, but is damaged ({error})") from None


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    """Write safetensors atomically; returns the SHA-256 of the file."""
    content = save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, metadata)
    write_bytes(path, content)
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Tensors by name, on the CPU.  Call `intact` first."""
    return load_file(path)


def intact(path: Path, sha256: str) -> bool:
    """Is the file there, whole and unaltered?"""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Append one JSON line and force it to disk."""
    try:
        with open(path, "a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON-lines file; a last line cut short by a kill is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for writing.  The lock dies with the process, however it dies; a second writer is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise InputError(
                f"{folder}: another process (pid {owner}) is writing this run; wait for it to end"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
