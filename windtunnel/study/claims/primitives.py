"""The primitives table: a Transformer realises all three, Mamba two, an LSTM one, an MLP none.

"Realises" needs the interval of the share above 0.95 in every world that tests the primitive.  "Cannot" is refuted by
one world in which a recipe passes; failing to pass never proves it: it then reads "not found within this budget", and
only if the same recipe solves a control that does not need the primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.primitives import PRIMITIVES, REALISED
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import INCONCLUSIVE, NOT, ONLY_AS, REPRODUCED, UNTESTED, Verdict, held, jointly

WORLDS = {
    "accumulation": ("bijection", "urn"),
    "transport": ("hmm-rotating",),
    "binding": ("bijection-replacement", "recall"),
}
CONTROLS = {"hmm-rotating": ("hmm-sticky", "home"), "bijection-replacement": ("bijection-replacement", "unseen")}
"""World -> a world and condition that do not need its primitive.  Elsewhere: doing as well as B, which lacks it."""
SOLVED = 0.9  # share of the uniform guess's KL that must be gone
AS_GOOD = 1.1  # times the KL of B

TABLE = {
    "transformer": ("accumulation", "transport", "binding"),
    "mamba": ("accumulation", "transport"),
    "lstm": ("accumulation",),
    "mlp": (),
}
NAMES = {"transformer": "A Transformer", "mamba": "Mamba", "lstm": "An LSTM", "mlp": "An MLP"}


def share_of(evidence: Evidence, cell: str) -> tuple[Quantity, str]:
    """The share with its sentence; a void cell counts as not measured."""
    found = evidence.share(cell)
    if found["state"] == "void":
        raise NotMeasured(f"{cell}: void, {found['base']} is only {found['base_bits']} bits off without the primitive")
    return Quantity.of_record(found["share"]), f"{cell}: {found['told']}"


def realises(model: str, primitive: str) -> Callable[[Evidence], Verdict]:
    """Above 0.95 in every world."""

    def test(evidence: Evidence) -> Verdict:
        parts = {}
        for world in WORLDS[primitive]:
            share, told = share_of(evidence, f"{world}-{model}")
            parts[f"in {world}"] = held(share, "above", REALISED, f"share of {primitive}").because(told)
        return jointly(parts)

    return test


def cannot(model: str, primitive: str) -> Callable[[Evidence], Verdict]:
    """Refuted where a recipe passes; else not found within this budget, if the controls are solved."""

    def test(evidence: Evidence) -> Verdict:
        found = [_attempt(evidence, world, model, primitive) for world in WORLDS[primitive]]
        reasons = tuple(reason for verdict in found for reason in verdict.reasons)
        for outcome in (NOT, INCONCLUSIVE):  # one refutation is enough; else one doubt leaves it open
            for verdict in found:
                if verdict.outcome == outcome:
                    return replace(verdict, reasons=reasons)
        p = max((v.p_value for v in found if v.p_value is not None), default=None)
        return replace(found[0], reasons=reasons, p_value=p)

    return test


def _attempt(evidence: Evidence, world: str, model: str, primitive: str) -> Verdict:
    share, told = share_of(evidence, f"{world}-{model}")
    verdict = held(share, "below", REALISED, f"share of {primitive}").because(told)
    if verdict.outcome != REPRODUCED:
        return verdict
    solved, words = control(evidence, world, model)
    if not solved:
        return replace(verdict, outcome=INCONCLUSIVE).because(f"cannot be told from a failed training: {words}")
    return replace(verdict, outcome=ONLY_AS, only_as="as “not found within this budget”").because(words)


def control(evidence: Evidence, world: str, model: str) -> tuple[bool, str]:
    """Did the same recipe solve something that does not need the primitive?"""
    if world in CONTROLS:
        other, condition = CONTROLS[world]
        kl = evidence.score(f"{other}-{model}", "kl_bits", condition).mean
        uniform = evidence.baseline(other, "uniform", "kl_bits", condition)
        solved = kl <= (1 - SOLVED) * uniform
        return solved, f"control {other}, {condition}: KL {kl:.3g} bits where a uniform guess has {uniform:.3g}"
    found = evidence.share(f"{world}-{model}")
    solved = found["kl_bits"] <= AS_GOOD * found["base_bits"]
    return solved, f"control: KL {found['kl_bits']:.3g} bits where {found['base']} has {found['base_bits']:.3g}"


def _claim(model: str, primitive: str) -> Claim:
    has = primitive in TABLE[model]
    cells = tuple(f"{world}-{model}" for world in WORLDS[primitive])
    return Claim(
        f"{model}-{primitive}",
        f"{NAMES[model]} {'realises' if has else 'cannot realise'} {primitive}.",
        PAPER,
        "yes" if has else "no",
        f"share 1 − KL/KL(B) in {', '.join(WORLDS[primitive])}; the line is {REALISED}",
        cells,
        (realises if has else cannot)(model, primitive),
    )


def table(evidence: Evidence) -> Verdict:
    """The whole table: every entry as published?"""
    verdicts = {claim.id: claim.judge(evidence) for claim in CLAIMS if claim.id != "primitives-table"}
    untested = [name for name, verdict in verdicts.items() if verdict.outcome == UNTESTED]
    if untested:
        raise NotMeasured(f"not every entry was tested: {', '.join(untested)}")
    wrong = [name for name, verdict in verdicts.items() if verdict.outcome == NOT]
    open_ = [name for name, verdict in verdicts.items() if verdict.outcome == INCONCLUSIVE]
    weak = [name for name, verdict in verdicts.items() if verdict.outcome == ONLY_AS]
    told = tuple(f"{name}: {verdict.words} ({verdict.reasons[0]})" for name, verdict in verdicts.items())
    p = max((v.p_value for v in verdicts.values() if v.p_value is not None), default=None)
    if wrong:
        smallest = min((v.p_value for n, v in verdicts.items() if n in wrong and v.p_value is not None), default=None)
        return Verdict(NOT, told, p_value=smallest)
    if open_:
        return Verdict(INCONCLUSIVE, told, p_value=p)
    if weak:
        return Verdict(ONLY_AS, told, p_value=p, only_as=f"with {len(weak)} entries qualified: {', '.join(weak)}")
    return Verdict(REPRODUCED, told, p_value=p)


CLAIMS = [_claim(model, primitive) for model in TABLE for primitive in PRIMITIVES]
CLAIMS.append(
    Claim(
        "primitives-table",
        "The table of primitives: a Transformer has all three, Mamba two, an LSTM one, an MLP none.",
        PAPER,
        "a figure",
        "every entry of the table by its own test; one that is refuted refutes the table",
        tuple(dict.fromkeys(cell for claim in CLAIMS for cell in claim.cells)),
        table,
    )
)
