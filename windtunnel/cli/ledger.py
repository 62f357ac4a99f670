"""How a study is shown: the primitives table, the ledger of claims, the shipped networks beside their cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windtunnel.cli import show
from windtunnel.study.scorecard import scorecard
from windtunnel.study.verdict import OUTCOMES
from windtunnel.study.zoo import Checked


def print_scorecard(cells: Mapping[str, Mapping[str, Any]]) -> None:
    """Which share of each primitive was realised, networks and reference predictors alike."""
    rows = [[r.primitive, r.world, r.subject, r.state, r.told.partition(": ")[2]] for r in scorecard(cells)]
    if not rows:
        show.print_text("no cell that tests a primitive is finished yet")
        return
    show.print_table("Primitives", ["primitive", "world", "who", "state", "share = 1 − KL / KL(B)"], rows, "lllll")
    show.print_text("B has every primitive but the one tested: it stands at 0, exact inference at 1.", "dim")


def print_ledger(entries: Sequence[Mapping[str, Any]]) -> None:
    """Every claim with its verdict, one line each, and how many of each kind there are."""
    rows = [[entry["id"], entry["claim"], entry["published"], _value(entry), entry["verdict"]] for entry in entries]
    show.print_table("Claims", ["claim", "in our words", "published", "measured", "verdict"], rows, "lllll")
    counts = {outcome: sum(entry["outcome"] == outcome for entry in entries) for outcome in OUTCOMES}
    show.print_text(", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count))


def print_claim(entry: Mapping[str, Any]) -> None:
    """One claim in full."""
    show.print_text(f"{entry['id']}: {entry['claim']}", "bold")
    rows = [["source", entry["source"]], ["published", entry["published"]], ["measured", entry["measured"]]]
    rows += [["cells", ", ".join(entry["cells"])], ["verdict", entry["verdict"]]]
    if entry["p_value"] is not None:
        rows.append(["p", f"{entry['p_value']:.2g}, after Holm's correction {entry['adjusted_p_value']:.2g}"])
    rows += [["because" if not index else "", reason] for index, reason in enumerate(entry["reasons"])]
    show.print_table("", ["", ""], rows, "ll")


def print_zoo(checked: Sequence[Checked]) -> None:
    """Shipped networks, scored just now, beside their cards."""
    rows = []
    for one in checked:
        card = f"{show.number(one.card.mean)}, {show.number(one.card.low)} to {show.number(one.card.high)}"
        live = f"{show.number(one.live.mean)}, {show.interval(one.live)}"
        rows.append([one.name, live, card, "agrees" if one.agrees else "DIFFERS"])
    columns = ["network", "KL bits now, 95% interval", "KL bits on its card", ""]
    show.print_table("Shipped networks on fresh episodes", columns, rows, "lrrl")


def _value(entry: Mapping[str, Any]) -> str:
    value = entry["value"]
    if value is None or value["mean"] is None:
        return ""
    numbers = [show.number(float(value[part])) for part in ("mean", "low", "high") if value[part] is not None]
    if value["over"] == "exact" or len(numbers) < 3:
        return numbers[0]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
