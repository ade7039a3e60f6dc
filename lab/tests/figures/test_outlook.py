import math

import pandas as pd
import pytest

from dptransfer.privacy import Unit
from dptransfer_lab.explore import Outlook
from dptransfer_lab.figures.curves import predicted_curve


def test_the_curve_is_the_mean_and_says_that_it_is_a_prediction():
    rows = [("mean", e, share * e, None) for e in (0.5, 1.0, 2.0) for share in (0.1, 0.4, 0.1)]
    rows.append(("public", 1.0, math.nan, "no pool"))
    found = pd.DataFrame(rows, columns=["method", "at_epsilon", "accuracy", "refusal"])
    made = predicted_curve(Outlook(found, "made of dreams", 3))
    axes = made.figure.axes[0]
    (line,) = [line for line in axes.lines if line.get_label() == "mean"]
    assert line.get_xdata().tolist() == [0.5, 1.0, 2.0]
    assert line.get_ydata() == pytest.approx([0.1, 0.2, 0.4])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (pytest.approx(0.05), pytest.approx(0.8))
    assert "PREDICTION" in [text.get_text() for text in axes.texts]
    assert made.caption.endswith("made of dreams")
    assert "of 3 simulated tasks" in made.caption


@pytest.mark.parametrize("unit", Unit)
def test_axis_and_caption_say_whom_epsilon_would_protect(unit):
    found = pd.DataFrame([("mean", e, 0.5, None) for e in (1.0, 2.0)])
    found.columns = ["method", "at_epsilon", "accuracy", "refusal"]
    made = predicted_curve(Outlook(found, "made of dreams", 1, unit))
    for words in (made.figure.axes[0].get_xlabel(), made.caption):
        assert f"ε for one {unit.words}" in words
