"""What is declared public about a private data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dptransfer import _check
from dptransfer.data.identity import EncoderIdentity
from dptransfer.errors import ArgumentError


@dataclass(frozen=True)
class Facts:
    """Declared by the data owner, never inferred from private rows; all a plan may look at.

    >>> Facts(classes=("cat", "dog"), dimension=1280).dimension
    1280

    Attributes:
        classes: the full list of classes, in order; a class may turn out to have no example.
        dimension: width of the rows.
        size: an approximate number of examples, if the owner chooses to make one public.
        class_counts: exact class sizes, if they are public (replace-one methods such as CoinPress need them).
        encoder: the encoder behind the rows, if on record.
    """

    classes: tuple[str | int, ...]
    dimension: int
    size: int | None = None
    class_counts: tuple[int, ...] | None = None
    encoder: EncoderIdentity | None = None

    def __post_init__(self) -> None:
        """Check the declaration."""
        _check.whole("dimension", self.dimension)
        if self.size is not None:
            _check.whole("size", self.size)
        if len(self.classes) < 2:
            raise ArgumentError(
                f"At least two classes must be declared; got {'one class' if self.classes else 'none'}. "
                "Pass classes=[...], the full public list, whether or not each has examples."
            )
        if len(set(self.classes)) != len(self.classes):
            raise ArgumentError("Declared classes must be distinct; one is listed twice. Leave it out.")
        if len({isinstance(name, str) for name in self.classes}) != 1:
            raise ArgumentError("Declared classes must be all words or all whole numbers, not a mix.")
        if self.class_counts is not None:
            if len(self.class_counts) != len(self.classes):
                raise ArgumentError(
                    f"class_counts must give one number per declared class ({len(self.classes)}); "
                    f"got {len(self.class_counts)}."
                )
            for count in self.class_counts:
                _check.whole("class_counts", count, at_least=0)

    @property
    def declared_size(self) -> int | None:
        """The number of examples as far as it is declared, in one number or by class."""
        return self.size if self.class_counts is None else sum(self.class_counts)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "classes": list(self.classes),
            "dimension": self.dimension,
            "size": self.size,
            "class_counts": None if self.class_counts is None else list(self.class_counts),
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Facts:
        """Read what `to_dict` wrote."""
        counts = fields["class_counts"]
        return cls(
            classes=tuple(fields["classes"]),
            dimension=fields["dimension"],
            size=fields["size"],
            class_counts=None if counts is None else tuple(counts),
            encoder=EncoderIdentity.from_dict(fields["encoder"]),
        )
