"""`python -m windtunnel.report DIR`: make the exhibits of a results folder, and nothing else.

For the machine that has the trained networks but only torch; `windtunnel report DIR` anywhere then makes the page.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from windtunnel.environment import default_device, require_device
from windtunnel.errors import InputError
from windtunnel.report.exhibit import gather, tell_left_out
from windtunnel.report.subjects import of_runs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m windtunnel.report", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--device", default=default_device())
    options = parser.parse_args()
    try:
        device = require_device(options.device)
        subjects, damaged = of_runs([options.folder / "runs"], device)
        found, refused = gather(options.folder, subjects, device, _say, must_keep=True)
        tell_left_out(damaged | refused, _say)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(found)} exhibits in {options.folder / 'exhibits'}")
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
