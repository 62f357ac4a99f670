"""Everything that an installation for development brings along is pinned, so that two of them are the same."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("dev", "export")  # what `make setup` installs
OF_A_GPU = re.compile(r"nvidia-|cuda-|triton")  # come with one build of torch and not with another


def named(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def needed(package: str, extras: tuple[str, ...], found: set[str]) -> set[str]:
    """Names of all that a package needs here, directly or not."""
    try:
        wanted = [Requirement(line) for line in requires(package) or ()]
    except PackageNotFoundError:
        return found
    for one in wanted:
        applies = one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (*extras, ""))
        if applies and named(one.name) not in found and not OF_A_GPU.match(one.name):
            found.add(named(one.name))
            needed(one.name, tuple(one.extras), found)
    return found


def test_every_package_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {named(line.partition("==")[0]) for line in lines if "==" in line}
    found = needed("windtunnel", EXTRAS, set())
    assert found >= {"torch", "hatchling", "pytest", "pyarrow"}
    assert not sorted(found - pinned)
