"""A run on disk.

    recipe.json        the recipe, the model's spec and size, a format version
    environment.json   versions, device, commit, of every sitting
    timings.jsonl      seconds and sequences/s (the only file with a clock in it)
    seed-0/            one folder per seed
      metrics.jsonl    training loss and validation scores; equal runs have equal files
      checkpoints.json what is saved: file, step, SHA-256
      step-00000100.safetensors    weights on the ladder
      resume-00000500.safetensors  everything needed to go on; the last two are kept

The list is there before the first weights, and weights are on disk before the list names them, so a kill at any moment
leaves a folder that can go on.  Weights without a list are not written over (`lost_list`): no kill leaves them, but for
the very first that an earlier version saved.  Every such file says whose it is: step, seed, a digest of the recipe.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from windtunnel import __version__, tunnels
from windtunnel.errors import InputError, Unregistered
from windtunnel.training.files import (
    Damaged,
    append_line,
    intact,
    number,
    plain_record,
    read_json,
    read_lines,
    read_tensors,
    read_versioned,
    write_bytes,
    write_json,
    write_tensors,
)
from windtunnel.training.lost_list import EARLIER, LIST, PATTERNS, Unlisted, identity, listing, lost_list, strangers
from windtunnel.training.recipe import Recipe

FORMAT = 1
TRAINED = (LIST, "metrics.jsonl", *PATTERNS.values())  # in a seed's folder
STUDY, OF_STUDY = "study.json", ("cells", "runs", "sweeps")  # by which the folder of a study is known; folders in it
_KEPT = 2  # resumable states per seed: should the last be damaged, the one before it is intact


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def exists(self) -> bool:
        """Does it hold a run?"""
        return (self.path / "recipe.json").exists()

    def forget_temporary(self) -> None:
        """Remove what a killed sitting left half-written beside its seeds.  Only files that a sitting writes: somebody
        may be writing a survey here."""
        for name in ("recipe.json", "environment.json"):
            for path in self.path.glob(f"{name}.*.tmp"):
                path.unlink(missing_ok=True)

    def require_known(self) -> None:
        """Raise at what a run has left here without its recipe: it must not go on, or be read, under another one.

        The recipe is the first file that is written, so no kill can leave this behind.
        """
        found = [path for name in TRAINED for path in sorted(self.path.glob(f"seed-*/{name}"))]
        if found and not self.exists():
            raise InputError(
                f"{self.path}: holds {found[0].relative_to(self.path)} but no recipe.json, so how it was trained is "
                "unknown: restore recipe.json, or use another folder"
            )

    def require_no_study(self) -> None:
        """Raise where a study is kept: its files and those of a run must not be mixed."""
        if (self.path / STUDY).exists():
            raise InputError(f"{self.path}: holds a study, not a run: must be another folder")
        if self.path.name in OF_STUDY and (self.path.parent / STUDY).exists():
            raise InputError(f"{self.path}: is a part of the study in {self.path.parent}: must be another folder")

    def create(self, recipe: Recipe, spec: dict[str, Any] | None, parameters: int | None = None) -> None:
        """Start a run here, of a model of that shape and so many parameters."""
        record = {"format": FORMAT, "windtunnel": __version__, "recipe": recipe.to_dict(), "model": spec}
        write_json(self.path / "recipe.json", record | {"parameters": parameters})

    def _record(self) -> dict[str, Any]:
        if not self.path.exists():
            raise InputError(f"{self.path}: must be a run folder, but there is no such folder")
        self.require_known()
        if not self.exists():
            raise InputError(f"{self.path}: must be a run folder (it has no recipe.json)")
        return read_versioned(self.path / "recipe.json", FORMAT)

    def recipe(self) -> Recipe:
        """The recipe it was started with; raises where what was trained is another one's, or is no longer listed."""
        recipe = self.stored_recipe()
        for seed in recipe.seeds:
            if lost := lost_list(self.seed(seed), recipe):
                raise Unlisted(lost)
            self.seed(seed).require_within(recipe.steps)
        return recipe

    def stored_recipe(self) -> Recipe:
        """The recipe as recipe.json has it, whatever else is in the folder; a bad field is told with the file."""
        plain = self.plain_recipe()
        world = plain.get("tunnel") if isinstance(plain, dict) else None
        name = world.get("name") if isinstance(world, dict) else None
        if isinstance(name, str) and name not in tunnels.names():
            raise Unregistered(
                f"{self.path}: its tunnel {name!r} must be registered first: windtunnel.tunnels.register, "
                "or on the command line --plugin MODULE"
            )
        try:
            return Recipe.from_dict(plain)
        except InputError as error:
            raise InputError(f"{self.path / 'recipe.json'}: {error}") from None

    def plain_recipe(self) -> Any:
        """The recipe as data, for whoever can do without its tunnel, which need not be registered here."""
        return self._record().get("recipe")

    def spec(self) -> dict[str, Any] | None:
        """The exact shape of the model; None for a model that is not built in."""
        return self._record().get("model")

    def parameters(self) -> int | None:
        """How many parameters the model has; None where that was not written down, as it once was not."""
        kept = self._record().get("parameters")
        return kept if isinstance(kept, int) else None

    def add_environment(self, environment: dict[str, object]) -> None:
        """Remember where a sitting took place."""
        path = self.path / "environment.json"
        try:
            sittings = read_json(path) if path.exists() else []
            if not isinstance(sittings, list):
                raise Damaged(f"{path}: must be a list of environments, but is damaged")
        except Damaged as error:  # no training depends on it
            raise InputError(f"{error}; remove it to continue without it") from None
        if environment not in sittings:
            write_json(path, [*sittings, environment])

    def add_timing(self, record: dict[str, Any]) -> None:
        """A line with a clock in it."""
        append_line(self.path / "timings.jsonl", record)

    def timings(self) -> list[dict[str, Any]]:
        """All of them; a sitting that was killed may have left a line cut short, with those of the next below it."""
        return read_lines(self.path / "timings.jsonl", _TIMING, cut_anywhere=True)

    def seed(self, seed: int) -> SeedFolder:
        """The part that belongs to one seed."""
        return SeedFolder(self.path / f"seed-{seed}")


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
    def save_weights(self, step: int, weights: dict[str, Tensor], recipe: Recipe | None = None) -> None:
        """A rung of the ladder, and the recipe that it is of."""
        self._save("ladder", f"step-{step:08d}.safetensors", step, weights, recipe)

    def save_state(self, step: int, state: dict[str, Tensor], recipe: Recipe | None = None) -> None:
        """A state to resume from.  The oldest beyond two is removed, after the new one is safe."""
        self._save("resume", f"resume-{step:08d}.safetensors", step, state, recipe)
        kept = {entry["file"] for entry in self._list()["resume"]}
        for path in self.path.glob("resume-*.safetensors"):  # also what a kill at this very point once left behind
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def _save(self, kind: str, file: str, step: int, tensors: dict[str, Tensor], recipe: Recipe | None) -> None:
        listed = self._list()
        if not (self.path / LIST).exists():  # first of all: weights without it are then no kill's, see `lost_list`
            write_json(self.path / LIST, listed)
        whose = {} if recipe is None else identity(self.path, recipe)
        sha256 = write_tensors(self.path / file, tensors, {"step": str(step), **whose})
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
        text = "".join(json.dumps(plain_record(record)) + "\n" for record in records)
        write_bytes(self.path / "metrics.jsonl", text.encode())

    def log(self, record: dict[str, Any]) -> None:
        append_line(self.path / "metrics.jsonl", plain_record(record))

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
        name: number(value) if value in odd and (name, value) != ("loss_bits", None) else value
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


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_score(value: object) -> bool:
    """Is it a number as `plain_record` keeps it?"""
    return value in ("inf", "-inf", None) or _is_number(value)


_METRICS = {"step": _is_step, "kl_bits": _is_score, "entropy_mae_bits": _is_score, "loss_bits": _is_score}
_TIMING = {"seeds": lambda value: isinstance(value, list), "train_s": _is_number, "setup_s": _is_number}


def _is_plain(file: object) -> bool:
    """A name without a folder: nothing outside of this one is ever read."""
    return isinstance(file, str) and Path(file).name == file
