"""All that a checkup can find, with why each matters and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from dptransfer.api.checked_examples import Role

FEW = 30
"""Examples of a class below which noise of ε = 1 is larger than they are.

Gaussian noise for ε = 1, δ = 1e-5 and a sensitivity of 1 has a standard deviation of 3.73, so in the 64 axes
that a small public map keeps, its norm is about 8 · 3.73 = 30; n rows of norm 1 add up to n at most.
"""

DARK = 16
"""Of 255: twelve bits that were written as if they were sixteen end at 4095 ÷ 257, which is below."""

MANY_TIMES = 10
"""A person has many examples with more than so many times what is usual in the set."""


@dataclass(frozen=True)
class Advice:
    """What is said about a finding, beside how many and which.

    Attributes:
        title: what was found, in a few words.
        why: why it matters.
        remedy: what to do.
    """

    title: str
    why: str
    remedy: str


ADVICE = {
    "in-public": Advice(
        "private examples that are also in the public pool",
        "The pool counts as public: its examples are used without noise and may be published.",
        "Remove them from the pool. It must hold nothing that is private.",
    ),
    "nearly-in-public": Advice(
        "near-duplicates of private examples in the public pool",
        "They look like copies that were scaled or saved again. The pool is used without noise.",
        "Look at each pair, and remove copies from the pool.",
    ),
    "in-test": Advice(
        "private examples that are also in the test set",
        "A model that was trained on its test examples scores too well, and test examples are not protected.",
        "Remove them from one of the two sets, with all other examples of the same people.",
    ),
    "nearly-in-test": Advice(
        "near-duplicates of private examples in the test set",
        "They look like copies that were scaled or saved again. A model that was trained on them scores "
        "too well.",
        "Look at each pair, and remove copies from one of the two sets.",
    ),
    "people-in-test": Advice(
        "people who are also in the test set",
        "A model that was trained on a person scores too well on their other examples, and test examples "
        "are not protected.",
        "Split by person: remove each from one of the two sets, with all their examples.",
    ),
    "encoders": Advice(
        "rows from another encoder than the private rows",
        "Rows from two encoders, or from one encoder with two transforms, cannot be compared. A fit "
        "refuses them.",
        "Encode both sets with one encoder and one transform.",
    ),
    "widths": Advice(
        "rows with another width than the private rows",
        "They come from two encoders, or some rows were cut. A fit refuses them.",
        "Encode both sets with one encoder.",
    ),
    "forms": Advice(
        "bit depths that the private pictures do not have",
        "Pictures with another bit depth may be read with another brightness, so that the sets differ by "
        "that.",
        "Export all sets in the same way.",
    ),
    "unreadable": Advice(
        "unreadable pictures",
        "'encode' stops at unreadable private pictures. With --allow-unreadable each becomes a row of "
        "zeros, from which nothing is learned. A method on pictures reads them as black. 'encode --public' "
        "leaves public ones out; a fit and a test refuse them.",
        "Open one in a viewer. Export them again, or remove them.",
    ),
    "refused": Advice(
        "pictures that cannot be interpreted",
        "It is unknown which of their values are black and white, or one file holds several pictures. They "
        "are treated like unreadable ones.",
        "Give the range for all sets, such as --grey-range 0,4095, or export them as the reason says.",
    ),
    "flat": Advice(
        "pictures of a single colour",
        "There is nothing to learn from them. Often they are failed exports, covers or blank pages.",
        "Look at the originals. Export them again, or remove them.",
    ),
    "dark": Advice(
        "pictures that are almost black",
        f"No pixel is brighter than {DARK - 1} of 255. A wrong grey range looks like this, and a fit would "
        "spend its budget on noise.",
        "Look at the originals. Export them again, or give another range, such as --grey-range 0,4095.",
    ),
    "depths": Advice(
        "several bit depths",
        "Pictures with different bit depths may be read with different brightness.",
        "Look at some of each, and export all in the same way.",
    ),
    "empty-texts": Advice(
        "empty texts",
        "All empty texts have the same row, whatever their class.",
        "Fill them, or remove them.",
    ),
    "non-finite": Advice(
        "rows with NaN or infinity",
        "A private row with NaN or infinity becomes a row of zeros; public ones are refused.",
        "Find the cause, often a division by zero, and encode them again.",
    ),
    "zeros": Advice(
        "rows of zeros",
        "Nothing can be learned from them. 'encode --allow-unreadable' writes one for each picture that it "
        "cannot read.",
        "Look at their sources, and encode again.",
    ),
    "duplicates": Advice(
        "exact duplicates",
        "An example that occurs twice has twice the influence, and a guarantee for one example protects it "
        "half as well. In a test set it counts twice; in a pool it costs time.",
        "Keep one of each. If they are several examples of one person, protect persons with --person.",
    ),
    "near-duplicates": Advice(
        "near-duplicates",
        "They look like copies that were scaled or saved again, or like several shots of one scene, often "
        "of one person.",
        "Look at some pairs. Keep one of each, or protect persons with --person.",
    ),
    "two-labels": Advice(
        "duplicates with different labels",
        "The same content appears under two labels, so at least one label is wrong.",
        "Look at them, and correct the labels.",
    ),
    "no-labels": Advice(
        "examples without labels",
        "A fit and a test need labels.",
        "Use a folder per class, --label-column NAME, or --set data.labels=labels.npy for rows.",
    ),
    "label-types": Advice(
        "labels of several types",
        "Class names are all words or all whole numbers, so some of these labels match no class.",
        "Write all labels in the same way. Fill missing ones, or remove those examples.",
    ),
    "fractions": Advice(
        "labels that are fractions",
        "Labels must be class names or whole numbers.",
        "Convert them. If they are measurements, choose public thresholds between classes.",
    ),
    "undeclared": Advice(
        "labels without a declared class list",
        "The class list is public, so you declare it; it is never inferred from private labels. A rare "
        "class in an inferred list would reveal that somebody has it.",
        "Pass the full list, including classes without examples: --classes cat,dog",
    ),
    "unknown-labels": Advice(
        "labels that are not in the class list",
        "A single one makes a fit refuse the whole set.",
        "Correct them, or remove these examples. Add a class to the list only if it is public knowledge "
        "that somebody may have it.",
    ),
    "empty-classes": Advice(
        "classes without examples",
        "An empty class consists of noise alone, and takes predictions from other classes.",
        "Keep it if this is intended: dropping it now would reveal that nobody has it. Otherwise look for "
        "its examples, perhaps under another spelling.",
    ),
    "small-classes": Advice(
        f"classes with fewer than {FEW} examples",
        f"At ε = 1 the noise is about as large as {FEW} examples, so little is learned about smaller "
        "classes beyond public data.",
        "Collect more examples, or expect low accuracy on these classes. Dropping or merging classes by "
        "their sizes would reveal the sizes.",
    ),
    "folders": Advice(
        "folders inside the class folders",
        "If each folder is a person, somebody with ten pictures is protected ten times less than somebody "
        "with one.",
        "If they are people, pass --person folder. Otherwise ignore this.",
    ),
    "many-examples": Advice(
        f"people with more than {MANY_TIMES} times the usual number of examples",
        "A person counts as one example, however many they have, so most of the weight of these examples "
        "is lost. The id may also stand for several people.",
        "Check that the id belongs to one person, and not to a default value, a device or a ward.",
    ),
    "no-person": Advice(
        "examples without a person id",
        "Each counts as a person of its own, so somebody with several of them is protected less.",
        "Fill in the ids.",
    ),
}
"""By the key of a finding; the order is that of a report, the worst first."""


@dataclass(frozen=True)
class Finding:
    """Something that its owner should look at before anything is spent.

    Attributes:
        key: what it is, in `ADVICE`.
        role: the set it is about.
        count: how many examples, classes, people, types or sets.
        examples: some of them.
    """

    key: str
    role: Role
    count: int
    examples: tuple[str, ...] = ()

    @property
    def advice(self) -> Advice:
        """What it means and what to do."""
        return ADVICE[self.key]
