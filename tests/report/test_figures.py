"""Print figures: PDF and PNG for each view, told apart without colour."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from windtunnel.errors import InputError
from windtunnel.report.axes import apart, log_ticks
from windtunnel.report.figures import missing, names, without_switches, write_figures
from windtunnel.report.geometry_charts import manifold
from windtunnel.report.palette import DARK, LIGHT, contrast
from windtunnel.report.paper import draw, styles
from windtunnel.report.sections import sections

PAPER = {"entropy", "kl-per-step", "length", "key-cosines", "sharpening", "manifold", "simplices", "dissociation"}
PAPER |= {"ablation", "primitives"}


def test_the_papers_figures_can_be_drawn(source):
    assert PAPER <= set(names(source))
    assert any("clusters" in lack.what for lack in missing(source))


def test_pdf_and_png_of_each_kind_of_panel(source, tmp_path):
    only = ["primitives", "length", "manifold", "ablation", "key-cosines"]
    said: list[str] = []
    written = write_figures(source, tmp_path / "figures", only=only, say=said.append)
    assert len(said) == len(written) / 2 >= 7
    for path in written:
        content = path.read_bytes()
        assert content[:4] == (b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")
        if path.suffix == ".png":
            grey = np.asarray(Image.open(path).convert("L"))
            assert grey.shape[1] > 500 and (grey < 128).mean() > 0.001  # ink that a grey printer shows


def test_on_paper_each_colouring_has_its_own_panel(source):
    shown = manifold(source)
    assert shown is not None
    name = "hmm-transformer"
    assert len(without_switches(shown).views[name]) == 2 * len(shown.views[name])


def test_unknown_figure_in_one_line(source, tmp_path):
    with pytest.raises(InputError, match="only = 'cat': must be one of primitives, distance"):
        write_figures(source, tmp_path, only=["cat"])


def test_nothing_is_cut_off_at_the_edge_of_the_paper(source):
    charts = [chart for section in sections(source) for chart in section.charts]
    for chart in (without_switches(chart) for chart in charts):
        figure = draw(chart, next(iter(chart.views)))
        FigureCanvasAgg(figure).draw()
        (width, height), drawn = figure.get_size_inches(), figure.get_tightbbox()
        assert -0.03 < drawn.x0 and drawn.x1 < width + 0.03, chart.id
        assert -0.03 < drawn.y0 and drawn.y1 < height + 0.03, chart.id


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
