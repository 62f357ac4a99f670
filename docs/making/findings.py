"""The findings in short, at the top of README.md: sentences that stand only as long as the verdicts they rest on.

Each names the claims it draws on and how they must have come out; its numbers are read from the study.  When a verdict
changes, the sentence is gone until someone writes a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import readers
import unshown_page

from windtunnel.study.claims.length import LINES
from windtunnel.study.evidence import Evidence, NotMeasured, null_mean
from windtunnel.study.primitives import PRIMITIVES
from windtunnel.study.quantity import Quantity
from windtunnel.study.results import StudyFolder
from windtunnel.study.scorecard import scorecard
from windtunnel.study.verdict import NOT, ONLY_AS, REPRODUCED

REPLACED = "bijection-replacement"
SAME_GROUPING = 0.9  # adjusted Rand: from here on two groupings are called the same


@dataclass(frozen=True)
class Finding:
    """A sentence and what it rests on.

    head      its first words
    rests_on  claim -> how it must have come out
    words     evidence -> the rest of it, with its numbers
    """

    head: str
    rests_on: Mapping[str, str]
    words: Callable[[Evidence], str]


def findings(study: StudyFolder, results: Path) -> str:
    """Those that hold, one a line; of the study, and of benchmarks among the result files."""
    outcomes, evidence = {entry["id"]: entry["outcome"] for entry in study.ledger()}, study.evidence()
    lines = []
    for finding in FINDINGS:
        if all(outcomes[claim] == outcome for claim, outcome in finding.rests_on.items()):
            try:
                lines.append(f"- **{finding.head}** {finding.words(evidence)}")
            except NotMeasured:
                continue
    if found := readers.finding(results):
        lines.append(f"- **What can be read depends on the reader.** {found}")
    if found := unshown_page.finding(results):
        lines.append(f"- **A belief need not be shown.** {found}")
    tested = {row.primitive for row in scorecard(study.cells()) if row.network}
    if untested := [primitive for primitive in PRIMITIVES if primitive not in tested]:
        lines.append(f"- Not yet run at full size: {', '.join(untested)}.")
    return "\n".join(lines) or "Nothing yet that a verdict supports."


def _error(evidence: Evidence, cell: str, condition: str = "home") -> str:
    return f"{evidence.score(cell, 'entropy_mae_bits', condition).mean:.2g}"


def _share(evidence: Evidence, cell: str) -> str:
    return f"{Quantity.of_record(evidence.share(cell)['share']).mean:.4f}"


def _all_filter(evidence: Evidence) -> str:
    found = [_error(evidence, f"hmm-{model}") for model in ("transformer", "mamba", "lstm", "mlp")]
    names = ("uniform", "marginal", "window-4", "window-4-marginal")
    guess, header, window, started = (evidence.baseline("hmm", name, "entropy_mae_bits") for name in names)
    stack = evidence.score("hmm-lstm-stacked-swept", "entropy_mae_bits").mean
    return (
        "Trained on the exact belief as target, at 2.67M parameters and equal budget, the entropy error per sequence is"
        f" {found[0]} bits for the Transformer,"
        f" {found[1]} for Mamba, {found[2]} for an LSTM with residual blocks and {found[3]} for an MLP that sees the"
        f" context; a uniform guess has {guess:.2g}. The published failures are those of an MLP that sees one position,"
        f" and of an LSTM stacked without skips: with its own learning rate that one ends at {stack:.3f} bits, which is"
        f" what the header alone tells ({header:.3f}). These chains forget quickly: an exact filter of the last four"
        f" observations has {window:.2g}, or {started:.2g} if it starts from what the header alone tells."
    )


def _binding(evidence: Evidence) -> str:
    mamba, lstm, linear = (
        _share(evidence, f"bijection-replacement-{model}") for model in ("mamba", "lstm", "linear-attention")
    )
    longer, short = evidence.share("recall-mamba-long"), evidence.cell("recall-mamba")["sequences"]
    times = evidence.cell("recall-mamba-long")["sequences"] / short
    return (
        f"Looking up what was bound before, in bijection with replacement: {mamba} of what it is worth is realised by"
        f" Mamba and {lstm} by the LSTM, which the paper says cannot, and {linear} by linear attention, without a"
        " softmax. Recall of 64 pairs is harder: within the compared budget the Transformer learns it"
        f" ({_share(evidence, 'recall-transformer')}) and linear attention"
        f" ({_share(evidence, 'recall-linear-attention')}), Mamba with {times:.2g} times as much on"
        f" {longer['successes']} of {len(longer['per_seed'])} seeds. LSTM and MLP, which were not given more, end worse"
        " than one who knows which values were stored but not under which key: their training failed, so the test says"
        " nothing about binding."
    )


def _transport(evidence: Evidence) -> str:
    found = [_share(evidence, f"hmm-rotating-{model}") for model in ("lstm", "mamba", "transformer", "mlp")]
    return (
        f"On chains that rotate the LSTM realises {found[0]} of what moving a belief is worth, Mamba {found[1]} and the"
        f" Transformer {found[2]}. The MLP, with {found[3]}, is the one that does not, within our budget."
    )


def _length(evidence: Evidence) -> str:
    far = "length-200-beyond"
    models = ("mamba", "lstm", "transformer", "transformer-9x256")
    sides = [evidence.score(f"hmm-{model}", "entropy_mae_bits", far).side(LINES[50]) for model in models]
    if sides != ["below", "above", "above", "above"]:
        raise NotMeasured("another than Mamba goes on as well, or none")
    mamba, lstm, small, large = (_error(evidence, f"hmm-{model}", far) for model in models)
    bare, learned, other, least = (
        _error(evidence, f"hmm-{name}", "length-50")
        for name in ("transformer-9x256", "transformer-9x256-learned", "lstm", "mamba")
    )
    return (
        f"Trained on 20 observations and asked at positions 21 to 200, Mamba errs by {mamba} bits, the LSTM by {lstm},"
        f" the Transformer by {small}, with 7.1M parameters by {large}. At a length of 50 the paper's {LINES[50]:g} is"
        f" kept by its shape without a position embedding ({bare}), not with a learned one ({learned});"
        f" the LSTM has {other} there, Mamba {least}."
    )


def _no_geometry(evidence: Evidence) -> str:
    states, symbols = (
        evidence.record("hmm-mamba", f"adjusted Rand with the {what}").mean
        for what in ("likeliest state", "symbol just seen")
    )
    blank = [
        null_mean(r, "untrained") for r in evidence.readings("hmm-mamba", "adjusted Rand with the symbol just seen")
    ]
    if min(symbols, *blank) < SAME_GROUPING:
        raise NotMeasured("the clusters are not those of the symbol just seen, or not those of untrained networks")
    largest = {"name": "share of the largest head", "method": "zero"}
    here = evidence.record("bijection-transformer", **largest).mean
    there = evidence.record(f"{REPLACED}-transformer", **largest).values
    return (
        "In bijection the first layer's keys of the hypotheses are further from orthogonal than random ones; the"
        " largest head does"
        f" {here:.2g} of what all heads do, not most of it (with replacement {min(there):.2g} to {max(there):.2g} on"
        f" {len(there)} seeds); and the five clusters of Mamba's last layer are not the hidden states (adjusted Rand"
        f" {states:.2g}) but the symbols just seen ({symbols:.2g}), as in an untrained network."
    )


def _holds(evidence: Evidence) -> str:
    uniform = evidence.baseline("bijection", "uniform", "kl_bits")
    kl = evidence.score("bijection-transformer", "kl_bits")
    return (
        f"In a bijection Transformer that is {kl.mean:.2g} bits from exact (a uniform guess: {uniform:.2g}) attention"
        " sharpens with depth, and without any one layer the error is more than ten times as large; on the HMM the"
        " belief is in the residual stream beyond what the last two observations tell."
    )


def _size(evidence: Evidence) -> str:
    found = evidence.cell("hmm-transformer-9x256")["parameters"]
    return f"Nine layers of width 256 have {found:,} parameters, not the 2.68 million that are stated."


FINDINGS = (
    Finding(
        "All four architectures learn to filter.",
        {"hmm-mamba-reaches": REPRODUCED, "hmm-lstm-fails": ONLY_AS, "hmm-mlp-fails": ONLY_AS},
        _all_filter,
    ),
    Finding(
        "Binding is no privilege of attention.",
        {"mamba-binding": NOT, "lstm-binding": NOT, "softmax-necessary": NOT},
        _binding,
    ),
    Finding("Transport is not where an LSTM ends.", {"lstm-transport": NOT, "mamba-transport": REPRODUCED}, _transport),
    Finding(
        "Of the paper's four architectures only Mamba goes on.", {"length-200": NOT, "length-50": ONLY_AS}, _length
    ),
    Finding(
        "Three well-known pictures do not hold.",
        {"orthogonal-keys": NOT, "one-frame-head": NOT, "mamba-five-clusters": NOT},
        _no_geometry,
    ),
    Finding(
        "Other statements hold.",
        {"sharpening": REPRODUCED, "every-layer": REPRODUCED, "belief-readable": REPRODUCED},
        _holds,
    ),
    Finding("The HMM Transformer is larger than stated.", {"capacity-match": NOT}, _size),
)
