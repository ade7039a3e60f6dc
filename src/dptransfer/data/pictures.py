"""Pictures and labels, private or public: for methods that must see pixels and not the rows of an encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from dptransfer.arrays import Labels
from dptransfer.data.class_names import declared_classes
from dptransfer.data.embeddings import content_digest
from dptransfer.data.facts import Facts
from dptransfer.data.images import ImageList
from dptransfer.data.labelled import Labelled, class_positions
from dptransfer.data.pixels import pixels_of
from dptransfer.errors import DataError, Incompatible


class PrivateImages:
    """Sensitive labelled pictures, with what their owner declares public about them.

    Like `PrivateEmbeddings` it keeps its counsel: it prints the declared facts and has no length.
    `pixels[positions]` gives those pictures as bytes, (positions, height, width, 3).

    >>> import numpy as np
    >>> pixels = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    >>> PrivateImages(pixels, ["cat", "dog"], classes=["cat", "dog"])
    PrivateImages(2 declared classes, pictures of 8 × 8 pixels)

    Args:
        x: bytes of the shape (examples, height, width, 3), memory-mapped arrays welcome; or files, as a list
            or as `find_images` returns them, which are decoded whenever they are asked for. A file that
            cannot be read counts as a black picture: refusing it would tell that it is there.
        y: class of each picture, as for `PrivateEmbeddings`; by default the labels of an `ImageList`.
        classes: the full public list of classes; by default that of an `ImageList`.
        resolution: for files, the height and width that all are squeezed to; one number for a square.
        name: what the ledger files this data set under.
        size: approximate number of examples, only if it may be public.
        class_counts: exact class sizes, only if they are public.
    """

    def __init__(
        self,
        x: ArrayLike | ImageList | Sequence[str | Path],
        y: ArrayLike | Labelled | None = None,
        *,
        classes: Sequence[str | int] | None = None,
        resolution: int | tuple[int, int] | None = None,
        name: str | None = None,
        size: int | None = None,
        class_counts: Sequence[int] | None = None,
    ) -> None:
        self.pixels = pixels_of(x, resolution, private=True)
        given = _given_labels(x, y)
        if given is None:
            raise DataError("Private pictures need y=, a class each, and classes=[...], their full list.")
        self.facts = Facts(
            classes=Labelled.of(given).classes if classes is None else declared_classes(classes),
            shape=self.pixels.shape[1:],
            size=size,
            class_counts=None if class_counts is None else tuple(class_counts),
        )
        self.labels = class_positions(given, self.facts.classes)
        self.name = name
        if len(self.labels) != len(self.pixels):
            raise DataError(
                "x and y must have one entry per example; their lengths differ. "
                "Pass the labels of these pictures."
            )

    def __repr__(self) -> str:
        label = f"'{self.name}', " if self.name else ""
        return f"PrivateImages({label}{len(self.facts.classes)} declared classes, {self.facts.form})"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of pixels and labels: for the owner's ledger only, never for a release."""
        return content_digest(self.pixels, self.labels)

    @property
    def units(self) -> Labels | None:
        """Each picture is a unit of its own."""
        return None


class PublicImages:
    """Pictures that are nobody's secret; labels are optional.

    >>> import numpy as np
    >>> PublicImages(np.zeros((3, 8, 8, 3), dtype=np.uint8))
    PublicImages(3 pictures, 8 × 8, unlabelled)

    Args:
        x: as for `PrivateImages`, but a file that cannot be read is an error that names it.
        y: class of each picture, if known; by default the labels of an `ImageList`.
        classes: the classes `y` refers to; required with `y`.
        resolution: for files, the height and width that all are squeezed to; one number for a square.
        name: a name for the card.
        sources: where each picture came from; by default the names of the files.
    """

    def __init__(
        self,
        x: ArrayLike | ImageList | Sequence[str | Path],
        y: ArrayLike | Labelled | None = None,
        *,
        classes: Sequence[str | int] | None = None,
        resolution: int | tuple[int, int] | None = None,
        name: str | None = None,
        sources: Sequence[str | Path] | None = None,
    ) -> None:
        self.pixels = pixels_of(x, resolution, private=False)
        self.name = name
        if sources is None and isinstance(x, ImageList):
            sources = x.sources()
        self.sources = None if sources is None else tuple(str(source) for source in sources)
        if len(self) == 0:
            raise DataError("Public pictures must be at least one; got none. Give more, or leave them out.")
        if self.sources is not None and len(self.sources) != len(self):
            raise DataError(f"sources must name each of the {len(self)} pictures; got {len(self.sources)}.")
        self.classes: tuple[str | int, ...] | None = None
        self.labels: Labels | None = None
        given = _given_labels(x, y)
        if given is not None:
            labelled = Labelled.of(given, classes)
            self.classes, self.labels = labelled.classes, labelled.positions
            if len(self.labels) != len(self):
                raise DataError(f"y must label each of the {len(self)} pictures; got {len(self.labels)}.")

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.labels is None else f"{len(self.classes or ())} classes"
        _, height, width, _ = self.pixels.shape
        return f"PublicImages({len(self)} pictures, {height} × {width}, {labelled})"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the pixels."""
        return content_digest(self.pixels)

    @property
    def record(self) -> Mapping[str, Any]:
        """What a release tells about these pictures."""
        return {"name": self.name, "rows": len(self), "fingerprint": self.fingerprint, "encoder": None}

    def require_match(self, facts: Facts) -> None:
        """Raise unless these pictures are of the private ones' size."""
        if self.pixels.shape[1:] != facts.shape:
            _, height, width, _ = self.pixels.shape
            raise Incompatible(
                f"Private and public pictures must have one size; got {facts.form} and {height} × {width}. "
                "Squeeze both to the same resolution."
            )


def _given_labels(x: object, y: ArrayLike | Labelled | None) -> ArrayLike | Labelled | None:
    """Labels as given, else those of the list of files."""
    return x.labelled if y is None and isinstance(x, ImageList) else y
