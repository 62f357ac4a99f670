"""A process that has torch loaded and forks: a training that may be killed costs a tenth of a second, not three.

    with Zygote() as zygote:
        zygote.train(recipe, out)                                    # to the end
        zygote.train(recipe, out, fault=("renamed", 5))              # dies right after the 5th rename
        zygote.train(recipe, out, fault=("time", 0.05))              # kill -9 from outside, 50 ms after the first step

A fault kills with SIGKILL inside the child, at the n-th event of its kind (counted from 1):
    torn      half of a write has reached the file
    synced    a temporary file is complete, not yet renamed
    renamed   the rename has happened, nothing after it
    unlink    just before a file is removed
Other faults: ("SIGTERM", n) or ("SIGINT", n) sends that signal to the child itself during its n-th step.
"""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

EVENTS = ("torn", "synced", "renamed", "unlink")


class Zygote:
    """The test's side of it."""

    def __enter__(self) -> Zygote:
        command = [sys.executable, str(Path(__file__).resolve())]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def train(self, recipe: Any, out: Path, *, fault: tuple[str, float] | None = None, **options: Any) -> dict:
        """How a training in a child ended: `killed`; or else `error`, what was `said`, and `counts` of events."""
        task = {"recipe": recipe.to_dict(), "out": str(out), "fault": fault, "options": options}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


# --- the other side
def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(kind: str | None, at: float) -> dict[str, int]:
    """Count what happens to files, and die at the chosen event."""
    from windtunnel.training import files

    counts = dict.fromkeys(EVENTS, 0)

    def happens(event: str) -> bool:
        counts[event] += 1
        return event == kind and counts[event] == at

    replace, unlink = os.replace, os.unlink

    def dying_replace(*arguments: Any) -> None:
        if happens("synced"):
            _die()
        replace(*arguments)
        if happens("renamed"):
            _die()

    def dying_unlink(*arguments: Any, **options: Any) -> None:
        if happens("unlink"):
            _die()
        unlink(*arguments, **options)

    def tearing_open(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        file = builtins.open(path, mode, *arguments, **options)  # noqa: SIM115
        if Path(path).name == "lock" or mode.startswith("r"):
            return file
        write = file.write

        def torn_write(content: Any) -> int:
            if happens("torn"):
                write(content[: len(content) // 2])
                file.flush()
                _die()
            return write(content)

        file.write = torn_write  # type: ignore[method-assign]
        return file

    os.replace, os.unlink = dying_replace, dying_unlink
    files.open = tearing_open  # type: ignore[attr-defined]
    return counts


def _child(task: dict[str, Any], pipe: int) -> None:
    from windtunnel.training import Recipe, train
    from windtunnel.training.network import Network

    kind, at = task["fault"] or (None, 0)
    counts, said = _arm(kind, at), []
    advance, taken = Network.advance, 0

    def watched_advance(network: Network) -> None:
        nonlocal taken
        taken += 1
        if kind == "time" and taken == 1:  # the clock starts with the first step, wherever this sitting begins
            os.write(pipe, b"\n")
        if kind is not None and kind.startswith("SIG") and taken == at:
            os.kill(os.getpid(), signal.Signals[kind])
        advance(network)

    Network.advance = watched_advance
    error = None
    try:
        recipe = Recipe.from_dict(task["recipe"])
        train(recipe=recipe, out=task["out"], device="cpu", say=said.append, **task["options"])
    except BaseException as problem:
        error = f"{type(problem).__name__}: {problem}"
    os.write(pipe, json.dumps({"killed": False, "error": error, "said": said, "counts": counts}).encode())


def _fork(task: dict[str, Any]) -> dict[str, Any]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _child(task, writer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as results:
        first = b""
        if task["fault"] and task["fault"][0] == "time":
            first = results.readline()  # empty line at the first step; or the whole reply, if there was no step to take
            time.sleep(task["fault"][1])
            os.kill(child, signal.SIGKILL)  # a child that has just ended is still ours to wait for: no other is hit
        text = first + results.read()
    _, status = os.waitpid(child, 0)
    return {"killed": True} if os.WIFSIGNALED(status) else json.loads(text)


def _serve() -> None:
    import torch

    import windtunnel.training.sitting as sitting
    from windtunnel.training import train
    from windtunnel.tunnels import Bijection

    torch.set_num_threads(2)  # seeds go side by side in twos
    here = sitting.environment("cpu")  # asks git: once is enough
    sitting.environment = lambda device: here
    train(Bijection(4, 4), "mlp", depth=1, width=8, steps=1, optimiser="muon", device="cpu")  # what loads lazily
    for line in sys.stdin:
        print(json.dumps(_fork(json.loads(line))), flush=True)


if __name__ == "__main__":
    _serve()
