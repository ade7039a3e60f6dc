import numpy as np
import pytest
from PIL import Image

from dptransfer.release import evaluate_scores
from dptransfer_lab.demo.pictures import draw_curve, draw_prototypes, draw_recall
from dptransfer_lab.demo.sets import Result

pytest.importorskip("matplotlib")


def result(name, promise, right):
    """Of ten test pictures of either class, so many are right."""
    labels = np.repeat([0, 1], 10)
    hit = np.arange(20) % 10 < np.repeat(right, 10)
    scores = np.eye(2)[np.where(hit, labels, 1 - labels)]
    return Result(name, promise, evaluate_scores(scores, labels, classes=(0, 1)))


RESULTS = [
    result("ours", "ε = 1", (9, 1)),
    result("probe", "not private", (10, 8)),
    result("pool", "sees no private picture", (2, 2)),
]


def colours(path):
    with Image.open(path) as image:
        return {colour for _, colour in image.convert("RGB").getcolors(2**20)}


def test_recall_and_the_curve_are_drawn_with_and_without_a_public_line(tmp_path):
    assert draw_recall(tmp_path / "new" / "recall.png", RESULTS, ("a", "b"), (5, 9), "note").is_file()
    dots = {0.5: [0.3, 0.4, 0.5], 1.0: [0.5, 0.6, 0.7]}
    both, one = (draw_curve(tmp_path / f"{n}.png", dots, RESULTS[:n]) for n in (3, 2))
    assert both.read_bytes() != one.read_bytes()


def test_the_sheet_shows_the_pictures_that_were_chosen(tmp_path):
    chosen = {name: np.full((8, 8), value, np.uint8) for name, value in (("a", 40), ("b", 90))}
    other = {name: np.full((8, 8), value, np.uint8) for name, value in (("a", 140), ("b", 190))}
    path = draw_prototypes(tmp_path / "sheet.png", chosen, other, ("chosen", "example"), "note")
    greys = {red for red, green, blue in colours(path) if red == green == blue}
    assert all({shade - 1, shade, shade + 1} & greys for shade in (40, 90, 140, 190))  # the colour map rounds
