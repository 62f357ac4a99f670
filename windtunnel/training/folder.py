"""A run on disk.

    recipe.json        the recipe, the model's spec and size, a format version
    environment.json   versions, device, commit, of every sitting
    timings.jsonl      seconds and sequences/s (the only file with a clock in it)
    seed-0/            one folder per seed
      metrics.jsonl    training loss and validation scores; equal runs have equal files
      checkpoints.json what is saved: file, step, SHA-256
      step-00000100.safetensors    weights on the ladder
      resume-00000500.safetensors  everything needed to go on; the last two are kept

Why a kill at any moment leaves a folder that can go on: `seed_folder.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windtunnel import __version__, tunnels
from windtunnel.errors import InputError, Unregistered
from windtunnel.json_numbers import is_json_number
from windtunnel.training.files import Damaged, read_json, read_versioned, write_json
from windtunnel.training.json_lines import append_line, read_lines
from windtunnel.training.lost_checkpoints import Unlisted, lost_list
from windtunnel.training.recipe import Recipe
from windtunnel.training.seed_folder import TRAINED, SeedFolder

FORMAT = 1
STUDY, OF_STUDY = "study.json", ("cells", "runs", "sweeps")  # by which the folder of a study is known; folders in it
_EVERY_RUN = ("recipe.json", "environment.json")
_TIMING = {"seeds": lambda value: isinstance(value, list), "train_s": is_json_number, "setup_s": is_json_number}


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

    def require_free(self) -> None:
        """Raise within a study or another run, and where other runs are kept: their files and those of a run must not
        be mixed."""
        place = self.path.resolve()
        if (place / STUDY).exists():
            raise InputError(f"{self.path}: holds a study, not a run: must be another folder")
        if place.name in OF_STUDY and (place.parent / STUDY).exists():
            raise InputError(f"{self.path}: is a part of the study in {place.parent}: must be another folder")
        if above := next(filter(_is_run, place.parents), None):
            raise InputError(f"{self.path}: lies within the run in {above}: must be another folder")
        there = (path for path in sorted(place.glob("[!.]*")) if not path.is_symlink())
        if below := next(filter(_is_run, there), None):
            raise InputError(f"{self.path}: holds other runs ({below.name}): must be a folder of its own")

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


def _is_run(folder: Path) -> bool:
    try:
        return all((folder / name).exists() for name in _EVERY_RUN)
    except PermissionError:  # what nobody may read holds no run of this user's
        return False
