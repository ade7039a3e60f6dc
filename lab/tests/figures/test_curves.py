import numpy as np
import pytest

from dptransfer_lab.figures.curves import curves, thinned
from dptransfer_lab.figures.points import axis_rho
from dptransfer_lab.figures.style import styles_of

from ..synthetic import grid, record

EPSILONS = (0.1, 0.5, 1.0, 4.0)


def drawn(records, **options):
    return curves(records, styles_of(records), **options)


def lines_of(axes):
    return {line.get_gid(): line for line in axes.lines if line.get_gid()}


def test_lines_are_medians_and_bands_are_quantiles():
    records = grid(epsilons=EPSILONS)
    (made,) = drawn(records)
    axes = made.figure.axes[0]
    line = lines_of(axes)["line-mean"]
    values = np.array(
        [
            [
                r["metrics"]["balanced_accuracy"]
                for r in records
                if r["label"] == "mean" and r["budget"]["epsilon"] == e
            ]
            for e in EPSILONS
        ]
    )
    assert line.get_xdata().tolist() == list(EPSILONS)
    assert line.get_ydata() == pytest.approx(np.median(values, axis=1))
    band = axes.collections[list(lines_of(axes)).index("line-mean")].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(np.quantile(values, 0.25, axis=1).min())
    assert band.max() == pytest.approx(np.quantile(values, 0.75, axis=1).max())


def test_the_upper_axis_is_rho_at_the_same_ticks():
    (made,) = drawn(grid(epsilons=EPSILONS))
    lower, upper = made.figure.axes
    assert lower.get_xlim() == upper.get_xlim()
    assert lower.get_xticks().tolist() == upper.get_xticks().tolist() == list(EPSILONS)
    shown = [float(label.get_text()) for label in upper.get_xticklabels()]
    expected = [axis_rho({"epsilon": e, "rho": None, "mu": None, "delta": 1e-5}) for e in EPSILONS]
    assert shown == pytest.approx(expected, rel=0.06)
    assert shown != pytest.approx(list(EPSILONS), rel=0.06)


def test_one_panel_per_ratio_with_the_same_scale():
    (made,) = drawn(grid(imbalance=[1.0, 10.0, 50.0]), over="imbalance")
    panels = [axes for axes in made.figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == [f"imbalance ratio {r}" for r in (1, 10, 50)]
    assert len({axes.get_ylim() for axes in panels}) == 1
    assert "one panel per imbalance ratio" in made.caption


def test_the_legend_has_the_order_of_the_table_of_methods():
    (made,) = drawn(grid(("public", "dpsgd", "mean", "public-prior", "as-published-mean")))
    words = [text.get_text() for text in made.figure.legends[0].get_texts()]
    assert words == ["public-prior", "mean", "as-published-mean [NOT PRIVATE]", "public", "dpsgd"]


def test_minority_curves_leave_out_what_has_no_minority():
    records = grid(imbalance=[1.0, 10.0])
    (made,) = drawn(records, metric="minority_accuracy", over="imbalance")
    titles = [axes.get_title(loc="left") for axes in made.figure.axes if axes.get_title(loc="left")]
    assert titles == ["imbalance ratio 10"]
    assert drawn(grid(), metric="minority_accuracy") == []


def test_errors_are_one_minus_the_metric():
    records = grid()
    (right,), (wrong,) = drawn(records, metric="accuracy"), drawn(records, metric="accuracy", error=True)
    one, other = (lines_of(made.figure.axes[0])["line-mean"].get_ydata() for made in (right, wrong))
    assert np.asarray(one) + np.asarray(other) == pytest.approx(np.ones(4))
    assert wrong.figure.axes[0].get_ylabel() == "test error"


def test_refused_cells_and_single_budgets_draw_nothing():
    assert drawn(grid(epsilons=(1.0,))) == []
    assert drawn([record(epsilon=e, status="refused", message="no") for e in (1.0, 2.0)]) == []


def test_settings_have_figures_and_names_of_their_own():
    names = [
        made.name for made in drawn(grid(data=["flowers", "birds"], relation=["add/remove", "replace-one"]))
    ]
    assert len(names) == len(set(names)) == 4


def test_data_sets_can_be_panels():
    records = [*grid(data="flowers"), *grid(data="birds", classes=20, dimension=8, rows=70)]
    (made,) = drawn(records, over="data")
    assert [a.get_title(loc="left") for a in made.figure.axes if a.get_title(loc="left")] == [
        "birds",
        "flowers",
    ]


def test_many_ticks_are_thinned_and_keep_their_ends():
    values = [0.01 * 1.5**step for step in range(20)]
    kept = thinned(values)
    assert (kept[0], kept[-1]) == (values[0], values[-1])
    assert len(kept) <= 8
    assert thinned([1.0, 2.0]) == [1.0, 2.0]
