"""Ctrl-C, SIGTERM and a lost terminal ask training to stop.  (That one in mid-training saves: in `test_resume.py`.)"""

from __future__ import annotations

import signal
import threading

import pytest

from tests.training.cases import tiny
from windtunnel.training import Interrupted, train
from windtunnel.training.network import Network
from windtunnel.training.signals import StopRequest


@pytest.fixture
def usual_hang_up():
    """As without nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noted_and_the_old_handlers_come_back(number, usual_hang_up):
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with StopRequest() as stop:
        assert not stop.requested
        assert signal.getsignal(number) != before[number]
        signal.raise_signal(number)
        assert stop.requested
        # a second signal would act as it did before us
        assert {n: signal.getsignal(n) for n in before} == before
        with pytest.raises(Interrupted) as error:
            stop.raise_if_interrupted(None)
        assert error.value.code == 128 + number
        assert str(error.value) == f"stopped by {number.name}; nothing was kept: no folder"
    assert {n: signal.getsignal(n) for n in before} == before


def test_under_nohup_a_lost_terminal_is_no_wish(usual_hang_up):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.requested
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_without_a_signal_nothing_is_raised_and_handlers_come_back():
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        stop.raise_if_interrupted(None)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def usual_ctrl_c():
    """Python's own handler, also where the tests were started in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_second_ctrl_c_acts_at_once(usual_ctrl_c):
    with StopRequest():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as error:
            signal.raise_signal(signal.SIGINT)
    assert not isinstance(error.value, Interrupted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupted_is_no_ordinary_error():
    """`except Exception` must not swallow the wish to stop."""
    assert issubclass(Interrupted, KeyboardInterrupt) and not issubclass(Interrupted, Exception)


def test_training_works_outside_the_main_thread():
    runs = []
    thread = threading.Thread(target=lambda: runs.append(train(recipe=tiny(steps=2), device="cpu")))
    thread.start()
    thread.join()
    assert runs and runs[0].finished


def test_a_signal_ends_training_in_memory_and_the_tracker_hears_it(monkeypatch):
    from tests.training.test_trackers import Listener

    advance, listener = Network.advance, Listener()

    def interrupting(network):
        if int(network.step) == 2:
            signal.raise_signal(signal.SIGTERM)
        advance(network)

    monkeypatch.setattr(Network, "advance", interrupting)
    with pytest.raises(Interrupted, match="stopped by SIGTERM; nothing was kept: no folder"):
        train(recipe=tiny(), tracker=listener, device="cpu")
    assert listener.calls[-1] == ("finish",)
