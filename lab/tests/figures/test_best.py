import pytest

from dptransfer_lab.figures.best import ablation, best_k, best_methods, optimal_k
from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.statistics import interval

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
            epsilon=e,
            seed=seed,
            balanced=0.5 + 0.2 * (k == won),
        )
        for e, won in best.items()
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


def test_the_figure_shows_the_best_k_and_says_that_it_is_oracle_tuned():
    records = tried({0.1: 1, 1.0: 5, 10.0: 10})
    (made,) = optimal_k(cells(records))
    line = made.figure.axes[0].lines[0]
    assert line.get_xdata().tolist() == [0.1, 1.0, 10.0]
    assert line.get_ydata() == pytest.approx([1, 5, 10])
    assert "oracle-tuned" in made.caption
    assert (
        len({made.name for made in optimal_k(cells([*records, *({**one, "shots": 5} for one in records)]))})
        == 2
    )
    assert optimal_k(cells(grid(("mean",)))) == []


def variants():
    return [
        record("adamix", label=label, epsilon=epsilon, seed=seed, balanced=value + 0.01 * seed, shots=5)
        for label, value in (("whole", 0.8), ("without projection", 0.7))
        for epsilon in (0.5, 1.0, 2.0, 4.0)
        for seed in range(3)
    ]


def drawn(records, **more):
    frame = cells(records)
    return ablation(frame, styles_of(frame), **more)


def test_bars_are_means_with_their_interval():
    (made,) = drawn(variants())
    panels = made.figure.axes
    widths = {patch.get_label(): patch.get_width() for patch in panels[0].patches}
    assert widths == {"whole": pytest.approx(0.81), "without projection": pytest.approx(0.71)}
    whiskers = [sorted(x for x in line.get_xdata() if x == x) for line in panels[0].lines]
    low, high = interval([0.8, 0.81, 0.82])
    assert any(x[0] == pytest.approx(low) and x[-1] == pytest.approx(high) for x in whiskers)
    (errors,) = drawn(variants(), error=True)
    assert errors.figure.axes[0].patches[0].get_width() == pytest.approx(0.19)
    assert drawn(grid(("mean",))) == []  # one label is no comparison
