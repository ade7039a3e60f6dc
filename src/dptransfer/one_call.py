"""`dptransfer.fit`: private examples in any form to a fitted classifier, in one call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.data import (
    STORED,
    Labelled,
    PrivateData,
    PrivateEmbeddings,
    PrivateImages,
    PublicData,
    PublicEmbeddings,
    PublicImages,
    find_images,
    read_private,
    read_public,
)
from dptransfer.data.contents import Contents, contents_of
from dptransfer.data.people import person_positions
from dptransfer.encoding import DEFAULTS, NOBODY, examples_in, kept_rows, labels_of
from dptransfer.errors import ArgumentError, DataError
from dptransfer.methods import ImageMethod, PrivateMethod
from dptransfer.methods.calibrate import calibrated_on_public
from dptransfer.named import as_method
from dptransfer.privacy import Budget

if TYPE_CHECKING:
    from dptransfer.arrays import EncodedRows
    from dptransfer.encoders import Encoder
    from dptransfer.ledger import Ledger
    from dptransfer.release import PrivateClassifier

Given: TypeAlias = "ArrayLike | str | Path | Sequence[str] | Sequence[Path]"
"""Rows or pixels as an array; a path; a list of texts; a list of picture files."""


def fit(
    x: Given | PrivateData,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    delta: float = 1e-5,
    classes: Sequence[str | int] | None = None,
    name: str | None = None,
    public: Given | PublicData | None = None,
    people: str | Path | ArrayLike | None = None,
    method: str | PrivateMethod = "auto",
    encoder: str | Encoder | None = None,
    text_column: str | None = None,
    features: str | None = None,
    holdout: float | None = None,
    ledger: Ledger | None = None,
) -> PrivateClassifier:
    """Fit a classifier on private examples, whatever their form, and charge the ledger once.

    It does what `dptransfer fit` does: it reads or encodes the examples, fits, and calibrates where public
    rows allow for it. Nothing is written but the ledger; `model.save("model")` makes the release. Who wants
    to see the plan first, or has more to declare, uses `PrivateEmbeddings` and a method's own `fit`.

    >>> import numpy as np
    >>> from dptransfer import Ledger, fit
    >>> x, y = np.eye(4)[[0, 1] * 500], ["cat", "dog"] * 500
    >>> model = fit(x, y, epsilon=1, classes=["cat", "dog"], name="pets", ledger=Ledger.in_memory())
    >>> model.predict(np.eye(4)[:2]).tolist()
    ['cat', 'dog']

    Args:
        x: the private examples. An array of rows, or of pictures as bytes (examples, height, width, 3); a
            path to rows (.emb, .npz, .parquet, .csv, ...), to pictures (a folder, an archive, a table) or to
            texts; a list of words, which are texts; a list of `Path`s, which are pictures; or private data
            that are made already.
        y: class of each example, where `x` does not tell.
        epsilon: ε of the budget.
        delta: δ of the budget; 0 for pure ε, which needs a public pool.
        classes: the full public list of classes; it is never inferred from labels. Class folders and files
            that declare one need none.
        name: what the ledger files the data set under; the same for every version of it.
        public: public examples of any of these forms. Labels of class folders and of public files are used
            where a method can.
        people: whose each example is: ids, the name of a column, 'folder' or a file, as `read_private` takes
            them. Then persons are protected, each with all their examples.
        method: its command-line name, or a method object.
        encoder: the name of one, or one that is loaded, for pictures and texts; by default
            'efficientnet-lite0' and 'minilm'.
        text_column: the column of the texts in a table.
        features: the columns of features in a table, as patterns such as 'f*'.
        holdout: the chance with which an example, or a person, is kept from the fit to check it.
        ledger: where the fit is charged; the user's default ledger file if None.

    Raises:
        BudgetExceeded: the data set's budget in the ledger does not cover this fit; no row was read.
        DataError: the examples cannot be used as they are; nothing was charged.
    """
    chosen, budget = as_method(method), Budget(epsilon=epsilon, delta=delta)
    with ExitStack() as kept:
        given: _Pictures | _Rows
        if isinstance(chosen, ImageMethod):
            given = _Pictures(chosen)
        else:
            given = _Rows(_loaded(x, encoder, text_column, features), text_column, features, name, kept)
        # The pool first: what is wrong with it is told before private examples are encoded.
        pool = public if public is None or isinstance(public, PublicData) else given.public(public)
        if isinstance(x, PrivateData):
            _require_bare(y, classes, name, people)
            private = x
        else:
            private = given.private(x, y, classes=classes, name=name, people=people)
        model = chosen.fit(private, pool, budget=budget, ledger=ledger, holdout=holdout)
        with suppress(KeyboardInterrupt):  # who has no time for it keeps the model, which is paid for
            return calibrated_on_public(model, pool, budget=budget)
        return model


@dataclass(frozen=True)
class _Pictures:
    """Reads examples for a method on pictures, at the size that its network takes."""

    method: ImageMethod

    def private(self, x: Any, y: Any, *, people: Any, **declared: Any) -> PrivateImages:
        classes = declared["classes"]
        found = find_images(x, classes=classes, person=_told(people)) if isinstance(x, _PATHS) else x
        ids = None if isinstance(people, _PATHS) else people
        return PrivateImages(found, y, resolution=self._side, people=ids, **declared)

    def public(self, x: Any) -> PublicImages:
        if not isinstance(x, _PATHS):
            return PublicImages(x, resolution=self._side)
        return PublicImages(find_images(x, labelled=False), resolution=self._side, name=Path(x).name)

    @cached_property
    def _side(self) -> int:
        return int(self.method.network().side)


@dataclass(frozen=True)
class _Rows:
    """Reads examples for a method on rows; pictures and texts are encoded.

    Rows of what lies at a path are kept beside it until the fit is done, so that a killed call goes on.
    """

    encoder: Encoder | None
    text_column: str | None
    features: str | None
    name: str | None
    kept: ExitStack

    def private(self, x: Any, y: Any, *, people: Any, **declared: Any) -> PrivateEmbeddings:
        if _form(x, self.text_column, self.features) != "rows":
            return self._encoded_private(x, y, people=people, **declared)
        if isinstance(x, _PATHS):
            by_default = {None: STORED, NOBODY: None}
            whose = by_default.get(people, people) if isinstance(people, str | None) else people
            return read_private(x, labels=y, people=whose, features=self.features, **declared)
        return PrivateEmbeddings(x, _required(y), people=_ids(people), **declared)

    def public(self, x: Any) -> PublicEmbeddings:
        if _form(x, self.text_column, self.features) == "rows":
            return read_public(x, features=self.features) if isinstance(x, _PATHS) else PublicEmbeddings(x)
        encoder = self._required_encoder()
        if not isinstance(x, _PATHS):
            return PublicEmbeddings(_encoded(x, encoder), encoder=encoder.identity)
        path = Path(x)
        found = examples_in(path, encoder, None, labelled=False, text_column=self.text_column)
        rows = kept_rows(found, encoder, path, self._purpose, public=True)
        return read_public(self.kept.enter_context(rows), name=path.name)

    def _encoded_private(self, x: Any, y: Any, *, people: Any, **declared: Any) -> PrivateEmbeddings:
        encoder = self._required_encoder()
        if not isinstance(x, _PATHS):
            rows, labels = _encoded(x, encoder), _required(y)
            return PrivateEmbeddings(rows, labels, encoder=encoder.identity, people=_ids(people), **declared)
        path, classes = Path(x), declared["classes"]
        whose = str(people) if isinstance(people, _PATHS) else None
        found = examples_in(
            path, encoder, classes, labelled=y is None, text_column=self.text_column, person=whose
        )
        if y is not None:
            found = replace(found, labelled=Labelled.of(y, found.classes if classes is None else classes))
        if whose is None and people is not None:
            found = replace(found, people=person_positions(people, len(found)))
        labels_of(found, path, "private examples")
        kept = kept_rows(found, encoder, path, self._purpose)
        return read_private(self.kept.enter_context(kept), **declared)

    def _required_encoder(self) -> Encoder:
        if self.encoder is None:
            raise ArgumentError(
                "Public pictures and texts are encoded as the private ones are; those are rows already. "
                "Pass public rows of the same encoder, or encoder='...' by name."
            )
        return self.encoder

    @property
    def _purpose(self) -> Path:
        """What rows that are kept a while are named after: the same for the same call."""
        return Path(f"fit-{re.sub(r'\W+', '-', self.name or 'unnamed')}")


def _form(x: Any, text_column: str | None, features: str | None) -> Contents:
    """What the examples are; decided by types, names and columns, and by no example."""
    if isinstance(x, _PATHS):
        return contents_of(Path(x), text_column=text_column, features=features)
    if _is_list_of(x, str):
        return "texts"
    pixels = isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.ndim == 4
    return "images" if pixels or _is_list_of(x, Path) else "rows"


def _is_list_of(x: Any, kind: type) -> bool:
    if isinstance(x, np.ndarray):
        return kind is str and x.dtype.kind == "U" and x.ndim == 1
    listed = isinstance(x, Sequence) or hasattr(x, "to_list")  # such as a column of pandas
    return listed and len(x) > 0 and all(isinstance(one, kind) for one in x)


def _loaded(
    x: Any, encoder: str | Encoder | None, text_column: str | None, features: str | None
) -> Encoder | None:
    """The encoder that is named or given; for pictures and texts without one, the default; none for rows."""
    from dptransfer.encoders import get_encoder

    form: Contents = "rows" if isinstance(x, PrivateData) else _form(x, text_column, features)
    if encoder is None:
        return None if form == "rows" else get_encoder(DEFAULTS[form])
    if form == "rows" and not isinstance(x, PrivateData):
        raise ArgumentError("encoder is for pictures and texts; the private examples are rows. Leave it out.")
    return get_encoder(encoder) if isinstance(encoder, str) else encoder


def _encoded(x: Any, encoder: Encoder) -> EncodedRows:
    """Rows of examples that are in memory, or of a list of files; nothing is written."""
    from dptransfer.encoders import encode_images_in_memory, encode_pixels, encode_texts_in_memory

    if encoder.kind == "text":
        return encode_texts_in_memory(list(x), encoder, batch=32)
    if isinstance(x, np.ndarray):
        return encode_pixels(x, encoder)
    rows, unreadable = encode_images_in_memory(x, encoder, batch=32)
    if unreadable:  # that there are any is told, before a charge, and not which
        raise DataError("Pictures must be readable; some are not. Repair them, or leave them out.")
    return rows


def _told(people: Any) -> str | Path | None:
    """Where people are told, for those who read files; ids that are given come later."""
    return people if isinstance(people, _PATHS) and people != NOBODY else None


def _ids(people: Any) -> Any:
    """Ids as they are; a word has no file here that it could name a column of."""
    if people is None or not isinstance(people, _PATHS):
        return people
    raise ArgumentError(
        f"people must be ids, one for each example, where examples are given as such; got {str(people)!r}. "
        "Pass the ids, or a path for the examples."
    )


def _required(y: Any) -> Any:
    if y is None:
        raise DataError(
            "Private examples need y, a class each; there is none. Pass y=..., and classes=[...]."
        )
    return y


def _require_bare(*given: Any) -> None:
    """Raise for what private data that are made already say themselves."""
    if any(one is not None for one in given):
        raise ArgumentError(
            "Private data that are made already have their labels, classes, name and people; some were given "
            "beside them. Leave those out."
        )


_PATHS = (str, Path)
