"""What the study finds: sentences that stand only as long as the verdicts they rest on.

Each names the claims it draws on and how they must have come out; its numbers are read from the study.  When a verdict
changes, the sentence is gone until someone writes a new one.  README.md has a line of each beside what the paper says,
docs/claims.md all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import readers
import unshown_page

from windtunnel.study.claims.length import LINES
from windtunnel.study.evidence import Evidence, NotMeasured, null_mean
from windtunnel.study.files import markdown
from windtunnel.study.primitives import PRIMITIVES
from windtunnel.study.quantity import Quantity, number
from windtunnel.study.results import StudyFolder
from windtunnel.study.scorecard import scorecard
from windtunnel.study.verdict import NOT, ONLY_AS, REPRODUCED

REPLACED = "bijection-replacement"
SAME_GROUPING = 0.9  # adjusted Rand: from here on two groupings are called the same


Words = Callable[[Evidence], str]


@dataclass(frozen=True)
class Finding:
    """A finding and what it rests on.

    paper     what it answers, in few words
    head      its first words
    rests_on  claim -> how it must have come out
    brief     evidence -> it in a sentence or two
    words     evidence -> the rest of it, after its first words
    """

    paper: str
    head: str
    rests_on: Mapping[str, str]
    brief: Words
    words: Words


class Told(NamedTuple):
    """A finding that holds, in words."""

    paper: str
    head: str
    brief: str
    words: str


OURS = "*(our question)*"


def findings(study: StudyFolder, results: Path) -> list[Told]:
    """Those that hold; of the study, and of benchmarks among the result files."""
    outcomes, evidence = {entry["id"]: entry["outcome"] for entry in study.ledger()}, study.evidence()
    found = []
    for finding in FINDINGS:
        if all(outcomes[claim] == outcome for claim, outcome in finding.rests_on.items()):
            with suppress(NotMeasured):
                found.append(Told(finding.paper, finding.head, finding.brief(evidence), finding.words(evidence)))
    if told := readers.finding(results):
        asked = f"{OURS} What a probe reads is what the network uses."
        found.append(Told(asked, "What can be read depends on the reader.", *told))
    if told := unshown_page.finding(results):
        found.append(Told(f"{OURS} A belief must be the target to be carried.", "A belief need not be shown.", *told))
    return found


def in_short(study: StudyFolder, results: Path) -> str:
    """For README.md: a row of each."""
    found = findings(study, results)
    if not found:
        return "Nothing yet that a verdict supports."
    lines = markdown(["the paper says", "we find"], [[told.paper, told.brief] for told in found])
    tested = {row.primitive for row in scorecard(study.cells()) if row.network}
    if untested := [primitive for primitive in PRIMITIVES if primitive not in tested]:
        lines += ["", f"Not yet run at full size: {', '.join(untested)}."]
    return "\n".join(lines)


def in_full(study: StudyFolder, results: Path) -> list[str]:
    """For docs/claims.md."""
    return [f"- **{told.head}** {told.words}" for told in findings(study, results)]


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


def _all_filter_brief(evidence: Evidence) -> str:
    found = [_error(evidence, f"hmm-{model}") for model in ("transformer", "mamba", "lstm", "mlp")]
    guess = evidence.baseline("hmm", "uniform", "entropy_mae_bits")
    stack = evidence.score("hmm-lstm-stacked-swept", "entropy_mae_bits").mean
    return (
        f"All four do: an entropy error of {found[0]} bits (Transformer), {found[1]} (Mamba), {found[2]} (LSTM with"
        f" residual blocks), {found[3]} (MLP that sees the context); a uniform guess has {guess:.2g}. An LSTM stacked"
        f" without skips, as the paper's ({stack:.2g}), and an MLP that sees one position do not."
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


def _binding_brief(evidence: Evidence) -> str:
    models = ("mamba", "lstm", "linear-attention")
    mamba, lstm, linear = (_share(evidence, f"bijection-replacement-{model}") for model in models)
    recall = [_share(evidence, f"recall-{model}") for model in ("transformer", "linear-attention")]
    longer = evidence.share("recall-mamba-long")
    below = number(evidence.share("recall-lstm")["share"]["mean"]) < 0  # worse than one who cannot bind
    failed = "; the LSTM's training failed there, which shows nothing" * below
    return (
        f"In bijection with replacement Mamba realises {mamba} of what binding is worth, the LSTM {lstm}, linear"
        f" attention, without a softmax, {linear}. In recall of 64 pairs, the harder test, the Transformer {recall[0]},"
        f" linear attention {recall[1]}; Mamba learns it on {longer['successes']} of {len(longer['per_seed'])} seeds,"
        f" trained longer{failed}."
    )


def _transport(evidence: Evidence) -> str:
    found = [_share(evidence, f"hmm-rotating-{model}") for model in ("lstm", "mamba", "transformer", "mlp")]
    return (
        f"On chains that rotate the LSTM realises {found[0]} of what moving a belief is worth, Mamba {found[1]} and the"
        f" Transformer {found[2]}. The MLP, with {found[3]}, is the one that does not, within our budget."
    )


def _transport_brief(evidence: Evidence) -> str:
    found = [_share(evidence, f"hmm-rotating-{model}") for model in ("lstm", "mamba", "transformer", "mlp")]
    return (
        f"On chains that rotate it realises {found[0]} of what that is worth (Mamba {found[1]}, Transformer"
        f" {found[2]}); an MLP, with {found[3]}, does not within our budget."
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


def _length_brief(evidence: Evidence) -> str:
    bare, learned = (
        _error(evidence, f"hmm-transformer-9x256{positions}", "length-50") for positions in ("", "-learned")
    )
    models = ("mamba", "transformer-9x256", "transformer", "lstm")
    mamba, large, small, lstm = (_error(evidence, f"hmm-{model}", "length-200-beyond") for model in models)
    return (
        f"At 50 it errs by {bare} bits without a position embedding, by {learned} with a learned one. At positions 21"
        f" to 200 Mamba goes on, with {mamba} bits; it has {large}, a smaller Transformer {small}, the LSTM {lstm}."
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


def _no_geometry_brief(evidence: Evidence) -> str:
    here = evidence.record("bijection-transformer", name="share of the largest head", method="zero").mean
    return (
        "None of the three. In bijection the first layer's keys are further from orthogonal than random ones and the"
        f" largest head does {here:.2g} of what all do (with replacement the heads are undecided); the clusters are the"
        " symbols just seen, as in an untrained network."
    )


def _holds(evidence: Evidence) -> str:
    uniform = evidence.baseline("bijection", "uniform", "kl_bits")
    kl = evidence.score("bijection-transformer", "kl_bits")
    return (
        f"In a bijection Transformer that is {kl.mean:.2g} bits from exact (a uniform guess: {uniform:.2g}) attention"
        " sharpens with depth, and without any one layer the error is more than ten times as large; on the HMM the"
        " belief is in the residual stream beyond what the last two observations tell."
    )


def _holds_brief(evidence: Evidence) -> str:
    kl = evidence.score("bijection-transformer", "kl_bits").mean
    return (
        f"The first two hold in a bijection Transformer that is {kl:.2g} bits from exact, the third on the HMM; that"
        " the stream is what *carries* it there is not reproduced."
    )


def _size(evidence: Evidence) -> str:
    found = evidence.cell("hmm-transformer-9x256")["parameters"]
    return f"Nine layers of width 256 have {found:,} parameters, not the 2.68 million that are stated."


FINDINGS = (
    Finding(
        "An LSTM and an MLP do not learn to filter an HMM.",
        "All four architectures learn to filter.",
        {"hmm-mamba-reaches": REPRODUCED, "hmm-lstm-fails": ONLY_AS, "hmm-mlp-fails": ONLY_AS},
        _all_filter_brief,
        _all_filter,
    ),
    Finding(
        "To bind a value to its key takes softmax attention: Mamba and an LSTM cannot.",
        "Binding is no privilege of attention.",
        {"mamba-binding": NOT, "lstm-binding": NOT, "softmax-necessary": NOT, "transformer-binding": REPRODUCED},
        _binding_brief,
        _binding,
    ),
    Finding(
        "An LSTM cannot carry a belief through the dynamics.",
        "Transport is not where an LSTM ends.",
        {
            "lstm-transport": NOT,
            "mamba-transport": REPRODUCED,
            "transformer-transport": REPRODUCED,
            "mlp-transport": ONLY_AS,
        },
        _transport_brief,
        _transport,
    ),
    Finding(
        f"Trained at 20 observations, the Transformer filters on: {LINES[50]:g} bits at 50.",
        "Of the paper's four architectures only Mamba goes on.",
        {"length-200": NOT, "length-50": ONLY_AS},
        _length_brief,
        _length,
    ),
    Finding(
        "Keys of the hypotheses are orthogonal, one head dominates, Mamba's last layer has a cluster per hidden state.",
        "Three well-known pictures do not hold.",
        {"orthogonal-keys": NOT, "one-frame-head": NOT, "mamba-five-clusters": NOT},
        _no_geometry_brief,
        _no_geometry,
    ),
    Finding(
        "Attention sharpens with depth, no layer can be spared, the belief is in the residual stream.",
        "Other statements hold.",
        {"sharpening": REPRODUCED, "every-layer": REPRODUCED, "belief-readable": REPRODUCED, "roles": ONLY_AS},
        _holds_brief,
        _holds,
    ),
    Finding(
        "The HMM Transformer has 2.68M parameters.",
        "The HMM Transformer is larger than stated.",
        {"capacity-match": NOT},
        _size,
        _size,
    ),
)
