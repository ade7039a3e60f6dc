import pytest

from dptransfer_lab.points import (
    axis_epsilon,
    axis_rho,
    caption,
    each_setting,
    figure_name,
    finished_cells,
    held_fixed,
    place_cells,
    split,
)
from dptransfer_lab.results import frame_of

from .synthetic import cells, grid, record


def test_the_two_axes_agree_on_gaussian_noise():
    for epsilon in (0.1, 1.0, 8.0):
        rho = axis_rho(epsilon, None, None, 1e-5)
        assert axis_epsilon(None, rho, None, 1e-5) == pytest.approx(epsilon, rel=1e-6)
        assert axis_epsilon(None, None, (2 * rho) ** 0.5, 1e-5) == pytest.approx(epsilon, rel=1e-6)
    assert axis_rho(None, None, 2.0, 1e-5) == 2.0
    assert axis_rho(2.0, None, None, 0.0) == 0.5  # a selection's, not a Gaussian's


def test_every_cell_gets_its_place_and_keeps_its_order():
    records = [
        record(epsilon=0.125, flavour="zcdp"),
        record(epsilon=2.0, status="failed"),
        record(epsilon=1.0),
    ]
    frame = place_cells(frame_of(records))
    assert frame["at_epsilon"].tolist() == [pytest.approx(1.99, abs=0.01), 2.0, 1.0]
    assert frame["at_rho"].iloc[0] == 0.125
    assert list(frame["cell"]) == [one["cell"] for one in records]
    assert len(finished_cells(frame)) == 2
    assert place_cells(frame_of([]))["at_epsilon"].tolist() == []


def test_currencies_and_settings_never_share_a_figure():
    others = [
        {}, {"epsilon": 2.0}, {"relation": "replace-one"}, {"flavour": "pure"}, {"flavour": "zcdp"},
        {"data": "other"}, {"imbalance": 10.0, "rows": 900}, {"unit": "person"},
        {"unit": "person", "person_bound": 2.0},
    ]  # fmt: skip
    frame = cells([record(**other) for other in others])
    assert sorted(map(len, split(frame))) == [1, 1, 1, 1, 1, 1, 1, 2]
    assert sorted(map(len, split(frame, over=("imbalance",)))) == [1, 1, 1, 1, 1, 1, 3]
    assert sorted(map(len, each_setting(frame))) == [1] * 9
    names = {figure_name("x", cells=some) for some in split(frame)}
    assert len(names) == 8
    frame = cells([record(pool=None, pool_rows=0), record(pool=None, pool_rows=0, seed=1), record()])
    assert sorted(map(len, split(frame))) == [1, 2]  # no pool is a setting like any other
    assert "pool" not in held_fixed(split(frame)[0])


def test_a_caption_says_seeds_bands_what_is_fixed_and_marks():
    found = cells(grid(("mean", "as-published-mean"), seeds=3))
    text = caption("Something", found, bands="the band is a band")
    for words in ("3 seeds", "pool glyphs, 2,000", "ratio 1", "δ = 10⁻⁵", "NOT PRIVATE", "seeded"):
        assert words in text
    assert "NOT PRIVATE" not in caption("Something", cells(grid(("mean",), seeds=3)))
    assert "oracle-tuned" in caption("Something", cells([record(oracle_tuned=True)]))
