"""A refusal that a search cannot turn into a missing score.

`cross_val_score` and `GridSearchCV` catch every `Exception` of a fit and write `error_score`, NaN by default,
in its place. For a wrong setting that is a service. For a refusal of the ledger it hides that the
budget ran out, and that everything fitted until then is spent. They leave a `BaseException` alone, and so do
joblib's threads and processes; so that is what a refused fit raises there. Where is "there"? Searches fit
clones of the estimator they are given, and a user fits the estimator itself: a clone knows that it is one.
"""

from __future__ import annotations

from dptransfer.errors import ArgumentError, DataError, DPTransferError, LedgerError, RelationMismatch
from dptransfer.ledger import Charge, Ledger
from dptransfer.ledger.account import accounts


class SearchStopped(BaseException):
    """The ledger refused a fit that scikit-learn made on a clone, or such a fit failed after its charge.

    Deliberately no `Exception`, so that no search swallows it: ``except SearchStopped`` catches it. The same
    refusal of an estimator that you fit yourself is the ordinary one, such as `BudgetExceeded`.

    Attributes:
        refusal: what happened, as the exception that a fit outside a search raises.
    """

    def __init__(self, message: str, refusal: Exception) -> None:
        super().__init__(
            message, refusal
        )  # both are arguments, so that it can be pickled for another process
        self.refusal = refusal

    def __str__(self) -> str:
        return str(self.args[0])


def concerns_privacy(problem: Exception) -> bool:
    """Whether it came from the ledger or after the charge; otherwise nothing was read or spent."""
    return not isinstance(problem, ArgumentError | DataError) or isinstance(problem, RelationMismatch)


def search_stopped(problem: Exception, *, name: str, ledger: Ledger | None, since: str) -> SearchStopped:
    """The refusal with what was charged to the data set since the first clone was made."""
    told = str(problem) if isinstance(problem, DPTransferError) else f"{type(problem).__name__} in a fit."
    message = (
        "A search pays for every fit, and one of these did not get through. What was charged stays charged: "
        f"{_charged(name, ledger, since)}. Choose with PrivateSearch, whose one charge covers the whole "
        f"search, or take fewer folds and candidates. The fit said: {told}"
    )
    return SearchStopped(message, problem)


def _charged(name: str, ledger: Ledger | None, since: str) -> str:
    try:
        entries = (ledger or Ledger.default()).history(name)
        own = [one for one in entries if not isinstance(one, Charge) or one.time >= since]
        summary, whole = (
            next((account.summary() for account in accounts(part).values()), None) for part in (own, entries)
        )
    except LedgerError:
        return "how much that is cannot be read from the ledger now"
    at = f"since the first clone was made, at {since[:19]} UTC"
    if summary is None or summary.spent is None:
        return f"nothing {at}" + ("" if whole is None else f"; before that {whole.sentence}")
    fits = "1 fit" if summary.charges == 1 else f"{summary.charges} fits"
    return f"{fits} of '{name}' {at}, by which {summary.sentence}"
