"""`dptransfer.fit`: private examples in any form to a fitted classifier, in one call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import ArrayLike

from dptransfer.api.intake import PATHS, Intake
from dptransfer.data import Columns, PrivateData, PublicData, PublicEmbeddings
from dptransfer.data.labels import Classes, declared_classes
from dptransfer.encoders.encoding import NOBODY, same_place
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import ImageMethod, PrivateMethod
from dptransfer.methods.calibrate import calibrated_on_public
from dptransfer.methods.charging import require_room
from dptransfer.methods.configuration import as_method
from dptransfer.privacy import Budget
from dptransfer.sources import PrivateImages, PublicImages, find_images, read_public

if TYPE_CHECKING:
    from dptransfer.base.workers import Workers
    from dptransfer.encoders import Encoder
    from dptransfer.release import PrivateClassifier

Given: TypeAlias = "ArrayLike | str | Path | Sequence[str] | Sequence[Path]"
"""Rows or pixels as an array; a path; a list of texts; a list of picture files."""


def fit(
    x: Given | PrivateData,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    delta: float = 1e-5,
    classes: Classes | None = None,
    name: str | None = None,
    public: Given | PublicData | None = None,
    people: str | Path | ArrayLike | None = None,
    method: str | PrivateMethod = "auto",
    encoder: str | Encoder | None = None,
    text_column: str | None = None,
    path_column: str | None = None,
    features: str | None = None,
    label_column: str | None = None,
    grey_range: tuple[float, float] | None = None,
    holdout: float | None = None,
    ledger: Ledger | None = None,
    workers: Workers | None = None,
    new_data_set: bool = False,
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
        delta: δ of the budget, the command line's default, too; 0 for pure ε, which needs a public pool.
        classes: the full public list of classes, or a number n for 0 to n − 1; it is never inferred from
            labels. Class folders and files that declare one need none.
        name: what the ledger files the data set under; the same for every version of it.
        public: public examples of any of these forms. Labels of class folders and of public files are used
            where a method can.
        people: whose each example is: ids, the name of a column, 'folder' or a file, as `read_private` takes
            them. Then persons are protected, each with all their examples.
        method: its command-line name, or a method object.
        encoder: the name of one, or one that is loaded, for pictures and texts; by default
            'efficientnet-lite0' and 'minilm'.
        text_column: the column of the texts in a table.
        path_column: the column of the paths of pictures in a CSV, if it is not 'path'.
        features: the columns of features in a table, as patterns such as 'f*'.
        label_column: the column of labels in a table, if it is not 'label', 'labels' or 'y'.
        grey_range: black and white of pictures whose greys have more than bytes, as `open_image` takes it.
        holdout: the chance with which an example, or a person, is kept from the fit to check it.
        ledger: where the fit is charged; the user's default ledger file if None.
        workers: who goes through public rows, such as `Processes(4)`; this process if None.
        new_data_set: the owner's word that examples on record under another name are other people's here.

    Raises:
        BudgetExceeded: the data set's budget in the ledger does not cover this fit; no row was read.
        DataError: the examples cannot be used as they are; nothing was charged.
    """
    chosen, budget = as_method(method), Budget(epsilon=epsilon, delta=delta)
    if workers is not None:
        workers.ready()
    _require_others(x, public)
    classes = None if classes is None else declared_classes(classes)
    declared = {"name": name, "classes": classes}
    greys_of: dict[str, Any] = {} if grey_range is None else {"grey_range": grey_range}
    pool: Any
    private: Any
    with ExitStack() as kept:
        if isinstance(x, PrivateData):
            columns = text_column, path_column, features, label_column
            _require_bare(x, y, classes, name, people, encoder, grey_range, *columns)
            private, pool = x, _public_of(public, x)
        elif isinstance(chosen, ImageMethod):
            greys = chosen.grey_range if grey_range is None else grey_range
            how: dict[str, Any] = {"resolution": chosen.network().side, "grey_range": greys}
            pool = _public_pictures(public, path_column, **how)
            of_pictures = {"label_column": label_column, "path_column": path_column}
            private = _private_pictures(x, y, people, of_pictures, **declared, **how)
        else:
            intake = Intake(
                x,
                y,
                classes=classes,
                people=people,
                encoder=encoder,
                text_column=text_column,
                path_column=path_column,
                features=features,
                label_column=label_column,
                purpose=Path("fit-" + re.sub(r"\W+", "-", name or "unnamed")),
                kept=kept,
                **greys_of,
            )
            if intake.source_digests is not None:
                ledger = Ledger.default() if ledger is None else ledger
                ledger.require_new_sources(intake.source_digests, name, new_data_set=new_data_set)
            early = None if name is None else intake.facts()
            outline = None if early is None or _is_public(public) else intake.outline(public)
            if early is not None and ledger is None:
                ledger = Ledger.default()
            asked: dict[str, Any] = {"budget": budget, "ledger": ledger, "name": name, "holdout": holdout}
            if early is not None and outline is not None:
                require_room(chosen, early, outline, **asked)
            pool = public if _is_public(public) else intake.public(public)
            if early is not None:
                require_room(chosen, early, pool, **asked)
            private = intake.private(name=name)
        if workers is not None and isinstance(pool, PublicEmbeddings):
            pool = pool.with_workers(workers)
        model = chosen.fit(
            private, pool, budget=budget, ledger=ledger, holdout=holdout, new_data_set=new_data_set
        )
        with suppress(KeyboardInterrupt):  # who has no time for it keeps the model, which is paid for
            model = calibrated_on_public(model, pool, budget=budget)
        return model


def _require_others(x: Any, public: Any) -> None:
    """Raise where the private examples are given for public ones, too."""
    paths = isinstance(x, PATHS) and isinstance(public, PATHS)
    if public is not None and (public is x or (paths and same_place(Path(public), Path(x)))):
        raise ArgumentError(
            "public must be other examples than the private ones, which would be taken for public and "
            "published; both are the same, or one holds the other. Give a pool of its own."
        )


def _is_public(public: Any) -> bool:
    """Whether public data are there as such, or not at all."""
    return public is None or isinstance(public, PublicData)


def _public_of(public: Any, private: PrivateData) -> PublicData | None:
    """Public data beside private data that are made already; an array of rows is taken for such."""
    if _is_public(public) or isinstance(private, PrivateImages):
        return public  # type: ignore[no-any-return]  # the method says what it takes
    if isinstance(public, PATHS):
        return read_public(public)
    return PublicEmbeddings(public)


def _private_pictures(x: Any, y: Any, people: Any, columns: dict[str, Any], **declared: Any) -> PrivateImages:
    """Private pictures at the size that a network takes."""
    by_path = isinstance(people, PATHS)
    if isinstance(x, PATHS):
        person = people if by_path and people != NOBODY else None
        named = Columns(columns.get("path_column"), label=columns.get("label_column"), person=person)
        x = find_images(x, named, classes=declared["classes"], labelled=y is None)
    return PrivateImages(x, y, people=None if by_path else people, **declared)


def _public_pictures(x: Any, path_column: str | None, **how: Any) -> PublicData | None:
    """Public pictures at the size that a network takes."""
    if x is None or isinstance(x, PublicData):
        return x
    name = Path(x).name if isinstance(x, PATHS) else None
    found = x if name is None else find_images(x, Columns(path=path_column), labelled=False)
    return PublicImages(found, name=name, **how)


def _require_bare(private: PrivateData, *given: Any) -> None:
    """Raise for what private data that are made already say themselves."""
    if any(one is not None for one in given):
        raise ArgumentError(
            f"{type(private).__name__} has its labels, classes, name and people, and is read or encoded "
            "already; some of that was given beside it. Leave those out."
        )
