"""Print figures: PDF and PNG for each view, told apart without colour."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from windtunnel.errors import InputError
from windtunnel.report.figures import missing, names, without_switches, write_figures
from windtunnel.report.geometry_charts import manifold
from windtunnel.report.palette import DARK, LIGHT

PAPER = {"entropy", "kl-per-step", "length", "key-cosines", "sharpening", "manifold", "simplices", "dissociation"}
PAPER |= {"ablation", "primitives"}


def test_the_papers_figures_can_be_drawn(source):
    assert PAPER <= set(names(source))
    assert {lack.what.split(",")[0] for lack in missing(source)} == {"clusters"}


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


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("colours", "background"), [(LIGHT, "#ffffff"), (DARK, "#171c22")])
def test_lines_stand_out_from_their_background(colours, background):
    for colour in colours:
        light, dark = sorted([luminance(colour), luminance(background)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3
