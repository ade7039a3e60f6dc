import numpy as np
import pytest
from PIL import Image

from dptransfer_lab.demo.curve import Dot
from dptransfer_lab.demo.pictures import draw_curve, draw_prototypes, draw_recall
from dptransfer_lab.demo.reference import Result

pytest.importorskip("matplotlib")

RESULTS = [
    Result("ours", "ε = 1", (0.9, 0.1), (1,)),
    Result("probe", "not private", (1.0, 0.8), (1,)),
    Result("pool", "sees no private picture", (0.2, 0.2), (1,)),
]


def colours(path):
    with Image.open(path) as image:
        return {colour for _, colour in image.convert("RGB").getcolors(2**20)}


def test_recall_shows_the_private_and_the_open_bars(tmp_path):
    path = draw_recall(tmp_path / "new" / "recall.png", RESULTS, ("a", "b"), (5, 9), "note")
    assert {(0x0B, 0x6E, 0x99), (0xC9, 0xD1, 0xD6)} <= colours(path)


def test_the_curve_is_drawn_with_and_without_a_public_line(tmp_path):
    dots = [Dot(0.5, 0.4, 0.3, 0.5), Dot(1.0, 0.6, 0.5, 0.7)]
    both = draw_curve(tmp_path / "both.png", dots, RESULTS)
    one = draw_curve(tmp_path / "one.png", dots, RESULTS[:2])
    assert both.read_bytes() != one.read_bytes()


def test_the_sheet_shows_the_pictures_that_were_chosen(tmp_path):
    chosen = {name: np.full((8, 8), value, np.uint8) for name, value in (("a", 40), ("b", 90))}
    other = {name: np.full((8, 8), value, np.uint8) for name, value in (("a", 140), ("b", 190))}
    path = draw_prototypes(tmp_path / "sheet.png", chosen, other, ("chosen", "example"), "note")
    greys = {red for red, green, blue in colours(path) if red == green == blue}
    assert all({shade - 1, shade, shade + 1} & greys for shade in (40, 90, 140, 190))  # the colour map rounds
