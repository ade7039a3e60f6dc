"""The privacy and model card, as structured data.

A card says what is promised, to whom, under which assumptions, and what is not promised. It is a function
of the classifier and an optional evaluation alone; `render_text`, `render_markdown` and `render_html` only
lay it out, and escape every word of it, since class names and notes come from users.
"""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import Evaluation

NOT_SHOWN = (
    "No check of files can show that the noise was really drawn and added, that the private rows were read "
    "nowhere else, or that every charge is in the ledger: for that, whoever made the release must be trusted."
)
"""Said wherever the outcome of a verification is read: 'verified' must not be taken for 'noise was added'."""

_MOST_SHOWN = 20
_KEPT_FORMAT_CHARACTERS = "\u200c\u200d"  # joiners, which several scripts need


@dataclass(frozen=True)
class Paragraph:
    """A few sentences."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """Something to type."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of words and numbers under a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class AttackCurve:
    """Largest true positive rate of any membership attack, at each false positive rate."""

    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RecallBars:
    """Recall of each class with its interval."""

    rows: tuple[tuple[str, float, float, float], ...]


Block: TypeAlias = Paragraph | Bullets | Command | Table | AttackCurve | RecallBars


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Numbers:
    """The numbers a card states, exactly as the guarantee has them."""

    epsilon: float
    delta: float
    relation: str


@dataclass(frozen=True)
class Card:
    """Everything the card says.

    Attributes:
        title: the heading.
        sentence: the guarantee in one sentence.
        warning: why this release must not be published, if it must not.
        about: what it is, when and by what it was made, whom to ask, how useful it is; a line each.
        numbers: ε, δ and the relation.
        sections: the rest, in reading order.
    """

    title: str
    sentence: str
    warning: str | None
    about: tuple[tuple[str, str], ...]
    numbers: Numbers
    sections: tuple[Section, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; each block names its kind."""
        return {
            "title": self.title,
            "sentence": self.sentence,
            "warning": self.warning,
            "about": dict(self.about),
            "numbers": asdict(self.numbers),
            "sections": [
                {
                    "title": section.title,
                    "blocks": [{"kind": type(block).__name__, **asdict(block)} for block in section.blocks],
                }
                for section in self.sections
            ],
        }

    def text(self, width: int = 96) -> str:
        """For a terminal."""
        from dptransfer.release.card_text import render_text

        return render_text(self, width)

    def markdown(self) -> str:
        """As Markdown."""
        from dptransfer.release.card_text import render_markdown

        return render_markdown(self)

    def html(self) -> str:
        """As one self-contained page."""
        from dptransfer.release.card_html import render_html

        return render_html(self)


def card_of(model: PrivateClassifier, evaluation: Evaluation | None = None) -> Card:
    """The card of a classifier; with an `evaluation`, it also says how useful the classifier is."""
    from dptransfer.release.card_model import about_lines, model_sections
    from dptransfer.release.card_privacy import privacy_sections

    guarantee, provenance = model.guarantee, model.provenance
    return Card(
        title=f"Privacy and model card: {clean(provenance.title or provenance.method)}",
        sentence=SEEDED_SENTENCE * model.provenance.seeded + clean(str(guarantee)),
        warning=SEEDED_WARNING if model.provenance.seeded else None,
        about=about_lines(model, evaluation),
        numbers=Numbers(guarantee.epsilon, guarantee.delta, guarantee.relation.value),
        sections=privacy_sections(model) + model_sections(model, evaluation),
    )


SEEDED_SENTENCE = "With secure noise, and not as it is, it would hold that: "
SEEDED_WARNING = (
    "NOT PRIVATE, DO NOT PUBLISH. The noise came from a seed: anyone who knows or guesses it can take the "
    "noise off again. The numbers below would hold for secure noise; they do not hold for this file."
)


def clean(text: object) -> str:
    r"""One line, with control characters, bidirectional overrides and the like made visible.

    >>> clean("two\nlines \x1b[31mred")
    'two lines �[31mred'
    """
    words = " ".join(str(text).split())
    return "".join("\ufffd" if _hidden(letter) else letter for letter in words)


def some(words: list[str]) -> str:
    """The first twenty, and how many more there are."""
    rest = len(words) - _MOST_SHOWN
    return ", ".join(words[:_MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _hidden(letter: str) -> bool:
    return unicodedata.category(letter).startswith("C") and letter not in _KEPT_FORMAT_CHARACTERS
