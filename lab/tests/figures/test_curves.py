import numpy as np
import pytest

from dptransfer_lab.figures.curves import attack_trade, curves
from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.points import axis_rho
from dptransfer_lab.statistics import interval

from ..synthetic import cells, grid, record

EPSILONS = (0.1, 0.5, 1.0, 4.0)


def drawn(records, draw=curves, **options):
    frame = cells(records)
    return draw(frame, styles_of(frame), **options)


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def titles(made):
    return [axes.get_title(loc="left") for axes in made.figure.axes]


def test_lines_are_means_and_bands_are_their_intervals():
    records = grid(epsilons=EPSILONS)
    (made,) = drawn(records)
    (axes,) = made.figure.axes
    line = lines_of(axes)["mean"]
    own = [record for record in records if record["label"] == "mean"]
    values = [
        [r["metrics"]["balanced_accuracy"] for r in own if r["budget"]["epsilon"] == e] for e in EPSILONS
    ]
    assert line.get_xdata().tolist() == list(EPSILONS)
    assert line.get_ydata() == pytest.approx(np.mean(values, axis=1))
    band = axes.collections[list(lines_of(axes)).index("mean")].get_paths()[0].vertices[:, 1]
    low, high = np.array([interval(some) for some in values]).T
    assert band.min() == pytest.approx(low.min())
    assert band.max() == pytest.approx(high.max())
    assert "mean over seeds" in made.caption


def test_the_upper_axis_is_rho_at_the_same_ticks():
    (made,) = drawn(grid(epsilons=EPSILONS))
    (lower,) = made.figure.axes
    (upper,) = lower.child_axes
    made.figure.draw_without_rendering()
    assert lower.get_xlim() == upper.get_xlim()
    assert lower.get_xticks().tolist() == upper.get_xticks().tolist() == list(EPSILONS)
    shown = [float(label.get_text()) for label in upper.get_xticklabels()]
    expected = [axis_rho(e, None, None, 1e-5) for e in EPSILONS]
    assert shown == pytest.approx(expected, rel=0.06)
    assert shown != pytest.approx(list(EPSILONS), rel=0.06)


def test_one_panel_per_ratio_with_the_same_scale():
    (made,) = drawn(grid(imbalance=[1.0, 10.0, 50.0]), over="imbalance")
    assert titles(made) == [f"imbalance ratio {r}" for r in (1, 10, 50)]
    assert len({axes.get_ylim() for axes in made.figure.axes}) == 1
    assert "panel per imbalance" in made.caption
    tops = {tuple(lines_of(axes)["mean"].get_ydata()) for axes in made.figure.axes}
    assert len(tops) == 3  # each panel has its own cells


def test_the_legend_has_the_order_of_the_methods():
    (made,) = drawn(grid(("public", "dpsgd", "mean", "public-prior", "as-published-mean")))
    words = [text.get_text() for text in made.figure.legends[0].get_texts()]
    assert words == ["public-prior", "mean", "as-published-mean [NOT PRIVATE]", "public", "dpsgd"]


def test_lines_look_as_their_labels_do_also_where_a_panel_lacks_some():
    records = [*grid(("mean", "public"), data="a"), *grid(("public", "as-published-mean"), data="b")]
    frame = cells(records)
    styles = styles_of(frame)
    (made,) = curves(frame, styles, over="data")
    for axes, labels in zip(
        made.figure.axes, (("mean", "public"), ("as-published-mean", "public")), strict=True
    ):
        found = lines_of(axes)
        assert list(found) == [styles[label].words for label in labels]
        for label in labels:
            line, style = found[styles[label].words], styles[label]
            look = line.get_color(), line.get_marker(), line.get_fillstyle()
            assert look == (style.light, style.marker, style.fill)


def test_minority_curves_leave_out_what_has_no_minority():
    (made,) = drawn(grid(imbalance=[1.0, 10.0]), metric="minority_accuracy", over="imbalance")
    assert titles(made) == ["imbalance ratio 10"]
    assert drawn(grid(), metric="minority_accuracy") == []


def test_errors_are_one_minus_the_metric():
    right, wrong = (drawn(grid(), metric="accuracy", error=error)[0] for error in (False, True))
    one, other = (lines_of(made.figure.axes[0])["mean"].get_ydata() for made in (right, wrong))
    assert np.asarray(one) + np.asarray(other) == pytest.approx(np.ones(4))
    assert wrong.figure.axes[0].get_ylabel() == "test error"


def test_refused_cells_and_single_budgets_draw_nothing():
    assert drawn(grid(epsilons=(1.0,))) == []
    assert drawn([record(epsilon=e, status="refused", message="no") for e in (1.0, 2.0)]) == []


def test_settings_have_figures_and_names_of_their_own():
    records = grid(data=["flowers", "birds"], relation=["add/remove", "replace-one"], seeds=1)
    assert len({made.name for made in drawn(records)}) == 4


def test_data_sets_can_be_panels():
    records = [*grid(data="flowers"), *grid(data="birds", classes=20, dimension=8, rows=70)]
    (made,) = drawn(records, over="data")
    assert titles(made) == ["birds", "flowers"]


def attacked(auc=0.55):
    return [
        record("adamix", epsilon=e, seed=s, balanced=0.6 + 0.05 * e, auc=auc and auc + 0.01 * e)
        for e in (1.0, 2.0, 4.0)
        for s in range(2)
    ]


def test_an_attack_line_goes_through_the_means_of_error_and_area():
    (made,) = drawn(attacked(), attack_trade)
    axes = made.figure.axes[0]
    line = lines_of(axes)["adamix"]
    assert line.get_xdata() == pytest.approx([0.35, 0.30, 0.20])
    assert line.get_ydata() == pytest.approx([0.56, 0.57, 0.59])
    assert {text.get_text() for text in axes.texts} == {"ε 1", "ε 4"}
    assert "coin toss" in made.caption
    assert drawn(attacked(auc=None), attack_trade) == []


def test_one_panel_per_unit_in_the_order_of_what_it_costs():
    (made,) = drawn(grid(unit=["group", "person", "row"]), over="unit")
    assert titles(made) == ["ε per row", "ε per person", "ε per group"]
    assert "panel per what" in made.caption
    (first, *_) = made.figure.axes
    values = [r["metrics"]["balanced_accuracy"] for r in grid(("mean",), epsilons=(4.0,))]
    assert lines_of(first)["mean"].get_ydata()[-1] == pytest.approx(np.mean(values))
