"""What a model says about many inputs."""

import pytest

from dptransfer.base.document import Bullets, Table, plain
from dptransfer.release.prediction_report import EXAMPLES, prediction_report

from .models import make_model

LABELS = ["cat"] * 30 + ["dog"] * 9 + [None]
SCORES = [0.99 - 0.01 * place for place in range(30)] + [0.3 + 0.01 * place for place in range(9)] + [0.1]
ANSWERS = [
    {
        "input": f"<{place}>.png",
        "label": label,
        "score": score,
        "set": ["cat", "dog"] if score < 0.9 else ["cat"],
    }
    for place, (label, score) in enumerate(zip(LABELS, SCORES, strict=True))
]


def small(places):
    return tuple(b"picture %d" % place for place in places)


@pytest.fixture(scope="module")
def report():
    return prediction_report(make_model(), "folder", ANSWERS, small)


def table(report, title):
    (found,) = [one.blocks[0] for one in report.sections if one.title == title]
    assert isinstance(found, Table)
    return [row[:2] for row in found.rows]


def lists(report):
    return [one.blocks[0] for one in report.sections if isinstance(one.blocks[0], Bullets)]


def test_labels_scores_and_sets_are_counted(report):
    assert table(report, "Labels") == [("cat", "30"), ("dog", "9"), ("no label", "1")]
    assert [count for _, count in table(report, "Scores")] == ["1", "9", "20", "0", "10"]
    assert table(report, "Prediction sets") == [("1", "10"), ("2", "30")]
    (never,) = [one.blocks[0] for one in report.sections if "no input" in one.title]
    assert plain(never.text) == "1: eel"


def test_examples_are_the_surest_of_each_label_and_the_least_sure_of_all(report):
    surest, least = lists(report)
    assert surest.pictures[:3] == ((b"picture 0",), (b"picture 38",), (b"picture 39",))
    assert len(surest.items) == len(least.items) == EXAMPLES
    assert least.pictures[0] == (b"picture 30",)
    assert plain(least.items[0]).startswith("dog 30.0%")
    assert plain(least.items[0]).endswith("<30>.png")


def test_no_example_is_shown_twice_and_few_are_all_shown():
    few = prediction_report(make_model(), "folder", ANSWERS[:4])
    (only,) = lists(few)
    assert len(only.items) == 4
    assert only.pictures == ()


@pytest.mark.parametrize("answers", [ANSWERS, []])
def test_every_form_can_be_made_and_shows_names_as_text(answers):
    report = prediction_report(make_model(), "<b>", answers, small)
    assert "<b>" not in report.html()
    assert "<0>" not in report.html()
    assert report.text()
    assert report.markdown()
    assert "picture" not in str(report.to_dict())
