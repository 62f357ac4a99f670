"""What a study made with other code of one's own than is registered now: it is put aside, and made anew.

An architecture or a world is worked on under one name.  Code that was not noted, as by earlier versions, or cannot be
read now counts as other code too: it may be.  Nothing is deleted.
"""

from __future__ import annotations

from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.plan import Plan
from windtunnel.study.running.sitting import Say
from windtunnel.study.running.sweep import FARTHEST
from windtunnel.study.running.unlisted import unused


def made_otherwise(folder: StudyFolder, plan: Plan) -> dict[str, set[str]]:
    """The cells of a plan, and the baselines of their worlds, that were made so: name -> whose code is another."""
    planned = {cell.name: plan.describe(cell) for cell in plan.cells}
    planned |= {f"{cell.world}-references": plan.describe_world(plan.world(cell.world)) for cell in plan.cells}
    found = {}
    for name, told in planned.items():
        kept = folder.cell(name) if folder.finished(name) else folder.draft(name) or folder.sweep(name)
        if kept or folder.run(name).exists():
            now, then = told.get("code", {}), kept.get("planned", {}).get("code", {})
            found[name] = {whose for whose in now | then if now.get(whose) != then.get(whose)}
    return {name: others for name, others in found.items() if others}


def put_aside(folder: StudyFolder, plan: Plan, say: Say) -> None:
    """Move all of them into a hidden folder in this one, where nobody looks for results, and say so.

    What tells by which code it was made goes last: a kill on the way leaves what the next call will move.
    """
    others = made_otherwise(folder, plan)
    if not others:
        return
    aside = unused(folder.path / ".other-code")
    for name in others:
        trials = [f"sweeps/{name}-{k}" for k in range(-FARTHEST, FARTHEST + 1)]
        for place in (f"runs/{name}", *trials, f"sweeps/{name}.json", f"cells/{name}.part", f"cells/{name}.json"):
            if (folder.path / place).exists():
                (aside / place).parent.mkdir(parents=True, exist_ok=True)
                (folder.path / place).rename(aside / place)
    told = " and ".join(sorted(set().union(*others.values())))
    say(f"the code of {told} has changed or is not known: what it made is kept in {aside}, and made anew")
