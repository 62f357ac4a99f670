"""Are the seeds alike, the networks of equal size, and could any of them have memorised its world?"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import HMM_CELLS, PAPER, per_seed
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.quantity import Quantity
from windtunnel.study.verdict import Verdict, held, jointly, qualified
from windtunnel.tunnels import from_dict

STATED = 2_680_000
BITS_PER_PARAMETER = 2  # what a network of this kind was found to store at most
SPARE_BITS = 10.0
SMALL = 0.25


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
    """Largest spread over seeds (sd of log10 error) over the smallest gap between architectures (in log10)."""
    cells = [name for name in HMM_CELLS if evidence.has(name)]
    logs = [np.log10(per_seed(evidence, cell, "entropy_mae_bits")) for cell in cells]
    if len(logs) < 2 or min(map(len, logs)) < 3:
        raise NotMeasured("needs at least two architectures on the HMM with three seeds each")
    rng = np.random.default_rng(0)
    draws = [_spread_over_gap([rng.choice(x, len(x)) for x in logs]) for _ in range(1000)]
    low, high = np.quantile(draws, (0.025, 0.975))
    value = _spread_over_gap(logs)
    told = ", ".join(f"{cell} {10 ** x.mean():.3g} (×/÷ {10 ** x.std(ddof=1):.2f})" for cell, x in zip(cells, logs))
    found = Quantity(value, min(float(low), value), max(float(high), value), "resampled seeds")
    return held(found, "below", SMALL, "largest seed spread over smallest gap, log10 entropy error").because(told)


def _spread_over_gap(logs: list[np.ndarray]) -> float:
    means = sorted(float(x.mean()) for x in logs)
    smallest = min(b - a for a, b in pairwise(means))
    return max(float(x.std(ddof=1)) for x in logs) / max(smallest, 1e-12)


CLAIMS = [
    Claim(
        "seed-spread",
        "The spread over seeds is negligible beside the gap between architectures.",
        PAPER,
        "five seeds, no number",
        f"largest seed spread over smallest gap between architectures on the HMM; the line is {SMALL}",
        HMM_CELLS,
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
