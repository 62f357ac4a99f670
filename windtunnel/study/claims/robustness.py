"""Are the seeds alike, the networks of equal size, and could any of them have memorised its world?"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER, per_seed
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, jointly, qualified
from windtunnel.tunnels import from_dict

STATED = 2_680_000
BITS_PER_PARAMETER = 2  # what a network of this kind was found to store at most
SPARE_BITS = 10.0
SMALL = 0.25
ARCHITECTURES = ("transformer", "mamba", "lstm", "mlp")  # those the paper compares


def matched(evidence: Evidence) -> Verdict:
    """Parameters of the stated HMM shape, 9 layers of 256, against the stated number."""
    found = evidence.cell("hmm-transformer-9x256")["parameters"]
    ours = {
        name: cell["parameters"] for name, cell in evidence.cells.items() if name.startswith("hmm-") and "model" in cell
    }
    told = "here: " + ", ".join(f"{name} {count / 1e6:.2f}M" for name, count in sorted(ours.items()))
    off = Quantity.exact(abs(found / STATED - 1))
    verdict = held(off, "below", 0.01, f"9 layers of 256 have {found:,} parameters; relative distance from {STATED:,}")
    return verdict.because(told)


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


def spread(evidence: Evidence) -> Verdict:
    """Seed spread over the gap to the next architecture, for each gap: sd of the logarithm of the entropy error."""
    cells = [f"hmm-{model}" for model in ARCHITECTURES]
    logs = {cell: np.log10(per_seed(evidence, cell, "entropy_mae_bits")) for cell in cells}
    if min(map(len, logs.values())) < 3:
        raise NotMeasured("needs three seeds of each architecture on the HMM")
    ordered = sorted(cells, key=lambda cell: float(logs[cell].mean()))
    parts = {}
    for near, far in pairwise(ordered):
        words = f"between {near.removeprefix('hmm-')} and {far.removeprefix('hmm-')}"
        found = spread_over_gap(logs[near], logs[far])
        parts[words] = held(found, "below", math.log10(SMALL), f"log10 of seed spread over gap, {words}")
    told = ", ".join(f"{cell} {10 ** x.mean():.3g} (×/÷ {10 ** x.std(ddof=1):.2f})" for cell, x in logs.items())
    return jointly(parts).because(told)


def spread_over_gap(a: np.ndarray, b: np.ndarray) -> Quantity:
    """log10 of (sd within / difference of means), both of logarithms; its t-interval by the delta method.

    The logarithm of an sd with f degrees of freedom has variance 1/2f; that of the gap, (standard error / gap)².
    """
    df = len(a) + len(b) - 2
    within = math.sqrt(((a - a.mean()) @ (a - a.mean()) + (b - b.mean()) @ (b - b.mean())) / df)
    within, gap = max(within, 1e-12), max(abs(float(a.mean() - b.mean())), 1e-12)
    middle = math.log10(within / gap)
    error = math.hypot(math.sqrt(1 / (2 * df)), within * math.sqrt(1 / len(a) + 1 / len(b)) / gap) / math.log(10)
    half = float(stdtrit(df, 0.975)) * error
    return Quantity(middle, middle - half, middle + half, "seeds", df=df)


CLAIMS = [
    Claim(
        "seed-spread",
        "The spread over seeds is negligible beside the gap between architectures.",
        PAPER,
        "five seeds, no number",
        f"sd over seeds over the gap to the next architecture, log10 entropy error on the HMM; the line is {SMALL}",
        tuple(f"hmm-{model}" for model in ARCHITECTURES),
        spread,
    ),
    Claim(
        "capacity-match",
        "The HMM Transformer has 2.68M parameters, as its rivals do.",
        PAPER,
        "2.68M for 9 layers of width 256",
        "an exact count of that shape's parameters; the line is 1%",
        ("hmm-transformer-9x256",),
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
