import json

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, f1_score, recall_score

from dptransfer import evaluate
from dptransfer.errors import ArgumentError, DataError
from dptransfer.release import Evaluation
from dptransfer.release.evaluation import wilson

from .models import CLASSES, make_model, rows

X = rows(200, seed=8)
Y = np.random.default_rng(9).choice(3, size=200, p=[0.6, 0.3, 0.1])


@pytest.fixture(scope="module")
def model():
    return make_model()


def test_the_measures_are_those_of_scikit_learn(model):
    found = evaluate(model, X, Y)
    chosen = model.scores(X).argmax(axis=1)
    assert found.accuracy == pytest.approx(accuracy_score(Y, chosen))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(Y, chosen))
    assert found.macro_f1 == pytest.approx(f1_score(Y, chosen, average="macro"))
    assert found.recall == pytest.approx(recall_score(Y, chosen, average=None))
    assert (np.array(found.confusion) == confusion_matrix(Y, chosen)).all()
    assert found.size == 200
    assert found.worst_class == CLASSES[int(np.argmin(found.recall))]
    assert found.accuracy != pytest.approx(found.balanced_accuracy)


def test_a_class_without_test_rows_is_left_out_and_reported_as_none(model):
    some = Y != 2
    found = evaluate(model, X[some], Y[some])
    assert found.recall[2] is None
    assert found.recall_intervals[2] is None
    assert found.support[2] == 0
    assert found.balanced_accuracy == pytest.approx(np.mean(found.recall[:2]))
    chosen = model.scores(X[some]).argmax(axis=1)
    assert found.macro_f1 == pytest.approx(f1_score(Y[some], chosen, labels=[0, 1], average="macro"))


def test_the_smallest_quarter_follows_the_sizes_it_is_told(model):
    by_test = evaluate(model, X, Y)
    assert (by_test.minority_classes, by_test.minority_source) == (("eel",), "test set sizes")
    by_list = evaluate(model, X, Y, minority_of=[5, 50, 500])
    assert by_list == evaluate(model, X, Y, minority_of=np.array([5, 50, 500]))
    by_name = evaluate(model, X, Y, minority_of={"dog": 50, "cat": 5, "eel": 500})
    assert by_list == by_name
    assert (by_list.minority_classes, by_list.minority_source) == (("cat",), "declared sizes")
    assert by_list.minority_accuracy == by_list.recall[0] != by_test.minority_accuracy
    declared = evaluate(make_model(class_counts=(50, 5, 500)), X, Y)
    assert (declared.minority_classes, declared.minority_source) == (("dog",), "declared sizes")


def test_the_smallest_quarter_is_rounded_up_and_ties_go_by_declared_order():
    names = tuple("abcde")
    model = make_model(classes=names)
    found = evaluate(model, X, np.arange(200) % 5, minority_of=[3, 1, 1, 1, 9])
    assert found.minority_classes == ("b", "c")
    assert found.minority_accuracy == pytest.approx((found.recall[1] + found.recall[2]) / 2)


def test_wilson_intervals_solve_the_score_equation():
    z = stats.norm.ppf(0.975)
    for hits, trials in ((0, 5), (1, 7), (8, 10), (50, 50), (333, 1000)):
        for end in wilson(hits, trials):
            if 0 < end < 1:
                assert abs(hits / trials - end) == pytest.approx(z * np.sqrt(end * (1 - end) / trials))
    assert wilson(0, 5)[0] == 0
    assert wilson(5, 5)[1] == 1


def test_the_interval_of_a_mean_covers_about_95_percent():
    rng = np.random.default_rng(2)
    truth = np.array([0.9, 0.6, 0.3])
    from dptransfer.release.evaluation import mean_interval

    covered = []
    for _ in range(2000):
        hits = rng.binomial(30, truth)
        low, high = mean_interval((hits / 30).tolist(), [wilson(int(h), 30) for h in hits])
        covered.append(low <= truth.mean() <= high)
    assert 0.93 < np.mean(covered) < 0.97


def test_calibration_error_is_zero_where_confidence_is_right_and_large_where_not():
    from dptransfer.release.evaluation import _calibration_error

    sure = np.full(100, 0.7)
    assert _calibration_error(sure, np.arange(100) < 70) == pytest.approx(0, abs=1e-12)
    assert _calibration_error(sure, np.zeros(100, dtype=bool)) == pytest.approx(0.7)
    mixed = np.array([0.15, 0.95])
    assert _calibration_error(mixed, np.array([True, False])) == pytest.approx((0.85 + 0.95) / 2)


def test_an_evaluation_survives_json_and_strange_ones_do_not(model):
    found = evaluate(model, X[Y != 2], Y[Y != 2], name="clinic")
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["test_data_protected"] is False
    assert Evaluation.from_dict(plain) == found
    for wrong in (
        {"test_data_protected": True},
        {"surprise": 1},
        {"accuracy": "high"},
        {"recall": [0.5]},
        {"confusion": [[1.5]]},
    ):
        with pytest.raises(ArgumentError):
            Evaluation.from_dict({**plain, **wrong})


@pytest.mark.parametrize(
    ("name", "odd"),
    [("recall", 1.001), ("recall_intervals", -1e-6), ("accuracy", 10**12), ("support", 2**53 + 1)],
)
def test_shares_and_counts_are_such_that_a_card_can_be_drawn(model, name, odd):
    """A bar as long as a recorded recall would take all memory of whoever verifies it."""
    plain = json.loads(json.dumps(evaluate(model, X, Y).to_dict()))
    value = plain[name]
    while isinstance(value, list):
        place, value = value, value[0]
    if isinstance(plain[name], list):
        place[0] = odd
    else:
        plain[name] = odd
    with pytest.raises(ArgumentError):
        Evaluation.from_dict(plain)


def test_bad_arguments_are_refused_by_name(model):
    with pytest.raises(DataError, match="one test row"):
        evaluate(model, X[:0], [])
    with pytest.raises(DataError, match="label each"):
        evaluate(model, X, Y[:-1])
    with pytest.raises(ArgumentError, match="minority_of"):
        evaluate(model, X, Y, minority_of=[1, 2])
    with pytest.raises(ArgumentError, match="minority_of"):
        evaluate(model, X, Y, minority_of={"cat": 1})
    with pytest.raises(DataError, match="declared classes"):
        evaluate(model, X, ["fox"] * 200)


def test_a_release_does_not_give_class_sizes_to_the_digit_by_shares_and_intervals(model):
    found = evaluate(model, X, Y)
    told, full = (evaluation.for_release() for evaluation in (found, evaluate(model, X, Y, public=True)))
    assert (told.size, told.support, told.confusion) == (None, (), ())
    assert (full.size, full.confusion) == (found.size, found.confusion)
    shares = [told.accuracy, told.macro_f1, told.calibration_error, *told.accuracy_interval, *told.recall]
    shares += [end for interval in told.recall_intervals for end in interval]
    assert shares == [round(share, 3) for share in shares]
    assert told.recall == pytest.approx(found.recall, abs=5.1e-4)
    assert (told.classes, told.name, told.worst_class) == (found.classes, found.name, found.worst_class)
    assert told.balanced_accuracy == pytest.approx(np.mean(told.recall))
    assert told.balanced_interval == pytest.approx(found.balanced_interval, abs=2e-3)
    assert told.minority_interval == pytest.approx(found.minority_interval, abs=2e-3)
    assert told.for_release() == told
    assert full.recall_intervals == found.recall_intervals
