"""What a linear map reads, and whether it is used: table and sentence, made from what `benchmarks/decoded.py` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tables import load, table

from windtunnel.report.words import enumerated

FILE = Path("cpu") / "decoded-by-penalty.json"
INERT, USED = 0.1, 0.75  # of the way to a donor's belief
QUARTER = 0.25  # of R²: what tells less of the entropy is not asked
NEARLY = 0.16  # of R²: a reader that has lost no more stands beside the best one

ONE = "hmm-transformer"  # the network whose numbers the sentence gives
WORDS = {"hmm-mamba": "Mamba", "hmm-lstm": "the LSTM", "bijection-transformer": "a bijection Transformer"}

Row = dict[str, Any]


def rows_of(results: Path) -> list[Row]:
    """Of the folder of the result files; none where it was not measured."""
    return load(results / FILE)["decoded"] if (results / FILE).exists() else []


def section(results: Path) -> list[str]:
    """For docs/geometry.md: R² and effect of the same map, by penalty."""
    rows = rows_of(results)
    if not rows:
        return []
    penalties = sorted({row["penalty"] for row in rows})
    told = []
    for network, target in dict.fromkeys((row["network"], row["target"]) for row in rows):
        mine = {row["penalty"]: row for row in rows if (row["network"], row["target"]) == (network, target)}
        cells = [f"{mine[p]['r_squared']:.2f} → {mine[p]['moved']:.3f}" for p in penalties]
        told.append([network, target, *cells, f"{sum(row['random'] for row in mine.values()) / len(mine):.3f}"])
    return [
        "**What is read depends on the reader.** Each entry is the R² of a linear map from the stream after the last"
        " block (on episodes that it was not fitted on, position regressed out) → how far a swap of the directions that"
        " the same map reads moves the prediction to the donor's belief. Columns are the map's ridge penalty, in units"
        " of the mean variance of a direction. Networks are those of `zoo/`, one seed each (`benchmarks/decoded.py`,"
        f" `benchmarks/results/{FILE}`)."
        " The map that reads best relies on directions of small variance, and moving the stream along them does next"
        " to nothing. A map kept off them by the penalty reads less, but along directions that carry the prediction."
        " Directions from which a quarter or more of the entropy can be read do not carry the prediction.",
        "",
        *table(["network", "target", *(f"penalty {p:g}" for p in penalties), "random directions"], told),
    ]


def finding(results: Path) -> tuple[str, str] | None:
    """In one sentence and in full; None unless it holds in each network, and in others than one."""
    rows = rows_of(results)
    networks: list[str] = list(dict.fromkeys(row["network"] for row in rows))
    belief = {name: [r for r in rows if r["network"] == name and r["target"] == "belief"] for name in networks}
    if not {ONE} < {*networks} or not all(belief.values()):  # the sentence says "in others", so it needs another one
        return None
    best = {name: max(mine, key=lambda row: row["r_squared"]) for name, mine in belief.items()}
    used = {}
    for name, mine in belief.items():
        enough = [row for row in mine if row["r_squared"] >= best[name]["r_squared"] - NEARLY and row["low"] > USED]
        if not enough or best[name]["high"] > INERT:
            return None
        used[name] = max(enough, key=lambda row: row["r_squared"])
    entropy = [row for row in rows if row["target"] == "entropy" and row["r_squared"] >= QUARTER]
    if not entropy or max(row["high"] for row in entropy) > INERT:
        return None
    first, second = best[ONE], used[ONE]
    others = [WORDS.get(name, name) for name in networks if name != ONE]
    alike = enumerated(others)
    span_read, span_moved = (
        f"{min(row[key] for row in used.values()):.2g} to {max(row[key] for row in used.values()):.2g}"
        for key in ("r_squared", "moved")
    )
    brief = (
        "Not necessarily. In an HMM Transformer, swapping in another episode's values along the directions of the map"
        f" that reads the belief best (R² {first['r_squared']:.2g}) moves the prediction {first['moved']:.2g} of the"
        f" way to that episode's belief; along those of a worse map (R² {second['r_squared']:.2g}),"
        f" {second['moved']:.2g} of the way. The same holds in {len(others)} other network{'s' * (len(others) > 1)}."
    )
    return brief, (
        "The linear map that reads the HMM Transformer's belief best after its last block (R²"
        f" {first['r_squared']:.2g}) relies on directions that hardly matter to the network: swapping in another"
        f" episode's values along them moves the prediction only {first['moved']:.2g} of the way to that episode's"
        f" belief. With a stronger penalty the map reads less ({second['r_squared']:.2g}), but along directions that"
        f" move the prediction {second['moved']:.2g} of the way. The same holds in {alike} (such maps: R² {span_read},"
        f" moved {span_moved}). So a good probe shows"
        " neither that a belief is used nor that it is not. The entropy can be read as well, but no direction that"
        f" carries a quarter of it or more moves the prediction (at most {max(row['moved'] for row in entropy):.2g})."
        " One network each ([geometry.md](geometry.md), *Further readings*)."
    )
