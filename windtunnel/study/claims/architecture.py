"""Is softmax attention necessary, and do more heads help?"""

from __future__ import annotations

from windtunnel.study.claim import Claim
from windtunnel.study.claims.common import PAPER
from windtunnel.study.claims.primitives import cannot, cells_of
from windtunnel.study.compare import ratio
from windtunnel.study.evidence import Evidence
from windtunnel.study.verdict import Verdict, held

HALF = 0.5


def more_heads(evidence: Evidence) -> Verdict:
    """KL with twelve heads over KL with one, at equal width and depth."""
    many, one = (evidence.score(f"hmm-transformer-heads-{heads}", "kl_bits") for heads in (12, 1))
    told = f"KL with 12 heads {many}, with 1 head {one}"
    return held(ratio(many, one), "above", HALF, "KL with 12 heads over KL with 1").because(told)


CLAIMS = [
    Claim(
        "softmax-necessary",
        "Retrieval by content needs softmax attention.",
        PAPER,
        "no number: models without it are said to lack random-access binding",
        "share of binding that a linear-attention model (gated delta rule) realises; one that passes 0.95 refutes it",
        cells_of("linear-attention", "binding", controls=True),
        cannot("linear-attention", "binding"),
    ),
    Claim(
        "more-heads",
        "One frame is enough: more heads do not help.",
        PAPER,
        "no number",
        f"KL with 12 heads over KL with 1 on the HMM, 6 layers of 192; the line is {HALF}",
        ("hmm-transformer-heads-1", "hmm-transformer-heads-12"),
        more_heads,
    ),
]
