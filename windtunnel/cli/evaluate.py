"""`windtunnel evaluate RUN`: the full fidelity table of a run, next to the baselines of its tunnel."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from windtunnel import models, tunnels
from windtunnel.cli import plugins, show
from windtunnel.cli.broken_weights import no_numbers
from windtunnel.cli.flags import Device, Int, Switch
from windtunnel.cli.folders import open_run
from windtunnel.cli.parse import parse_folder
from windtunnel.cli.progress import bar_or_lines
from windtunnel.cli.scores import plain_scores, print_legend, print_scores
from windtunnel.cli.tunnel import describe
from windtunnel.environment import default_device, require_device
from windtunnel.errors import InputError, require_int
from windtunnel.fidelity import Score, baselines, equivalent_window, evaluate_parts
from windtunnel.fidelity.baselines.hmm import WINDOWS
from windtunnel.fidelity.predictor import NotNumbers
from windtunnel.fidelity.score import OUT_OF_REACH
from windtunnel.report import Asked
from windtunnel.study import Share
from windtunnel.study.scorecard_plan import wants_longer
from windtunnel.study.share_measurement import Sharing
from windtunnel.study.trials import trial_of
from windtunnel.training import Run
from windtunnel.tunnels import HMM

OWN = "this run"  # as it is called among the baselines; none of them has a blank in its name
_METRICS = {
    "kl_bits": "KL, bits",
    "entropy_mae_bits": "entropy error, bits",
    "curve_mae_bits": "curve error, bits",
    "tv": "total variation",
    "excess_log_loss_bits": "excess log-loss, bits",
    "accuracy": "accuracy",
}


@dataclass(frozen=True)
class Evaluate:
    """How far a run or a shipped network is from the exact belief, in bits, next to the baselines of its tunnel on the
    same episodes.  Where the tunnel tests a primitive, also the share of it that the networks realise."""

    length: Int = None
    """Score on sequences of this length; positions beyond the trained length are also scored separately."""
    episodes: int = 4096
    """Episodes to score on."""
    seed: int = 1
    """Seed of the random stream."""
    stream: Literal["train", "validation", "test"] = "test"
    """Which stream of that seed."""
    step: Int = None
    """Score the snapshot of this step (train --ladder). Default: the final weights."""
    device: Device = None
    """Where to compute; a GPU if there is one."""
    json: Switch = False
    """Print one JSON document instead of tables; infinity is the string "inf"."""


@dataclass(frozen=True)
class Result:
    """The run and the baselines on some readouts of the same episodes; `window` only for an HMM, `share` only of all
    readouts of a tunnel that tests a primitive."""

    run: Score
    baselines: dict[str, Score]
    window: float | None
    share: Share | None


def run(words: list[str]) -> None:
    """Load, score, print."""
    folder, options = parse_folder(Evaluate, "evaluate", words, "RUN|NETWORK")
    require_int("--episodes", options.episodes, 1)
    device = require_device(options.device or default_device())
    subject = open_run(folder, "evaluate", step=options.step, device=device)
    tunnel = subject.tunnel if options.length is None else subject.tunnel.with_length(options.length)
    if options.length is not None:
        _require_reach(subject, options.length)
    trained = subject.tunnel.readouts

    parts = {"everywhere": None} | ({"beyond": slice(trained, None)} if tunnel.readouts > trained else {})
    everyone = {OWN: subject.models, **baselines(tunnel)}
    drawn = {"episodes": options.episodes, "seed": options.seed, "stream": options.stream, "device": device}
    asked = trial_of(tunnel)
    sharing = None if asked is None else Sharing(tunnel, asked)  # from the same reading: no network reads twice
    with bar_or_lines(not options.json) as progress:
        try:
            scores = evaluate_parts(everyone, tunnel, parts, **drawn, progress=progress, watch=sharing)
        except NotNumbers as error:
            raise no_numbers(error, folder, subject, options.step, options.length, "--step") from None
    share = None if sharing is None else sharing.share(OWN)
    results = {part: _result(found, share if part == "everywhere" else None) for part, found in scores.items()}
    everywhere, beyond = results["everywhere"], results.get("beyond")
    if options.json:
        _print_json(folder, subject, everywhere, beyond, options.step)
        return
    _print_heading(folder, subject, everywhere.run, options.step)
    _print_result(subject, everywhere)
    if share is not None and subject.path is not None and wants_longer(share):
        show.print_text(_within_a_budget(subject, options.step))
    if beyond is not None:
        first, last = trained + 1, tunnel.readouts
        show.print_text(f"\nbeyond the trained length: readouts {first} to {last} alone", "bold")
        _print_result(subject, beyond)
    others = None if beyond is None else {OWN: beyond.run, **beyond.baselines}
    print_scores({OWN: everywhere.run, **everywhere.baselines}, "predictor", others)
    print_legend("predictor")


def _result(scores: dict[str, Score], share: Share | None) -> Result:
    own = scores[OWN]
    others = {name: score for name, score in scores.items() if name != OWN}
    return Result(own, others, _equivalent_window(own, others) if isinstance(own.tunnel, HMM) else None, share)


def _equivalent_window(own: Score, others: dict[str, Score]) -> float:
    """Most windows that it looks at are among the baselines, on the same episodes: those are not scored again."""
    names = {0: "uniform"} | {window: f"window-{window}" for window in WINDOWS}
    return equivalent_window(own, {window: others[name] for window, name in names.items() if name in others})


def _print_heading(folder: Path, subject: Run, score: Score, step: int | None) -> None:
    recipe = subject.recipe
    seeds = f"{len(recipe.seeds)} seed{'s' * (len(recipe.seeds) != 1)}"
    steps = ", ".join(map(str, _weights_steps(subject, step)))
    size = f"{models.describe(subject.models[0]).params:,} parameters"
    show.print_text(f"{folder}: {recipe.model}, {size}, {seeds}, weights of step {steps} of {recipe.steps}", "bold")
    show.print_text(describe(score.tunnel))
    show.print_text(show.drawn_from(score.episodes, score.seed, score.stream))


def _print_result(subject: Run, result: Result) -> None:
    score = result.run
    aside = {
        "entropy_mae_bits": f"constant entropy {show.printed(score.entropy_yardstick_bits)}",
        "curve_mae_bits": f"sampling alone {show.printed(score.curve_mae_bits.floor or 0.0)}",
        "accuracy": f"exact belief {show.printed(score.exact_accuracy)}",
    }
    rows = []
    for name, title in _METRICS.items():
        value = getattr(score, name)
        rows.append([title, show.printed(value.mean), show.interval(value), aside.get(name, "")])
    rows.append(["calibration error", show.printed(score.calibration.expected_error), "", ""])
    show.print_table("", ["run", "mean", f"95% interval\nover {score.kl_bits.over}", "for comparison"], rows, "lrrl")
    if score.episodes == 1 and score.kl_bits.over == "sequences":
        show.print_text("one episode has no interval over sequences: --episodes 2 or more gives one")
    if score.out_of_reach:
        show.print_text(OUT_OF_REACH, "bold")
    by_seed = zip(subject.recipe.seeds, score.kl_bits.per_seed, strict=True)
    show.print_text("KL by seed: " + ", ".join(f"{seed}: {show.printed(kl)}" for seed, kl in by_seed))
    show.print_text("KL by position: " + _by_position(score.kl_bits.per_position))
    if result.window is not None:
        show.print_text(_window(result.window))
    if result.share is not None:
        show.print_text(str(result.share))


def _within_a_budget(subject: Run, step: int | None) -> str:
    """Too little training must not pass for what an architecture cannot do."""
    steps = " and ".join(f"{at:,}" for at in _weights_steps(subject, step))
    command = Asked(plugins=plugins.named()).typed("scorecard", subject.recipe.model)
    return (
        f"That is what these weights reached in {steps} steps, and says nothing about what the architecture can reach: "
        f"`{command}` tries it on a small world for each primitive, with a second, longer chance."
    )


def _by_position(kl: np.ndarray) -> str:
    """A sparkline over the scored readouts, and its ends in numbers."""
    scored = np.flatnonzero(~np.isnan(kl))
    low, high = scored[kl[scored].argmin()], scored[kl[scored].argmax()]
    least, most = (f"{show.printed(float(kl[at]))} at readout {at + 1}" for at in (low, high))
    return f"{show.sparkline(kl[scored])}  least {least}, most {most}"


def _window(length: float) -> str:
    if math.isinf(length):
        return "equivalent window: closer to the exact belief than the longest window tried"
    if length == 0:
        return "equivalent window: 0 (no closer to the exact belief than a uniform guess)"
    return f"equivalent window: {length:.2f} (the exact filter that sees only so many observations is equally far off)"


def _require_reach(subject: Run, length: int) -> None:
    """Weights that are tied to positions end with them: say so in the user's own unit, and what to do."""
    limit = min((getattr(network, "length_limit", None) or math.inf for network in subject.models), default=math.inf)

    def positions(k: int) -> int:
        return subject.tunnel.with_length(k).positions

    if positions(length) <= limit:
        return
    reach = bisect_right(range(1, length), limit, key=positions)
    other = {"transformer": "--option positions=rope (or alibi, none)", "mlp": "--option context=position"}
    instead = f", or with {other[subject.recipe.model]}" if subject.recipe.model in other else ""
    raise InputError(
        f"--length = {length}: must be at most {reach} for this run, whose weights are tied to positions; "
        f"for {length} train with --max-length {positions(length)} (it counts input positions){instead}"
    )


def _weights_steps(subject: Run, step: int | None) -> list[int]:
    """Which step the weights are of; several where seeds stand at different steps."""
    if step is not None:
        return [step]
    if subject.path is None:  # a shipped network
        return [subject.steps]
    return sorted({subject.ladder(seed)[-1] for seed in subject.recipe.seeds})


def _print_json(folder: Path, subject: Run, everywhere: Result, beyond: Result | None, step: int | None) -> None:
    score = everywhere.run
    told = {
        "run": str(folder),
        "recipe": subject.recipe.to_dict(),
        "parameters": models.describe(subject.models[0]).params,
        "weights_of_step": _weights_steps(subject, step),
        "tunnel": tunnels.to_dict(score.tunnel),
        "episodes": score.episodes,
        "seed": score.seed,
        "stream": score.stream,
        **_plain(everywhere),
        "primitive": None if everywhere.share is None else everywhere.share.to_dict(),
    }
    show.print_json(told | {"beyond": None if beyond is None else _plain(beyond)})


def _plain(result: Result) -> dict[str, Any]:
    score, window = result.run, result.window
    return {
        "readouts": list(range(score.tunnel.readouts)) if score.positions is None else list(score.positions),
        "exact_accuracy": score.exact_accuracy,
        "entropy_yardstick_bits": score.entropy_yardstick_bits,
        "score": plain_scores({"": score})[""],
        "equivalent_window": "inf" if window is not None and math.isinf(window) else window,
        "baselines": plain_scores(result.baselines),
    }
