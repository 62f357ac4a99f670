"""Files of a study that are JSON but lack something: one line with the file, the field and what it must be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.study.planted import Planted, around
from tests.study.plants import PLANTS
from windtunnel.cli.ledger import print_claim, print_ledger, print_primitives
from windtunnel.errors import InputError
from windtunnel.report import read
from windtunnel.report.making import cards, machines
from windtunnel.report.sections import sections
from windtunnel.report.shares import primitives, primitives_table
from windtunnel.report.verdicts import claims_table, headline
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import Share


@pytest.fixture
def study(tmp_path) -> StudyFolder:
    """A network with readings, and the references of its world."""
    p = Planted()
    PLANTS["transformer-transport"](p, "yes")
    p.score("hmm-rotating-transformer", "kl_bits", around(0.01, 0.001), "home", "length-30")
    p.baseline("hmm-rotating", "uniform", "kl_bits", 1.0)
    row = Share("transport", Quantity(0.0, 0.0, 0.0, "sequences"), 1.0, "window-1", 1.0, (0.0,))
    p.cells["hmm-rotating-references"]["rows"] = {"B: window-1": row.to_dict()}
    p.reading("hmm-rotating-transformer", "bits lost to ablation", around(0.3), part="mixer", method="zero", layer=0)
    p.cells["hmm-rotating-transformer"]["survey"].append({"name": "clusters", "missing": "no hidden states"})
    return p.write(tmp_path)


def paths(content: Any, at: tuple = ()) -> Iterator[tuple]:
    """The way to every field; of a list, through its first entry and its last."""
    if isinstance(content, dict):
        for name, part in content.items():
            yield (*at, name)
            yield from paths(part, (*at, name))
    elif isinstance(content, list) and content:
        for index in {0, len(content) - 1}:
            yield from paths(content[index], (*at, index))


def without(content: Any, path: tuple) -> Any:
    changed = json.loads(json.dumps(content))
    place = changed
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    return changed


def everything(folder: Path) -> None:
    """All that the commands `claims`, `report` and `figures` read."""
    study = StudyFolder(folder)
    entries = study.ledger()
    print_primitives(study.cells())
    print_ledger(entries, everything=True)
    for entry in (entries[0], entries[-1]):
        print_claim(entry)
    source = read(folder, with_zoo=False)
    for make in (sections, claims_table, primitives, primitives_table, cards, machines, headline):
        make(source)


FILES = ("study.json", "claims.json", "cells/hmm-rotating-transformer.json", "cells/hmm-rotating-references.json")


@pytest.mark.parametrize("name", FILES)
def test_whatever_is_missing_is_told_or_not_needed(study, name, capsys):
    everything(study.path)
    file = study.path / name
    whole = json.loads(file.read_text())
    told = 0
    for path in paths(whole):
        file.write_text(json.dumps(without(whole, path)))
        try:
            everything(study.path)
        except InputError as error:
            told += 1
            line = str(error)
            if path[-1] not in ("format", "name", "missing"):  # without these it is something else, and told as that
                assert line.startswith(f"{file}: ") and f"{path[-1]} is missing: must be " in line, (path, line)
            assert "\n" not in line and len(line) < 200 + len(str(file))
    assert told > 5


@pytest.mark.parametrize("command", ["claims", "report", "figures"])
@pytest.mark.parametrize(
    ("name", "path", "must"),
    [
        ("study.json", ("finished",), "finished is missing: must be a list"),
        ("study.json", ("seconds",), "seconds is missing: must be an object with total, gpu"),
        ("study.json", ("environments",), "environments is missing: must be a list"),
        ("claims.json", ("claims",), "claims is missing: must be a list"),
        ("claims.json", ("claims", 3, "verdict"), "claims[3].verdict is missing: must be text"),
        (FILES[2], ("conditions",), "conditions is missing: must be an object"),
        (FILES[2], ("seeds",), "seeds is missing: must be a list"),
        (FILES[3], ("rows", "B: window-1", "share"), "rows.B: window-1.share is missing: must be an object with mean"),
    ],
)
def test_every_command_tells_it(command, name, path, must, study, refusal):
    file = study.path / name
    file.write_text(json.dumps(without(json.loads(file.read_text()), path)))
    line = refusal(command, study.path, *(["--no-zoo"] if command != "claims" else []))
    assert line.startswith(f"windtunnel: error: {file}: {must}")


def test_a_study_that_has_only_begun_lacks_nothing(study):
    """Before the first summary there is no list of finished cells; the rest can be read."""
    (study.path / "claims.json").unlink()
    head = json.loads((study.path / "study.json").read_text())
    (study.path / "study.json").write_text(
        json.dumps({k: v for k, v in head.items() if k not in ("finished", "seconds")})
    )
    assert read(study.path, with_zoo=False).cells
