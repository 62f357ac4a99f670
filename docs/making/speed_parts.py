"""The parts of docs/results.md on speed, each from one kind of result file."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from tables import commit_of, load, made_with, one_batch, share_of_rate, short_commit, table

from windtunnel.training.speed.records import attempts_in
from windtunnel.training.speed.tables import notes, tables

GOAL = 3
"""What five seeds together may cost at most, in times of one, where one does not fill the card."""
BESIDE = ("profile", "evaluation", "growth", "startup", "compile")
"""Sections of `windtunnel bench` that have no part of their own."""
IN_USE = "peak of the allocator"
"""How older files name their kind of memory."""


def training_part(files: list[Path], earlier: list[Path]) -> list[str]:
    """Throughput of training steps; of sittings on one machine each, with what earlier sittings had."""
    results, before = ([load(file) for file in some] for some in (files, earlier))
    rows = [
        [
            row["case"],
            str(row["seeds"]),
            str(row["batch"]),
            f"{row['sequences_per_s']:,.0f}",
            f"{row['ms_per_step']:.2f}",
            share_of_rate(row, digits=1),
            f"{row['setup_s']:.0f}",
            commit_of(result["environment"]),
            "; ".join(
                f"{old['sequences_per_s']:,.0f} ({commit_of(one['environment'])})"
                for one in before
                for old in one["training"]
                if (old["case"], old["batch"]) == (row["case"], row["batch"])
            ),
        ]
        for result in results
        for row in result["training"]
    ]
    columns = ["case", "seeds", "batch", "sequences/s", "ms per step", "share of matrix rate", "set-up, s", "commit"]
    columns.append("sequences/s in earlier sittings")
    rates = " and ".join(f"{result['matrix_flops_per_s'] / 1e12:.0f}" for result in results)
    where = f"{made_with(results[0]['environment'])}; {rates} TFLOP/s in a large bfloat16 matrix product"
    where += "; set-up with a compiler's cache that tests and other networks had filled in part"
    picture = "![training, seeds together, growth and the parts of a step](speed.png)"
    first, last = one_batch(results[0]["training"]), one_batch(load(files[0].with_name("profile.json"))["profile"])
    made = (
        f"*Batches of {first} in the first panel, {last} in the last; the commits are those of the tables on this page."
        " Drawn by `python docs/making/speed_picture.py`.*"
    )
    return ["## Training throughput", "", picture, "", made, "", where, "", *table(columns, rows)]


def pairs_part(folder: Path) -> list[str]:
    """Throughput of every pair, from the attempts at records; and how long it took to set a network up."""
    rows, cold, warm, shared = [], [], [], {}
    for path in sorted(folder.glob("*.json")):
        result = load(path)
        attempt, recipe = attempts_in(result, path.name)[0], result["recipe"]
        pair = f"{recipe['tunnel']['name']} / {recipe['model']}"
        if attempt.note:
            shared[pair] = attempt.note  # beside other work neither rate nor set-up is the network's
            continue
        (warm if attempt.cache_filled else cold).append(attempt.setup_s[0])
        if recipe.get("first_batch"):
            continue  # a batch that grows has no one rate
        each = statistics.median(seed["seconds"] / seed["steps"] for seed in result["seeds"])
        rate, seeds = f"{recipe['batch'] / each:,.0f}", str(len(attempt.setup_s))
        rows.append([pair, attempt.recipe, f"{recipe['batch']:,}", rate, seeds, short_commit(attempt.commit)])
    missing = {pair: note for pair, note in shared.items() if pair not in {row[0] for row in rows}}
    columns = ["tunnel / model", "recipe", "batch", "sequences/s", "seeds", "commit"]
    where = (
        "From the attempts at times to fidelity (docs/records.md), whose clock stands still while a network is"
        " validated: the median over seeds. Building, compiling and capturing the first network of a process took"
        f" {_range(cold)} with nothing compiled before, and {_range(warm)} with a filled compiler's cache."
    )
    where += "".join(f" Left out: {pair} ({note})." for pair, note in missing.items())
    return ["## Throughput of every pair", "", where, "", *table(columns, rows)]


def _range(seconds: list[float]) -> str:
    return f"{min(seconds):.0f} to {max(seconds):.0f} s ({len(seconds)} processes)"


def seed_rows(files: list[Path]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Rows of five seeds in one step, each with the result that it is from; largest batches first.

    Where a case at a batch was measured twice, the file that comes last counts: `seeds.json`.
    """
    newest = {(row["case"], row["batch"]): (row, result) for result in map(load, files) for row in result["seeds"]}
    return sorted(newest.values(), key=lambda found: (-found[0]["batch"], found[0]["case"]))


def seeds_part(files: list[Path]) -> list[str]:
    """Five seeds in one step against one; and the same five times the work as one network's batch, for scale."""
    found = seed_rows(files)
    rows = [
        [
            row["case"],
            str(row["batch"]),
            f"{row['one_ms']:.2f}",
            f"{row['together_ms']:.2f}",
            f"{row['cost_of_one']:.2f} ×",
            f"{row['cost_of_batch']:.2f} ×",
            f"{100 * row['cost_of_batch'] / row['seeds']:.0f}%",
            f"{100 * row['busy_share']:.0f}%" if "busy_share" in row else "",
            commit_of(result["environment"]),
        ]
        for row, result in found
    ]
    columns = ["case", "batch", "one seed, ms", "five seeds, ms", "cost", "cost of five times the batch"]
    columns += ["one seed: share of the larger batch's rate", "one seed: time with a kernel running", "commit"]
    place = made_with(load(files[-1])["environment"])
    where = f"{place}; milliseconds per step. The share of kernel time comes from two measurements, and is good to"
    where += " about 2%."
    if any("busy_share" not in row for row, _ in found):
        where += " Where it is empty, other work was using the card in turns."
    cheaper = [row for row, _ in found if row["cost_of_one"] < row["cost_of_batch"]]
    did = f"in {len(cheaper)} of {len(rows)} cases" if cheaper else "in no case measured"
    dear = [row for row, _ in found if row["cost_of_batch"] < GOAL < row["cost_of_one"]]
    over = "; ".join(f"{row['case']} at a batch of {row['batch']} ({row['cost_of_one']:.2f})" for row in dear)
    full = f"{100 * GOAL / 5:.0f}%"
    beyond = [row for row, _ in found if row["cost_of_batch"] >= GOAL]
    missed = sum(row["cost_of_one"] > GOAL for row in beyond)
    scale = (
        f"The goal was at most {GOAL} times the cost of one seed wherever one seed does not fill the card. For scale:"
        " one network on a batch five times as large does the same work with one optimiser step instead of five, and"
        f" reads each weight once; {did} did five seeds cost less. How far one seed fills the card is its share of that"
        f" larger batch's sequences per second. From {full} on, five seeds as efficient as that batch would still miss"
        f" the goal; {missed} of {len(beyond)} cases there miss it. *What the card allows* has the least that"
        f" five Transformers could cost with the kernels there are. Below {full}, seeds together save time, but not all"
        " that could be saved. Not tried with several seeds: linear attention, the urn, and batches of 128 to 512 but"
        " for those in the table."
    )
    scale += f" Below {full} the goal is missed by {over}." if over else ""
    return ["## Five seeds in one step", "", where, scale, "", *table(columns, rows)]


def kernels_part(path: Path) -> list[str]:
    """Our GPU kernels against the plain form of the same, compiled, and against what would serve without them.  Older
    files do not have the latter."""
    result = load(path)
    told = any("instead" in row for row in result["kernels"])
    rows = []
    for row in result["kernels"]:
        ours, twin = row["ours"], row["twin"]
        timed = [f"{part[key]:.3f}" for key in ("forward_ms", "both_ms") for part in (ours, twin)]
        rows.append([row["kernel"], *timed, f"{twin['both_ms'] / ours['both_ms']:.1f} ×"])
        if told:
            instead = row.get("instead", {"what": "the reference", **twin})
            ratio = instead["both_ms"] / ours["both_ms"]
            rows[-1] += [instead["what"], f"{instead['both_ms']:.3f}", f"{ratio:.1f} ×"]
    columns = [
        "kernel",
        "forward, ms",
        "compiled reference",
        "both ways, ms",
        "compiled reference",
        "as fast, both ways",
    ]
    columns += ["without the kernel", "both ways, ms", "as fast as that"] * told
    where = made_with(result["environment"])
    if told:
        where += f", commit {commit_of(result['environment'])}. The reference is the plain code that a kernel is"
        where += " tested to equal; what a network would run without the kernel is listed beside it."
        where += _note(result)
    else:
        where += ", beside other work on the card: the ratios count. The reference is the plain code that a kernel is"
        where += " tested to equal; for attention and the core of Mamba something else would serve without the kernel,"
        where += " not measured here."
    return ["## Kernels against their reference implementations", "", where, "", *table(columns, rows)]


def _note(result: dict[str, Any]) -> str:
    return f" {result['note'][0].upper()}{result['note'][1:]}." if "note" in result else ""


def solves_part(path: Path) -> list[str]:
    """The kernel for triangular systems against the library's routine, by size."""
    result = load(path)
    rows = []
    for row in result["solves"]:
        pairs = [(row["ours"][key], row["library"][key]) for key in ("forward_ms", "both_ms")]
        timed = [f"{value:.3f}" for pair in pairs for value in pair]
        rows.append(
            [f"{row['size']} × {row['size']}", str(row["systems"]), *timed, f"{pairs[1][1] / pairs[1][0]:.2f} ×"]
        )
    columns = ["system", "how many", "forward, ms", "library", "both ways, ms", "library", "as fast, both ways"]
    where = f"{made_with(result['environment'])}, commit {commit_of(result['environment'])}. The library's routine is"
    where += f" `torch.linalg.solve_triangular`.{_note(result)}"
    return ["### Triangular systems by size", "", where, "", *table(columns, rows)]


def sampling_part(path: Path, place: str) -> list[str]:
    """Episodes per second beside plain NumPy."""
    result = load(path)
    rows = [
        [row["tunnel"], f"{row['episodes_per_s']:,.0f}", f"{row['over_plain']:.1f} ×", f"{row['over_tuned']:.1f} ×"]
        for row in result["rows"]
    ]
    columns = ["sampler", "episodes/s", "over plain NumPy", "over tuned NumPy"]
    environment = result["environment"]
    where = f"{made_with(environment)}, {environment['threads']} threads"
    return [f"## Sampling with exact posteriors on {place}", "", where, "", *table(columns, rows)]


TOGETHER = ("two seeds", "two processes")  # ways of benchmarks/cpu_paths.py to train two networks, not one


def ways_part(path: Path) -> list[str]:
    """Ways to take a training step on a CPU beside the one that is used.  Nothing, where that was not measured."""
    if not path.exists():
        return []
    result = load(path)
    rows, faster = [], []
    for row in result["rows"]:
        if "why_not" in row:
            rows.append([row["case"], row["way"], *[""] * 5, row["why_not"]])
            continue
        times = [f"{row['ms_per_step']:.2f}", f"{row['over_used']:.2f} ×", f"{row['median_over_used']:.2f} ×"]
        compiling = [f"{row[key]:.1f}" if row["compile_s"] else "" for key in ("compile_s", "compile_again_s")]
        whole = "" if row["way"] in TOGETHER else f"{row['preset_s']:.1f}"  # of one network, which two are not
        rows.append([row["case"], row["way"], *times, *compiling, whole])
        if row["over_used"] < 1 and row["way"] not in TOGETHER:
            faster.append(f"{row['case']}, {row['way']} ({row['over_used']:.2f} ×)")
    columns = ["case", "way", "ms per step", f"over {result['used']}", "ratio of medians"]
    columns += ["compiling, s", "compiling again, s", "all steps of the preset and compiling, s"]
    place = result["environment"]
    where = (
        f"{made_with(place)}, {place['threads']} threads, commit {commit_of(place)}; `benchmarks/cpu_paths.py`. A step"
    )
    where += f" of the quick preset. Training takes it in {result['used']}, each on a thread of its own. All ways took"
    where += " turns; the lower quartile of the turns counts, which other work on the machine disturbs least."
    where += f" `OMP_WAIT_POLICY` was {result['omp_wait_policy']} (the command line sets it to PASSIVE)."
    verdict = (
        f"Faster by the step than what training takes: {'; '.join(faster)}."
        if faster
        else "No other way to train one network was faster."
    )
    if any(row["way"] in TOGETHER for row in result["rows"]):
        verdict += " *Two seeds* train side by side, a thread each, as with `windtunnel train --seeds`, which takes as"
        verdict += (
            " many at a time as torch has threads; *two processes* have one network each, as `windtunnel reproduce`"
        )
        verdict += " does it. Their time is the wall time over the steps of both networks."
    return ["## Alternatives for the training step on a CPU", "", where, verdict, "", *table(columns, rows)]


def bench_part(path: Path, title: str) -> list[str]:
    """What `windtunnel bench` tells besides throughput: where a step goes, how it grows, evaluation and start-up.
    Nothing, where that was not measured."""
    if not path.exists():
        return []
    result = load(path)
    place = result["environment"]
    there = {section: result[section] for section in BESIDE if result.get(section)}
    lines = [line for made in tables(there) for line in (f"### {made.title}", "", *table(made.columns, made.rows))]
    where = f"{made_with(place)}, commit {commit_of(place)}; as `windtunnel bench` prints it."
    said = ". ".join([*notes(result), *filter(None, [result.get("note")])])
    if any(row.get("memory_kind", "").startswith(IN_USE) for row in result.get("growth", [])):
        said += (
            ". That is what was in use at one moment, and too little for seeds side by side, which hold room of their"
        )
        said += " own (`windtunnel bench` counts what is held since)"
    return [f"## {title}", "", where, "", *lines, *([f"{said}.", ""] if said else [])]
