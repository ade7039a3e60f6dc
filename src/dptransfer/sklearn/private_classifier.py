"""Any method of this library as a scikit-learn classifier: charged fits, and predictions from a release.

`cross_val_score` and `GridSearchCV` catch every `Exception` of a fit and write `error_score`, NaN by default,
in its place. For a wrong setting that is a service. For a refusal of the ledger it hides that the
budget ran out, and that everything fitted until then is spent. They leave a `BaseException` alone, and so do
joblib's threads and processes; so that is what a refused fit raises there. Where is "there"? Searches fit
clones of the estimator they are given, and a user fits the estimator itself: a clone knows that it is one.

What the guarantee does not cover around a fit is told in a warning, once for each line that fits.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dptransfer import errors
from dptransfer.api.fit import Fit
from dptransfer.api.source import Source
from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Floats
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import DeclaredSizes
from dptransfer.data.labels import places
from dptransfer.ledger import Charge, Ledger
from dptransfer.ledger.account import accounts
from dptransfer.methods import PrivateMethod, PrivateTuning
from dptransfer.methods.configuration import as_method, configure
from dptransfer.methods.tuning import best_trial_note, every_combination
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import Budget, Guarantee, Relation
from dptransfer.release import PrivateClassifier as ReleasedClassifier
from dptransfer.sklearn import validation

FRONT = (
    "Steps in front of a private estimator that learn from rows, such as StandardScaler or PCA, are not "
    "covered by its guarantee. It cannot see whether there are any. Build the pipeline with "
    "make_private_pipeline, which refuses them, or state that there are none: "
    "warnings.filterwarnings('ignore', 'Steps in front')"
)
SCORES = (
    "Scores that cross-validation or a search computes on private rows are not covered by the guarantee, and "
    "neither is a choice made by them. This estimator was cloned to be fitted, as they do, and every fit is "
    "charged. Keep the scores to yourself, choose with PrivateSearch, or silence this: "
    "warnings.filterwarnings('ignore', 'Scores that cross-validation')"
)

_BETWEEN = frozenset(("dptransfer", "sklearn", "joblib", "imblearn"))  # the caller and a fit

checked_front: ContextVar[bool] = ContextVar("checked_front", default=False)
"""Whether the fit that is going on stands in a pipeline whose steps were checked."""


_warned: set[tuple[str, str, int]] = set()


def warn_at_call(text: str) -> None:
    """Warn once for each line of the caller's that fits, however many folds or clones that makes.

    That is what Python's default filter does, but scikit-learn resets Python's record in every fold. Under a
    filter that makes errors of warnings, every fit raises.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    site = text, frame.f_code.co_filename, frame.f_lineno
    if site not in _warned:
        warnings.warn_explicit(text, errors.PrivacyWarning, *site[1:], module=frame.f_globals.get("__name__"))
        _warned.add(site)


class SearchStopped(BaseException):
    """The ledger refused a fit that scikit-learn made on a clone, or such a fit failed after its charge.

    Deliberately no `Exception`, so that no search swallows it: ``except SearchStopped`` catches it. The same
    refusal of an estimator that you fit yourself is the ordinary one, such as `BudgetExceeded`.

    Attributes:
        refusal: what happened, as the exception that a fit outside a search raises.
    """

    def __init__(self, message: str, refusal: Exception) -> None:
        super().__init__(message, refusal)  # both are arguments: it is pickled for another process
        self.refusal = refusal

    def __str__(self) -> str:
        return str(self.args[0])


def concerns_privacy(problem: Exception) -> bool:
    """Whether it came from the ledger or after the charge; otherwise nothing was read or spent."""
    of_arguments = isinstance(problem, errors.ArgumentError | errors.DataError)
    return not of_arguments or isinstance(problem, errors.RelationMismatch)


def search_stopped(problem: Exception, *, name: str, ledger: Ledger | None, since: str) -> SearchStopped:
    """The refusal with what was charged to the data set since the first clone was made."""
    ours = isinstance(problem, errors.DPTransferError)
    reason = str(problem) if ours else f"{type(problem).__name__} in a fit."
    message = (
        "A search pays for every fit, and one of these did not get through. What was charged stays charged: "
        f"{_charged(name, ledger, since)}. Choose with PrivateSearch, whose one charge covers the whole "
        f"search, or take fewer folds and candidates. The fit said: {reason}"
    )
    return SearchStopped(message, problem)


def _charged(name: str, ledger: Ledger | None, since: str) -> str:
    try:
        entries = (ledger or Ledger.default()).history(name)
        own = [one for one in entries if not isinstance(one, Charge) or one.time >= since]
        summary, whole = (
            next((account.summary() for account in accounts(part).values()), None) for part in (own, entries)
        )
    except errors.LedgerError:
        return "how much that is cannot be read from the ledger now"
    at = f"since the first clone was made, at {since[:19]} UTC"
    if summary is None or summary.spent is None:
        return f"nothing {at}" + ("" if whole is None else f"; before that {whole.sentence}")
    fits = "1 fit" if summary.charges == 1 else f"{summary.charges} fits"
    return f"{fits} of '{name}' {at}, by which {summary.sentence}"


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Any method of this library as a scikit-learn classifier; each fit is charged to the ledger by name.

    >>> import numpy as np
    >>> from dptransfer import Ledger
    >>> from dptransfer.sklearn.pipeline import make_private_pipeline
    >>> x, y = np.eye(4)[[0, 1] * 500], np.array(["cat", "dog"] * 500)
    >>> model = PrivateClassifier("mean", classes=["cat", "dog"], name="pets", ledger=Ledger.in_memory())
    >>> make_private_pipeline(model).fit(x, y).predict(np.eye(4)[:2]).tolist()
    ['cat', 'dog']

    Args:
        method: a command-line name such as 'mean', or a method object.
        epsilon: ε of the budget of one fit.
        delta: δ of the budget of one fit.
        classes: the declared list of classes, or a number n for 0 to n − 1; 'observed' declares that the set
            of classes in `y` is public.
        public: public rows, for methods that use some.
        relation: 'add/remove' or 'replace-one'.
        name: what the ledger files the data set under; required, so that all fits on it add up.
        person_bound: as how many examples one person counts at most, in a fit that is told the people.
        rows_per_person: about how many examples a person has, only if that may be public.
        new_data_set: your word that rows on record under another name are other people's here.
        ledger: where fits are charged; the user's default ledger file if None.
        random_state: None for secure noise. A number gives repeatable noise for tests, and a model that
            cannot be published.

    Attributes:
        classes_: the declared classes.
        model_: the released classifier, which can be saved.
        guarantee_: what it promises.
    """

    method: str | PrivateMethod = field(default="auto", kw_only=False)
    epsilon: float = 1.0
    delta: float = 1e-5
    classes: Sequence[Any] | str | int | None = None
    public: PublicEmbeddings | None = None
    relation: str = Relation.ADD_REMOVE.value
    name: str | None = None
    person_bound: float = 1.0
    rows_per_person: float | None = None
    new_data_set: bool = False
    ledger: Ledger | None = None
    random_state: int | None = None

    # No settings: what a fit found, and whether this is a clone.
    classes_: AnyArray = field(init=False)
    model_: ReleasedClassifier = field(init=False)
    _first_cloned: str | None = field(default=None, init=False)
    """When the first clone of this one was made; UTC, ISO 8601 as in the ledger."""
    _clone_since: str | None = field(default=None, init=False)
    """On a clone: when the first clone of the estimator that the user made was made."""

    def _method(self) -> str | PrivateMethod:
        """What is fitted, from the settings."""
        return self.method

    # By keyword alone: in its place other estimators take weights.
    def fit(self, X: ArrayLike, y: ArrayLike, *, people: ArrayLike | None = None) -> Self:
        """Fit once, and charge the ledger once.

        Args:
            X: the private rows.
            y: class of each.
            people: whose each row is; then persons are protected, each with all their rows. Through a
                pipeline it goes as `privateclassifier__people`, or as `people` by metadata routing with
                `set_fit_request(people=True)`; with `set_fit_request(people='groups')` it is what group
                splitters take too.

        Raises:
            BudgetExceeded: the data set's budget does not cover this fit; nothing was read.
            RowsOnRecord: the ledger has these rows under another name; `new_data_set` says otherwise.
            SearchStopped: the same, where scikit-learn fits a clone.
        """
        name, method = self._name(), as_method(self._method())
        relation = Relation(checks.one_of("relation", self.relation, [one.value for one in Relation]))
        budget = Budget(epsilon=self.epsilon, delta=self.delta, relation=relation)
        noise = SecureNoise() if self.random_state is None else SeededNoise(self.random_state)
        rows, labels = validation.noted_rows(self, X, reset=True), validation.labels_of(y, of=self)
        classes = validation.declared_values(self.classes, labels)
        # Positions stand for classes inside, so that classes of any kind can be declared.
        positions = places(labels.tolist(), classes.tolist())
        sizes: DeclaredSizes = {"person_bound": self.person_bound, "rows_per_person": self.rows_per_person}
        words = validation.class_words(classes)
        private = PrivateEmbeddings(rows, positions, classes=words, name=name, people=people, **sizes)
        public = validation.with_class_words(self.public, classes)
        if not checked_front.get():
            warn_at_call(FRONT)
        if self._clone_since is not None:
            warn_at_call(SCORES)
        try:
            pool = None if public is None else Source(public)
            request = Fit(Source(private), budget, method, pool, new_data_set=self.new_data_set)
            model = request.run(self.ledger, noise)
        except Exception as problem:
            if self._clone_since is None or not concerns_privacy(problem):
                raise
            raise search_stopped(problem, name=name, ledger=self.ledger, since=self._clone_since) from problem
        self.classes_, self.model_ = classes, model
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """What the fitted model promises."""
        check_is_fitted(self)
        return self.model_.guarantee

    def predict(self, X: ArrayLike) -> AnyArray:
        """The likeliest declared class of each row."""
        best = self._scores(X).argmax(axis=1)  # which is asked before there are classes
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities, as the released model gives them: calibrated where it is."""
        rows = self._rows(X)  # which is asked before there is a model
        return self.model_.predict_proba(rows)

    def decision_function(self, X: ArrayLike) -> Floats:
        """One score per class; for two classes their difference, as scikit-learn expects."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy; a label that was not declared counts as missed. The guarantee does not cover these rows.

        Counted here, because scikit-learn's own count tells lengths and kinds of labels when it refuses.
        """
        scores, labels = self._scores(X), validation.labels_of(y, of=self)
        if len(scores) != len(labels):
            raise errors.DataError("X and y need one entry each per example; their lengths differ.")
        right = scores.argmax(axis=1) == places(labels.tolist(), self.classes_.tolist())
        weights = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(right, weights=weights)) if len(right) else float("nan")

    def _scores(self, X: ArrayLike) -> Floats:
        rows = self._rows(X)
        return self.model_.scores(rows)

    def _rows(self, X: ArrayLike) -> AnyArray:
        check_is_fitted(self)
        return validation.noted_rows(self, X, reset=False)

    def _name(self) -> str:
        if not isinstance(self.name, str) or not self.name.strip():
            raise errors.ArgumentError(
                f"A fit is charged to one account; got name={self.name!r}. Pass name='...'."
            )
        return self.name

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        method = self.method if isinstance(self.method, str) else type(self.method).__name__
        shown = {"epsilon": self.epsilon, "delta": self.delta, "name": self.name}
        return f"{type(self).__name__}({method}, {', '.join(f'{key}={shown[key]!r}' for key in shown)})"

    def __sklearn_clone__(self) -> Self:
        """A clone that knows it is one; see `refusal`."""
        now = datetime.now(UTC).isoformat()
        self._first_cloned = self._clone_since or self._first_cloned or now
        clone: Self = super().__sklearn_clone__()
        clone._clone_since = self._first_cloned
        return clone

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # fresh noise in every fit
        tags.input_tags.allow_nan = True  # such a row counts as zeros; refusing it would tell it is there
        tags.classifier_tags.poor_score = True  # on a handful of rows, privacy noise may drown the signal
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSearch(PrivateClassifier):
    """A choice among settings of a method, made on private rows and paid for as a whole.

    Where `GridSearchCV` pays for folds × candidates and chooses by scores that no guarantee covers, this fits
    a random number of randomly drawn candidates, compares noisy counts of right answers, and releases the
    best; see `PrivateTuning`. One fit is one charge, which covers the search and the model.

    >>> import numpy as np
    >>> from dptransfer import Ledger
    >>> from dptransfer.sklearn.pipeline import make_private_pipeline
    >>> x, y = np.eye(4)[[0, 1] * 500], np.array(["cat", "dog"] * 500)
    >>> search = PrivateSearch("noisy-gd", {"steps": [2, 5]}, epsilon=3.0, classes=["cat", "dog"],
    ...                        mean_trials=2, name="pets", ledger=Ledger.in_memory())
    >>> make_private_pipeline(search).fit(x, y).predict(np.eye(4)[:2]).tolist()
    ['cat', 'dog']
    >>> search.best_params_["steps"] in (2, 5)
    True

    Args:
        method: a command-line name such as 'noisy-gd', or a method object whose other settings are kept.
        grid: values to try, by setting; every combination is a candidate. What the command line's `--tune`
            reaches is reached here by the same names, such as 'steps', 'axes' and 'pace.reach'.
        mean_trials: expected number of candidates that are drawn and fitted.
        epsilon: ε of the whole search.
        delta: δ of the whole search.
        classes: as for `PrivateClassifier`, like `public`, `relation`, `name`, `person_bound`,
            `rows_per_person`, `new_data_set`, `ledger` and `random_state`.

    Attributes:
        best_params_: the settings of the best trial, as listed in `grid`; released.
        classes_: the declared classes.
        model_: the released classifier of the best trial, which can be saved.
        guarantee_: what it promises, choice included.
    """

    method: str | PrivateMethod = field(default="noisy-gd", kw_only=False)
    grid: Mapping[str, Sequence[Any]] | None = field(default=None, kw_only=False)
    mean_trials: float = 10.0

    def fit(self, X: ArrayLike, y: ArrayLike, *, people: ArrayLike | None = None) -> Self:
        """Search once, and charge the ledger once; `people` as for `PrivateClassifier`."""
        super().fit(X, y, people=people)
        listed, notes = self._listed(), self.model_.provenance.notes
        candidates = [candidate for _, candidate in listed]
        won = (settings for settings, one in listed if best_trial_note(one, candidates) in notes)
        self.best_params_ = next(won)
        return self

    def _method(self) -> PrivateMethod:
        candidates = tuple(candidate for _, candidate in self._listed())
        return PrivateTuning(candidates=candidates, mean_trials=self.mean_trials)

    def _listed(self) -> list[tuple[dict[str, Any], PrivateMethod]]:
        """Each combination of settings, with the method that has them."""
        if not isinstance(self.grid, Mapping):
            raise errors.ArgumentError(
                f"grid must list values by setting, as {{'steps': [10, 30]}}; got {type(self.grid).__name__}."
            )
        base = as_method(self.method)
        given: Mapping[str, Any] = self.grid
        lists = {key: one.tolist() if isinstance(one, np.ndarray) else one for key, one in given.items()}
        return every_combination(lambda settings: configure(base, settings), lists)
