import re

import pytest

from dptransfer.errors import MissingDependency
from dptransfer_lab.figures import drawing
from dptransfer_lab.figures.curves import curves
from dptransfer_lab.figures.style import css_colours, styles_of

from ..synthetic import grid


@pytest.fixture
def made():
    records = grid(seeds=2)
    return curves(records, styles_of(records))[0]


def test_a_figure_becomes_svg_and_png_with_the_same_bytes_each_time(made, tmp_path):
    first = {path.suffix: path.read_bytes() for path in made.save(tmp_path / "a")}
    records = grid(seeds=2)
    again = curves(records, styles_of(records))[0]
    second = {path.suffix: path.read_bytes() for path in again.save(tmp_path / "b")}
    assert set(first) == {".svg", ".png"}
    assert first == second
    other = grid(seeds=3)
    assert {
        p.suffix: p.read_bytes() for p in curves(other, styles_of(other))[0].save(tmp_path / "c")
    } != first


def test_an_inline_figure_has_no_colour_of_its_own_and_asks_for_nothing(made):
    text = made.inline()
    assert text.startswith("<svg role=")
    assert "var(--c0)" in text
    assert "var(--ink)" in text
    for light, _ in css_colours().values():
        assert light not in text.lower()
    assert not re.search(r'(href|src)="(?!#)', text)
    assert "balanced accuracy" in text  # text stays text


def test_ids_of_two_figures_on_a_page_do_not_meet(made):
    records = grid(seeds=2, data="other")
    other = curves(records, styles_of(records))[0]
    first, second = (set(re.findall(r' id="([^"]+)"', one.inline())) for one in (made, other))
    assert first
    assert not first & second
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', made.inline())
    assert set(used) <= first


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match=r"dptransfer\[bench\]"):
        drawing.sheet()


def test_a_long_legend_does_not_squeeze_the_panels():
    few = grid(("mean", "public"), seeds=1)
    many = [
        one for label in range(12) for one in grid(("mean",), seeds=1, label=f"a rather long label {label}")
    ]
    short, tall = (curves(records, styles_of(records))[0] for records in (few, many))
    heights = []
    for made in (short, tall):
        made.figure.draw_without_rendering()
        heights.append(made.figure.axes[0].get_window_extent().height)
    assert heights[1] > 0.85 * heights[0]
