import pytest

from dptransfer.privacy import Budget
from dptransfer_lab.explore import Outlook, Prediction
from dptransfer_lab.figures.outlook import predicted_curve


def test_the_curve_is_the_median_and_says_that_it_is_a_prediction():
    found = tuple(
        Prediction("mean", Budget(epsilon=e, delta=1e-5), (0.1 * e, 0.3 * e, 0.2 * e))
        for e in (0.5, 1.0, 2.0)
    )
    refused = Prediction("public", Budget(epsilon=1.0, delta=1e-5), (), "no pool")
    made = predicted_curve(Outlook((*found, refused), "made of dreams", 10, 3))
    axes = made.figure.axes[0]
    (line,) = [line for line in axes.lines if line.get_gid()]
    assert line.get_xdata().tolist() == [0.5, 1.0, 2.0]
    assert line.get_ydata() == pytest.approx([0.1, 0.2, 0.4])
    assert "PREDICTION" in [text.get_text() for text in axes.texts]
    assert made.caption.endswith("made of dreams")
    assert "median of 3 simulated tasks" in made.caption
