"""A page in a real browser, with everything it says and asks for."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


class Watched:
    """A page that is open.  said: the console and errors;  asked: addresses of all requests;  failed: why some did."""

    def __init__(self, browser, path: Path, **options: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, reduced_motion="reduce", **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.failed: dict[str, str | None] = {}
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("requestfailed", lambda request: self.failed.update({request.url: request.failure}))
        self.url = path.as_uri()
        self.page.goto(self.url)
        self.page.wait_for_selector("#stepper[data-ready=yes]")

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    @property
    def left(self) -> set[str]:
        """Requests that left the file."""
        return {url for url in self.asked if not url.startswith(("data:", "blob:"))} - {self.url}

    def draw(self, chart: str) -> Any:
        """Scroll to a chart and wait until it is drawn."""
        figure = self.page.locator(f"#chart-{chart}")
        figure.scroll_into_view_if_needed()
        self.page.wait_for_function("figure => figure.dataset.drawn", arg=figure.element_handle())
        return figure

    def draw_all(self) -> None:
        """Every chart of the page."""
        for figure in self.page.locator("[data-chart]").all():
            self.draw(figure.get_attribute("data-chart"))

    def redrawn(self, charts: str | Sequence[str], change: Any) -> None:
        """Do something that has one or more charts drawn again, and wait for all of them."""
        names = [f"#chart-{chart}" for chart in ([charts] if isinstance(charts, str) else charts)]
        before = [self.page.locator(name).get_attribute("data-drawn") for name in names]
        change()
        self.page.wait_for_function(
            "([names, before]) => names.every((name, i) => document.querySelector(name).dataset.drawn !== before[i])",
            arg=[names, before],
        )

    def csv(self, button: str) -> list[list[str]]:
        """The rows of a download, the names of its columns first."""
        with self.page.expect_download() as waiting:
            self.page.locator(button).click()
        text = waiting.value.path().read_text(encoding="utf-8")
        self.page.wait_for_timeout(110)  # Chromium takes at most ten downloads a second
        return list(csv.reader(io.StringIO(text)))


def same(told: list[list[str]], columns, rows) -> None:
    """A downloaded CSV against the table in Python: words equal, numbers to six digits."""
    assert told[0] == list(columns)
    assert len(told) - 1 == len(rows)
    for found, expected in zip(told[1:], rows, strict=True):
        for a, b in zip(found, expected, strict=True):
            if isinstance(b, int | float) and not isinstance(b, bool):
                assert float(a) == pytest.approx(b, rel=1e-5, abs=1e-300)
            else:
                assert a == ("" if b is None else str(b))


def shown_number(text: str) -> float:
    """A number as the page writes it.

    >>> shown_number("0.0136"), shown_number("2.03 × 10⁻⁵")
    (0.0136, 2.03e-05)
    """
    figures, _, power = text.replace("−", "-").partition(" × 10")
    return float(figures + (f"e{power.translate(_RAISED)}" if power else ""))
