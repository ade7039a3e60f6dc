"""A search over settings that is charged once: the private stand-in for scikit-learn's searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.errors import ArgumentError
from dptransfer.methods import PrivateMethod, PrivateTuning
from dptransfer.methods.configuration import as_method, configure
from dptransfer.methods.tuning import best_trial_note, every_combination
from dptransfer.sklearn.private_classifier import PrivateClassifier


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
        listed = self._listed()
        candidates = [candidate for _, candidate in listed]
        self.best_params_ = next(
            settings
            for settings, candidate in listed
            if best_trial_note(candidate, candidates) in self.model_.provenance.notes
        )
        return self

    def _method(self) -> PrivateMethod:
        return PrivateTuning(
            candidates=tuple(candidate for _, candidate in self._listed()), mean_trials=self.mean_trials
        )

    def _listed(self) -> list[tuple[dict[str, Any], PrivateMethod]]:
        """Each combination of settings, with the method that has them."""
        if not isinstance(self.grid, Mapping):
            raise ArgumentError(
                f"grid must list the values to try, by setting; got {type(self.grid).__name__}. "
                "Example: grid={'steps': [10, 30]}"
            )
        base = as_method(self.method)
        given: Mapping[str, Any] = self.grid
        lists = {key: one.tolist() if isinstance(one, np.ndarray) else one for key, one in given.items()}
        return every_combination(lambda settings: configure(base, settings), lists)
