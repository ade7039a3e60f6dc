import pytest

from dptransfer_lab.figures.best_k import best_k, optimal_k

from ..synthetic import grid, record


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


def test_the_best_k_has_the_largest_mean():
    assert best_k(tried({0.1: 1, 1.0: 5, 10.0: 10})) == {
        0.1: (1, pytest.approx(0.7)),
        1.0: (5, pytest.approx(0.7)),
        10.0: (10, pytest.approx(0.7)),
    }


def test_ties_go_to_the_smaller_k():
    assert best_k(tried({1.0: 99}))[1.0][0] == 1


def test_settings_have_figures_of_their_own():
    both = [*tried({0.1: 1, 1.0: 5}), *({**one, "shots": 5} for one in tried({0.1: 1, 1.0: 5}))]
    assert len({made.name for made in optimal_k(both)}) == 2


def test_the_figure_shows_it_and_says_that_it_is_oracle_tuned():
    (made,) = optimal_k(tried({0.1: 1, 1.0: 5, 10.0: 10}))
    (line,) = [line for line in made.figure.axes[0].lines if line.get_gid()]
    assert line.get_xdata().tolist() == [0.1, 1.0, 10.0]
    assert line.get_ydata() == pytest.approx([1, 5, 10])
    assert "oracle-tuned" in made.caption
    assert optimal_k(grid(("mean",))) == []
