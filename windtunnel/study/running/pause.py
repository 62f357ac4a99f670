"""Why a sitting leaves off in the middle of a cell."""

from __future__ import annotations


class OutOfTime(Exception):
    """The time given is over; everything is saved."""


class Waits(Exception):
    """A cell cannot be made before another one is; the message names both."""
