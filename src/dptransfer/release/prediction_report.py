"""Report of a model's answers to many inputs: how often each label, how sure, and examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from dptransfer.base import document as doc
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.predictions import Answer

EXAMPLES = 12
"""Examples that are shown of the surest answers, and of the least sure."""
_EDGES = (0.0, 0.5, 0.7, 0.9, 0.99)
_LONGEST, _BAR = 160, 24

Thumbnails = Callable[[Sequence[int]], tuple[bytes, ...]]
"""Small pictures of the inputs at these places."""


def prediction_report(
    model: PrivateClassifier, source: str, answers: Sequence[Answer], thumbnails: Thumbnails | None = None
) -> doc.Document:
    """The report; it shows inputs, and is as private as they are.

    Args:
        model: what answered.
        source: what the inputs are called together.
        answers: one for each input, its likeliest label.
        thumbnails: makes small pictures of those that are shown, if the inputs are pictures.
    """
    found, total = Counter(map(_label, answers)), max(len(answers), 1)
    sure = sum(one["score"] >= _EDGES[3] for one in answers)
    numbers = [
        doc.Highlight("inputs", f"{len(answers):,}"),
        doc.Highlight("scores of 90% or more", f"{sure / total:.0%}", f"{sure:,} inputs"),
    ]
    sizes = Counter(len(one["set"]) for one in answers if "set" in one)
    if sizes:
        numbers.append(doc.Highlight("sets of one class", f"{sizes[1] / total:.0%}", f"{sizes[1]:,} inputs"))
    words = "a ranking and not calibrated" if model.calibration is None else model.calibration.words
    return doc.Document(
        f"Predictions for {source}",
        sentence=_sentence(found, len(answers)),
        highlights=tuple(numbers),
        about=(
            ("Model", model.provenance.title or model.provenance.method),
            ("Guarantee", model.guarantee.in_short),
            ("Scores", f"{words}."),
        ),
        sections=tuple(_sections(model, answers, found, sizes, thumbnails)),
        footer="Written by dptransfer. The report shows inputs: it is as private as they are.",
    )


def _label(answer: Answer) -> str:
    return "no label" if answer["label"] is None else str(answer["label"])


def _sentence(found: Counter[str], inputs: int) -> str:
    if not found:
        return "There were no inputs."
    ((name, count),) = found.most_common(1)
    return f"{inputs:,} inputs got {len(found)} labels; '{name}' is the most frequent, with {count:,}."


def _sections(
    model: PrivateClassifier,
    answers: Sequence[Answer],
    found: Counter[str],
    sizes: Counter[int],
    thumbnails: Thumbnails | None,
) -> Iterator[doc.Section]:
    yield doc.Section("Labels", (_counts("Label", found.most_common()),))
    never = [str(name) for name in model.classes if str(name) not in found]
    if never:
        yield doc.Section("Labels that no input got", (doc.Paragraph(doc.name_list(never, 40)),))
    ends = (*_EDGES[1:], 1.0)
    scores = [
        (
            f"{low:.0%} to {high:.0%}",
            sum(low <= one["score"] < high or one["score"] == high == 1 for one in answers),
        )
        for low, high in zip(_EDGES, ends, strict=True)
    ]
    yield doc.Section("Scores", (_counts("Score of the label", scores[::-1]),))
    if sizes:
        told = [(str(size), count) for size, count in sorted(sizes.items())]
        yield doc.Section("Prediction sets", (_counts("Classes in the set", told),))
    order = sorted(range(len(answers)), key=lambda place: -answers[place]["score"])
    first = sorted({_label(answers[place]): place for place in reversed(order)}.values(), key=order.index)
    surest = [*first, *(place for place in order if place not in first)][:EXAMPLES]
    least = [place for place in reversed(order) if place not in surest][:EXAMPLES]
    for title, places in (("Surest answers, of each label first", surest), ("Least sure answers", least)):
        if places:
            items = tuple(_in_words(answers[place]) for place in places)
            shown = () if thumbnails is None else tuple((one,) for one in thumbnails(places))
            yield doc.Section(title, (doc.Bullets(items, shown),))


def _counts(what: str, counts: Sequence[tuple[str, int]]) -> doc.Table:
    total, most = max(sum(count for _, count in counts), 1), max([1, *(count for _, count in counts)])
    rows = ((name, f"{n:,}", f"{n / total:.1%}", "█" * round(_BAR * n / most)) for name, n in counts)
    return doc.Table((what, "Inputs", "Share", ""), tuple(rows), align="lrrl")


def _in_words(answer: Answer) -> doc.Words:
    name = doc.one_line(answer["input"])
    name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    sets = f"; set: {', '.join(map(str, answer['set']))}" if "set" in answer else ""
    return doc.Words((doc.Strong(_label(answer)), f" {answer['score']:.1%}{sets}. {name}"))
