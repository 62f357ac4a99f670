"""Every measurement of a GPU that the pages show, one after another: each has the card to itself.

    python benchmarks/sitting.py --out sitting                 all of them, in three hours or so
    python benchmarks/sitting.py --out sitting --minutes 28    no job begins that would not end in time
    python benchmarks/sitting.py --list                        what there is, about how long each takes, and all
    python benchmarks/sitting.py --list --minutes 9.5 --only growth,kernels,…     … in commands of so long at most

A job that has ended is not done again: given once more, the command goes on where it was stopped.  What a job said is
kept as NAME.txt; results are laid out as in benchmarks/results/h200, to be copied there.  Seconds are those of one
H200, where `warm` came first: side by side, and measuring nothing, it compiles what records, seeds and growth then find
done, those that are chosen or, where other commands will do them, those that `--for` names.  Without it each network
takes 15 to 50 seconds more.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from common import Parser, positive, run

from windtunnel.environment import require_device
from windtunnel.errors import InputError, require_choice
from windtunnel.training.files import require_writable
from windtunnel.training.speed.cases import PAIRS
from windtunnel.training.tuned_recipes import NAMED

HERE = Path(__file__).resolve().parent
GOALS = "hmm/transformer-9x256,bijection/transformer,hmm/mamba,hmm/lstm,hmm/mlp,hmm/transformer"
SEVERAL = f"quick,{GOALS},recall/transformer"
NOT_YET = "hmm/mlp,hmm/transformer,recall/transformer"  # of SEVERAL, those that seeds.json lacks
# Recipe -> seconds.  Float32 has a twelfth of the rate in matrix products; nothing of the kind has been timed yet.
IN_FLOAT32 = {"hmm-transformer": 260, "bijection-transformer": 390}
SMALL = "hmm/lstm,hmm/mamba,bijection/transformer"  # last timed beside other work on the card
COMPILED = "hmm/transformer-9x256,bijection/transformer,hmm/mamba"
REACH_S = {"hmm-transformer-long": 400, "hmm-transformer-9x256": 140, "hmm-mamba": 160, "hmm-linear-attention": 180}
REACH_USUAL_S = 110
# Seeds of an attempt, of which five can be a record, and seconds; settings.  On recall Mamba takes the rate that the
# study's sweep chose for it; the LSTM and linear attention are stopped after a third of their steps.  Linear attention,
# which is none of the paper's four, has two seeds: its times stand in the table, but are no record.
RECORDS = {
    "hmm-mamba": (5, 215, ""),
    "hmm-linear-attention": (2, 115, ""),
    "bijection-mamba": (5, 240, ""),
    "bijection-linear-attention": (2, 185, ""),
    "urn-transformer": (5, 75, ""),
    "urn-mamba": (5, 160, ""),
    "urn-lstm": (5, 90, ""),
    "urn-mlp": (5, 65, ""),
    "urn-linear-attention": (2, 95, ""),
    "recall-mamba": (3, 350, " --set lr=0.00067 --set muon_lr=0.0067"),
    "recall-lstm": (3, 80, " --set steps=1000"),
    "recall-mlp": (3, 110, ""),
    "recall-linear-attention": (2, 320, " --set steps=1000"),
}
RECORD_USUAL = (5, 115, "")


@dataclass(frozen=True)
class Job:
    """A script of this folder with its words, in which OUT stands for the folder of the results; about how long."""

    script: str
    words: str
    about_s: int

    def command(self, out: Path) -> list[str]:
        words = [word.replace("OUT", str(out)) for word in self.words.split()]
        return [sys.executable, str(HERE / f"{self.script}.py"), *words]

    @property
    def compiles(self) -> tuple[list[str], list[str]]:
        """What `warm` may do before it: words of its `--only`, and of its `--seeds-of`."""
        words = self.words.split()
        if self.script == "records":
            return [words[words.index("attempt") + 1]], []
        if self.script == "training":
            section, *cases = words[words.index("--only") + 1].split(",")
            return [section] * (section in ("seeds", "growth")), cases * (section == "seeds")
        return [], []


def jobs() -> dict[str, Job]:
    """By name, in the order of what a reader would miss most.

    Never timed, and guessed from what they compile and the steps they take: those in float32, the short records, small
    seeds and start-up.  Recall with linear attention was cut off after 220 s, at its second seed.
    """
    found = {
        "tests": Job("gpu_tests", "--out OUT/gpu-tests.txt", 300),
        "warm": Job("warm", "", 240),  # its words are those of the jobs that it compiles for: `warming`
        "training-2048": Job("training", f"--only {GOALS} --batch 2048 --json OUT/training-2048.json", 220),
        "training": Job("training", f"--only {GOALS} --json OUT/training.json", 220),
        "record-hmm": Job("records", "attempt hmm-transformer-9x256 --seeds 5 --out OUT/records", 230),
        "record-bijection": Job(
            "records",
            "attempt bijection-transformer --seeds 5 --set average=0.99 --set steps=2000 --out OUT/records",
            110,
        ),
        "record-bijection-posterior": Job(
            "records", "attempt bijection-transformer-posterior --seeds 5 --out OUT/records", 165
        ),
        # Plain batches for about as long as those that grow have taken, beside which they stand.
        "record-hmm-short": Job(
            "records", "attempt hmm-transformer-9x256 --seeds 5 --set steps=2000 --out OUT/records", 140
        ),
        "record-bijection-short": Job(
            "records",
            "attempt bijection-transformer --seeds 5 --set average=0.99 --set steps=1400 --out OUT/records",
            90,
        ),
        "seeds": Job("training", f"--only seeds,{SEVERAL} --json OUT/seeds/seeds.json", 170),
        "seeds-rest": Job("training", f"--only seeds,{NOT_YET} --json OUT/seeds/seeds-rest.json", 65),
        "seeds-small": Job("training", f"--only seeds,{SMALL} --batch 64 --json OUT/seeds/seeds-small.json", 90),
        "profile": Job("training", f"--only profile,evaluation,{GOALS} --json OUT/profile.json", 180),
        "growth": Job("training", "--only growth --json OUT/growth.json", 90),
        "compile": Job("training", f"--only startup,compile,{COMPILED} --json OUT/compile.json", 200),
        "instruments": Job("instruments", "--growth --json OUT/instruments.json", 320),
        "sampling": Job("sampling", "--device cuda --json OUT/sampling.json", 15),
        "kernels": Job("kernels", "--json OUT/kernels.json", 75),
        "solves": Job("kernels", "--solves --json OUT/solves.json", 20),
        "precision": Job("precision", "--json OUT/precision.json", 215),
        "unshown": Job("unshown", "--only dirichlet-0.3,dirichlet --json OUT/unshown.json", 410),
    }
    for name, about_s in IN_FLOAT32.items():
        words = f"--only {name} --seeds 3 --set precision=float32 --out OUT/reach-float32"
        found[f"float32-{name}"] = Job("reach", words, about_s)
    for name in NAMED:
        seeds = 1 if name == "hmm-transformer-long" else 3
        words = f"--only {name} --seeds {seeds} --out OUT/reach"
        found[f"reach-{name}"] = Job("reach", words, REACH_S.get(name, REACH_USUAL_S))
    for name in PAIRS:
        seeds, about_s, settings = RECORDS.get(name, RECORD_USUAL)
        words = f"attempt {name} --seeds {seeds} --every 0.5 --out OUT/records{settings}"
        found[f"record-{name}"] = Job("records", words, about_s)
    return found


def warming(known: dict[str, Job], names: list[str]) -> Job:
    """`warm` for what these jobs compile."""
    found = [known[name].compiles for name in names]
    words, of_seeds = (dict.fromkeys(word for one in found for word in one[part]) for part in (0, 1))
    if not words:
        raise InputError("warm: must have jobs to compile for, records, seeds or growth: --for JOB,JOB")
    told = f"--only {','.join(words)}" + f" --seeds-of {','.join(of_seeds)}" * bool(of_seeds)
    return replace(known["warm"], words=told)


def packed(known: dict[str, Job], names: list[str], most_s: float) -> list[list[str]]:
    """The jobs in their order, cut into commands that end in time; one that alone is too long is a command too."""
    commands: list[list[str]] = []
    left_s = 0.0
    for name in names:
        if known[name].about_s > left_s:
            commands.append([])
            left_s = most_s
        commands[-1].append(name)
        left_s -= known[name].about_s
    return commands


def plan(known: dict[str, Job], names: list[str], minutes: float | None) -> str:
    """About how long each takes and all of them; where a command may only take so long, which go into one."""

    def seconds(some: list[str]) -> int:
        return sum(known[name].about_s for name in some)

    lines = [f"{known[name].about_s:5d} s  {name}" for name in names]
    lines.append(f"{seconds(names):5d} s  together")
    if minutes is not None:
        for some in packed(known, names, 60 * minutes):
            late = ", too long for one command" if seconds(some) > 60 * minutes else ""
            served = [name for name in names if "warm" in some and any(known[name].compiles)]
            lines.append(
                f"{seconds(some):5d} s  --only {','.join(some)}" + f" --for {','.join(served)}" * bool(served) + late
            )
    return "\n".join(lines)


def main() -> None:
    known = jobs()
    parser = Parser(description="Every measurement of a GPU, one after another.")
    parser.add_argument("--out", type=Path, default=None, help="folder of the results, also of those that are there")
    parser.add_argument("--minutes", type=positive, default=None, help="begin nothing that would not end by then")
    parser.add_argument("--only", default=",".join(known), help="jobs in their order, separated by commas")
    parser.add_argument(
        "--for", dest="warm_for", default="", help="what `warm` compiles for; by default what is chosen"
    )
    parser.add_argument("--list", action="store_true", help="say what there is and do nothing")
    options = parser.parse_args()
    names = options.only.split(",")
    served = options.warm_for.split(",") if options.warm_for else names
    for option, chosen in (("--only", names), ("--for", served)):
        for name in chosen:
            require_choice(option, name, known)
    if options.list:
        print(plan(known, names, options.minutes))
        return
    if "warm" in names:
        known["warm"] = warming(known, served)
    if options.out is None:
        raise InputError("--out: must be a folder, or --list to see what there is")
    require_device("cuda")
    require_writable(options.out / "any.txt")
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{len(names)} jobs, about {sum(known[name].about_s for name in names)} s", flush=True)
    failed = sit(known, names, options.out.resolve(), options.minutes)
    if failed:
        raise InputError(f"failed: {', '.join(failed)}; what they said last is in {options.out}/NAME.failed.txt")


def sit(known: dict[str, Job], names: list[str], out: Path, minutes: float | None) -> list[str]:
    """Do those that have not been done, and return which failed; time is kept from the start of this call."""
    began, failed = time.monotonic(), []
    for name in names:
        job, done = known[name], out / f"{name}.txt"
        left_s = float("inf") if minutes is None else 60 * minutes - (time.monotonic() - began)
        if done.exists() or job.about_s > left_s:
            print(f"{name}: {'done before' if done.exists() else f'left out, takes about {job.about_s} s'}", flush=True)
            continue
        start, going = time.monotonic(), out / f"{name}.failed.txt"  # its name, until it has not
        with going.open("w") as said:
            code = subprocess.run(job.command(out), stdout=said, stderr=subprocess.STDOUT, check=False).returncode
        print(f"{name}: {'done' if code == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
        if code == 0:
            going.replace(done)
        else:
            failed.append(name)
    return failed


if __name__ == "__main__":
    run(main)
