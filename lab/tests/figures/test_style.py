import itertools
import re
from importlib.resources import files

import numpy as np
import pytest

from dptransfer.methods import METHODS, About
from dptransfer.methods.about import Colour
from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.figures import style
from dptransfer_lab.figures.style import DARK, dark_colours, styles_of
from dptransfer_lab.results import frame_of

from ..synthetic import record

# Machado et al. (2009), severity 1: how colours look to people without one kind of cone.
SEEN = {
    "deuteranopia": np.reshape(
        [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881], (3, 3)
    ),
    "protanopia": np.reshape(
        [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998], (3, 3)
    ),
}
# What one figure of a paper puts side by side.
TOGETHER = ("public-prior", "mean", "public", "top-k", "least-squares", "global-adapt")


def linear(colour):
    shares = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(light):
    whole = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x = whole @ np.clip(light, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    dark, bright = sorted(0.05 + linear(each) @ [0.2126, 0.7152, 0.0722] for each in (one, other))
    return bright / dark


def styles(*methods):
    return styles_of(frame_of([record(name) for name in methods]))


def test_every_method_has_a_look_that_no_other_has_whoever_else_is_there():
    found = styles(*METHODS)
    looks = [(one.light, one.marker) for one in found.values()]
    assert len(set(looks)) == len(METHODS)
    assert all(style.marker not in "Xx8" for style in found.values())
    assert styles("public")["public"] == found["public"]


def test_variants_share_colour_and_marker_and_differ_in_dashes_or_fill():
    records = [record("top-k", label=f"K = {k}") for k in (10, 2, 1, 20, 5, 3)]
    found = styles_of(frame_of(records))
    assert list(found) == [f"K = {k}" for k in (1, 2, 3, 5, 10, 20)]  # numbers in order, not letters
    assert len({(style.light, style.marker) for style in found.values()}) == 1
    assert len({(str(style.dashes), style.fill) for style in found.values()}) == 6


def test_what_is_not_private_is_dotted_with_crosses_in_the_colour_of_the_right_method():
    found = styles(*METHODS, *AS_PUBLISHED)
    for name in AS_PUBLISHED:
        assert found[name].marker in "Xx1234"
        assert "NOT PRIVATE" in found[name].words
    printed = [found["as-published-top-k"], found["as-published-top-k-from-zero"]]
    assert len({style.marker for style in printed}) == 2
    assert found["as-published-mean"].light == found["mean"].light
    assert found["as-published-mean-estimation"].light == found["mean-estimation"].light
    assert found["as-published-top-k-from-zero"].light == found["top-k"].light


@pytest.mark.parametrize("eyes", SEEN)
def test_colours_of_one_figure_keep_apart_for_people_who_see_fewer(eyes):
    found = styles(*TOGETHER)
    seen = {name: lab(SEEN[eyes] @ linear(style.light)) for name, style in found.items()}
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 10, (one, other)
    red, green = (lab(SEEN["deuteranopia"] @ linear(colour)) for colour in ("#cc6633", "#a08000"))
    assert np.linalg.norm(red - green) < 25  # the measure does see what is lost


def test_colours_can_be_read_on_their_page():
    for one in styles(*METHODS).values():
        assert contrast(one.light, "#ffffff") > 2.7
        assert contrast(one.dark, DARK["#ffffff"]) > 4
    assert contrast("#f0e442", "#ffffff") < 2.7  # Okabe and Ito's yellow would not do


def test_every_colour_has_a_counterpart_for_dark_pages():
    known = dark_colours(list(styles(*METHODS).values()))
    assert all(light != dark for light, dark in known.items())
    file = (files("dptransfer_lab.figures") / "report.mplstyle").read_text()
    used = re.findall(r"^[\w.]+: ([0-9a-f]{6})$", file, flags=re.MULTILINE)
    assert {f"#{colour}" for colour in used} == set(DARK)


def test_a_method_of_somebody_elses_has_a_look_of_its_own_making(monkeypatch):
    class Theirs:
        about = About(colour=Colour("#123456", "#abcdef"), marker="*")

    monkeypatch.setattr(style, "METHODS", {**METHODS, "theirs": Theirs})
    found = styles("theirs", "as-published-theirs-too", "mean")
    assert list(found) == ["mean", "theirs", "as-published-theirs-too"]
    theirs = found["theirs"]
    assert (theirs.light, theirs.dark, theirs.marker) == ("#123456", "#abcdef", "*")
    assert found["as-published-theirs-too"].light == "#123456"


def colliding(name, count):
    """Names whose derived colour is that of one of our own methods."""
    wanted, names = METHODS[name].about.colour, (f"theirs-{n}" for n in range(1000))
    return list(
        itertools.islice((one for one in names if About().complete(one, None).colour == wanted), count)
    )


def test_methods_of_others_share_no_colour_with_ours_or_with_each_other():
    first, second = colliding("public-prior", 2)
    records = [record(method) for method in (first, "public-prior", second, "mean")]
    looks = styles_of(frame_of(records))
    assert len({look.light for look in looks.values()}) == 4
    assert looks["public-prior"].light == METHODS["public-prior"].about.colour.light
    assert looks == styles_of(frame_of(records[::-1]))
    assert {look.light: look.dark for look in looks.values()}.items() <= dark_colours(looks.values()).items()
    alone = styles_of(frame_of([record(first)]))[first]
    assert alone.light == About().complete(first, None).colour.light  # what it has where nobody has it
