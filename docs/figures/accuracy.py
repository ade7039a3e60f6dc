"""Draw docs/figures/accuracy.svg: accuracy of the default method against ε, and the attacker's ceiling.

Real fits on the demo's handwritten digits (1,447 treated as private, 350 for the test), encoded with
efficientnet-lite0; the public pool is 1,000 characters drawn from fonts. Each ε has five fits with fresh
noise. Run: python docs/figures/accuracy.py (some minutes; the result is in the repository).
"""

import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dptransfer as dpt
from dptransfer.accounting import true_positive_rate
from dptransfer_lab.demo.digits import demo_digits, demo_glyphs
from dptransfer_lab.figures.style import plot_style

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
FITS = 5
FALSE_ALARMS = 0.01
OURS, PLAIN, ATTACK = "#0b63a5", "#5b6570", "#b3410a"
OUT = Path(__file__).with_name("accuracy.svg")


def measure():
    """Accuracies by ε, the accuracy without privacy, and the attacker's best detection rate by ε."""
    data, pool = demo_digits("efficientnet-lite0"), demo_glyphs("efficientnet-lite0")
    x, y, test, truth = (data[name] for name in ("rows", "labels", "test_rows", "test_labels"))
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(x, y).score(test, truth)
    print("without privacy", plain)
    scores, caught = {}, {}
    for epsilon in EPSILONS:
        scores[epsilon] = []
        for _ in range(FITS):
            model = dpt.fit(
                x, y, epsilon=epsilon, delta=DELTA, classes=10, public=pool, ledger=dpt.Ledger.in_memory()
            )
            scores[epsilon].append(model.score(test, truth))
        caught[epsilon] = true_positive_rate(model.events, FALSE_ALARMS)
        print(epsilon, np.mean(scores[epsilon]), caught[epsilon])
    return scores, plain, caught


@plot_style()
def draw(scores, plain, caught):
    """Two panels on one ε axis: what the model gains, and what an attacker can gain."""
    figure = Figure(figsize=(7.6, 3.1), layout="constrained")
    left, right = figure.subplots(1, 2)
    mean = [np.mean(scores[epsilon]) for epsilon in EPSILONS]
    spread = ([min(scores[epsilon]) for epsilon in EPSILONS], [max(scores[epsilon]) for epsilon in EPSILONS])
    left.axhline(plain, color=PLAIN, linestyle=":")
    left.text(EPSILONS[0], plain + 0.03, f"without privacy: {plain:.0%}", color=PLAIN, fontsize=8)
    left.fill_between(EPSILONS, *spread, color=OURS, alpha=0.18, linewidth=0)
    left.plot(EPSILONS, mean, "o-", color=OURS)
    left.axhline(0.1, color=PLAIN, linestyle=":", linewidth=1)
    left.text(EPSILONS[0], 0.115, "guessing", color=PLAIN, fontsize=8)
    left.set(title="Test accuracy: what you keep", ylim=(0, 1.08))
    right.plot(EPSILONS, list(caught.values()), "s-", color=ATTACK)
    right.axhline(FALSE_ALARMS, color=PLAIN, linestyle=":")
    right.text(EPSILONS[0], FALSE_ALARMS + 0.05, "guessing finds 1%", color=PLAIN, fontsize=8)
    right.set(title="Members that any attacker can find, at most", ylim=(0, 1.08))
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.set_xlabel("ε, smaller is more private")
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    figure.savefig(OUT, metadata={"Date": None, "Creator": None}, facecolor="white")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    draw(*measure())
