"""Pictures and labels, private or public: for methods that must see pixels and not the rows of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from numpy.typing import ArrayLike

from dptransfer.arrays import Integers, PixelArray
from dptransfer.data.class_names import Classes, declared_classes
from dptransfer.data.examples import PrivateData, PublicData, one_digest_each, read_only, slabs
from dptransfer.data.facts import Facts
from dptransfer.data.grey_levels import GreyRange, declared_range
from dptransfer.data.images import ImageList
from dptransfer.data.labelled import Labelled
from dptransfer.data.pixels import DecodedFiles, PixelsAt, pixels_of, source_digests_of
from dptransfer.errors import DataError, Incompatible
from dptransfer.privacy.unit import Unit


class PrivateImages(PrivateData):
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
            cannot be read counts as a black picture: refusing it would tell that it is there. A set of which
            all are black is refused before a charge.
        y: class of each picture, as for `PrivateEmbeddings`; by default the labels of an `ImageList`.
        classes: the full public list of classes; by default that of an `ImageList`.
        resolution: for files, the height and width that all are squeezed to; one number for a square.
        name: what the ledger files this data set under.
        size: approximate number of examples, only if it may be public.
        class_counts: exact class sizes, only if they are public.
        people: whose each picture is, as for `PrivateEmbeddings`; by default the people of an `ImageList`.
        person_bound: as how many examples one person counts, at most.
        rows_per_person: about how many pictures a person has, only if that may be public.
        grey_range: the stored values that are black and white in greys of more than bytes, for the whole set;
            by default what each file says. Of an array, how it was read.
        source_digests: of the files that an array was read from (`data.source_digests`); by default those of
            the files, or of the pictures in the array.
    """

    def __init__(
        self,
        x: ArrayLike | ImageList | Sequence[str | Path],
        y: ArrayLike | Labelled | None = None,
        *,
        classes: Classes | None = None,
        resolution: int | tuple[int, int] | None = None,
        name: str | None = None,
        size: int | None = None,
        class_counts: Sequence[int] | None = None,
        people: ArrayLike | None = None,
        person_bound: float = 1.0,
        rows_per_person: float | None = None,
        grey_range: GreyRange | None = None,
        source_digests: ArrayLike | None = None,
    ) -> None:
        self.grey_range = declared_range(grey_range)
        self.pixels: PixelArray | DecodedFiles | PixelsAt = read_only(
            pixels_of(x, resolution, private=True, grey_range=grey_range)
        )
        given = _given_labels(x, y)
        if given is None:
            raise DataError("Private pictures need y=, a class each, and classes=[...], their full list.")
        declared = Labelled.of(given).classes if classes is None else declared_classes(classes)
        counts = None if class_counts is None else tuple(class_counts)
        if people is None and isinstance(x, ImageList):
            people = x.people
        unit = Unit.ROW if people is None else Unit.PERSON
        shape = self.pixels.shape[1:]
        facts = Facts(declared, shape, size, counts, None, unit, person_bound, rows_per_person)
        super().__init__(self.pixels, given, facts, name, people)
        self.source_digests = one_digest_each(source_digests, len(self.pixels))
        if self.source_digests is None:
            self.source_digests = source_digests_of(self.pixels)

    def require_content(self) -> None:
        """Raise if there are pictures, and all are black; for the owner, before anything is charged.

        Whether single ones are black is told to nobody.
        """
        pixels = self.pixels
        if len(pixels) and not any(pixels[slab].any() for slab in slabs(pixels)):
            raise DataError(
                "Pictures must show something; all of these are black. So are those that cannot be read: "
                "'dptransfer encode' writes their names and the reasons to a file for their owner, and "
                "grey_range (--grey-range LOW,HIGH) declares black and white where files have more bits."
            )

    def part(self, positions: Integers, facts: Facts) -> Self:
        """The pictures at these positions, which are read when they are asked for, as data of their own."""
        pixels = PixelsAt(self.pixels, positions)
        part = self._part(positions, facts, pixels)
        part.pixels = pixels
        return part


class PublicImages(PublicData):
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
        grey_range: as for `PrivateImages`, and the same.
        source_digests: as for `PrivateImages`.
    """

    def __init__(
        self,
        x: ArrayLike | ImageList | Sequence[str | Path],
        y: ArrayLike | Labelled | None = None,
        *,
        classes: Classes | None = None,
        resolution: int | tuple[int, int] | None = None,
        name: str | None = None,
        sources: Sequence[str | Path] | None = None,
        grey_range: GreyRange | None = None,
        source_digests: ArrayLike | None = None,
    ) -> None:
        self.grey_range = declared_range(grey_range)
        self.pixels = pixels_of(x, resolution, private=False, grey_range=grey_range)
        if sources is None and isinstance(x, ImageList):
            sources = x.sources()
        given = _given_labels(x, y)
        super().__init__(self.pixels, None if given is None else Labelled.of(given, classes), name, sources)
        self.source_digests = one_digest_each(source_digests, len(self.pixels))
        if self.source_digests is None:
            self.source_digests = source_digests_of(self.pixels)

    def require_match(self, facts: Facts) -> None:
        """Raise unless these pictures are of the private ones' size."""
        if self.pixels.shape[1:] != facts.shape:
            raise Incompatible(
                f"Private and public pictures must have one size; got {facts.form} and {self._extent}. "
                "Squeeze both to the same resolution."
            )


def _given_labels(x: object, y: ArrayLike | Labelled | None) -> ArrayLike | Labelled | None:
    """Labels as given, else those of the list of files."""
    return x.labelled if y is None and isinstance(x, ImageList) else y
