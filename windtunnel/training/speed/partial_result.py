"""A result while it is measured: FILE.part, which takes no earlier FILE away and is gone when the whole is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windtunnel.training.files import write_json


class PartialResult:
    """Where a result is kept: FILE, and FILE.part until it is whole; nowhere if no file was asked for.

    part   FILE.part once this measurement has written it; None before, whatever an earlier one may have left there
    """

    def __init__(self, file: Path | None) -> None:
        self.file, self.part = file, None

    def rows(self, result: dict[str, Any]) -> None:
        """Keep the rows so far."""
        if self.file is not None:
            part = self.file.with_name(f"{self.file.name}.part")
            write_json(part, result)
            self.part = part

    def whole(self, result: dict[str, Any]) -> None:
        """Keep the result, in the place of its part."""
        if self.file is not None:
            write_json(self.file, result)
            if self.part is not None:
                self.part.unlink(missing_ok=True)
