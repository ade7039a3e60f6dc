"""Any method of this library as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dptransfer.data import PublicEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.methods import PrivateMethod
from dptransfer.named import as_method
from dptransfer.privacy import Relation
from dptransfer.sklearn.estimator import PrivateEstimator


class PrivateClassifier(PrivateEstimator):
    """Any method of this library as a scikit-learn classifier.

    >>> import numpy as np
    >>> from dptransfer import Ledger
    >>> from dptransfer.sklearn import make_private_pipeline
    >>> x, y = np.eye(4)[[0, 1] * 500], np.array(["cat", "dog"] * 500)
    >>> model = PrivateClassifier("mean", classes=["cat", "dog"], name="pets", ledger=Ledger.in_memory())
    >>> make_private_pipeline(model).fit(x, y).predict(np.eye(4)[:2]).tolist()
    ['cat', 'dog']

    Args:
        method: a command-line name such as 'mean', or a method object.
        epsilon: ε of the budget of one fit.
        delta: δ of the budget of one fit.
        classes: the declared list of classes, or 'observed' to declare that the set of classes in `y` is
            public.
        public: public rows, for methods that use some.
        relation: 'add/remove' or 'replace-one'.
        name: what the ledger files the data set under; required, so that all fits on it add up.
        new_data_set: your word that rows on record under another name are other people's here.
        ledger: where fits are charged; the user's default ledger file if None.
        random_state: None for secure noise. A number gives repeatable noise for tests, and a model that
            cannot be published.

    Attributes:
        classes_: the declared classes.
        model_: the released classifier, which can be saved.
        guarantee_: what it promises.
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
        new_data_set: bool = False,
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
        self.new_data_set = new_data_set
        self.ledger = ledger
        self.random_state = random_state

    def _method(self) -> PrivateMethod:
        return as_method(self.method)
