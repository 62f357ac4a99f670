"""The primitive that a run's own tunnel tests: which share of it its networks realise, beside the yardsticks.

The networks of a study have theirs in its cells.  Those of any other run are held against the same predictors here, on
the first of `evaluate`'s test episodes (on all of them where the network is small), and what came out is kept in the
run's exhibit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from windtunnel.accidents import accident
from windtunnel.errors import InputError
from windtunnel.fidelity import Predictor
from windtunnel.models import describe
from windtunnel.report.curves import SEED, how_many
from windtunnel.report.exhibit import keep
from windtunnel.report.subjects import Subject
from windtunnel.study.primitive_shares import shares
from windtunnel.study.trials import Trial, trial_of
from windtunnel.tunnels import Tunnel

KEY = "primitive"
OWN = ""  # among the yardsticks, which all have a name


def own_share(subject: Subject, device: str = "cpu") -> dict[str, Any] | None:
    """Plain data; None where the tunnel tests no single primitive.

    share     the record of the networks' own;  rows  name -> that of a yardstick
    trial     what was asked, to see whether the tunnel's trial is another by now
    episodes  how many of `evaluate`'s;  missing  instead of all these, why there is none
    """
    tunnel = subject.tunnel
    try:
        asked = trial_of(tunnel)
        if asked is None:
            return None
        episodes = how_many(tunnel, device, describe(subject.networks[0]).params)
        everyone = {**_yardsticks(asked), OWN: subject.networks}
        found = shares(everyone, tunnel, episodes=episodes, seed=SEED, device=device)
    except InputError as error:  # a trial that does not fit, or weights that do not load, cost the share alone
        return {"missing": str(error)}
    except Exception as error:  # so does whatever somebody's predictor raises
        return {"missing": f"it could not be measured ({accident(error)})"}
    rows = {name: share.to_dict() for name, share in found.items()}
    return {"share": rows.pop(OWN), "rows": rows, "trial": _known_by(asked), "episodes": episodes}


def _yardsticks(asked: Trial) -> dict[str, Predictor]:
    """The predictors of a trial by the names that they are shown under."""
    without = {f"B: {name}": one for name, one in asked.without.items()}
    return without | {str(name): one for name, one in asked.others.items()}


def _known_by(asked: Trial) -> dict[str, Any]:
    """What tells a trial from another, as plain data."""
    return {"primitive": asked.primitive, "where": asked.where, "yardsticks": list(_yardsticks(asked))}


def _current(record: dict[str, Any] | None, tunnel: Tunnel) -> bool:
    """Is it the answer to the trial that the tunnel has now?  Never where a share is missing, which may be mended."""
    try:
        asked = trial_of(tunnel)
    except InputError:  # `own_share` tells it
        return False
    if record is None or asked is None:
        return record is asked
    return record.get("trial") == _known_by(asked)


def add_shares(
    folder: Path,
    exhibits: dict[str, dict[str, Any]],
    subjects: Iterable[Subject],
    device: str = "cpu",
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Measure the shares that exhibits of these subjects lack, or have of another trial, and keep them for the next
    time."""
    for subject in subjects:
        record = exhibits.get(subject.name)
        if record is None or (KEY in record and _current(record[KEY], subject.tunnel)):
            continue
        say(f"{subject.name}: which primitive it realises")
        found = own_share(subject, device)
        if KEY not in record or record[KEY] != found:
            record[KEY] = found
            keep(folder, subject.name, record, say)
