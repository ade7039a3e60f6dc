import numpy as np
import pytest

from dptransfer.audit.instance_loss import instance_losses
from dptransfer.bench.figures.instance import loss_curves
from dptransfer.bench.figures.style import styles_of
from dptransfer.data import PrivateEmbeddings
from dptransfer.methods import MeanPrototypes
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

from ..synthetic import record


def test_losses_are_sorted_against_the_promise():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 6))
    rows[:10] *= 0  # rows without any content lose nothing
    private = PrivateEmbeddings(rows, rng.integers(0, 2, 40), classes=["a", "b"], name="x")
    budget = Budget(epsilon=2.0, delta=1e-5)
    losses = {
        "mean": [
            instance_losses(MeanPrototypes(), private, budget=budget, noise=SeededNoise(s)) for s in (0, 1)
        ]
    }
    made = loss_curves(losses, styles_of([record("mean")]), data="toy", held_fixed="two classes")
    axes = made.figure.axes[0]
    line = next(line for line in axes.lines if line.get_gid() == "line-mean")
    y = np.asarray(line.get_ydata())
    assert len(y) == 80
    assert (np.diff(y) >= 0).all()
    assert y[:20] == pytest.approx(np.zeros(20))
    assert y[-1] <= 2.0
    promised = losses["mean"][0].guarantee.epsilon
    assert any(np.allclose(line.get_ydata(), promised) for line in axes.lines if not line.get_gid())
    assert "2 seeds per line, 40 examples each" in made.caption
    assert "two classes" in made.caption
    assert "may not be released" in made.caption
