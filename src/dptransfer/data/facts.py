"""Public facts about a private data set: classes, shape, sizes, and the encoder of its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from dptransfer.base import checks
from dptransfer.base.types import JsonObject
from dptransfer.data.grey_levels import GreyRange
from dptransfer.errors import ArgumentError, Incompatible
from dptransfer.privacy.relation import Bound, Unit

if TYPE_CHECKING:
    from dptransfer.data.embeddings import PublicEmbeddings

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"


@dataclass(frozen=True)
class EncoderIdentity:
    """Name, weights, preprocessing and runtime of the encoder behind a set of embeddings.

    Two sets of embeddings live in one space only when all four agree, so all four are compared.

    Attributes:
        name: what a user calls it, for example 'efficientnet-lite0'.
        weights: SHA-256 of the weights.
        transform: the preprocessing in words and numbers, such as 'rgb 224 bicubic (x-127)/128, mean pool'.
        size: the side of the pictures, for encoders that are made for a size of the user's choice. It is not
            compared: `transform` says it too.
        runtime: 'onnx' where ONNX Runtime made the rows of an encoder that torch can run as well: the two
            round differently, so that one picture has a row by each. None is torch, or an encoder's only way.
    """

    name: str
    weights: str
    transform: str
    size: int | None = field(default=None, compare=False)
    runtime: str | None = None

    def __str__(self) -> str:
        by = "" if self.runtime is None else f"; by {self.runtime}"
        return f"{self.name} [{self.weights[:12]}; {self.transform}{by}]"

    @property
    def grey_range(self) -> GreyRange | None:
        """The declared black and white of pictures of more than bytes; None if files say it themselves."""
        found = re.search(rf", greys ({_NUMBER}) to ({_NUMBER})$", self.transform)
        return None if found is None else (float(found[1]), float(found[2]))

    def reading(self, grey_range: GreyRange) -> EncoderIdentity:
        """The same encoder of pictures whose greys are read so; rows of both do not mix.

        >>> identity = EncoderIdentity("tiny-net", "ab" * 32, "rgb 8").reading((0, 4095))
        >>> identity.transform, identity.grey_range
        ('rgb 8, greys 0.0 to 4095.0', (0.0, 4095.0))
        """
        low, high = map(float, grey_range)
        return replace(self, transform=f"{self.transform}, greys {low!r} to {high!r}")

    def to_dict(self) -> JsonObject:
        """JSON-ready form."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, fields: JsonObject | None) -> EncoderIdentity | None:
        """Read what `to_dict` wrote; None stays None."""
        return None if fields is None else cls(**fields)


def require_same_encoder(
    first: EncoderIdentity | None, second: EncoderIdentity | None, *, names: tuple[str, str]
) -> None:
    """Raise unless both encoders agree; embeddings without an encoder on record match anything."""
    if first is None or second is None or first == second:
        return
    remedy = "Encode both with the same encoder and the same transform."
    if first.name.startswith(f"{second.name}+"):  # a release changes it, see `EncoderDelta.identity`
        remedy = f"Rows of {second.name} as it was are of no use here: give the pictures themselves."
    if replace(first, runtime=second.runtime) == second:
        remedy = "They differ in their last digits alone: make both with --runtime torch, or --runtime onnx."
    rule = f"{names[0]} and {names[1]} must come from one encoder; got {first} and {second}."
    raise Incompatible(f"{rule} {remedy}")


class DeclaredSizes(TypedDict, total=False):
    """What owners may declare of the number of their examples, with the meaning that it has in `Facts`."""

    size: int | None
    class_counts: Sequence[int] | None
    person_bound: float
    rows_per_person: float | None


@dataclass(frozen=True)
class Facts:
    """Declared by the data owner, never inferred from private examples; all a plan may look at.

    >>> Facts(classes=("cat", "dog"), shape=(1280,)).dimension
    1280
    >>> Facts(classes=("cat", "dog"), shape=(32, 24, 3)).form
    'pictures of 32 × 24 pixels'

    Attributes:
        classes: the full list of classes, in order; a class may turn out to have no example.
        shape: of one example: (width,) for rows, (height, width, 3) for pictures. A whole number is taken for
            a width.
        size: an approximate number of examples, if the owner chooses to make one public.
        class_counts: exact class sizes, if they are public (replace-one methods such as CoinPress need them).
        encoder: the encoder behind rows, if on record.
        unit: what one neighbour adds: an example, or a person with all their examples.
        person_bound: as how many examples one person counts in any answer, at most (see `privacy.Bound`).
        rows_per_person: about how many examples a person has, if the owner chooses to make that public. It
            helps to choose a method, and no guarantee rests on it.
        columns: what the features of rows are called, in order, if they have names. The owner declares them
            with the table; a release records them, so that other tables are read by name.
    """

    classes: tuple[str | int, ...]
    shape: tuple[int, ...]
    size: int | None = None
    class_counts: Sequence[int] | None = None
    encoder: EncoderIdentity | None = None
    unit: Unit = Unit.ROW
    person_bound: float = 1.0
    rows_per_person: float | None = None
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check the declaration; lists become tuples."""
        lengths = self.shape if isinstance(self.shape, tuple | list) else (self.shape,)
        whole = checks.whole
        shape = tuple(whole("dimension" if len(lengths) == 1 else "shape", one) for one in lengths)
        if len(shape) != 1 and not (len(shape) == 3 and shape[2] == 3):
            raise ArgumentError(
                f"shape must be (width,) for rows or (height, width, 3) for pictures; got {shape}."
            )
        if len(self.classes) < 2:
            rule = f"At least two classes must be declared; got {'one class' if self.classes else 'none'}."
            raise ArgumentError(f"{rule} Pass the full public list, whether or not each class has examples.")
        if len(set(self.classes)) != len(self.classes):
            raise ArgumentError("Declared classes must be distinct; one is listed twice. Leave it out.")
        if len({isinstance(name, str) for name in self.classes}) != 1:
            raise ArgumentError("Declared classes must be all words or all whole numbers, not a mix.")
        counts, each = self.class_counts, self.rows_per_person
        if counts is not None and len(counts) != len(self.classes):
            rule = f"class_counts must be one for each class, {len(self.classes)} in all; got {len(counts)}."
            raise ArgumentError(f"{rule} Give the size of every class.")
        if each is not None and checks.positive("rows_per_person", each) < 1:
            raise ArgumentError(f"rows_per_person must be at least 1; got {each!r}. Leave it out if unsure.")
        if each is not None and self.unit is Unit.ROW:
            rule = f"rows_per_person says how many examples a person has; got {each!r} without people."
            raise ArgumentError(f"{rule} Say whose each example is, or leave it out.")
        sizes = None if counts is None else tuple(whole("class_counts", one, at_least=0) for one in counts)
        checked = {
            "shape": shape,
            "size": checks.or_none(whole)("size", self.size),
            "class_counts": sizes,
            "columns": None if self.columns is None else named_columns(self.columns, shape),
            "person_bound": self.bound.examples,
            "rows_per_person": checks.or_none(checks.positive)("rows_per_person", each),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def dimension(self) -> int:
        """Width of the rows; pictures have none."""
        if len(self.shape) != 1:
            raise Incompatible(f"Rows have a dimension; these are {self.form}. Encode them first.")
        return self.shape[0]

    @property
    def form(self) -> str:
        """What the examples are, in words."""
        if len(self.shape) == 1:
            return f"rows of dimension {self.shape[0]}"
        return f"pictures of {self.shape[0]} × {self.shape[1]} pixels"

    @property
    def declared_size(self) -> int | None:
        """The number of examples as far as it is declared, in one number or by class."""
        return self.size if self.class_counts is None else sum(self.class_counts)

    @property
    def bound(self) -> Bound:
        """How much one unit counts in any answer."""
        return Bound(self.unit, self.person_bound)

    @property
    def declared_units(self) -> int | None:
        """The number of examples, or of people, as far as it follows from what is declared."""
        size = self.declared_size
        if self.unit is Unit.ROW or size is None:
            return size
        return None if self.rows_per_person is None else max(1, round(size / self.rows_per_person))

    def to_dict(self) -> JsonObject:
        """JSON-ready form."""
        people: JsonObject = {}
        if self.unit is Unit.PERSON:
            people = {"person_bound": self.person_bound, "rows_per_person": self.rows_per_person}
        return {
            "classes": list(self.classes),
            "shape": list(self.shape),
            "size": self.size,
            "class_counts": None if self.class_counts is None else list(self.class_counts),
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "unit": self.unit.value,
            **people,
            **({} if self.columns is None else {"columns": list(self.columns)}),
        }


def named_columns(columns: Sequence[str], shape: tuple[int, ...]) -> tuple[str, ...]:
    """The name of each feature of rows of this shape, or an error."""
    names = tuple(map(str, columns))
    if shape != (len(names),) or len(set(names)) != len(names):
        rule = f"columns must name each of the {shape[0]} features; got {len(set(names))} different names."
        raise ArgumentError(f"{rule} Leave them out if features have none.")
    return names


def require_same_space(
    first: Facts | PublicEmbeddings, second: Facts | PublicEmbeddings, *, names: tuple[str, str]
) -> None:
    """Raise unless rows of both are of one encoder, one list of columns and one width.

    Args:
        first: the facts of private rows, or public rows.
        second: the same of the second.
        names: what an error calls them.
    """
    require_same_encoder(first.encoder, second.encoder, names=names)
    require_same_columns(first.columns, second.columns, names=names)
    if first.dimension != second.dimension:
        found = f"{first.dimension} and {second.dimension}"
        rule = f"{names[0]} and {names[1]} must have one dimension; got {found}."
        raise Incompatible(f"{rule} Encode both with the same encoder.")


def require_same_columns(
    first: Sequence[str] | None, second: Sequence[str] | None, *, names: tuple[str, str]
) -> None:
    """Raise unless features are called the same, in one order; rows without names match any."""
    if first is None or second is None or first == second:
        return
    odd = [name for name in second if name not in first] or [name for name in first if name not in second]
    why = f"'{odd[0]}' is in one of them alone" if odd else "they stand in another order"
    rule = f"{names[0]} and {names[1]} must have the same columns of features; {why}."
    raise Incompatible(f"{rule} Name those that both have, such as --feature-columns 'f*'.")
