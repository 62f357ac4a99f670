"""Print figures: PDF and PNG for each view, told apart without colour, with their numbers beside them."""

from __future__ import annotations

import csv
import warnings
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox
from PIL import Image

from windtunnel.errors import InputError
from windtunnel.report.axes import apart, log_ticks
from windtunnel.report.chart import Chart, Heat, Panel, Series, tidy, to_plain
from windtunnel.report.figures import FIGURES, missing, names, without_switches, write_figures
from windtunnel.report.geometry_charts import manifold
from windtunnel.report.palette import DARK, LIGHT, contrast
from windtunnel.report.print_charts import draw, styles
from windtunnel.report.sections import sections
from windtunnel.report.shares import primitives_table

PAPER = {"entropy", "kl-per-step", "length", "key-cosines", "sharpening", "manifold", "simplices", "dissociation"}
PAPER |= {"ablation", "primitives"}


def test_the_papers_figures_can_be_drawn(source):
    assert PAPER <= set(names(source)) <= set(FIGURES)
    assert any("clusters" in lack.what for lack in missing(source))


def test_pdf_and_png_of_each_kind_of_panel(source, tmp_path):
    only = ["primitives", "length", "manifold", "ablation", "key-cosines"]
    said: list[str] = []
    written = write_figures(source, tmp_path / "figures", only=only, say=said.append)
    assert len(said) == len(written) / 3 >= 7
    for path in written:
        content = path.read_bytes()
        assert content[:4] == {".pdf": b"%PDF", ".png": b"\x89PNG"}.get(path.suffix, content[:4])
        if path.suffix == ".png":
            grey = np.asarray(Image.open(path).convert("L"))
            assert grey.shape[1] > 500 and (grey < 128).mean() > 0.001  # ink that a grey printer shows


def test_beside_each_figure_are_its_numbers(source, tmp_path):
    """Those of its view alone; of all views together they are those of the chart on the page, and of the table."""
    write_figures(source, tmp_path, only=["primitives", "length", "manifold"])
    charts = [chart for section in sections(source) for chart in section.charts]
    for table in (primitives_table(source), *(tidy(c) for c in charts if c.id in ("length", "manifold"))):
        found = []
        for path in sorted(tmp_path.glob(f"{table.id}*.csv")):
            assert path.with_suffix(".pdf").exists() and path.with_suffix(".png").exists()
            with path.open(encoding="utf-8", newline="") as file:
                head, *rows = csv.reader(file)
            assert rows and set(head) <= set(table.columns)
            assert table.id == "primitives" or len({row[0] for row in rows}) == 1
            found += [{name: cell for name, cell in zip(head, row, strict=True) if cell} for row in rows]
        wanted = [
            {name: str(cell) for name, cell in zip(table.columns, row, strict=True) if cell not in (None, "")}
            for row in to_plain(table.rows)
        ]
        assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_on_paper_each_colouring_has_its_own_panel(source):
    shown = manifold(source)
    name = "hmm-transformer"
    assert len(without_switches(shown).views[name]) == 2 * len(shown.views[name])


@pytest.mark.parametrize(("plain", "left"), [(2, 2), (0, 8)])
def test_variants_give_way_only_to_plain_recipes(plain, left):
    lines = [Series(f"try-{i}", [1, 2], [0.1, 0.2], variant=i >= plain) for i in range(8)]
    chart = Chart(
        "entropy", "Entropy", "", "", {"hmm": [Panel(series=[Series("exact", [1], [1], role="exact"), *lines])]}
    )
    (panel,) = without_switches(chart).views["hmm"]
    assert len(panel.series) == left + 1


@pytest.mark.parametrize(("title", "told"), [("Do heads differ?", "Do heads differ? hmm"), ("Entropy", "Entropy: hmm")])
def test_a_question_needs_no_colon(title, told):
    chart = Chart("c", title, "", "", {"hmm": [Panel(series=[Series("a", [1, 2], [0.1, 0.2])])]})
    assert draw(chart, "hmm").get_suptitle() == told


def test_a_name_of_any_length_and_script_is_that_of_a_file_of_its_own(source, tmp_path):
    record = source.exhibits["urn-transformer"]
    exhibits = {name: record | {"name": name} for name in ("x" * 250, "x" * 249 + "y", "Ωμέγα", "a b", "A-b")}
    written = write_figures(replace(source, exhibits=exhibits), tmp_path, only=["manifold"])
    stems = {path.stem.lower() for path in written}
    assert len(stems) == len(exhibits) and all(stem.isascii() and len(stem) < 120 for stem in stems)


def test_unknown_figure_in_one_line(source, tmp_path):
    with pytest.raises(InputError, match="only = 'cat': must be one of primitives, distance"):
        write_figures(source, tmp_path, only=["cat"])


def drawn(chart, view):
    """A figure, laid out without a warning, from which nothing is cut off."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw(chart, view)
        FigureCanvasAgg(figure).draw()
    (width, height), found = figure.get_size_inches(), figure.get_tightbbox()
    assert -0.03 < found.x0 and found.x1 < width + 0.03, chart.id
    assert -0.03 < found.y0 and found.y1 < height + 0.03, chart.id
    return figure


def test_nothing_is_cut_off_at_the_edge_of_the_paper(source):
    for chart in (without_switches(chart) for section in sections(source) for chart in section.charts):
        drawn(chart, next(iter(chart.views)))


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("panels", [1, 4])
@pytest.mark.parametrize("words", [0, 60])
def test_few_rows_under_long_words_stay_readable(rows, panels, words):
    """Small networks have one row or two, and much to say of what could not be read."""
    names = [f"after layer {row}, decoded belief, with a penalty" for row in range(rows)]
    x, low, high = ([float(row + by) for row in range(rows)] for by in (0, -1, 2))
    dots = [
        Series(f"null: random direction {k}, equal size", x, names, low, high, f"{k}", "null", across=True)
        for k in range(4)
    ]
    dots.append(Series("measured", x, names, low, high, "measured", "points", across=True))
    panel = Panel("bits lost to ablation of a subspace", "bits", series=dots, note="Not here: it is. " * words)
    figure = drawn(Chart("x", "What is lost when a subspace is removed?", "", "", {"run": [panel] * panels}), "run")
    parts = [*figure.texts, *figure.legends, *figure.axes]
    for axes in figure.axes:
        assert axes.get_window_extent().height > 0.15 * rows * figure.dpi
        parts += [axes.title, axes.xaxis.label, *axes.get_yticklabels(), *axes.get_xticklabels()]
    extents = [part.get_window_extent() for part in parts if not getattr(part, "get_text", str)().startswith("−")]
    for one, other in combinations(extents, 2):
        both = Bbox.intersection(one, other)
        assert both is None or min(both.width, both.height) < 2, (one, other)


def test_values_in_a_matrix_have_room():
    layers = [str(layer) for layer in range(8)]
    panel = Panel("zero ablation", "layer", heat=Heat(["mixer", "whole layer"], layers, [[0.00071, 0.43] * 4] * 2))
    axes = drawn(Chart("x", "What each layer is worth", "", "", {"run": [panel] * 3}), "run").axes[0]
    ends = [text.get_window_extent() for text in axes.texts[:8]]
    assert all(left.x1 < right.x0 for left, right in pairwise(ends))


def test_an_interval_is_seen_whole_on_a_log_axis_with_ticks():
    dot = Series("measured", [0.0024], ["run"], [0.0008], [0.0081], "measured", "points", across=True)
    axes = drawn(Chart("x", "", "", "", {"run": [Panel("", "bits", log_x=True, series=[dot])]}), "run").axes[0]
    low, high = axes.get_xlim()
    assert low < 0.0008 and high > 0.0081 and len(axes.get_xticks()) >= 2
    assert len(log_ticks(0.0021, 0.0028)) == 1


def test_names_are_pushed_apart_and_stay_inside():
    assert apart([0.5, 0.5, 0.52], 0.1) == [0.5, 0.6, 0.7]
    assert apart([1.0, 0.99], 0.1) == [1.0, 0.9]
    assert apart([], 0.1) == []


def test_ticks_of_a_log_axis():
    assert list(log_ticks(1e-6, 1.0).values()) == ["10⁻⁶", "10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1"]
    assert list(log_ticks(1.5, 30).values()) == ["2", "5", "10", "20"]
    assert list(log_ticks(0.51, 0.62).values()) == ["0.6"]
    assert len(log_ticks(1e-20, 1.0)) <= 7


def test_no_two_names_of_a_figure_look_alike_even_in_grey(source):
    for chart in (chart for section in sections(source) for chart in section.charts):
        for panels in chart.views.values():
            on_axis = {series.name for panel in panels for series in panel.series if series.key == "baseline"}
            looks = {name: look for name, look in styles(panels).items() if name not in on_axis and "alpha" not in look}
            grey = [(look.get("ls"), look.get("marker"), look.get("mfc")) for look in looks.values()]
            assert len(set(grey)) == len(grey), chart.id


@pytest.mark.parametrize(("colours", "background"), [(LIGHT, "#ffffff"), (DARK, "#171c22")])
def test_lines_stand_out_from_their_background(colours, background):
    for colour in colours:
        assert contrast(colour, background) >= 3
