import pytest

from dptransfer.errors import DataError
from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.report import drawings_of

from .synthetic import cells, grid, measured_losses, record


def names(records, study=None):
    frame = cells(records)
    return [drawing.name for drawing in drawings_of(frame, styles_of(frame), study or {})]


def test_what_the_results_have_is_drawn():
    found = names(grid(imbalance=[1.0, 10.0]))
    assert [name.split("-")[0] for name in found] == ["balanced", "minority", "best"]
    assert len(set(found)) == len(found)
    sizes = [record(rows=n, seed=s) for n in (100, 200) for s in range(2)]
    assert [name.split("-")[0] for name in names(sizes)] == ["cost", "cost"]


def test_losses_of_rows_are_drawn_where_they_were_measured():
    records = measured_losses()
    assert [name for name in names(records) if name.startswith("instance-loss")]
    (name,) = names(records, {"figure": [{"kind": "instance-loss"}]})
    assert name.startswith("instance-loss")
    assert names(grid(), {"figure": [{"kind": "instance-loss"}]}) == []


def test_a_study_says_which_figures_it_wants():
    records = grid(imbalance=[1.0, 10.0])
    asked = {"figure": [{"kind": "curves", "metric": "accuracy", "where": {"imbalance": 10}}]}
    (name,) = names(records, asked)
    assert name.startswith("accuracy")
    everything = {"figure": [{"kind": "curves", "metric": "accuracy"}]}
    assert name in names(records, everything)
    assert len(names(records, everything)) == 2
    twice = {"figure": asked["figure"] * 2}
    assert names(records, twice) == [name]


@pytest.mark.parametrize("wrong", [{"kind": "pie"}, {"kind": "curves", "colour": 1}])
def test_a_figure_nobody_knows_is_refused(wrong):
    with pytest.raises(DataError, match="Figure 1"):
        names(grid(), {"figure": [wrong]})


def test_variants_of_a_method_are_an_ablation():
    records = [
        record("adamix", label=f"v{v}", epsilon=e, seed=s) for v in (1, 2) for e in (1.0, 2.0) for s in (0, 1)
    ]
    assert any(name.startswith("ablation") for name in names(records))
    assert not any(name.startswith("ablation") for name in names(grid()))
