"""What all tests share: how hypothesis searches, where GPU tests are skipped, how Triton kernels run without one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest
import torch

if find_spec("triton") is not None and not torch.cuda.is_available():
    # Read as Triton is imported, which anything may do; `tests/models/conftest.py` says what for.
    os.environ["TRITON_INTERPRET"] = "1"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell hands it down so to what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(1)  # as under `make test`: seeds go one after the other unless a test asks for `threads`

try:
    from hypothesis import settings
except ImportError:  # a bare GPU image: its tests use no hypothesis
    pass
else:
    # No deadline: a shared machine is slow now and then, and speed is no property under test.
    # In continuous integration the examples are the same in every run, so that a red run can be repeated.
    settings.register_profile("windtunnel", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI")))
    settings.load_profile("windtunnel")


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads torch may use; put back after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not torch.cuda.is_available():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_terminal_summary(terminalreporter) -> None:
    """Print what tests measured and want told: `record_property("told", line)`.  Works across processes."""
    for report in terminalreporter.stats.get("passed", []):
        for name, line in report.user_properties:
            if name == "told":
                terminalreporter.write_line(line)
