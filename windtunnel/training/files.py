"""Writing that cannot leave half a file: temporary file, fsync, rename; and a checksum for what is read back."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from windtunnel.errors import InputError, require

_PACKED = "windtunnel"  # the entry of a safetensors file's metadata that holds several


class Damaged(InputError):
    """A file that can be read holds something else than it should."""


def require_path(field: str, value: object) -> Path:
    """A path that was given as one.  An empty word is none, though to Python it is the current folder; nor is one that
    safetensors cannot open, and would call damaged."""
    require(isinstance(value, str | Path) and value != "", field, value, "a path, e.g. 'runs/first'")
    path = Path(cast(str | Path, value))
    try:
        os.fsencode(path).decode()
    except UnicodeError:
        raise InputError(f"{field} = {str(path)!r}: must be a path in UTF-8") from None
    return path


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file as a whole, or leave it as it was.  A full disk is told in one line."""
    temporary = _temporary(path)
    try:
        _fill(temporary, content)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as error:  # Ctrl-C too
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise unwritable(path, len(content), error) from None
        raise


def require_writable(path: Path) -> None:
    """Raise now what `write_bytes` would raise later: asked before long work, whose result must have a place."""
    _try_to_write(path, path)


def require_writable_folder(folder: Path) -> None:
    """The same for a folder that will get files whose names are not known yet."""
    _try_to_write(folder / "any", folder)


def _try_to_write(path: Path, told: Path) -> None:
    """With an empty file, which is gone again; so are folders made for it, since the work may yet have no result."""
    try:
        temporary = _temporary(path)
        missing = [folder for folder in path.parents if not folder.exists()]  # the innermost first
        try:
            _fill(temporary, b"")
        finally:
            for remove in (temporary.unlink, *(folder.rmdir for folder in missing)):
                with contextlib.suppress(OSError):  # never made, or somebody else uses it by now
                    remove()
    except OSError as error:
        raise unwritable(told, 0, error) from None


def _temporary(path: Path) -> Path:
    """The file that is written first, beside the one that is wanted; every process has its own, as two that write the
    same page would rename each other's half of it."""
    if path.exists() and not path.is_file():  # to replace a device such as /dev/null would break the machine
        raise InputError(f"{path}: cannot be written (it exists and is not a regular file)")
    return path.with_name(f"{path.name}.{os.getpid()}.tmp")


def _fill(temporary: Path, content: bytes) -> None:
    temporary.parent.mkdir(parents=True, exist_ok=True)
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def unwritable(path: Path, size: int, error: OSError) -> InputError:
    """The one line for a write that failed."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(
            f"disk full while writing {path} ({size / 2**20:.1f} MiB): what was there before is intact; "
            "free some space and run the same command again"
        )
    why = "there is a file where a folder must be" if isinstance(error, FileExistsError) else error.strerror
    return InputError(f"{path}: cannot be written ({why})")


def write_json(path: Path, content: Any) -> None:
    """JSON, atomically."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Parsed JSON; a missing or broken file is told in one line."""
    try:
        return json.loads(path.read_text("utf-8-sig"))  # whatever the locale; an editor may have put a mark before it
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path}: must be JSON, but is damaged ({error})") from None


def read_versioned(path: Path, version: int) -> dict[str, Any]:
    """A JSON record of this format version; another version is told, and who wrote it."""
    record = read_json(path)
    plain = record if isinstance(record, dict) else {}
    found, made = plain.get("format"), plain.get("windtunnel", "unknown")
    if found != version:
        raise InputError(f"{path.parent}: format = {found!r}, made by windtunnel {made}: must be format {version}")
    return plain


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    """Write safetensors atomically; returns the SHA-256 of the file.

    Several metadata go into one entry as JSON: of more entries safetensors writes them in any order, and equal files
    must be equal to the last byte.
    """
    if len(metadata) > 1:
        metadata = {_PACKED: json.dumps(metadata, sort_keys=True)}
    # Copies: a network may tie weights, and safetensors takes no two tensors over one memory.
    content = save(
        {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}, metadata
    )
    write_bytes(path, content)
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Tensors by name, on the CPU.  Call `intact` first."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise InputError(f"{path}: must be safetensors, but is damaged ({error})") from None


def stored_metadata(path: Path) -> dict[str, str]:
    """The metadata that `write_tensors` was told, of a whole file; none where it cannot be read."""
    try:
        with safe_open(path, "pt") as file:  # also looks whether the file is as long as its tensors are
            found = file.metadata() or {}
        packed = json.loads(found.pop(_PACKED, "{}"))
    except (SafetensorError, OSError, ValueError):
        return {}
    return found | packed if isinstance(packed, dict) else found


def stored_step(path: Path) -> int | None:
    """The step among them; None where it is not told."""
    try:
        return int(stored_metadata(path)["step"])
    except (LookupError, ValueError):
        return None


def intact(path: Path, sha256: str) -> bool:
    """Is the file there, whole and unaltered?"""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
