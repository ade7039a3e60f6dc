import pytest

from dptransfer_lab.figures.cost import cost
from dptransfer_lab.figures.style import styles_of

from ..synthetic import cells, grid, record


def sized():
    by_rows = [
        record(rows=n, seed=s, seconds=1e-4 * n, mib=n**0.5) for n in (500, 1000, 2000) for s in range(3)
    ]
    by_pool = [
        record(rows=500, pool_rows=n, seed=s, seconds=0.05 * (n / 2000) ** 2)
        for n in (1000, 4000, 8000)
        for s in range(3)
    ]
    return by_rows + by_pool


def drawn(records, **more):
    frame = cells(records)
    return cost(frame, styles_of(frame), **more)


def test_each_size_that_varies_alone_is_a_panel_with_its_slope():
    (made,) = drawn(sized())
    assert [axes.get_xlabel() for axes in made.figure.axes] == ["private rows", "public rows"]
    line = next(line for line in made.figure.axes[0].lines if line.get_label() == "mean")
    assert line.get_xdata().tolist() == [500, 1000, 2000]
    assert line.get_ydata() == pytest.approx([0.05, 0.1, 0.2])
    assert "private rows: mean 1.00" in made.caption
    assert "public rows: mean 2.00" in made.caption
    assert "private rows: mean 0.50" in drawn(sized(), cost="peak_mib")[0].caption
    assert drawn(grid()) == []  # nothing varies
