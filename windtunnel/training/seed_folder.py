"""Checkpoints and metrics of one seed, a folder in that of its run.

The list is there before the first weights, and weights are on disk before the list names them, so a kill at any moment
leaves a folder that can go on.  Weights without a list are not written over (`lost_list`): no kill leaves them.  Every
such file says whose it is: step, seed, a digest of the recipe.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from windtunnel.errors import InputError
from windtunnel.json_numbers import from_json, is_json_number, record_to_json
from windtunnel.training import same_code
from windtunnel.training.files import (
    Damaged,
    intact,
    read_json,
    read_tensors,
    stored_metadata,
    write_bytes,
    write_json,
    write_tensors,
)
from windtunnel.training.json_lines import append_line, read_lines
from windtunnel.training.lost_checkpoints import EARLIER, LIST, PATTERNS, identity, listing, strangers
from windtunnel.training.recipe import Recipe

TRAINED = (LIST, "metrics.jsonl", *PATTERNS.values())  # what training leaves here
_KEPT = 2  # resumable states: should the last be damaged, the one before it is intact


class SeedFolder:
    """Checkpoints and metrics of one seed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _list(self) -> dict[str, list[dict[str, Any]]]:
        path = self.path / LIST
        if not path.exists():
            return {"ladder": [], "resume": []}
        way_out = f"remove it, and {EARLIER} rebuilds it from the files next to it"
        try:
            listed = read_json(path)
        except Damaged as error:  # one that cannot be read may be as good as ever
            raise InputError(f"{error}; {way_out}") from None
        if not _is_list_of_checkpoints(listed):
            raise InputError(f"{path}: must list checkpoints by step, file and sha256, but is damaged; {way_out}")
        return listed

    # --- writing
    def save_weights(
        self, step: int, weights: dict[str, Tensor], recipe: Recipe | None = None, predictions: str = ""
    ) -> None:
        """A rung of the ladder, the recipe that it is of, and what the weights predict (`same_code`)."""
        self._save("ladder", f"step-{step:08d}.safetensors", step, weights, recipe, predictions)

    def save_state(
        self, step: int, state: dict[str, Tensor], recipe: Recipe | None = None, predictions: str = ""
    ) -> None:
        """A state to resume from.  The oldest beyond two is removed, after the new one is safe."""
        self._save("resume", f"resume-{step:08d}.safetensors", step, state, recipe, predictions)
        kept = {entry["file"] for entry in self._list()["resume"]}
        for path in self.path.glob("resume-*.safetensors"):  # also what a kill at this very point once left behind
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def _save(
        self,
        kind: str,
        file: str,
        step: int,
        tensors: dict[str, Tensor],
        recipe: Recipe | None,
        predictions: str,
    ) -> None:
        listed = self._list()
        if not (self.path / LIST).exists():  # first of all: weights without it are then no kill's, see `lost_list`
            write_json(self.path / LIST, listed)
        whose = {} if recipe is None else identity(self.path, recipe)
        shown = {same_code.NAME: predictions} if predictions else {}
        sha256 = write_tensors(self.path / file, tensors, {"step": str(step), **whose, **shown})
        kept = [entry for entry in listed[kind] if entry["step"] != step]
        kept = sorted([*kept, {"step": step, "file": file, "sha256": sha256}], key=lambda entry: entry["step"])
        listed[kind] = kept[-_KEPT:] if kind == "resume" else kept
        write_json(self.path / LIST, listed)

    def forget_after(self, step: int) -> None:
        """Drop metrics and rungs beyond a step: training goes on from there and will write them again.

        The list is cut first.  A kill in between then leaves metrics beyond it, as any kill after a validation does,
        and the next sitting cuts them; the other way round there would be a state whose validation is lost.
        Temporary files of a killed sitting go too.
        """
        for path in self.path.glob("*.tmp"):
            path.unlink(missing_ok=True)
        listed, records = self._list(), [record for record in self.metrics() if record["step"] <= step]
        kept = {kind: [entry for entry in entries if entry["step"] <= step] for kind, entries in listed.items()}
        if kept != listed:
            write_json(self.path / LIST, kept)
        text = "".join(json.dumps(record_to_json(record)) + "\n" for record in records)
        write_bytes(self.path / "metrics.jsonl", text.encode())

    def log(self, record: dict[str, Any]) -> None:
        append_line(self.path / "metrics.jsonl", record_to_json(record))

    def list_again(self, recipe: Recipe) -> list[Path]:
        """Make a list that is lost from the files that are there.  Those of another recipe or seed are put aside first,
        as training would write over them or remove them; returns where they are now."""
        aside = []
        for path, name in strangers(self.path, recipe).items():
            aside.append(path.rename(path.with_name(name)))
        listed = listing(self.path)
        write_json(self.path / LIST, listed | {"resume": listed["resume"][-_KEPT:]})
        return aside

    # --- reading
    def begun(self) -> bool:
        """Has a step been taken, as far as list and metrics tell?"""
        listed = self._list()
        return any(record["step"] > 0 for record in [*listed["ladder"], *listed["resume"], *self.metrics()])

    def require_within(self, steps: int) -> None:
        """Raise where more steps were taken than the recipe has: then it is another one's."""
        listed = self._list()
        taken = max((entry["step"] for entry in [*listed["ladder"], *listed["resume"]]), default=0)
        if taken > steps:
            raise InputError(
                f"{self.path}: holds step {taken}, but the recipe has {steps} steps: recipe.json must be the one that "
                "it was trained with; restore it, or use another folder"
            )

    def metrics(self) -> list[dict[str, Any]]:
        """The history.  Every sitting begins by writing it anew, so only its last line may ever be cut short."""
        return [_as_logged(record) for record in read_lines(self.path / "metrics.jsonl", _METRICS)]

    def cut_short(self, recipe: Recipe, reached: int | None = None) -> str:
        """What is wrong with metrics that end before a step that was reached (default: that of the last saved state);
        nothing for those that do not.

        A validation is written down before the state of its step is saved, so no kill can leave this behind.
        """
        reached, records = self.last_step() if reached is None else reached, self.metrics()
        if reached is None or reached < 0:
            return ""
        validated = reached if reached == recipe.steps else reached - reached % recipe.validate_every
        if records and records[-1]["step"] >= validated:
            return ""
        path = self.path / "metrics.jsonl"
        ends = f"ends at step {records[-1]['step']}" if records else "has no record" if path.exists() else "is missing"
        return f"{path}: {ends}, but the run was validated at step {validated}: it was cut short"

    def ladder(self) -> list[int]:
        """Steps whose weights are kept."""
        return [entry["step"] for entry in self._list()["ladder"]]

    def checksum(self, step: int | None = None) -> str | None:
        """SHA-256 of the weights of a rung (default: the last), as listed; None where there is no such rung."""
        listed = [entry["sha256"] for entry in self._list()["ladder"] if step in (None, entry["step"])]
        return listed[-1] if listed else None

    def predictions(self, step: int, kind: str = "ladder") -> str:
        """What the weights of a rung, or of a state to resume from (kind "resume"), predicted when they were saved;
        nothing where that was not written down."""
        files = [self.path / entry["file"] for entry in self._list()[kind] if entry["step"] == step]
        return stored_metadata(files[0]).get(same_code.NAME, "") if files else ""

    def weights(self, step: int) -> dict[str, Tensor]:
        """The weights of a rung, checked against their checksum."""
        for entry in self._list()["ladder"]:
            if entry["step"] == step:
                return self._read(entry, self._list()["ladder"])
        raise InputError(f"step = {step}: must be one of {', '.join(map(str, self.ladder())) or '(none yet)'}")

    def require_weights(self) -> None:
        """Raise where the file of the last rung is gone; `weights` also looks into it."""
        rungs = self._list()["ladder"]
        if rungs and not (self.path / rungs[-1]["file"]).exists():
            self._read(rungs[-1], rungs)

    def has_weights(self, step: int) -> bool:
        """Are the weights of a step there and intact?"""
        return any(entry["step"] == step and self._intact(entry) for entry in self._list()["ladder"])

    def last_step(self) -> int | None:
        """The newest step that training could go on from, intact or not."""
        states = self._list()["resume"]
        return states[-1]["step"] if states else None

    def last_state(self, earlier: bool = False) -> tuple[int, dict[str, Tensor]] | None:
        """The step and state to go on from; None for a fresh start.

        A damaged state is an error that names the file and the intact one before it; with `earlier`, that one is
        taken, or a fresh start if there is none.
        """
        states = self._list()["resume"]
        step = self.resume_step(earlier)
        found = [entry for entry in states if entry["step"] == step]
        return (step, self._read(found[0], states, resumable=True)) if found else None

    def resume_step(self, earlier: bool = False) -> int:
        """The step that training would go on from; −1 for a fresh start.  With `earlier`, only intact states count."""
        for entry in reversed(self._list()["resume"]):
            if not earlier or self._intact(entry):
                return entry["step"]
        return -1

    def _read(self, entry: dict[str, Any], among: list[dict[str, Any]], resumable: bool = False) -> dict[str, Tensor]:
        path = self.path / entry["file"]
        if self._intact(entry):
            return read_tensors(path)
        good = [e for e in among if e["step"] < entry["step"] and self._intact(e)]
        state = "missing" if not path.exists() else "truncated or altered"
        if good:
            instead = f"the checkpoint of step {good[-1]['step']} ({good[-1]['file']}) is intact"
        else:
            instead = "no earlier checkpoint is intact"
        if resumable:
            advice = f"; add --earlier to {'continue from there' if good else 'start over'}"
        else:
            again = [e for e in self._list()["resume"] if e["step"] == entry["step"] and self._intact(e)]
            advice = f" (evaluate can use it: --step {good[-1]['step']})" if good else ""
            advice += f"; the command that trained the run recreates it from {again[0]['file']}" if again else ""
        raise InputError(f"{path}: is {state}; {instead}{advice}")

    def _intact(self, entry: dict[str, Any]) -> bool:
        return intact(self.path / entry["file"], entry["sha256"])


def _as_logged(record: dict[str, Any]) -> dict[str, Any]:
    """A line of metrics with its infinities, which JSON has no word for.  A loss of None is one that is not there."""
    odd = ("inf", "-inf", None)
    return {
        name: from_json(value) if value in odd and (name, value) != ("loss_bits", None) else value
        for name, value in record.items()
    }


def _is_list_of_checkpoints(listed: Any) -> bool:
    """Is it {"ladder": […], "resume": […]} with a step, a file beside it and a checksum in every entry?"""
    try:
        return all(
            _is_step(entry["step"]) and isinstance(entry["sha256"], str) and _is_plain(entry["file"])
            for kind in ("ladder", "resume")
            for entry in listed[kind]
        )
    except (LookupError, TypeError):
        return False


def _is_step(value: object) -> bool:
    return type(value) is int and value >= 0  # True is none


def _is_score(value: object) -> bool:
    """Is it a number as `record_to_json` keeps it?"""
    return value in ("inf", "-inf", None) or is_json_number(value)


_METRICS = {"step": _is_step, "kl_bits": _is_score, "entropy_mae_bits": _is_score, "loss_bits": _is_score}


def _is_plain(file: object) -> bool:
    """A name without a folder: nothing outside of this one is ever read."""
    return isinstance(file, str) and Path(file).name == file
