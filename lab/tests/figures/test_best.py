import pytest

from dptransfer_lab.figures.best import best_methods, winner_of
from dptransfer_lab.figures.style import styles_of

from ..synthetic import grid, record


def seeds(method, *values):
    return [record(method, seed=seed, balanced=value) for seed, value in enumerate(values)]


def test_the_winner_has_the_largest_mean_and_its_lead():
    found = winner_of([*seeds("mean", 0.5, 0.6), *seeds("public", 0.7, 0.7)], "balanced_accuracy")
    assert found.label == "public"
    assert found.mean == pytest.approx(0.7)
    assert found.margin == pytest.approx(0.15)
    assert not found.clear  # two seeds of 'mean' leave a wide interval


def test_a_lead_is_clear_where_intervals_do_not_overlap():
    far = [*seeds("mean", 0.5, 0.51, 0.5), *seeds("public", 0.7, 0.71, 0.7)]
    near = [*seeds("mean", 0.5, 0.6, 0.7), *seeds("public", 0.61, 0.71, 0.5)]
    assert winner_of(far, "balanced_accuracy").clear
    assert not winner_of(near, "balanced_accuracy").clear


def test_what_is_not_private_does_not_compete():
    found = winner_of([*seeds("mean", 0.5), *seeds("as-published-mean", 0.9)], "balanced_accuracy")
    assert found.label == "mean"
    assert found.margin is None


def test_the_map_has_a_box_per_cell_and_names_its_winner():
    records = grid(imbalance=[1.0, 10.0])
    (made,) = best_methods(records, styles_of(records))
    axes = made.figure.axes[0]
    boxes = [patch.get_gid() for patch in axes.patches]
    assert boxes == [f"cell-{row}-{column}-public-prior" for row in range(2) for column in range(4)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["flowers, ratio 1", "flowers, ratio 10"]
    assert "lead over the second best" in made.caption
    assert best_methods(grid(("mean",)), styles_of(grid(("mean",)))) == []
