"""`kill -9` at any moment, then the same call again: the run ends as if nothing had happened, bit for bit."""

from __future__ import annotations

import random

import pytest

from tests.training.cases import BIJECTION, SMALL_HMM, contents, tiny
from tests.training.zygote import EVENTS, Zygote

RECIPE = tiny(validation_episodes=4)  # 6 steps: resumable at 2, 4, 6; ladder 1, 2, 6


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as process:
        yield process


@pytest.fixture(scope="module")
def whole(zygote, tmp_path_factory):
    """The same run without interruption, and how many events of each kind it has."""
    folder = tmp_path_factory.mktemp("whole")
    reply = zygote.train(RECIPE, folder)
    assert reply["error"] is None
    return contents(folder), reply["counts"]


@pytest.mark.parametrize("event", EVENTS)
def test_a_kill_at_every_write_rename_and_removal_loses_nothing(zygote, whole, tmp_path, event):
    expected, counts = whole
    assert counts[event] >= (1 if event == "unlink" else 12)
    for at in range(1, counts[event] + 1):
        folder = tmp_path / str(at)
        assert zygote.train(RECIPE, folder, fault=(event, at))["killed"]
        assert zygote.train(RECIPE, folder)["error"] is None
        found = contents(folder)
        assert found.keys() == expected.keys(), f"files differ after a kill at {event} {at}"
        assert found == expected, f"contents differ after a kill at {event} {at}"
