import pytest

from dptransfer_lab.figures.best import best_k, best_methods, optimal_k
from dptransfer_lab.figures.style import styles_of

from ..synthetic import cells, grid, record


def test_the_map_has_a_box_per_cell_and_names_its_winner():
    frame = cells(grid(imbalance=[1.0, 10.0]))
    (made,) = best_methods(frame, styles_of(frame))
    axes = made.figure.axes[0]
    boxes = {(round(box.get_x() + 0.48), round(box.get_y() + 0.46)): box for box in axes.patches}
    assert set(boxes) == {(column, row) for column in range(4) for row in range(2)}
    assert [bars.get_label() for bars in axes.containers] == ["public-prior"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["flowers, ratio 1", "flowers, ratio 10"]
    assert "lead over the" in made.caption
    first = frame[(frame["label"] == "public-prior") & (frame["imbalance"] == 1) & (frame["epsilon"] == 0.1)]
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    assert shown[0, 0].startswith(f"{100 * first['balanced_accuracy'].mean():.1f}\n+")
    assert shown[0, 0].endswith("*")  # five seeds tell it from the others


def test_cells_without_a_winner_are_a_dash_and_one_method_has_no_map():
    records = [r for r in grid() if r["label"] != "mean" or r["budget"]["epsilon"] < 1]
    records = [r for r in records if r["budget"]["epsilon"] != 4 or r["label"] == "mean"]
    records += grid(("as-published-mean",), epsilons=(4.0,))
    frame = cells(records)
    (made,) = best_methods(frame, styles_of(frame))
    assert "–" in {text.get_text() for text in made.figure.axes[0].texts}
    assert "private does not" in made.caption
    alone = cells(grid(("mean",)))
    assert best_methods(alone, styles_of(alone)) == []


def tried(best):
    """K tried at each ε; `best` says which K wins where."""
    return [
        record(
            "top-k",
            label=f"K = {k}",
            settings={"k": k},
            epsilon=epsilon,
            seed=seed,
            balanced=0.5 + 0.2 * (k == won),
        )
        for epsilon, won in best.items()
        for k in (1, 5, 10)
        for seed in range(2)
    ]


def test_the_best_k_has_the_largest_mean_and_ties_go_to_the_smaller():
    found = best_k(cells(tried({0.1: 1, 1.0: 5, 10.0: 10})))
    assert found["at_epsilon"].tolist() == [0.1, 1.0, 10.0]
    assert found["k"].tolist() == [1, 5, 10]
    assert found["balanced_accuracy"].tolist() == pytest.approx([0.7] * 3)
    assert best_k(cells(tried({1.0: 99})))["k"].tolist() == [1]
    assert best_k(cells(grid(("mean",)))).empty


def test_settings_have_figures_of_their_own():
    both = [*tried({0.1: 1, 1.0: 5}), *({**one, "shots": 5} for one in tried({0.1: 1, 1.0: 5}))]
    assert len({made.name for made in optimal_k(cells(both))}) == 2


def test_the_figure_shows_the_best_k_and_says_that_it_is_oracle_tuned():
    (made,) = optimal_k(cells(tried({0.1: 1, 1.0: 5, 10.0: 10})))
    line = made.figure.axes[0].lines[0]
    assert line.get_xdata().tolist() == [0.1, 1.0, 10.0]
    assert line.get_ydata() == pytest.approx([1, 5, 10])
    assert "oracle-tuned" in made.caption
    assert optimal_k(cells(grid(("mean",)))) == []
