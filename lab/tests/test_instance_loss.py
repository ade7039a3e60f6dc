import numpy as np
import pytest

from dptransfer.audit.instance_loss import InstanceLosses
from dptransfer.privacy import Guarantee, Relation
from dptransfer_lab.cell_privacy import loss_metrics, loss_summary, losses_by_size


def losses(epsilons):
    promise = Guarantee(2.0, 1e-5, Relation.ADD_REMOVE)
    return InstanceLosses(np.array(epsilons), promise)


def test_the_distribution_is_that_of_the_rows():
    found = loss_summary(losses([0.0, 2.0, 1.0, 0.5, 1.5]), np.array([0, 2, 2, 0, 2]), 3)
    assert (found["promised"], found["delta"]) == (2.0, 1e-5)
    assert (found["mean"], found["largest"], found["share_below_half"]) == (1.0, 2.0, 0.4)
    assert [found["percentiles"][place] for place in (0, 25, 50, 75, 100)] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert found["class_rows"] == [2, 0, 3]
    assert found["class_medians"] == [0.25, None, 1.5]


def test_metrics_are_shares_of_the_promise():
    found = loss_summary(losses([0.0, 2.0, 1.0, 0.5, 1.5]), np.zeros(5, dtype=int), 1)
    assert loss_metrics(found) == {"instance_loss": 0.5, "instance_loss_spread": 0.5}
    assert set(loss_metrics(None).values()) == {None}
    nothing = {"promised": 0.0, "percentiles": [0.0] * 101}  # no private row was read
    assert loss_metrics(nothing) == {"instance_loss": 0.0, "instance_loss_spread": 0.0}


def test_classes_are_grouped_by_size_and_empty_ones_left_out():
    rows, medians = [50, 0, 3, 10, 20, 4], [0.1, None, 0.9, 0.3, 0.2, 0.7]
    found = losses_by_size({"class_rows": rows, "class_medians": medians})
    assert found == pytest.approx([0.8, 0.3, 0.2, 0.1])


@pytest.mark.parametrize("rows", [[5, 5, 5, 5], [1, 2, 3]])
def test_equal_sizes_and_few_classes_make_no_groups(rows):
    assert losses_by_size({"class_rows": rows, "class_medians": [0.5] * len(rows)}) is None


def test_where_people_are_protected_the_losses_are_theirs_and_rows_of_a_class_stand_for_them():
    people = np.array([0, 0, 1, 2, 2, 2])
    found = loss_summary(losses([0.0, 1.0, 2.0]), np.array([0, 1, 1, 1, 1, 0]), 2, people)
    assert (found["mean"], found["percentiles"][50]) == (1.0, 1.0)
    assert found["class_rows"] == [2, 4]
    assert found["class_medians"] == [1.0, 1.5]
