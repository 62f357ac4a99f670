"""How a study is shown: the primitives table, the ledger of claims, the shipped networks beside their cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from textwrap import fill, shorten
from typing import Any

from windtunnel.cli import show
from windtunnel.json_numbers import from_json, to_json
from windtunnel.report.words import listed
from windtunnel.study.folder.ledger import tally
from windtunnel.study.primitive_rows import Row, in_order
from windtunnel.study.quantity import Quantity
from windtunnel.study.share import REALISED
from windtunnel.study.verdict import UNTESTED
from windtunnel.study.zoo import Checked

WIDE = 120  # characters from which on the ledger is a table
FEW = 3  # names of a long list that are told
REASON = 120  # characters of a reason beside others; --only tells it in full


def print_primitives(cells: Mapping[str, Mapping[str, Any]]) -> None:
    """Which share of each primitive was realised, networks and reference predictors alike: a table per world."""
    rows = in_order(cells)
    if not rows:
        show.print_text("no cell that tests a primitive is finished yet")
        return
    columns = ["who", "state", "share", "95% interval", f"seeds\nabove {REALISED:g}", "KL bits"]
    for (primitive, world), group in groupby(rows, key=lambda row: (row.primitive, row.world)):
        of_world = list(group)
        base = of_world[0].record
        title = f"{primitive}: {world}, where B = {base['base']} is {_number(base['base_bits'])} bits off"
        show.print_table(title, columns, map(_share_row, of_world), "llrrlr")
    print_share_legend()


def print_share_legend(more: str = "") -> None:
    """What a share is, below any table of them; `more` is said at the end."""
    show.print_text(
        "share = 1 − KL / KL(B), its interval over seeds or, for one network, over sequences. B has every primitive "
        "but the one tested: it stands at 0, exact inference at 1. A network whose whole interval lies below 0 has "
        f"failed at more than the primitive, which shows nothing about the primitive itself. {more}".rstrip(),
        "dim",
    )


def _share_row(row: Row) -> list[str]:
    record, seeds = row.record, ""
    share = record["share"]
    if row.network:
        seeds = f"{record['successes']} of {len(record['per_seed'])}"
        seeds += f", {record['diverged']} diverged" * bool(record["diverged"])
    value, interval = share["mean"], f"{_number(share['low'])} to {_number(share['high'])}"
    if record["bimodal"]:  # a mean of successes and failures describes no network
        value, interval = record["median"], "median; seeds differ"
    return [row.subject, row.spoken, _number(value), interval, seeds, _number(to_json(row.left_bits))]


def _number(value: Any) -> str:
    """A number as JSON holds it: None for none, the string "inf" for infinity."""
    return "–" if value is None else show.printed(from_json(value))


def print_ledger(entries: Sequence[Mapping[str, Any]], everything: bool = False) -> None:
    """How many claims came out how, those that were tested with their verdicts, and why the others were not.

    everything  a row for those that were not tested as well
    """
    show.print_text(f"{len(entries)} claims: {tally(entries)}", "bold")
    if shown := [entry for entry in entries if everything or entry["outcome"] != UNTESTED]:
        _print_entries(shown)
    untested = [] if everything else [entry for entry in entries if entry["outcome"] == UNTESTED]
    if untested:
        rows = [[str(len(names)), why, listed(names, FEW)] for why, names in _by_reason(untested).items()]
        show.print_table("", ["claims", "not tested, because", "which"], rows, "rll")
    hidden = "; --all also lists those that were not tested" * bool(untested)
    show.print_text(f"windtunnel claims STUDY --only CLAIM shows one of them in full{hidden}.", "dim")


def print_verdicts(entries: Sequence[Mapping[str, Any]]) -> None:
    """The ledger in short: each claim in words, and what became of it."""
    show.print_text(f"{len(entries)} claims: {tally(entries)}", "bold")
    rows = [[entry["claim"], entry["verdict"]] for entry in entries]
    show.print_table("", ["claim", "verdict"], rows, "ll")


def _print_entries(entries: Sequence[Mapping[str, Any]]) -> None:
    """A row for each claim; on a narrow terminal, where a table would leave out half of it, a paragraph."""
    screen = show.console()
    if screen.width >= WIDE:
        columns = ["claim", "in our words", "published", "measured", "verdict"]
        rows = [[entry["id"], entry["claim"], entry["published"], _value(entry), entry["verdict"]] for entry in entries]
        show.print_table("", columns, rows, "lllll")
        return
    for entry in entries:
        show.print_text(f"\n{entry['id']}: {entry['verdict']}", "bold")
        here = f"; here: {value}" if (value := _value(entry)) else ""
        for line in (entry["claim"], f"published: {entry['published']}{here}"):
            show.print_text(fill(line, screen.width, initial_indent="  ", subsequent_indent="  "))


def _by_reason(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Why claims were not tested -> their ids, the most common reason first.  All cells not run are one reason."""
    reasons = {entry["id"]: (*entry["reasons"], "no reason was given")[0] for entry in entries}
    absent = {entry["id"]: cell for entry in entries if (cell := entry.get("lacks"))}
    found: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        cells = f"they need cells that this study does not have: {listed(dict.fromkeys(absent.values()), FEW)}"
        found.setdefault(cells if name in absent else shorten(reason, REASON, placeholder=" …"), []).append(name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def print_claim(entry: Mapping[str, Any]) -> None:
    """One claim in full."""
    show.print_text(f"{entry['id']}: {entry['claim']}", "bold")
    rows = [["source", entry["source"]], ["published", entry["published"]], ["measured", entry["measured"]]]
    rows += [["cells", ", ".join(entry["cells"]) or "none"], ["verdict", entry["verdict"]]]
    if entry["p_value"] is not None:
        rows.append(["p", f"{entry['p_value']:.2g}, after Holm's correction {entry['adjusted_p_value']:.2g}"])
    rows += [[f"on {cell}", other["verdict"]] for cell, other in entry.get("elsewhere", {}).items()]
    rows += [["because" if not index else "", reason] for index, reason in enumerate(entry["reasons"])]
    show.print_table("", ["", ""], rows, "ll")


def print_costs(cells: Mapping[str, Mapping[str, Any]]) -> None:
    """What each cell took, and all of them together."""
    parts = {"sweep": "sweep", "setup": "set-up", "train": "training", "score": "scoring", "survey": "survey"}
    parts |= {"gpu": "of a GPU", "total": "in all"}
    made = {name: cell for name, cell in cells.items() if cell.get("seconds")}
    spent = {name: [cell["seconds"].get(part, 0.0) for part in parts] for name, cell in made.items()}
    rows = [
        [name, f"{len(cell['seeds'])} × {cell['sequences']:,}" if "seeds" in cell else "", *map(_seconds, spent[name])]
        for name, cell in made.items()
    ]
    rows.append(["all cells", "", *(_seconds(sum(column)) for column in zip(*spent.values()))])
    columns = ["cell", "seeds × sequences", *parts.values()]
    show.print_table("Seconds; cells run side by side on a GPU each count in full", columns, rows, "lrrrrrrrr")


def _seconds(spent: float) -> str:
    return f"{spent:,.0f}" if spent else ""


def print_zoo(checked: Sequence[Checked]) -> None:
    """Shipped networks, scored just now, beside their cards."""
    rows = []
    for one in checked:
        card = f"{show.printed(one.card.mean)}, {show.printed(one.card.low)} to {show.printed(one.card.high)}"
        live = f"{show.printed(one.live.mean)}, {show.interval(one.live)}"
        rows.append([one.name, live, card, "agrees" if one.agrees else "DIFFERS"])
    columns = ["network", "KL bits now, 95% interval", "KL bits on its card", ""]
    show.print_table("Shipped networks on fresh episodes", columns, rows, "lrrl")
    rule = (
        "agrees: now and card differ by no more than chance allows at 99%, assuming that so few episodes vary at least "
        "as much as those of the card."
    )
    tails = [one.name for one in checked if one.agrees and one.apart]
    if tails:
        rule += (
            f" The intervals of {', '.join(tails)} do not overlap: most of so small a KL comes from rare episodes. A "
            "small sample may contain none of them, and its interval is then too short."
        )
    show.print_text(rule, "dim")


def _value(entry: Mapping[str, Any]) -> str:
    """The number that decided, with its interval; and of what it is."""
    value, what = entry["value"], entry.get("of") or ""
    if value is None or value["mean"] is None:
        return ""
    known = Quantity.of_record(value).brief()
    return f"{what}: {known}" if what else known
