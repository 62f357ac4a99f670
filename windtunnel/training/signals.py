"""Ctrl-C, SIGTERM or a lost terminal ask training to stop: it finishes its step, saves everything, and ends."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop and has saved its state.  `code` is what a program should exit with."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.code = 128 + number


class StopRequest:
    """While entered, a signal sets `requested`; a second one acts at once, as it would without us."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self.number is not None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue  # under nohup a lost terminal asks for nothing
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, _: FrameType | None) -> None:
        self.number = number
        self._restore()

    def raise_if_interrupted(self, folder: Path | None) -> None:
        """Tell the caller that a signal, not the recipe, ended training."""
        if self.number is not None:
            kept = (
                f"saved in {folder}; run the same command again to resume" if folder else "nothing was kept: no folder"
            )
            raise Interrupted(f"stopped by {signal.Signals(self.number).name}; {kept}", self.number)
