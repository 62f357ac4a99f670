"""A headless Chromium: the system's, else the one that Playwright installed for itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NONE = "no Chromium here: `make browser` installs one (or name yours in WINDTUNNEL_BROWSER)"


def find() -> str | None:
    """Path of a Chromium, or None."""
    given = os.environ.get("WINDTUNNEL_BROWSER")
    if given:
        return given
    for name in NAMES:
        if path := shutil.which(name):
            return path
    caches = [Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))]
    found = [path for cache in caches for path in sorted(cache.glob("chromium*/chrome-linux*/*")) if path.is_file()]
    return next(
        (str(path) for path in found if path.name in ("chrome", "headless_shell", "chrome-headless-shell")), None
    )


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of that kind, closed afterwards."""
    from playwright.sync_api import sync_playwright

    path = find()
    if path is None:
        raise SystemExit(NONE)
    with sync_playwright() as playwright:
        # As root, as in a container, Chromium starts only without its sandbox; it opens nothing but our own file.
        alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=alone)
        try:
            yield browser
        finally:
            browser.close()
