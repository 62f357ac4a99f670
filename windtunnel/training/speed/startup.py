"""From a new process to its first training step, and what compilation adds: each measured in processes of their own.

Nothing is patched.  A child trains one step with a validation after it and says so on a line; the clock stops when
that line arrives.  Two validations of the quick preset (one before the step, one after) are therefore in the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from typing import Any

from windtunnel.models.compiled import CompilationFailed

_QUICK = ["bijection", "transformer", "--symbols", "8", "--length", "8", "--preset", "quick"]

_LIBRARY = """
import windtunnel as wt

class Lines:
    def start(self, recipe, folder): pass
    def log(self, seed, record): print(f"step {record['step']}/1", flush=True)
    def finish(self): pass

tunnel = wt.tunnels.Bijection(symbols=8, length=8)
wt.train(tunnel, "transformer", preset="quick", steps=1, validate_every=1, device="DEVICE", tracker=Lines())
"""

_COMPILE = """
import sys, time
from windtunnel.models.compiled import CompilationFailed, must_compile
from windtunnel.training.network import Network
from windtunnel.training.speed.cases import cases
from windtunnel.training.speed.rates import engine_for

device, name = sys.argv[1:]
recipe = cases(device)[name]
start = time.perf_counter()
try:
    if device == "cpu":
        with must_compile():
            network = Network(recipe, 0, device)
            network.compile()
            network.advance()
    else:
        engine_for(recipe, device)
except CompilationFailed as error:
    sys.exit(str(error))
print(time.perf_counter() - start, flush=True)
"""


def startup_times(device: str, repeats: int, limit_s: float) -> list[dict[str, Any]]:
    """Seconds from the start of a process: torch's own import, then to the first step by library and command line.

    The best of some repeats, in turns.  The first import on a machine also reads files from disk; a repeat does not.
    """
    commands = {
        "import torch": ([sys.executable, "-c", "import torch; print('step 1/1', flush=True)"], ""),
        "library: first step": ([sys.executable, "-c", _LIBRARY.replace("DEVICE", device)], ""),
    }
    if find_spec("tyro") is not None:  # a bare image has the library only
        words = ["train", *_QUICK, "--steps", "1", "--validate-every", "1", "--device", device, "--out"]
        commands["windtunnel train: first step"] = ([sys.executable, "-m", "windtunnel", *words], "run")
    times: dict[str, list[float]] = {name: [] for name in commands}
    deadline = time.monotonic() + limit_s
    for repeat in range(repeats):
        if repeat and time.monotonic() > deadline:
            break
        for name, (command, folder) in commands.items():
            with tempfile.TemporaryDirectory() as place:
                times[name].append(seconds_to_line([*command, os.path.join(place, folder)] if folder else command))
    torch_s = min(times["import torch"])
    return [
        {"what": name, "seconds": min(taken), "beyond_torch_s": min(taken) - torch_s, "repeats": len(taken)}
        for name, taken in times.items()
    ]


def seconds_to_line(command: list[str], mark: str = "step 1/1") -> float:
    """Seconds from starting a process until it writes a line with `mark` in it; the process is then left to end."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        assert child.stdout is not None
        said, found = [], None
        for line in child.stdout:
            said.append(line)
            if found is None and mark in line:
                found = time.perf_counter() - start
    if found is None:
        told = " ".join("".join(said).split())[-400:]
        raise CompilationFailed(f"{' '.join(command[:3])} … never said {mark!r}: {told}")
    return found


def compile_times(device: str, case: str, limit_s: float) -> list[dict[str, Any]]:
    """Seconds to build, compile and take the first step (on a GPU: and to capture it), with an empty cache and then
    with the one just filled; each in a process of its own.  A part that does not fit into the limit is left out; if
    compilation fails, a `CompilationFailed` says why in one line."""
    rows: list[dict[str, Any]] = []
    deadline = time.monotonic() + limit_s
    with tempfile.TemporaryDirectory() as cache:
        places = {"TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor", "TRITON_CACHE_DIR": f"{cache}/triton"}
        for state in ("cold", "warm"):
            command = [sys.executable, "-c", _COMPILE, device, case]
            left = deadline - time.monotonic()
            try:
                done = subprocess.run(
                    command, env=os.environ | places, capture_output=True, text=True, timeout=max(1.0, left)
                )
            except subprocess.TimeoutExpired:
                break
            if done.returncode != 0:
                mute = f"its process ended without a word, with {done.returncode}"  # as one that is killed for memory
                raise CompilationFailed((done.stderr.strip() or mute).splitlines()[-1])
            rows.append({"case": case, "cache": state, "seconds": float(done.stdout.split()[-1])})
    return rows
