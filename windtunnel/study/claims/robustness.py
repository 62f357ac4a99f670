"""Are the seeds alike, the networks of equal size, and could any of them have memorised its world?"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import HMM_CELLS, PAPER
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, jointly, qualified
from windtunnel.tunnels import from_dict

STATED, STATED_SHAPE = 2_680_000, "hmm-transformer-9x256"
BITS_PER_PARAMETER = 2  # what a network of this kind was found to store at most
SPARE_BITS = 10.0
SMALL = 0.25


def matched(evidence: Evidence) -> Verdict:
    """Parameters of the stated HMM shape, 9 layers of 256, against the stated number."""
    found = evidence.cell(STATED_SHAPE)["parameters"]
    off = Quantity.exact(abs(found / STATED - 1))
    return held(off, "below", 0.01, f"9 layers of 256 have {found:,} parameters; relative distance from {STATED:,}")


def not_memorised(evidence: Evidence) -> Verdict:
    """More worlds than could be seen or stored, and no test world among those trained on."""
    parts = {}
    for world in ("bijection", "hmm"):
        cell = evidence.cell(f"{world}-transformer")
        space = from_dict(cell["recipe"]["tunnel"]).hypotheses_log2
        seen = math.log2(cell["sequences"])
        stored = math.log2(BITS_PER_PARAMETER * cell["parameters"])
        spare = Quantity.exact(space - max(seen, stored))
        size = "infinitely many worlds" if math.isinf(space) else f"2^{space:.1f} worlds"
        told = f"{world}: {size}, 2^{seen:.1f} sequences seen by a seed, room for 2^{stored:.1f} bits"
        verdict = held(spare, "above", SPARE_BITS, told)
        if shared := cell.get("overlap"):
            words = f"test worlds among {shared['trained']:,} trained ones: {shared['shared']} of {shared['test']:,}"
            none = held(Quantity.exact(float(shared["shared"])), "below", 1.0, words)
            verdict = qualified(verdict, {"by size: some test worlds were trained on": none})
        parts[f"for {world}"] = verdict
    return jointly(parts)


def stand_apart(evidence: Evidence) -> Verdict:
    """Each gap to the next architecture against the seed spread of the two: in the logarithm of the entropy error."""
    scores = {cell: evidence.score(cell, "entropy_mae_bits") for cell in HMM_CELLS}
    logs = {cell: np.log10(np.array(score.values or (score.mean,))) for cell, score in scores.items()}
    if min(map(len, logs.values())) < 3:
        raise NotMeasured("needs three seeds of each architecture on the HMM")
    ordered = sorted(logs, key=lambda cell: float(logs[cell].mean()))
    parts = {}
    for near, far in pairwise(ordered):
        words = f"between {near.removeprefix('hmm-')} and {far.removeprefix('hmm-')}"
        gap, p = gap_over_spread(logs[near], logs[far], 1 / SMALL)
        parts[words] = replace(held(gap, "above", 1 / SMALL, f"gap over seed spread {words}"), p_value=p)
    each = ", ".join(f"{cell} {10 ** x.mean():.3g} (×/÷ {10 ** x.std(ddof=1):.2f})" for cell, x in logs.items())
    found = jointly(parts)  # the sizes come first: they tell whether seeds are wide or a gap is missing
    return replace(found, reasons=(f"entropy error, and the factor by which seeds differ (sd): {each}", *found.reasons))


def gap_over_spread(a: np.ndarray, b: np.ndarray, line: float) -> tuple[Quantity, float]:
    """d = |difference of means| / sd within, with its interval, and the p-value of "it is the line".

    The variance of d is about c + d²/2f, with c = 1/n + 1/m and f degrees of freedom; so √2f · asinh(d / √2fc) has
    a standard error of about 1 whatever d is.  The test is made there, and the ends of its interval are brought back.
    """
    df, c = len(a) + len(b) - 2, 1 / len(a) + 1 / len(b)
    within = math.sqrt(((a - a.mean()) @ (a - a.mean()) + (b - b.mean()) @ (b - b.mean())) / df)
    d = abs(float(a.mean() - b.mean())) / max(within, 1e-12)

    def stable(x: float) -> float:
        return math.sqrt(2 * df) * math.asinh(x / math.sqrt(2 * df * c))

    def back(y: float) -> float:
        return math.sqrt(2 * df * c) * math.sinh(y / math.sqrt(2 * df))

    half = float(stdtrit(df, 0.975))
    tested = Quantity(stable(d), stable(d) - half, stable(d) + half, "seeds", df=df)
    return replace(tested, mean=d, low=back(tested.low), high=back(tested.high)), tested.p_against(stable(line))


CLAIMS = [
    Claim(
        "seed-spread",
        "Architectures stand apart: the gap between them is many times the spread over seeds.",
        PAPER,
        "five seeds, whose spread is called negligible beside that gap; no number",
        f"gap to the next architecture over the sd over seeds, log10 entropy error, HMM; the line is {1 / SMALL:g}",
        HMM_CELLS,
        stand_apart,
    ),
    Claim(
        "capacity-match",
        "The HMM Transformer has 2.68M parameters.",
        PAPER,
        "2.68M for 9 layers of width 256",
        "an exact count of that shape's parameters; the line is 1%",
        (STATED_SHAPE,),
        matched,
    ),
    Claim(
        "no-memorising",
        "The worlds are far too many to be memorised.",
        PAPER,
        "20! = 2.4e18 permutations; more than 1e40 HMMs",
        f"bits of hypothesis space beyond those seen or storable, line {SPARE_BITS:g}; test worlds trained on",
        ("bijection-transformer", "hmm-transformer"),
        not_memorised,
    ),
]
