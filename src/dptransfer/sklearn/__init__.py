"""Adapters for people who live in scikit-learn: a classifier, a search that is charged once, a safe pipeline.

Three habits of scikit-learn are not private, and these adapters do not follow them. Classes are declared, not
read off `y`; whoever holds the set of occurring classes to be public says so with ``classes="observed"``.
Every fit is charged to the ledger, under a name, so that the folds of a cross-validation add up in one
account; and a refusal cannot end as a NaN among scores (`SearchStopped`). What scikit-learn does around a
fit is not covered by the guarantee: steps in front that learn from rows, and scores on private rows. Both are
told in a `PrivacyWarning`.
"""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
