"""All that a checkup can find, with why each matters and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from dptransfer.checkup.examples import Role

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
        "private examples that are in the public pool",
        "Whatever is in the pool is taken for public: it is used without noise, and may be shown.",
        "Take them out of the pool; it must hold nobody's secret.",
    ),
    "nearly-in-public": Advice(
        "private examples that are nearly in the public pool",
        "They look like copies, scaled or saved again. What is in the pool is used without noise.",
        "Look at each pair; take copies out of the pool.",
    ),
    "in-test": Advice(
        "private examples that are in the test",
        "A model that has seen its test scores too well; and test examples are not protected.",
        "Take them out of one of the two sets, with all other examples of the same people.",
    ),
    "nearly-in-test": Advice(
        "private examples that are nearly in the test",
        "They look like copies, scaled or saved again. A model that has seen its test scores too well.",
        "Look at each pair; take copies out of one of the two sets.",
    ),
    "people-in-test": Advice(
        "people who are in the test too",
        "A model that knows a person scores too well on their other examples, and those are not protected.",
        "Split by person: take each out of one of the two sets, with all their examples.",
    ),
    "encoders": Advice(
        "rows of another encoder than the private ones",
        "Rows of two encoders, or of one with two transforms, have nothing in common. A fit refuses them.",
        "Encode both sets with one encoder and one transform.",
    ),
    "widths": Advice(
        "rows of another width than the private ones",
        "They come from two encoders, or one was cut. A fit refuses them.",
        "Encode both sets with one encoder.",
    ),
    "forms": Advice(
        "depths of pictures that the private ones do not have",
        "A picture of another depth may be read at another brightness, and then sets differ in that alone.",
        "Export all sets in one way.",
    ),
    "unreadable": Advice(
        "unreadable pictures",
        "An encoding of private ones stops; with --allow-unreadable each counts as a row of zeros, which "
        "takes part and tells nothing. A method on pictures takes them for black ones. 'encode --public' "
        "leaves public ones out; a fit and a test refuse them.",
        "Open one in a viewer; export them again, or take them out.",
    ),
    "refused": Advice(
        "pictures that cannot be interpreted",
        "Which of their values is black and which is white is not known, or they are several in one file. "
        "They are treated like unreadable ones.",
        "Declare the range for all sets, such as --grey-range 0,4095, or export them as the reason says.",
    ),
    "flat": Advice(
        "pictures of one colour",
        "There is nothing in them to learn from: often a failed export, a cover or a blank page.",
        "Look at the originals; export them again, or take them out.",
    ),
    "dark": Advice(
        "pictures that are almost black",
        f"Nothing in them is brighter than {DARK - 1} of 255. A wrong range of greys looks like this, and a "
        "fit would pay full price for noise.",
        "Look at the originals: export them again, or declare another range, such as --grey-range 0,4095.",
    ),
    "depths": Advice(
        "several depths of pictures",
        "Pictures of another depth may be read at another brightness.",
        "Look at some of each, and export all in one way.",
    ),
    "empty-texts": Advice(
        "empty texts",
        "All empty texts have one and the same row, whatever their class.",
        "Fill them, or take them out.",
    ),
    "non-finite": Advice(
        "rows with NaN or infinity",
        "A private one counts as a row of zeros; public ones are refused.",
        "Find what made them, often a division by zero, and encode them again.",
    ),
    "zeros": Advice(
        "rows of zeros",
        "They have no direction and tell nothing; an encoding writes one for a picture that it cannot read.",
        "Look at what is behind them, and encode again.",
    ),
    "duplicates": Advice(
        "examples that occur before in the set",
        "Who is in the data twice has two voices, and a promise about one example covers them half. In a "
        "test they count twice; in a pool they cost time.",
        "Keep one of each; or, if they are several examples of one person, tell people with --person.",
    ),
    "near-duplicates": Advice(
        "examples nearly as before in the set",
        "They look like copies, scaled or saved again, or like shots of one moment: often of one person.",
        "Look at some pairs; keep one of each, or tell people with --person.",
    ),
    "two-labels": Advice(
        "examples that occur before under another label",
        "One content of two classes is wrong in at least one of them.",
        "Look at them, and correct the labels.",
    ),
    "no-labels": Advice(
        "examples without labels",
        "A fit learns from labels, and an accuracy is counted by them.",
        "Use a folder per class, --label-column NAME, or --set data.labels=labels.npy for rows.",
    ),
    "label-types": Advice(
        "several types of labels",
        "A list of classes is all words or all whole numbers, so that some of these match none.",
        "Write all in one way; fill those that are missing, or take them out.",
    ),
    "fractions": Advice(
        "labels that are fractions",
        "Labels are names of classes, or whole numbers.",
        "Convert them. If they are measurements, choose public borders between classes.",
    ),
    "undeclared": Advice(
        "labels without a declared list of classes",
        "The list is public, so it is declared and never read off private labels: a rare class in it would "
        "tell that somebody has it.",
        "Pass the full list, with classes that nobody has: --classes cat,dog",
    ),
    "unknown-labels": Advice(
        "labels that are no declared class",
        "A fit refuses the whole set over one of them.",
        "Correct them, or take these examples out. Declare a further class only if it is public knowledge "
        "that somebody may have it.",
    ),
    "empty-classes": Advice(
        "classes without examples",
        "An empty class gets noise alone, and takes predictions from the others.",
        "Fine if it is meant; to drop it now would tell that nobody has it. Otherwise look for its examples, "
        "perhaps under another spelling.",
    ),
    "small-classes": Advice(
        f"classes of fewer than {FEW} examples",
        f"At ε = 1 noise weighs about as much as {FEW} examples, so that little is learned of smaller "
        "classes beyond what public data tell.",
        "Collect more, or expect little of them. To drop or join classes by their sizes would tell these.",
    ),
    "folders": Advice(
        "folders within those of classes",
        "If these are people, who has ten pictures is protected ten times worse than who has one.",
        "If they are, pass --person folder; if not, all is well.",
    ),
    "many-examples": Advice(
        f"people with more than {MANY_TIMES} times the usual number of examples",
        "A person counts as one example, however many they have, so that most of these is scaled away; and "
        "an id that stands for many people is no person's.",
        "See that the id is a person's, and not a default, a device or a ward.",
    ),
    "no-person": Advice(
        "examples without a person",
        "Each is taken for a person of its own: who has several of these is protected less.",
        "Fill the ids.",
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
