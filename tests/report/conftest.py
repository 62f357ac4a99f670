"""A results folder and its page, made once for all processes of a test run; they must not be written to."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.browser import NONE, chromium, find
from tests.report.demo import make_demo
from tests.report.scale import make_scale
from tests.report.watched import Watched
from windtunnel.report import Asked, Source, read, write_page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find() is None:
        for item in items:
            if "page" in getattr(item, "fixturenames", ()) or "browser" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason=NONE))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory, worker_id) -> Callable[[Callable[[Path], Path]], Path]:
    """Make a study and its `report.html`, in a folder named after the function that makes it."""
    base = tmp_path_factory.getbasetemp()

    def make(study: Callable[[Path], Path]) -> Path:
        folder = (base if worker_id == "master" else base.parent) / study.__name__
        folder.parent.mkdir(exist_ok=True)
        with open(folder.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the first process makes it, the others wait
            if not (folder / "report.html").exists():
                study(folder)
                found = read(folder, with_zoo=False, asked=Asked(options=["--no-zoo"]))
                write_page(found, folder / "report.html")
        return folder

    return make


@pytest.fixture(scope="session")
def demo(made_once) -> Path:
    """The demo study with its exhibits and its page."""
    return made_once(make_demo)


@pytest.fixture(scope="session")
def scale(made_once) -> Path:
    """A study of the `paper` preset's extent, with made-up numbers, and its page."""
    return made_once(make_scale)


@pytest.fixture(scope="session")
def source(demo) -> Source:
    """The demo study as the page reads it."""
    return read(demo, with_zoo=False)


@pytest.fixture
def scratch(demo, tmp_path) -> Path:
    """A copy of the demo study that a test may spoil."""
    return Path(shutil.copytree(demo, tmp_path / "study"))


@pytest.fixture(scope="session")
def browser() -> Iterator:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def watched(browser, demo) -> Iterator[Watched]:
    """The demo page on a laptop, open for a whole test file."""
    with Watched(browser, demo / "report.html", viewport={"width": 1440, "height": 900}) as found:
        yield found


@pytest.fixture
def page(watched):
    return watched.page
