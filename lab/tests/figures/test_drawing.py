import re
from xml.etree import ElementTree

import pytest

from dptransfer.base.document import Document, Section
from dptransfer_lab.figures.curves import curves
from dptransfer_lab.figures.style import DARK, styles_of
from dptransfer_lab.points import brief

from ..synthetic import cells, grid


def drawn(**more):
    frame = cells(grid(**{"seeds": 2, **more}))
    return curves(frame, styles_of(frame))[0]


@pytest.fixture
def made():
    return drawn()


def test_a_figure_becomes_files_with_the_same_bytes_each_time(made, tmp_path):
    kinds = ("svg", "png", "pdf")
    first, second, other = (
        {path.suffix: path.read_bytes() for path in one.save(tmp_path / name, kinds)}
        for name, one in (("a", made), ("b", drawn()), ("c", drawn(seeds=3)))
    )
    assert set(first) == {".svg", ".png", ".pdf"}
    assert first == second
    assert all(other[kind] != first[kind] for kind in first)
    assert first[".pdf"].startswith(b"%PDF")


def page(*drawings):
    return Document("t", sections=(Section("s", tuple(one.block() for one in drawings)),)).html()


def test_on_a_page_every_colour_has_a_dark_one_and_text_stays_text(made):
    text = page(made)
    svg = text[text.index("<svg") : text.index("</svg>")]
    style = svg[svg.index("<style>:root") : svg.index("</style>")]
    assert "@media" in style
    svg = svg.replace(style, "")
    assert not [light for light in (*made.dark, *DARK) if light in svg.lower()]
    assert set(made.dark) > set(DARK)
    for dark in made.dark.values():
        assert dark in text
    assert "balanced accuracy" in svg
    assert not re.search(r'(href|src)="(?!#)', svg)
    assert "2 seeds per point" in text


@pytest.mark.parametrize("name", ["_hidden", "a\nb\x00c", "long " * 50, "{0} %s", "\u8c93", "-- -->"])
def test_no_name_keeps_a_figure_from_being_drawn(name, tmp_path):
    """In the tests a warning is an error."""
    made = drawn(methods=("mean",), label=name, data=name, epsilons=(1.0, 2.0))
    svg, *_ = made.save(tmp_path, ("svg", "png"))
    shown = {text.text for text in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")}
    assert brief(name) in shown


def test_ids_of_figures_on_one_page_do_not_meet():
    frame = cells(grid(seeds=2, data=["a", "b"]))
    text = page(*curves(frame, styles_of(frame)), *curves(frame, styles_of(frame), over="data"))
    known = re.findall(r'\bid="([^"]+)"', text)
    assert len(known) == len(set(known))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= set(known)


def test_a_long_legend_does_not_squeeze_the_panels():
    few = cells(grid(("mean", "public"), seeds=1))
    many = cells(
        [one for label in range(12) for one in grid(("mean",), seeds=1, label=f"a rather long label {label}")]
    )
    heights = []
    for frame in (few, many):
        figure = curves(frame, styles_of(frame))[0].figure
        figure.draw_without_rendering()
        heights.append(figure.axes[0].get_window_extent().height)
    assert heights[1] > 0.85 * heights[0]
