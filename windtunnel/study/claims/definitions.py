"""Two published numbers for one thing, 7.5e-5 and 0.049 bits: under which definition does each hold?"""

from __future__ import annotations

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import HMM_CELLS, PAPER, PRIORS
from windtunnel.study.claims.fidelity import CURVE, ENTROPY, reaches
from windtunnel.study.evidence import Evidence, NotMeasured
from windtunnel.study.verdict import Verdict, held, jointly

WEAKER = CURVE | {"for the KL": "kl_bits"}
CHECKS = {"kl_bits": "for the KL", "tv": "for the total variation"}
MATCHED = 0.1  # share of what a uniform guess scores


def agree(evidence: Evidence) -> Verdict:
    """Where the entropy matches, do the distributions?  Every metric has the same line: a tenth of a uniform guess's.

    Entropies can agree while the distributions differ; so each network whose entropy error is small is asked whether
    its KL and total variation are small as well.  Those whose entropy error is not small are no case of the claim.
    """
    parts, untold = {}, []
    for prior, condition in PRIORS.items():
        lines = {m: MATCHED * evidence.baseline("hmm", "uniform", m, condition) for m in (ENTROPY, *CHECKS)}
        for cell in filter(evidence.has, HMM_CELLS):
            error = evidence.score(cell, ENTROPY, condition)
            if error.side(lines[ENTROPY]) != "below":
                told = f"{cell}, {prior}: entropy error {error}, not below {lines[ENTROPY]:.3g}: no match to check"
                untold.append(told)
                continue
            for metric, words in CHECKS.items():
                found, told = evidence.score(cell, metric, condition), f"{cell}, {metric}, {prior}, entropy matched"
                parts[f"{words} of {cell} {prior}"] = held(found, "below", lines[metric], told)
    if not parts:
        raise NotMeasured("; ".join(untold) or "needs a network on the HMM")
    return jointly(parts).because(*untold)


CLAIMS = [
    Claim(
        "hmm-transformer-7.5e-5",
        "A Transformer of the paper's HMM shape filters to 7.5e-5 bits at K = 20.",
        f"{PAPER} v1",
        "7.5e-5 bits",
        "entropy error per sequence on both priors, 9 layers of 256; weaker readings: averaged curve, KL",
        ("hmm-transformer-9x256", "hmm-references"),
        reaches("hmm-transformer-9x256", 7.5e-5, PRIORS, WEAKER),
    ),
    Claim(
        "hmm-transformer-0.049",
        "A Transformer of 2.67M parameters filters to 0.049 bits at K = 20.",
        f"{PAPER} v3",
        "0.049 bits (an exact filter that sees two observations scores 0.047 on the released prior)",
        "entropy error per sequence on both priors; weaker readings: averaged curve, KL",
        ("hmm-transformer", "hmm-references"),
        reaches("hmm-transformer", 0.049, PRIORS, WEAKER),
    ),
    Claim(
        "kl-and-tv-agree",
        "KL and total variation tell the same story as the entropy error.",
        f"{PAPER} v3",
        "a KL and total-variation check beside the entropy match",
        f"KL and total variation of every network whose entropy error is below {MATCHED:g} of a uniform guess's; the "
        f"line of each is the same share of the guess's",
        (*HMM_CELLS, "hmm-references"),
        agree,
    ),
]
