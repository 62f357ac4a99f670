"""Every test that needs a GPU, several files side by side: they compile most of the time, and nothing is measured.

    python benchmarks/gpu_tests.py [--only training/test_bfloat16,models/test_fitting] [--workers 8] [--out FILE]

Each file is a process of its own; those that compile longest begin first, cut in two.  What a process said is kept as
soon as it ends, so that a sitting which is cut short has what was done until then.  Files are named one by one because
some others cannot even be imported on a bare image: they want hypothesis, or the command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common import Parser, place, run, whole

from windtunnel.environment import environment, require_device, thread_limits
from windtunnel.errors import InputError, require_choice
from windtunnel.training.files import write_bytes

ROOT = Path(__file__).resolve().parent.parent
ASKING = ("pytest.mark.gpu", "every_device", "kernel_device", "core_device")  # how a test asks for a GPU
# What takes longest, first; a word tells the tests of one half from those of the other.
CUT = {"training/test_bfloat16": "gradient", "training/test_gpu": "captured", "models/test_paths": "compiled"}
NOTHING_CHOSEN = 5  # pytest's exit code


def files() -> dict[str, Path]:
    """Those with tests for a GPU, by their names."""
    places = [path for path in sorted((ROOT / "tests").rglob("*/test_*.py")) if _asks(path)]
    found = {str(path.relative_to(ROOT / "tests").with_suffix("")): path for path in places}
    return {name: found[name] for name in sorted(found, key=lambda name: name not in CUT)}


def _asks(path: Path) -> bool:
    text = path.read_text()
    return any(word in text for word in ASKING)


def words_for(name: str) -> list[list[str]]:
    """For one pytest, or for two that share a file."""
    file = f"tests/{name}.py"
    return [[file, "-k", CUT[name]], [file, "-k", f"not {CUT[name]}"]] if name in CUT else [[file]]


def tested(words: list[str], env: dict[str, str]) -> tuple[bool, str]:
    """Whether one pytest passed, and what it said."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    said = f"$ python -m pytest -q -m gpu {' '.join(words)}\n{done.stdout}"
    return done.returncode in (0, NOTHING_CHOSEN), anywhere(said)


def anywhere(said: str) -> str:
    """What was said without the folders of this machine: those of the sources and of the environment."""
    return said.replace(f"{ROOT}/", "").replace(sys.prefix, ".venv")


def main() -> None:
    parser = Parser(description="The tests that need a GPU, side by side.")
    parser.add_argument("--only", default="", help="files, as training/test_bfloat16, separated by commas")
    parser.add_argument("--workers", type=whole(1), default=8)
    parser.add_argument("--out", type=place, default=None, help="file for what they say")
    options = parser.parse_args()
    known = files()
    names = options.only.split(",") if options.only else list(known)
    for name in names:
        require_choice("--only", name, known)
    told = [_heading(environment(require_device("cuda")), options.workers)]
    start, failed, parts = time.perf_counter(), [], [words for name in names for words in words_for(name)]
    env = os.environ | thread_limits(options.workers)
    with ThreadPoolExecutor(options.workers) as pool:
        waiting = {pool.submit(tested, words, env): " ".join(words) for words in parts}
        for done in as_completed(waiting):
            passed, said = done.result()
            told.append(said)
            if options.out is not None:
                write_bytes(options.out, "".join(told).encode())
            print(f"{waiting[done]}: {said.strip().splitlines()[-1]}" if passed else said, flush=True)
            if not passed:
                failed.append(waiting[done])
    print(f"{len(parts) - len(failed)} of {len(parts)} passed in {time.perf_counter() - start:.0f} s")
    if failed:
        raise InputError(f"failed: {'; '.join(failed)}; what they said is above")


def _heading(where: Any, workers: int) -> str:
    machine = f"{where['device']}, torch {where['versions']['torch']}, Python {where['python']}"
    return f"# {machine}, commit {where['commit']}, {datetime.now(UTC):%Y-%m-%d}: {workers} processes at once\n"


if __name__ == "__main__":
    run(main)
