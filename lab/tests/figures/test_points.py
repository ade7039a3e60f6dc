import pytest

from dptransfer_lab.figures.points import axis_epsilon, axis_rho, caption, held_fixed, seeds_words, split

from ..synthetic import grid, record


def budget(**amounts):
    return {"epsilon": None, "rho": None, "mu": None, "delta": 1e-5, **amounts}


def test_the_two_axes_agree_on_gaussian_noise():
    for epsilon in (0.1, 1.0, 8.0):
        rho = axis_rho(budget(epsilon=epsilon))
        assert axis_epsilon(budget(rho=rho)) == pytest.approx(epsilon, rel=1e-6)
        assert axis_epsilon(budget(mu=(2 * rho) ** 0.5)) == pytest.approx(epsilon, rel=1e-6)
    assert axis_rho(budget(mu=2.0)) == 2.0
    assert axis_rho(budget(epsilon=2.0, delta=0.0)) == 0.5  # a selection's, not a Gaussian's


def test_currencies_and_settings_never_share_a_figure():
    records = [
        record(epsilon=1.0),
        record(epsilon=2.0),
        record(epsilon=1.0, relation="replace-one"),
        record(epsilon=1.0, flavour="pure"),
        record(epsilon=1.0, flavour="zcdp"),
        record(epsilon=1.0, data="other"),
        record(epsilon=1.0, imbalance=10.0, rows=900),
    ]
    assert sorted(map(len, split(records))) == [1, 1, 1, 1, 1, 2]
    assert sorted(map(len, split(records, over=("imbalance",)))) == [1, 1, 1, 1, 3]


def test_a_caption_says_seeds_bands_what_is_fixed_and_marks():
    records = grid(("mean", "as-published-mean"), seeds=3)
    text = caption("Something", records, bands="the band is a band")
    assert "3 seeds per point; the band is a band." in text
    assert "data flowers, encoder lite0, pool glyphs, 2,000 public rows, 10 classes" in text
    assert "imbalance ratio 1" in text
    assert "δ = 1e-05, neighbours by add/remove" in text
    assert "NOT PRIVATE" in text
    assert "seeded" in text
    assert "NOT PRIVATE" not in caption("Something", grid(("mean",), seeds=3))
    assert "oracle-tuned" in caption("Something", [record(oracle_tuned=True)])


def test_unequal_numbers_of_seeds_are_a_range():
    records = [*grid(("mean",), seeds=3), *grid(("public",), seeds=5)]
    assert seeds_words(records) == "3 to 5 seeds per point"
    assert seeds_words(grid(("mean",), seeds=1)) == "1 seed per point"


def test_what_varies_is_not_said_to_be_fixed():
    records = grid(imbalance=[1.0, 10.0])
    assert "imbalance" not in held_fixed(records, vary=("imbalance",))
    assert "imbalance ratio 1 and imbalance ratio 10" in held_fixed(records)
