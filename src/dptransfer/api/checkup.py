"""Check private data, and public data beside it, before anything is charged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dptransfer.api import between
from dptransfer.api.checked_examples import Examples, Role, Whose, looks_of, read_examples
from dptransfer.api.findings import Finding, advice, class_sizes, findings_in
from dptransfer.api.fit import source_of
from dptransfer.api.source import EncodedBeside, Given, Source
from dptransfer.base.document import Block, Bullets, Document, Paragraph, Section, Strong, Table, Words
from dptransfer.base.progress import tell
from dptransfer.base.workers import Workers
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings, ShardedRows
from dptransfer.data.labels import Classes
from dptransfer.data.tables import NOBODY
from dptransfer.encoders.encoder import Encoder, blank_picture
from dptransfer.encoders.in_memory import encode_texts_in_memory
from dptransfer.errors import DataError, DPTransferError
from dptransfer.methods.auto import fitted_on, tasks_like
from dptransfer.methods.heads import public_start
from dptransfer.methods.heads.public_prior import PublicPriorPrototypes
from dptransfer.methods.surrogate import FAMILIES
from dptransfer.privacy import Budget, Unit
from dptransfer.sources.thumbnails import thumbnails

Budgets: TypeAlias = Sequence[Budget]
ALMOST_NO_NOISE = 100.0
"""An ε at which noise is next to none, so that what is lost below it is the price of privacy."""

_FEWEST_PUBLIC = 200  # rows that tasks are made from; `Auto` asks for as many
_MOST_PUBLIC = 20_000  # of a pool in many files: four times as many as the largest task has
_BATCH = 8
_MOST_READ = 200  # labelled texts that are encoded to see what class names alone reach
_A_TEXT = "word " * 50
_SIZES = ("size", "person_bound", "rows_per_person")


def encoding_time(encoder: Encoder, examples: int, opening: float) -> str:
    """How long an encoding would take on this machine, in words, and where the number comes from.

    Measured on blank examples, after a first batch that warms the encoder up.

    Args:
        encoder: what would encode them.
        examples: pictures or texts to encode, in all sets.
        opening: seconds that opening all pictures took.
    """
    batch = [blank_picture() if encoder.kind == "image" else _A_TEXT] * _BATCH
    encoder.encode(batch)
    started = time.perf_counter()
    encoder.encode(batch)
    each = (time.perf_counter() - started) / _BATCH
    seconds = examples * each + opening  # the two may overlap, so it is not more
    total = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{max(1, round(seconds))} s"
    return (
        f"About {total} for {examples:,} examples with '{encoder.identity.name}' on this machine: "
        f"{each:.2g} s each, measured on {_BATCH} blank ones, and {opening:.2g} s to open all pictures, as "
        "this check did."
    )


@dataclass(frozen=True)
class Forecast:
    """Balanced accuracy on tasks made of public rows.

    Attributes:
        epsilon: of the budget.
        mean: over the tasks.
        lowest: on the hardest of them.
        highest: on the easiest.
        weakest_class: recall of each task's worst class, over the tasks.
    """

    epsilon: float
    mean: float
    lowest: float
    highest: float
    weakest_class: float


def why_no_forecast(pool: Examples | None, classes: Sequence[str | int] | None) -> str:
    """What keeps accuracies from being forecast; nothing, where all is there."""
    if pool is None:
        return "no public pool was given"
    if pool.rows is None:
        return "the pool is not encoded. Pass encode_pool=True (--forecast), which encodes it"
    if pool.count < _FEWEST_PUBLIC:
        return f"the pool has {pool.count} rows, and tasks are made of {_FEWEST_PUBLIC} or more"
    return "no list of classes is declared" if classes is None or len(classes) < 2 else ""


def public_rows(pool: Examples) -> PublicEmbeddings:
    """The rows of a pool that can be used; of one in many files, some from everywhere in it."""
    rows: object = pool.rows
    if isinstance(rows, ShardedRows):
        rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MOST_PUBLIC)).astype(np.int64)]
    rows = np.asarray(rows)
    return PublicEmbeddings(rows[np.isfinite(rows).all(axis=1)], encoder=pool.encoder)


def expected_accuracy(facts: Facts, public: PublicEmbeddings, budgets: Budgets) -> tuple[Forecast, ...]:
    """What the default method reaches on tasks of the declared size that are made of public rows.

    No private row, label or count goes in: the tasks have the declared number of classes and the declared
    size, or what `Auto` assumes where none is, and their rows are mixed from the pool's.
    """
    found: list[Forecast] = []
    for turn, budget in enumerate(budgets):
        tasks, scaled = tasks_like(facts, budget, public)
        reached, weakest = [], []
        for task in tasks:
            model = fitted_on(task, PublicPriorPrototypes(), scaled)
            right = model.scores(task.test_rows).argmax(axis=1) == task.test_labels
            reached.append(float(right.mean()))
            sizes = np.bincount(task.test_labels)
            weakest.append((np.bincount(task.test_labels, right)[sizes > 0] / sizes[sizes > 0]).min())
            tell(turn * len(tasks) + len(reached), len(budgets) * len(tasks), "public task")
        mean, worst = float(np.mean(reached)), float(np.mean(weakest))
        found.append(Forecast(budget.amount, mean, min(reached), max(reached), worst))
    return tuple(found)


def forecast(
    private: Source, public: Source, epsilons: Sequence[float], delta: float, workers: Workers | None = None
) -> tuple[Forecast, ...]:
    """Accuracies to expect of a fit; the last is for next to no noise. A pool is encoded where it is not.

    Of the private examples the declared classes, sizes and unit alone go in.

    Raises:
        DataError: no accuracy can be forecast with this pool.
    """
    public.require_other_than(private, "public (--public)")
    mine = read_examples(private, "private")
    with EncodedBeside(Path("forecast")) as beside:
        pool = _encoded_pool(private, public, beside)
        if why_not := why_no_forecast(pool, mine.classes):
            raise DataError(f"An accuracy is forecast from public rows; {why_not}. Choose ε without it.")
        return _forecast(private, mine, pool, _budgets(epsilons, delta), workers)[1]


def _budgets(epsilons: Sequence[float], delta: float) -> list[Budget]:
    return [Budget(epsilon=one, delta=delta) for one in (*epsilons, ALMOST_NO_NOISE)]


def _encoded_pool(private: Source, public: Source, beside: EncodedBeside) -> Examples:
    return read_examples(Source(public.public(private.encoder, beside)), "public")


def _forecast(
    source: Source, mine: Examples, pool: Examples, budgets: Sequence[Budget], workers: Workers | None
) -> tuple[Facts, tuple[Forecast, ...]]:
    """What is assumed of the private examples, which is declared, and the accuracies to expect."""
    rows = public_rows(pool)
    known: Any = vars(source.x.facts) if isinstance(source.x, PrivateEmbeddings) else source.declared
    sizes = {name: known[name] for name in _SIZES if name in known}
    unit = Unit.ROW if mine.people is None else Unit.PERSON
    facts = Facts(tuple(mine.classes or ()), (rows.dimension,), encoder=rows.encoder, unit=unit, **sizes)
    return facts, expected_accuracy(facts, rows if workers is None else rows.with_workers(workers), budgets)


PRIVATE = "PRIVATE: for the data owner only. Do not publish, send or log any of this."


@dataclass(frozen=True, eq=False, repr=False)
class Checkup:
    """What was found; as private as the data, however it is shown.

    Attributes:
        findings: what to look at, the worst first.
        expected: accuracies on public tasks, one for each ε that was asked for; empty where there is no pool.
        encoding: the time an encoding would take, if an encoder was named.
        names: what class names alone would reach, in words, if an encoder can read them.
        unchecked: what was not looked at, and why.
        facts: what the accuracies assume.
        sets: what was read: private, test, public.
    """

    findings: tuple[Finding, ...]
    expected: tuple[Forecast, ...]
    encoding: str | None
    names: str
    unchecked: tuple[str, ...]
    facts: Facts | None
    sets: tuple[Examples, ...]

    def __str__(self) -> str:
        return self.document().text()

    def __repr__(self) -> str:
        return "Checkup(for the data owner only; print it to see it)"

    def document(self, *, pictures: bool = False) -> Document:
        """All of it, for a page, a terminal or JSON; for a page perhaps with small pictures."""
        private = self.sets[0]
        count = len(self.findings)
        found = "No problems found" if not count else f"{count} finding{'s' * (count > 1)}"
        return Document(
            f"Checkup of {Path(private.source).name}",
            sentence=f"{found}. Nothing was charged, released or stored.",
            warning=PRIVATE,
            about=tuple((one.role.capitalize(), _in_words(one)) for one in self.sets),
            sections=(*(_finding(one, pictures) for one in self.findings), *self._facts()),
            footer="Rows and texts are numbered from 0.",
        )

    def _facts(self) -> Iterator[Section]:
        sizes: _Counts = {one.role: class_sizes(one) for one in self.sets if one.role != "public"}
        if any(sizes.values()):
            yield Section("Classes", (_table("Class", sizes),))
        people = self.sets[0].people
        if people is not None and len(people):
            each = np.bincount(people)
            row = (f"{len(each):,}", f"{np.median(each):g}", f"{each.mean():.3g}", f"{each.max():,}")
            header = ("People", "Examples each, usual", "on average", "at most")
            yield Section("People", (Table(header, (row,), align="rrrr"),))
        pictured = [one for one in self.sets if one.looks]
        each_form = [Counter(look.form or "unreadable" for look in one.looks) for one in pictured]
        forms = {one.role: dict(each.most_common()) for one, each in zip(pictured, each_form, strict=True)}
        if forms:
            yield Section("Pictures", (_table("Form", forms),))
        if self.encoding is not None:
            yield Section("Time to encode", (Paragraph(self.encoding),))
        if self.names:
            yield Section("Class names", (Paragraph(self.names),))
        if self.expected and self.facts is not None:
            yield Section("Expected accuracy", tuple(_accuracies(self.expected, self.facts)))
        if self.unchecked:
            yield Section("Not checked", (Bullets(self.unchecked),))
        yield Section("How to use this report", (Paragraph(_WHAT),))


_WHAT = (
    "This report was made without noise, so every number and name in it is as private as the data. Use it to "
    "correct the data before a fit. Do not use it to choose ε, classes, a method or settings: the release "
    "would then depend on private examples in a way that no budget covers. Only the expected accuracies are "
    "free to use, because they come from public rows and declared facts."
)


def _in_words(examples: Examples) -> str:
    said = [f"{examples.count:,} {examples.kind}"]
    if examples.rows is not None:
        said.append(f"{examples.rows.shape[1]:,} wide")
    if examples.classes is not None:
        said.append(f"{len(examples.classes):,} classes")
    if examples.encoder is not None:
        said.append(f"of {examples.encoder}")
    return f"{', '.join(said)}: {examples.source}"


def _finding(finding: Finding, pictures: bool) -> Section:
    said = finding.advice
    small = tuple(map(thumbnails, finding.pictures)) if pictures else ()
    shown = (Bullets(finding.examples, small),) if finding.examples else ()
    remedy = Paragraph(Words((Strong("What to do: "), said.remedy)))
    title = f"{finding.role.capitalize()}: {said.title} ({finding.count:,})"
    return Section(title, (Paragraph(said.why), *shown, remedy))


_Counts: TypeAlias = Mapping[Role, Mapping[str, int]]


def _table(what: str, counts: _Counts) -> Table:
    """A row for each name, in the order in which the sets have them, and a column for each set."""
    names = list(dict.fromkeys(name for own in counts.values() for name in own))
    rows = tuple((name, *(f"{own.get(name, 0):,}" for own in counts.values())) for name in names)
    return Table((what, *(role.capitalize() for role in counts)), rows, align="l" + "r" * len(counts))


def _accuracies(expected: Sequence[Forecast], facts: Facts) -> Iterator[Block]:
    rows = []
    for one in expected:
        shares = one.mean, one.lowest, one.highest, one.weakest_class, one.mean / expected[-1].mean
        rows.append((f"{one.epsilon:g}", *(f"{share:.0%}" for share in shares)))
    header = ("ε", "Mean of the tasks", "Hardest", "Easiest", "Worst class", "Kept of the last line")
    yield Table(header, tuple(rows), align="rrrrrr")
    units = "examples" if facts.unit is Unit.ROW else "people"
    size = f"100 {units} a class, as no size is declared"
    if facts.size:
        size = f"{facts.size:,} examples, as declared"
    yield Paragraph(
        f"Balanced accuracy of 'public-prior' on {len(FAMILIES)} tasks of {len(facts.classes)} classes and "
        f"{size}, mixed from the pool's rows; the worst class is each task's own. At the last ε there is "
        "next to no noise."
    )
    yield Paragraph(_CAN_AND_CANNOT)


_CAN_AND_CANNOT = (
    "Such tasks know how many classes and examples are declared, and what noise does to that many; they do "
    "not know how hard your classes are. On nine public data sets of 4 to 101 classes the accuracy itself "
    "was wrong by up to 38 points in either direction, so take none of it for a promise. The share that is "
    "kept of the accuracy without noise is a rough floor: at ε = 1 real models kept 1 to 35 points more of "
    "theirs than the tasks did on eight of the sets and 9 less on one, at ε = 4 from 7 less to 16 more."
)


def check(
    private: Given | Source,
    public: Given | Source | None = None,
    test: Given | Source | None = None,
    *,
    classes: Classes | None = None,
    people: Whose = None,
    epsilons: float | Sequence[float] = (1.0, 4.0),
    delta: float = 1e-5,
    encoder: Encoder | None = None,
    encode_pool: bool = False,
    workers: Workers | None = None,
) -> Checkup:
    """Look for what is wrong with data before a fit is paid for; the answer is as private as the data.

    It charges nothing, releases nothing, opens no ledger and writes no file about the data. Correct what it
    finds in them; but choose neither ε nor classes, a method or settings by it, for a release would then
    depend on private rows in a way that no budget covers. The accuracies to expect are made from public
    rows and declared facts alone, so those may guide a choice.

    >>> import numpy as np, dptransfer as dpt
    >>> rows = np.random.default_rng(0).normal(size=(80, 4))
    >>> rows[7] = np.nan
    >>> found = check(dpt.PrivateEmbeddings(rows, [0, 1] * 40, classes=[0, 1]))
    >>> [(one.key, one.count, one.examples) for one in found.findings]
    [('non-finite', 1, ('row 7',))]

    Args:
        private: what a fit takes, as a path, data that are made already, or a `Source`; the last one names
            columns of tables, declared sizes and how images are read.
        public: the public pool, likewise.
        test: the labelled test set, likewise.
        classes: the full public list of classes; without one, what the data declare.
        people: whose each private example is.
        epsilons: for which an accuracy is wanted, one or several.
        delta: that goes with them.
        encoder: what would encode images or texts, for the time that takes; rows on disk should be its. By
            default the usual one, if it is installed.
        encode_pool: whether a pool of images or texts is encoded, so that accuracies can be forecast.
        workers: what processes public rows, such as `Processes(4)`; this process if None.
    """
    wanted = (epsilons,) if isinstance(epsilons, int | float) else epsilons
    budgets = _budgets(wanted, delta)
    source = source_of(private, classes=classes, people=people, encoder=encoder)
    mine = read_examples(source, "private")
    sets: dict[Role, Examples] = {"private": mine}
    if test is not None:
        sets["test"] = _read_test(replace(Source.of(test), classes=mine.classes), source.people)
    if public is not None:
        sets["public"] = read_examples(replace(Source.of(public), people=NOBODY), "public")
    encoder = _encoder(source, sets.values())
    pool_source = None if public is None else Source.of(public)
    pool, facts = sets.get("public"), None
    expected: tuple[Forecast, ...] = ()
    with EncodedBeside(Path("check")) as beside:
        if encode_pool and pool is not None and pool_source is not None and pool.rows is None:
            pool_source.require_other_than(source, "public (--public)")
            pool = _encoded_pool(source, pool_source, beside)
        why_not = why_no_forecast(pool, mine.classes)
        if not why_not and pool is not None:
            facts, expected = _forecast(source, mine, pool, budgets, workers)
    started = time.perf_counter()
    greys = source.reading.grey_range
    for role, one in sets.items():
        sets[role] = replace(one, looks=looks_of(one.images, f"{role} picture", greys))
    opening = time.perf_counter() - started
    findings = list(_between(sets, encoder))
    for one in sets.values():
        findings += [*findings_in(one), *between.duplicates_within(one)]
    worst_first = list(advice())
    unchecked = list(_unchecked(sets, encoder))
    if why_not:
        unchecked.append(f"Expected accuracy: {why_not}.")
    to_encode = sum(one.count for one in sets.values() if one.rows is None)
    findings.sort(key=lambda one: worst_first.index(one.key))
    hours = encoding_time(encoder, to_encode, opening) if encoder is not None and to_encode else None
    names, told = _about_names(sets, mine.classes, encoder), tuple(unchecked)
    return Checkup(tuple(findings), expected, hours, names, told, facts, tuple(sets.values()))


def _about_names(
    sets: Mapping[Role, Examples], classes: Sequence[str | int] | None, encoder: Encoder | None
) -> str:
    """What class names alone reach on labelled public or test examples, in words."""
    identity = sets["private"].encoder if encoder is None else encoder.identity
    if identity is None or identity.transform.startswith("rgb") or classes is None or len(classes) < 2:
        return ""
    if not public_start.are_in_words(classes):
        return public_start.IN_CODES
    for role in ("public", "test"):
        one = sets.get(role)
        if one is None or one.positions is None:
            continue
        own = np.flatnonzero(one.positions >= 0)
        own = own[np.linspace(0, len(own) - 1, min(len(own), _MOST_READ)).astype(np.int64)]
        rows = one.rows[own] if one.rows is not None else None
        if rows is None and encoder is not None and one.texts:
            rows = encode_texts_in_memory([one.texts[place] for place in own], encoder)
        if rows is not None and len(rows):
            facts = Facts(tuple(classes), (rows.shape[1],), encoder=identity)
            labelled = PublicEmbeddings(rows, one.positions[own], classes=facts.classes, encoder=identity)
            return public_start.accuracy_of_names(public_start.with_known_names(labelled, facts), facts, role)
    return public_start.UNMEASURED


def _read_test(test: Source, people: Whose) -> Examples:
    """The test, with whose each example is if it tells that in the same way."""
    if isinstance(people, str):
        with suppress(DataError):  # it has no such column; if the rest cannot be read, the next line says so
            return read_examples(replace(test, people=people), "test")
    return read_examples(replace(test, people=NOBODY), "test")


def _encoder(source: Source, sets: Collection[Examples]) -> Encoder | None:
    """What would encode sets that are not rows yet: the one that is named, or the default if it is there."""
    forms = sorted({one.kind for one in sets} - {"rows"})
    missing = (DPTransferError,) if source.reading.encoder is None else ()
    with suppress(*missing):  # it is not installed, and nobody asked for it
        return source.reading.load(forms[0]) if forms else None
    return None


def _between(sets: Mapping[Role, Examples], encoder: Encoder | None) -> Iterator[Finding]:
    """What is found of two sets, the private and another."""
    private = sets["private"]
    for role, other in sets.items():
        if role == "private":
            continue
        yield from between.duplicates_between(private, other)
        if role == "test":
            yield from between.people_in_both(private, other)
        yield from between.mismatches(_encoded(private, encoder), _encoded(other, encoder))


def _encoded(examples: Examples, encoder: Encoder | None) -> Examples:
    """The set as it will be: pictures and texts will be rows of this encoder."""
    if encoder is None or examples.rows is not None:
        return examples
    return replace(examples, encoder=encoder.identity)


def _unchecked(sets: Mapping[Role, Examples], encoder: Encoder | None) -> Iterator[str]:
    """What was not looked at, and why."""
    private, test = sets["private"], sets.get("test")
    for role in ("public", "test"):
        if role not in sets:
            yield f"Duplicates between the private and a {role} set: no {role} set was given."
    yield from between.not_compared(private)
    for role, other in sets.items():
        if role != "private":
            yield from between.not_compared(private, other)
    if private.people is None:
        yield "People: the data do not say whose each example is. Pass --person if people have several."
    elif test is not None and (private.ids is None or test.ids is None):
        yield "People in both the private and the test set: ids are not on record in both, or not in one way."
    if encoder is None and any(one.rows is None for one in sets.values()):
        yield "Time to encode: no encoder was named, or the default one is not installed."
