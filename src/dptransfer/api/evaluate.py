"""Evaluate a classifier on test rows that no ledger has on record as private."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from dptransfer.data.labels import Labelled
from dptransfer.ledger import Ledger
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import ClassSizes, Evaluation, evaluate_model


def evaluate(
    model: PrivateClassifier,
    x: Any,
    y: ArrayLike | Labelled,
    *,
    minority_of: ClassSizes | None = None,
    name: str = "",
    device: str = "cpu",
    public: bool = False,
    ledger: Ledger | None = None,
    new_data_set: bool = False,
) -> Evaluation:
    """Test a classifier on labelled rows; no privacy is spent, and the test rows are not protected.

    Rows that a ledger has on record as private, such as those that the model was fitted on, are refused.
    To test on them at a privacy cost, use `PrivateEvaluation`.

    Args:
        model: the classifier.
        x: test rows of the kind that the model was fitted on, as an array or as `PublicEmbeddings`.
        y: their classes.
        minority_of: public class sizes of the training set, as a list in the order of the declared classes
            or by name; they say which quarter of the classes is smallest. Default: the sizes declared with
            the training data, else those of the test set.
        name: whose rows these are, for the card.
        device: where the rows are scored, 'cpu' or 'cuda'.
        public: whether the test set is declared public; a release tells its sizes only then.
        ledger: where private rows are on record; default the user's ledger file, if there is one.
        new_data_set: declare that the rows on record belong to other people than these. It never excuses rows
            of the data set that the model was fitted on.

    Raises:
        PrivateOverlap: the ledger has test rows, or their sources, on record. For the owner's eyes only.
    """
    book = Ledger.default_if_there() if ledger is None else ledger
    if book is not None:
        book.require_unrelated(x, fit=model.provenance.ledger_head, new_data_set=new_data_set)
    return evaluate_model(model, x, y, minority_of=minority_of, name=name, device=device, public=public)
