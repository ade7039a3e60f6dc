"""What is not covered is told once for each line that fits, whatever the data are."""

import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dptransfer import Ledger
from dptransfer.errors import PrivacyWarning
from dptransfer.sklearn import private_classifier
from dptransfer.sklearn.pipeline import make_private_pipeline
from dptransfer.sklearn.private_classifier import FRONT, SCORES, PrivateClassifier


def warning_model():
    return PrivateClassifier("mean", classes=[0, 1, 2], name="pets", ledger=Ledger.in_memory())


def told(act):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    assert all(issubclass(one.category, PrivacyWarning) for one in caught)
    return [str(one.message) for one in caught]


def some_rows(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(30 + seed, 4)), rng.integers(0, 3, 30 + seed)


def test_every_line_that_fits_warns_of_steps_in_front_once():
    x, y = some_rows(0)
    heard = [told(lambda: warning_model().fit(x, y)) for _ in range(3)]  # one line, three times
    assert heard == [[FRONT], [], []]
    assert told(lambda: make_pipeline(StandardScaler(), warning_model()).fit(x, y)) == [
        FRONT
    ]  # here it matters


def test_the_warning_names_the_line_that_fits():
    x, y = some_rows(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(warning_model(), x, y, cv=3)
        line = sys._getframe().f_lineno - 1
    assert [(one.filename, one.lineno) for one in caught] == [(__file__, line)] * 2


def test_a_line_that_raised_raises_again_and_one_that_did_not_warns_once():
    x, y = some_rows(0)
    for filtered, heard in (("error", 0), ("always", 1), ("always", 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(filtered)
            try:
                warning_model().fit(x, y)
            except PrivacyWarning:
                assert filtered == "error"
        assert len(caught) == heard


def test_a_checked_pipeline_has_nothing_to_tell():
    x, y = some_rows(0)
    assert told(lambda: make_private_pipeline(warning_model()).fit(x, y)) == []
    assert told(lambda: warning_model().fit(x, y)) == [FRONT]  # the check was of that pipeline alone


def test_cross_validation_tells_of_scores_once_for_all_folds():
    x, y = some_rows(0)
    heard = [told(lambda: cross_val_score(warning_model(), x, y, cv=3)) for _ in range(2)]
    assert heard == [[FRONT, SCORES], []]
    assert told(lambda: cross_val_score(warning_model(), x, y, cv=3, scoring="accuracy")) == [FRONT, SCORES]
    assert told(lambda: cross_val_score(make_private_pipeline(warning_model()), x, y, cv=3)) == [SCORES]


def test_the_same_is_told_of_other_rows_and_labels():
    heard = []
    for seed in (0, 1):
        x, y = some_rows(seed)
        private_classifier._warned.clear()
        heard.append(told(lambda x=x, y=y: clone(warning_model()).fit(x, y)))
    assert heard[0] == heard[1] == [FRONT, SCORES]


def test_a_filter_that_raises_stops_every_fit_before_its_charge():
    x, y = some_rows(0)
    made = warning_model()
    for _ in range(2):
        with pytest.raises(PrivacyWarning):
            made.fit(x, y)
    assert made.ledger.history() == []
