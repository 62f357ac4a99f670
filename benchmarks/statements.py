"""What the paper says about geometry and mechanism, and the rules by which survey files answer.

Each statement has a line in numbers (`claimed`, per seed) and a control (`controlled`, per seed).  Over seeds:

    every seed is over the line and beats its control     holds
    every seed is over the line, some control is not beaten    holds only without its control
    some seed is not over the line                        does not hold
    the data cannot tell                                  not identifiable
    no file, no such record, or a network that has not learned its task    not judged

"Beats its control" is p ≤ 0.05 against the strongest null of the record unless the rule says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

HOLDS, FAILS = "holds", "does not hold"
BARE, UNKNOWABLE, OPEN = "holds only without its control", "not identifiable", "not judged"
RATE = 0.05
LEARNED = 0.1  # a network has learned its task when its KL is below this share of the uniform guess's

Record = dict[str, Any]


class NotJudged(Exception):
    """Why there is no verdict."""


@dataclass(frozen=True)
class Cell:
    """The survey file of one world and architecture."""

    name: str
    content: dict[str, Any]

    def find(self, name: str, **where: Any) -> list[Record]:
        """Records of that name whose `where` agrees, a seed each (or several per seed); none is an error."""
        found = [
            record
            for record in self.content["records"]
            if record["name"] == name
            and "missing" not in record
            and all(record["where"].get(key) == value for key, value in where.items())
        ]
        if not found:
            raise NotJudged(self._why(name))
        return found

    def _why(self, name: str) -> str:
        told = [r["missing"] for r in self.content["records"] if "missing" in r and r["instrument"] in name]
        return told[0] if told else f"the survey has no record “{name}”"

    def require_learned(self) -> None:
        """A network that has learned nothing has nothing to show."""
        if "error" in self.content:
            raise NotJudged(self.content["error"])
        score = self.content["score"]
        worst, line = max(score["per_seed"]), LEARNED * score["uniform_kl_bits"]
        if not worst < line:
            raise NotJudged(f"not learned: KL {worst:.2g} bits, must be below {line:.2g}")


@dataclass(frozen=True)
class Line:
    """One answer: of which network, the verdict, and the numbers behind it in words."""

    network: str
    verdict: str
    numbers: str


def decide(claimed: Sequence[bool], controlled: Sequence[bool]) -> str:
    """The verdict over seeds."""
    if not claimed or not all(claimed):
        return FAILS
    return HOLDS if all(controlled) else BARE


def beats(record: Record) -> bool:
    """Whether a record is significant against its strongest null."""
    return record["p_value"] is not None and record["p_value"] <= RATE


def over_seeds(values: Sequence[float]) -> str:
    """`0.052 (0.049 to 0.055)`: mean and range over seeds."""
    values = [float(v) for v in values]
    mean = sum(values) / len(values)
    return f"{mean:.3g}" if len(values) == 1 else f"{mean:.3g} ({min(values):.3g} to {max(values):.3g})"


def values(records: Sequence[Record]) -> list[float]:
    return [record["value"] for record in records]


def null_words(records: Sequence[Record]) -> str:
    """Mean over seeds of each null's mean."""
    names = list(records[0]["nulls"])
    return "; ".join(f"{name} {over_seeds([r['nulls'][name]['mean'] for r in records])}" for name in names)


def largest_p(records: Sequence[Record]) -> str:
    found = [record["p_value"] for record in records if record["p_value"] is not None]
    return f"largest p {max(found):.2g}" if found else "no p-value"


# --- the judges: a cell in, lines out
def keys(cell: Cell) -> list[Line]:
    lines = []
    for group in ("values", "keys"):
        place = {"hypotheses": group, "path": "formed", "layer": 0, "head": "mean"}
        raw, centred = (cell.find(f"key cosine, {kind}", **place) for kind in ("raw", "centred"))
        claimed = [record["value"] < record["nulls"]["random vectors"]["low"] for record in raw]
        told = f"raw {over_seeds(values(raw))} [{null_words(raw)}]; centred {over_seeds(values(centred))}"
        told += f" [{null_words(centred)}], {largest_p(centred)}"
        lines.append(Line(f"{cell.name}, {group}", decide(claimed, [beats(record) for record in centred]), told))
    return lines


def sharpening(cell: Cell) -> list[Line]:
    found = cell.find("attention entropy, fall from first to last layer")
    claimed = [record["value"] >= 0.85 for record in found]
    told = f"fall {over_seeds(values(found))} [{null_words(found)}], {largest_p(found)}"
    return [Line(cell.name, decide(claimed, [beats(record) for record in found]), told)]


def manifold(cell: Cell) -> list[Line]:
    stream = "values" if cell.name.endswith("transformer") else "residual"
    alone = cell.find("entropy, position ignored, PC1", stream=stream)
    after = cell.find("entropy after position, PC1", stream=stream)
    told = f"{stream}: R² with position ignored {over_seeds(values(alone))}"
    if any(record["value"] is None for record in after):
        return [Line(cell.name, UNKNOWABLE, f"{told}; {after[0]['note']}")]
    claimed = [record["value"] >= 0.5 for record in alone]
    controlled = [beats(record) and record["value"] >= 0.5 for record in after]
    told += f"; after position {over_seeds(values(after))} [{null_words(after)}], {largest_p(after)}"
    return [Line(cell.name, decide(claimed, controlled), told)]


def first_component(cell: Cell) -> list[Line]:
    found = cell.find("PC1 share", stream="values")
    claimed = [record["value"] >= 0.84 for record in found]
    told = f"PC1 share {over_seeds(values(found))} [{null_words(found)}], {largest_p(found)}"
    return [Line(cell.name, decide(claimed, [beats(record) for record in found]), told)]


def dissociation(cell: Cell) -> list[Line]:
    (found,) = cell.find("frame–precision dissociation")[:1]
    if found["value"] is None or found["low"] is None:
        raise NotJudged(found["note"] or "needs an interval over seeds")
    controlled = [found["low"] > 0 and beats(found)]
    told = (
        f"values settle {found['value']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}] log10 steps after attention"
    )
    return [Line(cell.name, decide([found["value"] > 0], controlled), f"{told}, p {found['p_value']:.2g}")]


def every_layer(cell: Cell) -> list[Line]:
    lines = []
    for method in ("zero", "mean", "resample"):
        try:
            found = cell.find("bits lost to ablation", part="whole layer", method=method)
        except NotJudged:
            found = cell.find("bits lost to ablation", part="mixer", method=method)
        ratios = [1.0 + record["value"] / _mean(record["arrays"]["clean"]) for record in found]
        weakest = min(range(len(found)), key=lambda index: ratios[index])
        told = f"smallest factor {ratios[weakest]:.3g} (layer {found[weakest]['where']['layer']}), largest"
        told += f" {max(ratios):.3g}; {sum(map(beats, found))} of {len(found)} cost more than the nulls"
        verdict = decide([ratio > 10 for ratio in ratios], [beats(record) for record in found])
        lines.append(Line(f"{cell.name}, {method}", verdict, told))
    return lines


def one_head(cell: Cell) -> list[Line]:
    lines = []
    for method in ("zero", "mean", "resample"):
        share = cell.find("share of the largest head", method=method)
        number = cell.find("effective number of heads", method=method)
        claimed = [record["value"] >= 0.5 and record["where"]["layer"] == 0 for record in share]
        layers = ", ".join(str(record["where"]["layer"]) for record in share)
        told = f"share {over_seeds(values(share))} [{null_words(share)}], {largest_p(share)}; in layer {layers};"
        told += f" effective number of heads {over_seeds(values(number))}"
        lines.append(Line(f"{cell.name}, {method}", decide(claimed, [beats(record) for record in share]), told))
    return lines


def late(cell: Cell) -> list[Line]:
    found = cell.find("bits lost with late attention off")
    shortest, longest = (pick(record["where"]["length"] for record in found) for pick in (min, max))
    home = [r for r in found if r["where"]["length"] == shortest]
    far = [r for r in found if r["where"]["length"] == longest and r["where"]["positions"] == "beyond home length"]
    if not far:
        raise NotJudged("this network cannot be run beyond its trained length")
    small, large = (all(test) for test in ([r["value"] <= 0.01 for r in home], [r["value"] >= 0.1 for r in far]))
    told = f"length {shortest}: {over_seeds(values(home))} bits; length {longest}, new positions:"
    told += f" {over_seeds(values(far))} bits [{null_words(far)}], {largest_p(far)}"
    return [Line(cell.name, decide([small and large], [beats(record) for record in far]), told)]


def three_roles(cell: Cell) -> list[Line]:
    told, claimed, controlled = [], [], []
    for role, layer in (("carry", None), ("update", "all"), ("routing", "all")):
        place = {"role": role, "site": "at it"} | ({} if layer is None else {"layer": layer})
        try:
            found = cell.find("bits lost without a role", **place)
        except NotJudged:  # a network of one layer has no “all”
            found = cell.find("bits lost without a role", role=role, site="at it")
        best = [max((r for r in found if r["seed"] == seed), key=lambda r: r["value"]) for seed in _seeds(found)]
        claimed += [record["value"] >= 0.1 for record in best]
        controlled += [beats(record) for record in best]
        told.append(f"{role} {over_seeds(values(best))} bits [{null_words(best)}], {largest_p(best)}")
    return [Line(cell.name, decide(claimed, controlled), "; ".join(told))]


def five_clusters(cell: Cell) -> list[Line]:
    states = cell.content["settings"]["recipe"]["tunnel"]["states"]
    number = cell.find("clusters by silhouette")
    tight = cell.find(f"silhouette at {states} clusters")
    rand = cell.find("adjusted Rand with the likeliest state")
    claimed = [round(record["value"]) == states for record in number]
    told = f"number by silhouette {over_seeds(values(number))} [{null_words(number)}]; silhouette at {states}"
    told += f" {over_seeds(values(tight))} [{null_words(tight)}], {largest_p(tight)};"
    told += f" adjusted Rand {over_seeds(values(rand))} [{null_words(rand)}]"
    return [Line(cell.name, decide(claimed, [beats(record) for record in tight]), told)]


def collapse(cell: Cell) -> list[Line]:
    share = cell.find("PC1 share", stream="residual")
    entropy = cell.find("entropy, position ignored, all", stream="residual")
    claimed = [s["value"] >= 0.9 and e["value"] <= 0.05 for s, e in zip(share, entropy, strict=True)]
    told = f"PC1 share {over_seeds(values(share))} [{null_words(share)}], {largest_p(share)};"
    told += f" R² with entropy {over_seeds(values(entropy))}"
    return [Line(cell.name, decide(claimed, [beats(record) for record in share]), told)]


def decodable(cell: Cell) -> list[Line]:
    plain = cell.find("belief decoded, R²")
    beyond = cell.find("belief beyond windows 1 and 2, R²")
    claimed = [record["value"] >= 0.5 for record in plain]
    controlled = [record["value"] >= 0.1 and beats(record) for record in beyond]
    told = f"R² {over_seeds(values(plain))} [{null_words(plain)}]; beyond windows 1 and 2"
    told += f" {over_seeds(values(beyond))} [{null_words(beyond)}], {largest_p(beyond)}"
    return [Line(cell.name, decide(claimed, controlled), told)]


def _mean(numbers: Sequence[float]) -> float:
    return max(sum(numbers) / len(numbers), 1e-12)


def _seeds(records: Sequence[Record]) -> list[int]:
    return sorted({record["seed"] for record in records})


@dataclass(frozen=True)
class Statement:
    """One published statement.

    cells  where it is asked; the first is the network that the paper speaks of
    """

    title: str
    published: str
    rule: str
    cells: tuple[str, ...]
    judge: Callable[[Cell], list[Line]]

    def lines(self, cells: dict[str, Cell]) -> list[Line]:
        """The answers of all its cells."""
        found = []
        for name in self.cells:
            try:
                if name not in cells:
                    raise NotJudged("no result file")
                cells[name].require_learned()
                found += self.judge(cells[name])
            except NotJudged as why:
                found.append(Line(name, OPEN, str(why)))
        return found


BOTH = ("bijection-transformer", "bijection-replacement-transformer")
ATTENTIVE = (*BOTH, "hmm-transformer")
HMM = ("hmm-transformer", "hmm-mamba", "hmm-lstm")

STATEMENTS = (
    Statement(
        "Keys of rival hypotheses are orthogonal",
        "layer 0, mean absolute cosine 0.052 against 0.082 for random keys",
        "Line: the raw cosine lies below every draw of random vectors. Control: the centred cosine, which no shared"
        " offset can move, beats random vectors and untrained networks.",
        BOTH,
        keys,
    ),
    Statement(
        "Attention sharpens with depth",
        "attention entropy falls by 85–90% from the first to the last layer",
        "Line: a fall of at least 0.85. Control: more than untrained networks.",
        ATTENTIVE,
        sharpening,
    ),
    Statement(
        "Values lie on a curve ordered by entropy",
        "a manifold ordered by posterior entropy",
        "Line: the exact entropy explains at least half of the first component with position ignored. Control: it still"
        " does after position is regressed out, and beats shuffled labels, untrained networks and the embedding.",
        (*ATTENTIVE, "hmm-mamba", "hmm-lstm"),
        manifold,
    ),
    Statement(
        "The first component carries the values",
        "PC1 carries 84–90% of the variance",
        "Line: a share of at least 0.84 in the last layer. Control: more than untrained networks and the embedding.",
        ATTENTIVE,
        first_component,
    ),
    Statement(
        "Frame–precision dissociation",
        "attention settles early while the value manifold keeps unfurling",
        "Line: values settle after attention. Control: the interval over seeds excludes 0, and exchanging the names at"
        " random does not do it.",
        ATTENTIVE,
        dissociation,
    ),
    Statement(
        "Every layer is indispensable",
        "removing any one layer costs more than 10 × in error",
        "Line: the KL without each layer is more than 10 times the whole network's. Control: each costs more than"
        " damage of equal size in a random direction, and than in untrained networks.",
        (*ATTENTIVE, "hmm-mamba", "hmm-lstm"),
        every_layer,
    ),
    Statement(
        "One frame head dominates",
        "one layer-0 head; no other does comparable damage",
        "Line: the largest head is in layer 0 and has at least half of all that heads cost. Control: its share is"
        " larger than that of random subspaces of equal rank, and than in untrained networks.",
        ATTENTIVE,
        one_head,
    ),
    Statement(
        "Late attention is needed only beyond the trained length",
        "top two layers off: 0.0016 bits at K = 20, 1.79 at K = 50",
        "Line: at most 0.01 bits lost at home and at least 0.1 at the new positions of the longest length. Control:"
        " more than damage of equal size in a random direction.",
        ("hmm-transformer",),
        late,
    ),
    Statement(
        "Carry, update and routing are each necessary",
        "the residual stream carries, feed-forward updates, attention routes",
        "Line: each costs at least 0.1 bits when taken away at one readout. Control: more than damage of equal size in"
        " a random direction, and than in untrained networks.",
        (*ATTENTIVE, "hmm-lstm"),
        three_roles,
    ),
    Statement(
        "The last layer forms one cluster per hidden state",
        "Mamba has five clusters, corners of the belief simplex",
        "Line: as many clusters as states by silhouette. Control: tighter clusters than the exact belief itself,"
        " without any network, put through the same instrument.",
        ("hmm-mamba", "hmm-transformer", "hmm-lstm"),
        five_clusters,
    ),
    Statement(
        "The LSTM collapses",
        "R² with entropy 0.004, PC1 92.3%",
        "Line: a first component of at least 0.9 and at most 0.05 of the variance explained by entropy. Control: a"
        " larger first component than in untrained networks.",
        ("hmm-lstm",),
        collapse,
    ),
    Statement(
        "The belief is linearly readable, beyond the last two observations",
        "the residual stream holds the belief",
        "Line: at least half of the exact belief decoded from the last layer. Control: at least a tenth of what the"
        " last two observations do not tell, and more than in untrained networks and shuffled episodes.",
        (*HMM, "bijection-replacement-transformer"),
        decodable,
    ),
)
