"""Pages that are made from results say what the results say; the geometry page, the README and the ledger agree."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import windtunnel
import windtunnel as wt
from tests.study.planted import Planted
from tests.study.plants import CANNOT, PLANTS, keys, order
from windtunnel.errors import InputError
from windtunnel.study.claims import GEOMETRIC
from windtunnel.study.folder.results import StudyFolder
from windtunnel.study.paper_plan import SURVEYED
from windtunnel.study.primitive_rows import in_order
from windtunnel.study.verdict import INCONCLUSIVE, NOT, ONLY_AS, REPRODUCED, UNTESTED
from windtunnel.training import Recipe, recipe_for
from windtunnel.training.speed.cases import cases
from windtunnel.training.speed.rates import AS_TRAINED, work_of
from windtunnel.training.speed.records import Attempt
from windtunnel.tunnels import HMM

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs" / "making"))

import again_part  # noqa: E402
import claims_page  # noqa: E402
import geometry_page  # noqa: E402
import limit_part  # noqa: E402
import map_page  # noqa: E402
import pages  # noqa: E402
import primitives_figure  # noqa: E402
import readme_parts  # noqa: E402
import readme_speed  # noqa: E402
import speed_picture  # noqa: E402
from tables import markdown, share_of_rate  # noqa: E402


def test_the_committed_pages_are_up_to_date():
    line = [sys.executable, "docs/making/pages.py", "--check"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_picture_of_the_primitives_says_where_what_it_cannot_show_lies():
    """An arrow with the number for what is off the axis; a key; 0 and 1; and shapes for who sees no colours."""
    space = "{http://www.w3.org/2000/svg}"
    study = StudyFolder(ROOT / "results" / "paper")
    drawn = ElementTree.fromstring(primitives_figure.figure(study))
    words = [text.text for text in drawn.findall(f"{space}text")]
    arrows = {mark.findtext(f"{space}title"): mark for mark in drawn.findall(f"{space}polygon")}
    rows = [row for row in in_order(study.cells()) if row.network and not row.record["bimodal"]]
    beyond = [row for row in rows if row.record["share"]["mean"] < primitives_figure.LEAST]
    assert beyond
    for row in beyond:
        assert f"{row.record['share']['mean']:.2f}".replace("-", "−") in words
        points = arrows[f"{row.subject}, {row.world}: {row.told}"].get("points").split()
        assert float(points[0].split(",")[0]) >= primitives_figure.LEFT  # within its panel
    panels = len({(row.primitive, row.world) for row in rows})
    assert [words.count(tick) for tick in ("0", "1")] == [panels, panels]
    looks = primitives_figure.LOOKS
    for state in {row.state for row in rows}:
        assert looks[state][2] in words
    assert all(told in words for _, told in primitives_figure.MARKS)
    assert (
        len({shape for _, shape, _ in looks.values()}) == len({colour for colour, *_ in looks.values()}) == len(looks)
    )


def stale(root: Path) -> str:
    """What the check complains of; nothing if all is well."""
    try:
        pages.main(["--root", str(root), "--check"])
    except SystemExit as complaint:
        return str(complaint)
    return ""


def write(root: Path) -> None:
    pages.main(["--root", str(root)])


@pytest.fixture
def root(tmp_path) -> Path:
    """A repository with everything but a study."""
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path / "benchmarks" / "results")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("README.md", "zoo/README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def plant() -> Planted:
    """A study in which every claim has an answer, of all five kinds."""
    p = Planted()
    for name, one in PLANTS.items():
        if name != "primitives-table":
            how = {"value-manifold": "no", "sharpening-target": "straddle"}.get(name, "no" if name in CANNOT else "yes")
            one(p, how)
    for reading in p.cells["bijection-replacement-transformer"]["survey"]:
        if reading["name"] == "entropy after position, PC1":
            reading["value"] *= 0.1
    for name in filter(p.cells.__contains__, SURVEYED):
        p.learned(name)
    return p


def test_pages_follow_a_study_and_notice_every_change(root):
    p = plant()
    study = p.write(root / "results" / "paper")
    assert "docs/geometry.md" in stale(root)
    write(root)
    assert not stale(root)
    told = (root / "docs" / "geometry.md").read_text()
    ledger = {entry["id"]: entry for entry in study.ledger()}
    for claim in GEOMETRIC:
        assert f"## {claim.words}" in told and f": {geometry_page.answer(ledger[claim.id])}**" in told
    assert {ledger[claim.id]["outcome"] for claim in GEOMETRIC} == {REPRODUCED, ONLY_AS, NOT, INCONCLUSIVE, UNTESTED}
    assert "**reproduced only without the position control**" in told and "a made-up card, torch 2, Python 3" in told
    readme = (root / "README.md").read_text()
    assert f"\n{len(ledger)} statements (" in readme and "| **transformer** | ✓ 0.99" in readme
    figure = ElementTree.fromstring((root / "docs" / "primitives.svg").read_text())
    assert len(figure.findall("{http://www.w3.org/2000/svg}circle")) > 50

    # a number in a cell: the ledger is stale first, and then the pages
    cell = study.cell("bijection-transformer")
    for reading in cell["survey"]:
        reading["value"] = None if reading["value"] is None else reading["value"] * 0.3
    study.write_cell("bijection-transformer", cell)
    assert "results/paper/claims.json" in stale(root)
    write(root)
    assert (root / "docs" / "geometry.md").read_text() != told and not stale(root)
    # a number in a page
    (root / "README.md").write_text((root / "README.md").read_text().replace("✓ 0.99", "✓ 1.00"))
    assert "README.md" in stale(root) and "geometry" not in stale(root)
    # a study that is gone: its pages go with it
    shutil.rmtree(root / "results")
    write(root)
    assert not (root / "docs" / "geometry.md").exists() and not stale(root)
    assert "has not been run yet" in (root / "README.md").read_text()


def test_what_is_reproduced_only_in_part_shows_the_number_of_each_part(tmp_path):
    """A reader of docs/claims.md alone must see why it says "only"."""
    p = Planted()
    PLANTS["lstm-entropy"](p, "yes")
    for reading in p.cells["hmm-lstm"]["survey"]:
        if reading["name"] == "entropy decoded, R²":
            reading["value"] += 0.5
    study = p.write(tmp_path)
    (row,) = [line for line in claims_page.page(study, tmp_path).splitlines() if "| `lstm-entropy` |" in line]
    _, found, verdict = row.rsplit(" | ", 2)
    first, second = found.split(". But ")
    assert first.startswith("R² of the first component of hmm-lstm's last layer with entropy: 0.0")
    assert second.startswith("R² of entropy read by a linear map from hmm-lstm's last layer, held-out sequences: 0.5")
    assert verdict.startswith("reproduced only for its first component, not for what a linear map reads")


def test_a_bar_inside_a_field_does_not_end_it():
    assert markdown(["a", "b"], [["|x|", 1]]) == ["| a | b |", "|---|---|", "| \\|x\\| | 1 |"]


def test_shares_of_an_older_count_are_counted_again(tmp_path):
    """Older rows were counted on the path with taps, and say nothing of how: too much for Transformers, too little for
    linear attention; the others are the same by either count."""
    for case, other in (("hmm/transformer", 1.05), ("hmm/lstm", 1.0), ("hmm/linear-attention", 0.9)):
        counted = work_of(cases("cuda")[case]).flops_per_sequence
        old = {"case": case, "share_of_peak": 0.2 * other, "flops_per_sequence": counted * other}
        assert share_of_rate(old) == share_of_rate(old | {"share_of_peak": 0.2, "flops_counted": AS_TRAINED}) == "20%"


def test_the_picture_of_speed_is_drawn_from_what_the_tables_tell():
    """`python docs/making/speed_picture.py` draws it anew."""
    drawn = speed_picture.merged(ROOT / "benchmarks" / "results" / "h200")
    shares = [f"{100 * row['share_of_peak']:.1f}%" for row in drawn["training"]]
    page = (ROOT / "docs" / "results.md").read_text()
    assert all(f"| {share} |" in page for share in shares)
    assert speed_picture.digest_in(ROOT / "docs" / "speed.png") == speed_picture.digest(drawn)


def test_the_digest_of_the_picture_of_speed_follows_every_row():
    drawn = speed_picture.merged(ROOT / "benchmarks" / "results" / "h200")
    for section in ("training", "seeds", "growth", "profile"):
        assert speed_picture.digest(drawn | {section: drawn[section][:-1]}) != speed_picture.digest(drawn)


def test_the_limit_is_that_of_products_and_bytes():
    """By hand, for two layers, on a card of so slow or so fast products that one of the two decides throughout."""
    tunnel = wt.tunnels.Bijection(symbols=4, length=4)
    shape = {"depth": 2, "width": 8, "heads": 2, "ff_width": 16}
    recipe = Recipe(tunnel, "transformer", shape, batch=10)
    slow, fast = (
        limit_part.least(recipe, rate, 4.4e12, {"batch": 5, "sampling_ms": 0.3, "optimiser_ms": 0.7})
        for rate in (1e9, 1e30)
    )
    rows, read = 10 * 7, 10 * 4  # k1 v1 k2 v2 k3 v3 k4, of which the keys are read
    between = rows * (8 * 20 + 2 * 8 * 28 + 16 * 10) + read * (2 * 8 * 28 + 16 * 10)
    assert slow.between == fast.between == pytest.approx(1e3 * between / 4.4e12)
    assert (slow.sampling, slow.optimiser) == (pytest.approx(0.6), 0.7)
    attention = 2 * 6 * 2 * rows * 7 * 8
    assert slow.attention == pytest.approx(1e3 * attention / 1e9)
    assert slow.products == pytest.approx(1e3 * (10 * work_of(recipe).flops_per_sequence - attention) / 1e9)
    assert fast.attention == pytest.approx(1e3 * rows * 2 * 8 * 22 / 4.4e12)
    through = [(rows, 8, 24)] * 2 + [(n, *sizes) for n in (rows, read) for sizes in ((8, 8), (8, 16), (16, 8))]
    assert fast.products == pytest.approx(3e3 * sum(2 * (n * (a + b) + a * b) for n, a, b in through) / 4.4e12)


def test_the_bandwidth_of_a_kernel_is_its_bytes_over_its_time():
    """By hand, for the same two layers: three additions are normed by the kernel, the last of them at readouts only."""
    tunnel = wt.tunnels.Bijection(symbols=4, length=4)
    recipe = Recipe(tunnel, "transformer", {"depth": 2, "width": 8, "heads": 2, "ff_width": 16}, batch=10)
    times = {"_add_norm_kernel": 2.0, "_bias_gelu_backward_kernel": 0.5, "nvjet": 9.0}
    found = limit_part.reached(recipe, {"operations": [{"operation": k, "ms": ms} for k, ms in times.items()]})
    assert found == {
        "_add_norm_kernel": pytest.approx((2 * 70 + 40) * 8 * 12 / 2e-3),
        "_bias_gelu_backward_kernel": pytest.approx((70 + 40) * 16 * 6 / 0.5e-3),
    }


def test_times_to_fidelity_say_how_many_seeds_and_which_settings():
    """Five seeds make a record; fewer are counted; none that passed is said; another world's time is not this one's."""

    def attempt(recipe: str, *seconds: float, target: float = 0.01) -> Attempt:
        return Attempt(("a card", recipe.split("-")[0], "any", target), recipe, seconds, (), "", "", "")

    small = replace(attempt("hmm-mamba", *[0.1] * 5), key=("a card", "hmm states=2", "any", 0.01))
    tried = [attempt("bijection-lstm", *[4.0] * 5), attempt("hmm-mamba", 3.0, 5.0), small]
    tried += [attempt("bijection-lstm", *[math.inf] * 5, target=1e-4)]
    tried += [attempt("hmm-lstm steps=9", 1.0, 2.0, *[math.inf] * 3)]
    told = {
        ("bijection/lstm", 1e-2): "4.0",
        ("bijection/lstm", 1e-4): "not reached",
        ("hmm/mamba", 1e-2): "4.0 (2 of 2)",
        ("hmm/lstm", 1e-2): "not reached† (2 of 5)",
        ("hmm/mlp", 1e-2): "",
    }
    assert {key: readme_speed._seconds(tried, *key) for key in told} == told


def test_no_page_shows_a_name_in_place_of_its_value():
    """A string that has lost its f."""
    places = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for path in places:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
        assert re.findall(r"\{[a-z_]+(?:\.[a-z_]+|\[[^]]*\])*(?::[^}]*)?\}", re.sub(r"`[^`]*`", "", text)) == [], path


def test_float32_is_held_against_bfloat16_of_the_same_recipe(tmp_path):
    score = {"mean": 2e-4, "low": 1e-4, "high": 3e-4, "over": "seeds", "scale": "log"}
    folders = {precision: tmp_path / precision for precision in ("bfloat16", "float32")}
    for number, (precision, folder) in enumerate(folders.items(), 1):
        folder.mkdir()
        home = {name: score | {"per_seed": [1e-4 / number, 3e-4 / number]} for name in again_part.COMPARED}
        recipe = {"seeds": [0, 1], "steps": 10, "precision": precision}
        result = {"name": "r", "recipe": recipe, "scores": {"home": home}, "environment": {"commit": f"c{number}"}}
        (folder / "r.json").write_text(json.dumps(result))
    assert again_part.precision_part(folders["bfloat16"], tmp_path / "not measured") == []
    told = again_part.precision_part(*folders.values())
    assert "KL, bits: bfloat16 | float32 | ratio" in told[4] and "0.5 [" in told[6] and "c1 → c2" in told[6]
    other = json.loads((folders["float32"] / "r.json").read_text())
    other["recipe"]["steps"] = 20
    (folders["float32"] / "r.json").write_text(json.dumps(other))
    with pytest.raises(InputError, match="must be of the same recipe and seeds"):
        again_part.precision_part(*folders.values())
    (folders["bfloat16"] / "r.json").unlink()
    with pytest.raises(InputError, match=r"float32/r\.json: must have its like, .*bfloat16/r\.json"):
        again_part.precision_part(*folders.values())


def test_attempts_are_held_against_a_training_where_both_were_on_the_way(tmp_path):
    """At the last validation before an attempt of the newest file of that recipe ended, between two of its looks."""
    recipe = {"name": "r", "seeds": [0, 1, 2], "steps": 300}
    history = [{"step": step, "kl_bits": 1 / step} for step in (100, 200, 300)]
    first = {"name": "r", "recipe": recipe, "environment": {"commit": "first"}}
    first["history"] = {str(seed): [{"step": 0, "kl_bits": 1.0}, *history] for seed in recipe["seeds"]}
    curves = [[[0.1, 150, 4e-2], [0.3, 250, 1e-2]], [[0.1, 150, 4e-3], [0.4, 300, 2.5e-4]]]
    attempt = {
        "name": "r",
        "recipe": recipe | {"seeds": [0]},
        "date": "2026-02-01",
        "environment": {"commit": "second"},
    }
    attempt["seeds"] = [{"seed": seed, "curve": curve} for seed, curve in enumerate([*curves, curves[0]], 1)]
    older = attempt | {"date": "2026-01-01", "environment": {"commit": "older"}}
    changed = attempt | {"date": "2026-03-01", "recipe": recipe | {"steps": 200}}
    for name, one in {"attempt": attempt, "older": older, "changed": changed}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    row = again_part._row_on_the_way(first, tmp_path)
    assert row is not None and row[:3] == ["r", "200 of 300", "2"] and row[-1] == "first → second"
    # Seeds 1 and 2 at step 200: half-way from 0.04 to 0.01, and a third of the way from 4e-3 to 2.5e-4; then 1/200.
    ratio = (0.02 * 4e-3 * (2.5e-4 / 4e-3) ** (1 / 3)) ** 0.5 * 200
    assert row[5].startswith(f"{ratio:.3g}")
    strangers = [one | {"seed": one["seed"] + 7} for one in attempt["seeds"]]
    (tmp_path / "attempt.json").write_text(json.dumps(attempt | {"seeds": strangers}))
    row = again_part._row_on_the_way(first, tmp_path)
    assert row is not None and row[-1] == "first → older"  # the newest of those that share seeds
    (tmp_path / "older.json").unlink()
    assert again_part._row_on_the_way(first, tmp_path) is None
    (tmp_path / "attempt.json").unlink()
    assert again_part._row_on_the_way(first, tmp_path) is None


def test_a_result_that_fits_nowhere_is_one_line(monkeypatch, capsys):
    def refuse(root):
        raise InputError("r.json: must have its like")

    monkeypatch.setattr(pages, "ledger", refuse)
    with pytest.raises(SystemExit) as stopped:
        pages.main(["--check"])
    assert stopped.value.code == 2 and capsys.readouterr().err == "error: r.json: must have its like\n"


def test_the_map_has_every_file_and_every_room_in_the_order_of_the_house():
    told = map_page.page(ROOT)
    rooms = [line.removeprefix("## ") for line in told.splitlines() if line.startswith("## ")]
    assert rooms == [*windtunnel._ROOMS, "cli"]
    files = [path for path in (ROOT / "windtunnel").rglob("*.py") if not path.name.startswith("__")]
    assert told.count("\n- `") == len(files) > 200
    assert not [line for line in told.splitlines() if line.startswith("- `") and line[-1] not in ".?"]


def test_another_folder_is_refused_in_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        pages.main(["--root", str(tmp_path)])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1 and "must be the folder of the repository" in said


def test_the_words_of_an_answer():
    told = {"outcome": ONLY_AS, "only_as": "as in untrained networks", "reasons": [""]}
    assert geometry_page.answer(told) == "reproduced only as in untrained networks"
    plain = {REPRODUCED: "reproduced", NOT: "not reproduced", INCONCLUSIVE: "undecided", UNTESTED: "not judged"}
    for outcome, words in plain.items():
        assert geometry_page.answer({"outcome": outcome, "reasons": ["needs a cell"]}) == words
    back = {"outcome": INCONCLUSIVE, "held_back": "p = 0.02, not enough among 30 tests", "reasons": [""]}
    assert geometry_page.answer(back) == "undecided (p = 0.02, not enough among 30 tests)"
    unknowable = {"outcome": UNTESTED, "reasons": ["x: no reading (not identifiable: position fixes the entropy)"]}
    assert geometry_page.answer(unknowable) == "not identifiable"


def test_other_networks_stand_below_the_statement_with_their_own_answers(tmp_path):
    p = Planted()
    keys(p, "yes")
    order(p, "yes")
    other = p.cell("bijection-replacement-transformer")
    other["survey"] += [r | {"value": r["value"] + 0.2} for r in p.cells["bijection-transformer"]["survey"]]
    study = p.write(tmp_path)
    (entry,) = [entry for entry in study.ledger() if entry["id"] == "orthogonal-keys"]
    told = "\n".join(geometry_page.section(entry))
    first, below = told.split("**bijection-replacement-transformer: not reproduced**")
    assert "**bijection-transformer: reproduced**" in first and "- bijection-transformer, " not in first
    assert "Holm" in first and "Holm" not in below and below.count("\n- ") >= 2
    json.dumps(entry)


def test_what_a_network_is_made_of():
    tunnel = HMM()
    options = {"depth": 2, "width": 48, "heads": 3, "positions": "rope"}
    attentive = recipe_for(tunnel, "transformer").with_options(model_options=options)
    shape, positions, optimiser = geometry_page.made_of(attentive)
    assert (shape, positions) == ("2 × 48, 3 heads", "rope")
    assert f"batch {attentive.batch:,}" in optimiser and f"AdamW {attentive.optimiser.lr:.2g}" in optimiser
    shape, positions, _ = geometry_page.made_of(recipe_for(tunnel, "lstm"))
    assert shape.endswith(", residual") and positions == "–"


def test_a_verdict_that_the_correction_takes_back_says_so_on_the_page(tmp_path):
    p = Planted()
    p.learned("bijection-transformer")
    for metric in ("entropy_mae_bits", "curve_mae_bits"):
        p.score("bijection-transformer", metric, [0.0025, 0.0024, 0.0029, 0.0021, 0.0022])
    for name in ("every-layer", "sharpening", "value-manifold"):
        PLANTS[name](p, "straddle")
    study = p.write(tmp_path)
    (row,) = [line for line in claims_page.page(study, tmp_path).splitlines() if "0.003 bits (v1)" in line]
    assert "[0.00206, 0.00281] over 5 seeds; the claim needs it below 0.003" in row
    assert row.endswith("| inconclusive (p = 0.017, not enough among 5 tests) |")


def test_each_part_of_the_readme_has_its_place():
    text = "a\n<!-- made: one -->\nold\n<!-- end -->\nb\n"
    assert readme_parts.filled(text, {"one": "new"}) == "a\n<!-- made: one -->\nnew\n<!-- end -->\nb\n"
    with pytest.raises(ValueError, match="places for"):
        readme_parts.filled(text, {"one": "new", "two": "more"})
