"""The primitives table: a Transformer realises all three, Mamba two, an LSTM one, an MLP none.

"Realises" needs the interval of the share above 0.95 in every world that tests the primitive.  "Cannot" is refuted by
one world in which a recipe passes, over all seeds or, where these fall apart, in a single network.  Failing to pass
never proves it: it then reads "not found within this budget", and only if the same recipe solves a control that does
not need the primitive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from windtunnel.json_numbers import from_json
from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import REALISED, Share
from windtunnel.study.trials import PRIMITIVES
from windtunnel.study.verdict import (
    ALPHA,
    INCONCLUSIVE,
    NOT,
    ONLY_AS,
    OUTCOMES,
    REPRODUCED,
    UNTESTED,
    Verdict,
    held,
    jointly,
    least_sure,
    refuting,
    surest,
)

WORLDS = {
    "accumulation": ("bijection", "urn"),
    "transport": ("hmm-rotating",),
    "binding": ("bijection-replacement", "recall"),
}
CONTROLS = {"hmm-rotating": ("hmm-sticky", "home"), "bijection-replacement": ("bijection-replacement", "unseen")}
"""World -> a world and condition that do not need its primitive.  Elsewhere: doing as well as B, which lacks it."""
SOLVED = 0.9  # share of the uniform guess's KL that must be gone
AS_GOOD = 1.1  # times the KL of B
ALIKE = 1.01  # times the lowest KL: trials of learning rates within it tell none from the other

TABLE = {
    "transformer": ("accumulation", "transport", "binding"),
    "mamba": ("accumulation", "transport"),
    "lstm": ("accumulation",),
    "mlp": (),
}
NAMES = {"transformer": "A Transformer", "mamba": "Mamba", "lstm": "An LSTM", "mlp": "An MLP"}


def share_of(evidence: Evidence, cell: str) -> Share:
    """The share of a cell; a void one counts as not measured."""
    found = evidence.share(cell)
    if found.state == "void":
        raise NotMeasured(f"{cell}: void, {found.base} is only {found.base_bits:.3g} bits off without the primitive")
    return found


def realises(model: str, primitive: str) -> Callable[[Evidence], Verdict]:
    """Above 0.95 in every world."""

    def test(evidence: Evidence) -> Verdict:
        parts = {}
        for world in WORLDS[primitive]:
            cell = f"{world}-{model}"
            found, what = share_of(evidence, cell), f"share of {primitive} in {world}"
            parts[f"in {world}"] = held(found.share, "above", REALISED, what).because(f"{cell}: {found.told}")
        return jointly(parts)

    return test


def cannot(model: str, primitive: str) -> Callable[[Evidence], Verdict]:
    """Refuted where a recipe passes, be it in one network; else not found within this budget (if controls pass).

    As for any statement of several parts, a p-value that refutes is multiplied by the number of worlds.
    """

    def test(evidence: Evidence) -> Verdict:
        worlds, found, missing = WORLDS[primitive], [], []
        for world in worlds:
            try:
                found.append(_attempt(evidence, world, model, primitive, len(worlds)))
            except NotMeasured as reason:
                missing.append(reason)
        reasons = tuple(reason for verdict in found for reason in verdict.reasons)
        refuted = [verdict for verdict in found if verdict.outcome == NOT]
        if refuted:  # one is enough, whatever else was or was not measured
            return replace(surest(refuted), reasons=(*reasons, *map(str, missing)))
        if missing:
            raise missing[0]
        open_ = [verdict for verdict in found if verdict.outcome == INCONCLUSIVE]  # one doubt leaves it open
        return replace(least_sure(open_ or found), reasons=reasons)

    return test


def _attempt(evidence: Evidence, world: str, model: str, primitive: str, worlds: int) -> Verdict:
    cell = f"{world}-{model}"
    found = share_of(evidence, cell)
    verdict = held(found.share, "below", REALISED, f"share of {primitive} in {world}")
    verdict = verdict.because(f"{cell}: {found.told}", *_scale(evidence, world))
    if passed := refuting([verdict], worlds):
        return passed
    single = best_network(found, worlds)
    if single is not None:
        quantity, p, words = single
        return Verdict(NOT, (*verdict.reasons, f"{cell}: {words}"), quantity, REALISED, p, of=verdict.of)
    if verdict.outcome != REPRODUCED:
        return replace(verdict, outcome=INCONCLUSIVE)
    return not_found(verdict, evidence, world, model)


def _scale(evidence: Evidence, world: str) -> list[str]:
    """What predictors that have the primitive, but lack others, realise there: how far a share may fall for those."""
    references = f"{world}-references"
    rows = evidence.cell(references).get("rows") or {} if evidence.has(references) else {}
    told = [f"{name} {from_json(row['share']['mean']):.3g}" for name, row in rows.items() if not name.startswith("B: ")]
    return [f"{world}, shares of predictors for scale: {'; '.join(told)}"] if told else []


def not_found(lacking: Verdict, evidence: Evidence, world: str, model: str) -> Verdict:
    """What is left of a "cannot" that nothing refuted: not found within this budget, if the control was solved."""
    lacking = lacking.because(*_indifferent(evidence, f"{world}-{model}"))
    solved, words = control(evidence, world, model)
    if not solved:
        return replace(lacking, outcome=INCONCLUSIVE).because(
            f"this cannot be distinguished from failed training ({words})"
        )
    return replace(lacking, outcome=ONLY_AS, only_as="as “not found within this budget”").because(words)


def _indifferent(evidence: Evidence, cell: str) -> list[str]:
    """Trials whose rates hardly differ have chosen nothing: said where a failure hangs on the rate."""
    tried = (evidence.cell(cell).get("sweep") or {}).get("kl_bits") or {}
    found = sorted(value for value in map(from_json, tried.values()) if math.isfinite(value))
    if len(found) < 2 or found[-1] > ALIKE * found[0]:
        return []
    return [
        f"{cell}: its learning-rate trials ended alike ({found[0]:.4g} to {found[-1]:.4g} bits), so its rate was not"
        " chosen by evidence"
    ]


def best_network(found: Share, worlds: int) -> tuple[Quantity, float, str] | None:
    """The best of the networks, if it alone passes 0.95: one that can refutes "cannot", whatever the other seeds do.

    Its interval is over sequences; the p-value is multiplied by the number of networks and worlds it was picked from.
    """
    if not found.per_seed_error:
        return None
    tests = worlds * len(found.per_seed)
    share, error = max(zip(found.per_seed, found.per_seed_error, strict=True))
    half = 1.959964 * error
    quantity = Quantity(share, share - half, share + half, "sequences")
    p = min(1.0, tests * quantity.p_against(REALISED))
    if share <= REALISED or p > ALPHA:
        return None
    return (
        quantity,
        p,
        f"one network of {len(found.per_seed)} has a share of {quantity}, p = {p:.2g} as the best of {tests}",
    )


def control(evidence: Evidence, world: str, model: str) -> tuple[bool, str]:
    """Did the same recipe solve something that does not need the primitive?"""
    if world in CONTROLS:
        other, condition = CONTROLS[world]
        kl = evidence.score(f"{other}-{model}", "kl_bits", condition).mean
        uniform = evidence.baseline(other, "uniform", "kl_bits", condition)
        solved = kl <= (1 - SOLVED) * uniform
        return solved, f"control {other}, {condition}: KL {kl:.3g} bits where a uniform guess has {uniform:.3g}"
    found = evidence.share(f"{world}-{model}")
    bits = found.base_bits
    kl = bits * (1 - found.median)  # a mean would hide seeds that learnt nothing
    return kl <= AS_GOOD * bits, f"control: KL {kl:.3g} bits in the median seed, where {found.base} has {bits:.3g}"


def cells_of(model: str, primitive: str, *, controls: bool) -> tuple[str, ...]:
    """Cells that a test of this primitive reads; with the scale and the controls where it is said to be lacking."""
    cells = [f"{world}-{model}" for world in WORLDS[primitive]]
    for world in WORLDS[primitive] if controls else ():
        cells.append(f"{world}-references")
        if world in CONTROLS:
            other = CONTROLS[world][0]
            cells += [f"{other}-{model}", f"{other}-references"]
    return tuple(dict.fromkeys(cells))


def _claim(model: str, primitive: str) -> Claim:
    has = primitive in TABLE[model]
    return Claim(
        f"{model}-{primitive}",
        f"{NAMES[model]} {'realises' if has else 'cannot realise'} {primitive}.",
        PAPER,
        "yes" if has else "no",
        f"share 1 − KL/KL(B) in {', '.join(WORLDS[primitive])}; the line is {REALISED}",
        cells_of(model, primitive, controls=not has),
        (realises if has else cannot)(model, primitive),
    )


def summed(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The whole table: every entry as published?  It makes no test of its own, so it has no p-value."""
    entries = {claim.id: verdicts[claim.id] for claim in ENTRIES if claim.id in verdicts}
    of = {outcome: [name for name, v in entries.items() if v.outcome == outcome] for outcome in OUTCOMES}
    told = tuple(f"{name}: {verdict.words} ({(*verdict.reasons, '')[0]})" for name, verdict in entries.items())
    if of[NOT]:
        return Verdict(NOT, (f"refuted: {', '.join(of[NOT])}", *told))
    untested = of[UNTESTED] + [claim.id for claim in ENTRIES if claim.id not in entries]
    if untested:
        raise NotMeasured(f"not every entry was tested: {', '.join(untested)}")
    if of[INCONCLUSIVE]:
        return Verdict(INCONCLUSIVE, (f"open: {', '.join(of[INCONCLUSIVE])}", *told))
    if of[ONLY_AS]:
        words = f"with {len(of[ONLY_AS])} entries qualified: {', '.join(of[ONLY_AS])}"
        return Verdict(ONLY_AS, told, only_as=words)
    return Verdict(REPRODUCED, told)


ENTRIES = [_claim(model, primitive) for model in TABLE for primitive in PRIMITIVES]
CLAIMS = [
    *ENTRIES,
    Claim(
        "primitives-table",
        "The table of primitives: a Transformer has all three, Mamba two, an LSTM one, an MLP none.",
        PAPER,
        "a figure",
        "every entry of the table by its own test, after Holm's correction; one that is refuted refutes the table",
        tuple(dict.fromkeys(cell for claim in ENTRIES for cell in claim.cells)),
        sums_up=summed,
    ),
]
