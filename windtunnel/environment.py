"""Where a number was made: versions, device, commit.  Every committed result carries this record."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.errors import InputError

if TYPE_CHECKING:  # `import windtunnel` must not load it
    import torch

_PACKAGES = ("windtunnel", "torch", "numpy", "scipy", "safetensors", "triton")
_MOST_THREADS = 4


def environment(device: str = "cpu") -> dict[str, object]:
    """A JSON-able record of the machine, the versions and the commit (with `-dirty` for uncommitted changes)."""
    import torch

    record: dict[str, object] = {
        "device": torch.cuda.get_device_name(device) if str(device).startswith("cuda") else _cpu_name(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": platform.system(),
        "commit": commit(),
    }
    record["versions"] = {name: version for name in _PACKAGES if (version := _version(name))}
    return record


def thread_limits(processes: int = 1) -> dict[str, str]:
    """Environment for so many processes at once on this machine; what the user has set stays as it is.

    NumPy starts a thread for every core in every process; for the small matrices of the instruments more than a few
    only hinder one another.  Threads that spin while they wait bring two processes on few cores almost to a stop.
    Libraries read these when they are imported.
    """
    fair = str(max(1, min(_MOST_THREADS, cores() // processes)))
    limits = {"OPENBLAS_NUM_THREADS": fair, "OMP_WAIT_POLICY": "PASSIVE"}
    if processes > 1:
        limits |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"), fair)
    return {name: value for name, value in limits.items() if os.environ.get(name) in (None, _set_here.get(name))}


_set_here: dict[str, str] = {}  # by `limit_threads`: not the user's word


def limit_threads() -> None:
    """Set them for this process; to be called before torch and NumPy are imported."""
    limits = thread_limits()
    _set_here.update(limits)
    os.environ.update(limits)


def cores() -> int:
    """How many CPU cores this process may run on.  (A container's quota of processor time is another matter.)"""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_device() -> str:
    """A GPU if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def require_device(device: str | torch.device) -> str:
    """The device by its name, if it is here; one line otherwise."""
    import torch

    given = str(device) if isinstance(device, torch.device) else device
    try:
        wanted = torch.device(given) if isinstance(given, str) else None  # of a number torch would make a GPU
    except RuntimeError:
        wanted = None
    if wanted in (torch.device("cpu"), torch.device("cpu:0")):  # the same, in torch's own words
        return "cpu"
    if wanted is None or wanted.type != "cuda":
        raise InputError(f"device = {given!r}: must be cpu, cuda or cuda:N")
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (wanted.index or 0) >= found:
        last = "cuda or cuda:0" if found == 1 else f"cuda:0 to cuda:{found - 1}"
        seen = f"cpu, or {last} ({found} GPU{'s' * (found != 1)} here)" if found else "cpu: torch sees no GPU here"
        raise InputError(f"device = {given!r}: must be {seen}")
    return given


def commit() -> str | None:
    """What WINDTUNNEL_COMMIT says, for a copied tree that has no history or another's; else the commit of the source
    tree that this package runs from."""
    if told := os.environ.get("WINDTUNNEL_COMMIT"):
        return told
    here = Path(__file__).resolve().parent
    try:
        if not (here.parent / ".git").exists():
            raise OSError("not a source tree")
        text = _git("rev-parse", "--short=12", "HEAD", cwd=here)
        return text + ("-dirty" if _git("status", "--porcelain", cwd=here) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str, cwd: Path) -> str:
    return subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def _version(package: str) -> str | None:
    if package == "windtunnel":
        from windtunnel import __version__

        return __version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
