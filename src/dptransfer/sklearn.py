"""A thin adapter for people who live in scikit-learn pipelines.

Two habits of scikit-learn are not private, and this adapter does not follow them silently. Classes are
declared, not read off `y`; whoever holds the set of occurring classes to be public says so with
``classes="observed"``. And every `fit` is charged to the ledger: cross-validation on private rows pays for
each of its fits. Steps in front of the adapter must not learn from private rows either (`StandardScaler`
does): use row-wise steps such as `Normalizer`, or a `PublicMap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dptransfer import _check
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS, PrivateMethod
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import Budget, Guarantee, Relation


class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Any method of this library as a scikit-learn classifier.

    >>> import numpy as np
    >>> from dptransfer import Ledger
    >>> x, y = np.eye(4)[[0, 1] * 500], np.array(["cat", "dog"] * 500)
    >>> model = PrivateClassifier("mean", classes=["cat", "dog"], ledger=Ledger.in_memory()).fit(x, y)
    >>> model.predict(np.eye(4)[:2]).tolist()
    ['cat', 'dog']

    Args:
        method: a command-line name such as 'mean', or a method object.
        epsilon: ε of the budget of one fit.
        delta: δ of the budget of one fit.
        classes: the declared list of classes, or 'observed' to declare that the set of classes in `y` is
            public.
        public: public rows, for methods that use some.
        relation: 'add/remove' or 'replace-one'.
        name: what the ledger files the data set under.
        ledger: where fits are charged; the user's default ledger file if None.
        random_state: None for secure noise. A number gives repeatable noise for tests, and a model that
            cannot be published.
    """

    def __init__(
        self,
        method: str | PrivateMethod = "auto",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        classes: Sequence[Any] | str | None = None,
        public: PublicEmbeddings | None = None,
        relation: str = Relation.ADD_REMOVE.value,
        name: str | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.public = public
        self.relation = relation
        self.name = name
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # scikit-learn's name
        """Fit once, and charge the ledger once."""
        rows, labels = validate_data(self, X, y, ensure_all_finite=False, ensure_min_samples=1)
        check_classification_targets(labels)
        self.classes_ = self._declared(labels)
        lookup = {value: position for position, value in enumerate(self.classes_.tolist())}
        # Positions stand for classes inside, so that classes of any kind can be declared.
        positions = np.array([lookup.get(value, -1) for value in np.asarray(labels).tolist()], dtype=np.int64)
        private = PrivateEmbeddings(rows, positions, classes=self._names(), name=self.name)
        relation = Relation(_check.one_of("relation", self.relation, [one.value for one in Relation]))
        budget = Budget(epsilon=self.epsilon, delta=self.delta, relation=relation)
        noise = SecureNoise() if self.random_state is None else SeededNoise(self.random_state)
        self.model_ = self._method().fit(
            private, self._public(), budget=budget, ledger=self.ledger, noise=noise
        )
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """What the fitted model promises."""
        check_is_fitted(self)
        guarantee: Guarantee = self.model_.guarantee
        return guarantee

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest declared class of each row."""
        best = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Softmax of the scores."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._rows(X))

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """One score per class; for two classes their difference, as scikit-learn expects."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        return self.model_.scores(self._rows(X))

    def _rows(self, X: ArrayLike) -> NDArray[Any]:
        return np.asarray(validate_data(self, X, ensure_all_finite=False, reset=False))

    def _declared(self, labels: NDArray[Any]) -> NDArray[Any]:
        if isinstance(self.classes, str) and self.classes == "observed":
            return np.unique(labels)
        if self.classes is None or isinstance(self.classes, str):
            raise ArgumentError(
                "Classes must be declared, because the set of classes that occur is itself private; got "
                f"classes={self.classes!r}. Pass the full public list, classes=[...], or classes='observed' "
                "if that set is public anyway."
            )
        declared = np.asarray(self.classes)
        if declared.ndim != 1 or len(np.unique(declared)) != len(declared):
            raise ArgumentError("classes must be one list of distinct classes; these are something else.")
        return declared

    def _names(self) -> list[str]:
        """The classes as words, for a release of the model; positions where two of them read the same."""
        names = [str(value) for value in self.classes_.tolist()]
        return names if len(set(names)) == len(names) else [str(place) for place in range(len(names))]

    def _public(self) -> PublicEmbeddings | None:
        """The public rows, with their labels called as the classes are called inside."""
        shots = None if self.public is None else self.public.shots
        if self.public is None or shots is None or shots.classes is None or shots.labels is None:
            return self.public
        inside = dict(zip(self.classes_.tolist(), self._names(), strict=True))
        renamed = tuple(inside.get(name, str(name)) for name in shots.classes)
        if renamed == shots.classes:
            return self.public
        return self.public.with_shots(
            PublicEmbeddings(
                shots.rows, shots.labels, classes=renamed, name=shots.name, encoder=shots.encoder
            )
        )

    def _method(self) -> PrivateMethod:
        if isinstance(self.method, PrivateMethod):
            return self.method
        if self.method not in METHODS:
            raise ArgumentError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}.")
        return METHODS[self.method]()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # fresh noise in every fit
        tags.input_tags.allow_nan = (
            True  # a non-finite row counts as zeros; refusing it would tell it is there
        )
        tags.classifier_tags.poor_score = True  # on a handful of rows, privacy noise may drown the signal
        return tags
