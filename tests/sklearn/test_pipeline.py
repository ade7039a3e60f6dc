"""Pipelines whose steps in front treat each row by itself."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dptransfer import Ledger
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sklearn.pipeline import ROW_WISE, FiniteRows, PrivatePipeline, make_private_pipeline
from dptransfer.sklearn.private_classifier import PrivateClassifier


def model(**given):
    given = {"classes": ["cat", "dog", "owl"], "name": "pets", "ledger": Ledger.in_memory()} | given
    return PrivateClassifier("mean", **given)


@parametrize_with_checks(
    [FiniteRows()],
    expected_failed_checks=lambda step: {
        "check_estimators_empty_data_messages": "whether there are rows at all is private"
    },
)
def test_the_first_step_keeps_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


class Learns(Normalizer):
    """A subclass may do anything."""


@pytest.mark.parametrize(
    "step", [StandardScaler(), PCA(2), FunctionTransformer(np.log1p), Learns(), make_pipeline(Normalizer())]
)
def test_a_step_that_may_learn_is_refused_early_and_again_at_the_fit(step, blobs):
    last = model()
    with pytest.raises(ArgumentError, match=f"{type(step).__name__} is not known"):
        make_private_pipeline(step, last)
    changed = make_private_pipeline(Normalizer(), last).set_params(normalizer=step)
    with pytest.raises(ArgumentError, match=f"{type(step).__name__} is not known"):
        changed.fit(*blobs)
    assert last.ledger.history() == []


@pytest.mark.parametrize("steps", [(), (Normalizer(),), (model(), Normalizer())])
def test_it_ends_in_a_private_estimator(steps):
    with pytest.raises(ArgumentError, match="must end"):
        make_private_pipeline(*steps)


@pytest.mark.parametrize("step", [one() for one in ROW_WISE])
def test_the_known_steps_map_each_row_by_itself(step):
    rows = np.random.default_rng(0).normal(size=(50, 33))
    rows[7] *= 1e300
    whole = clone(step).fit(rows).transform(rows)
    for part in (slice(0, 1), slice(7, 9), slice(20, 50)):
        # Learning from the part alone, too, changes no bit of it.
        assert (clone(step).fit(rows[part]).transform(rows[part]) == whole[part]).all()


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_rows_that_lie_column_by_column_are_mapped_one_by_one_too(norm):
    """As those of a data frame do; scikit-learn sums a single one of them in another order than two."""
    rows = np.asfortranarray(np.random.default_rng(0).normal(size=(50, 64)))
    first, step = FiniteRows().fit(rows), Normalizer(norm)
    whole = step.fit_transform(first.transform(rows))
    for part in (slice(0, 1), slice(0, 2), slice(7, 9), slice(20, 50)):
        assert (step.fit_transform(first.transform(rows[part])) == whole[part]).all()


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_no_row_makes_a_step_warn(norm, blobs):
    x, y = blobs
    x = x.copy()
    x[5] = 1e308
    with pytest.warns(RuntimeWarning, match="overflow"):
        Normalizer("l1").fit_transform(x)  # by itself it tells
    make_private_pipeline(Normalizer(norm), model()).fit(x, y)  # under a filter that makes errors of warnings


def test_no_step_stands_before_the_one_that_makes_rows_finite(blobs):
    last = model()
    whole = make_private_pipeline(Normalizer(), last)
    for made in (
        PrivatePipeline([("normalizer", Normalizer()), ("last", last)]),
        PrivatePipeline([("normalizer", Normalizer()), ("finite", FiniteRows()), ("last", last)]),
        whole.set_params(finiterows="passthrough"),
    ):
        with pytest.raises(ArgumentError, match="first step"):
            made.fit(*blobs)
    assert last.ledger.history() == []
    whole.set_params(normalizer="passthrough").fit(*blobs)  # the estimator takes rows as they are


def test_a_scaler_does_not():
    rows = np.random.default_rng(0).normal(size=(50, 33))
    step = StandardScaler()
    assert (step.fit_transform(rows)[:1] != clone(step).fit_transform(rows[:1])).any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("step", [Normalizer(), Binarizer()])
def test_a_row_that_is_not_finite_is_refused_by_no_step(value, step, blobs):
    x, y = blobs
    x = x.copy()
    x[5, 3] = value
    made = make_private_pipeline(step, model()).fit(x, y)
    assert made.predict(x[5:6]).shape == (1,)
    with pytest.raises(ValueError, match="contains"):
        clone(step).fit_transform(x)  # by itself it tells


def test_rows_and_labels_that_do_not_match_are_refused_in_our_words(blobs):
    x, y = blobs
    with pytest.raises(DataError, match="lengths differ") as refused:
        make_private_pipeline(Normalizer(), model()).fit(x, y[:-1])
    assert not any(letter.isdigit() for letter in str(refused.value))
    with pytest.raises(DataError, match="Reshape your data"):
        make_private_pipeline(Normalizer(), model()).fit(x[0], y)


@pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")
def test_it_can_be_cloned_and_searched_over(blobs):
    x, y = blobs
    ledger = Ledger.in_memory()
    made = clone(make_private_pipeline(Normalizer(), model(ledger=ledger)))
    assert isinstance(made, PrivatePipeline)
    search = GridSearchCV(made, {"privateclassifier__epsilon": [0.5, 4.0]}, cv=2).fit(x, y)
    assert ledger.datasets()[0].charges == 5
    assert search.best_estimator_[-1].ledger is ledger
