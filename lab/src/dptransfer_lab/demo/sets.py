"""Private, test and public pictures of a demonstration, and what is declared about them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from dptransfer.base.types import Labels, PixelArray
from dptransfer.release import Evaluation


@dataclass(frozen=True, eq=False)
class PictureSet:
    """Small grey pictures, each with a name.

    Attributes:
        pixels: (pictures, height, width) brightness.
        names: what each picture is called, without an ending; distinct.
        labels: position of each picture's class, −1 for a picture of none of them; or None.
        captions: what each picture shows, in a word, where that is known.
    """

    pixels: PixelArray
    names: tuple[str, ...]
    labels: Labels | None = None
    captions: tuple[str, ...] | None = None

    @classmethod
    def of(cls, pixels: PixelArray, which: Labels, name: str, labels: Labels | None = None) -> PictureSet:
        """The pictures at these places, called by their number, as in 'digit-{:04d}'."""
        names = tuple(name.format(number) for number in which.tolist())
        return cls(pixels[which], names, None if labels is None else labels[which])

    def __len__(self) -> int:
        return len(self.pixels)

    def digest(self) -> str:
        """SHA-256 of the pictures, names and labels: the same digest, the same set."""
        parts = (self.pixels, np.array([] if self.labels is None else self.labels, dtype=np.int64))
        whole = hashlib.sha256("\n".join(self.names).encode())
        for part in parts:
            whole.update(f"{part.shape}".encode())
            whole.update(np.ascontiguousarray(part).data)
        return whole.hexdigest()


@dataclass(frozen=True, eq=False)
class DemoSets:
    """The three sets of one demonstration.

    Attributes:
        name: what the ledger files the private set under.
        classes: the declared classes.
        sizes: private pictures per class, in the order of `classes`. Public here, because the demo cut the
            long tail itself, by a rule anyone can read; in life class sizes are private.
        private: the pictures to be protected.
        test: balanced, and not protected.
        public: the pool; its labels, where it has any, serve one line of comparison and no private method.
        about: one line each on the private, the test and the public pictures.
    """

    name: str
    classes: tuple[str, ...]
    sizes: tuple[int, ...]
    private: PictureSet
    test: PictureSet
    public: PictureSet
    about: tuple[str, str, str]


@dataclass(frozen=True)
class Result:
    """How one classifier did on the test pictures.

    Attributes:
        name: the classifier in a few words.
        promise: what it promises to the private pictures, in a few words.
        tested: its test; a demo's test pictures are of every class, and its classes differ in size.
    """

    name: str
    promise: str
    tested: Evaluation
