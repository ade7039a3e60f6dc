"""Encode what a source names into an `.emb` folder; evaluate a classifier on unprotected test rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from dptransfer.api.source import Given, Source
from dptransfer.data.labels import Labelled
from dptransfer.encoders.encoding import GREYS, encode_to, refuse_problems
from dptransfer.encoders.shards import EncodeOptions
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import ClassSizes, Evaluation, evaluate_model

if TYPE_CHECKING:
    from dptransfer.encoders import Encoder, EncodeReport

_ALLOW = "pass allow_unreadable (--allow-unreadable) to count each as a row of zeros"


def encode(
    x: Given | Source,
    out: str | Path,
    *,
    encoder: str | Encoder | None = None,
    public: bool = False,
    allow_unreadable: bool = False,
    options: EncodeOptions | None = None,
) -> EncodeReport:
    """Turn the images or texts at a path into an `.emb` folder of embeddings, as `dptransfer encode` does.

    After a kill the same call goes on where it stopped. Nothing is charged: rows of private examples are as
    private as these.

    Args:
        x: a folder, an archive or a table of images; or a table or file of texts; or a `Source` at a path.
        out: the `.emb` folder to write.
        encoder: the name of an encoder, or one that is loaded; by default
            'efficientnet-lite0' for images and 'minilm' for texts.
        public: whether the examples are nobody's, for a public pool: unreadable ones are left out then, and
            examples that the user's ledger has on record as private are refused.
        allow_unreadable: whether an unreadable private image becomes a row of zeros and not an error.
        options: batch, shards, type of the numbers and the like.

    Raises:
        DataError: there is nothing to encode, or private images cannot be read.
        PrivateOverlap: public examples are on record as private in the user's ledger.
    """
    source = Source.of(x)
    if encoder is not None:
        source = replace(source, reading=replace(source.reading, encoder=encoder))
    if source.is_encoded or source.path is None:
        found = f"'{source.path}' holds rows of numbers" if source.path else "these are in memory"
        raise ArgumentError(f"Encoding is for images or texts at a path; {found}. Give 'fit' these.")
    if public and source.told_people is not None:
        raise ArgumentError("people (--person) is for private data, public for public data. Leave one out.")
    source.require_there()
    model = source.reading.load(source.form)
    examples = source.find(model, labelled=True)
    ledger = Ledger.default_if_there() if public else None
    if ledger is not None:
        ledger.require_unrelated(examples)
    out, strict = Path(out), not (public or allow_unreadable)
    before = partial(refuse_problems, beside=out, remedy=f"Repair or remove them, {GREYS}, or {_ALLOW}.")
    options = replace(options or EncodeOptions(), public=public, name=source.name)
    report = encode_to(out, examples, model, options, refuse=before if strict else None)
    if strict:
        kept = f"'{out}' was written with a row of zeros for each; encode again without them, or {_ALLOW}."
        refuse_problems(report.unreadable, out, remedy=kept)
    return report


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
