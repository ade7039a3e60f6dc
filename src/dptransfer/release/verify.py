"""Verify a release: recompute the guarantee from the recorded steps, and check every file.

What is shown here: the files are those that were recorded, and the recorded steps imply the recorded (ε, δ).
Whether they are the steps of the recorded method is asked by `methods.replan`, which knows the methods. What
no verification of files can show is said in `NOT_SHOWN`, wherever its outcome is read.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from dptransfer.accounting import guarantee_of
from dptransfer.accounting.calibrate import weaknesses
from dptransfer.base.document import one_line
from dptransfer.base.document_html import escape_html
from dptransfer.base.document_text import escape_markdown
from dptransfer.base.types import JsonObject
from dptransfer.errors import DPTransferError, ReleaseError
from dptransfer.privacy import Budget, Guarantee, event_from_dict, number, rounded_up, typeset
from dptransfer.release import bundle
from dptransfer.release.card import NOT_SHOWN
from dptransfer.release.charged_evaluation import ChargedEvaluation
from dptransfer.release.evaluation import Evaluation, wrong_figure
from dptransfer.release.exchange import text_files, yaml_scalar
from dptransfer.release.manifest import FILE_NAMES, Manifest, current_versions, require
from dptransfer.release.owners import check_owners

STEPS, RECORD, WORDS, CARD_TEXT = "steps", "record", "description", "card text"
CHARGED = "charged evaluation"
"""Names of checks without which nothing is verified. `methods.replan` makes the first three: are the steps
those of the method, do notes and lists follow from them, and is the method described in its own words?"""

UNVERIFIABLE = (
    "title, contact, dates, versions and ledger heads",
    "what the owner declared: class names, sizes, columns and encoders",
    "what public data were given, and which of them were chosen or answered",
    "settings that change no step",
    "notes on what was decided by trials and released values",
    "results on test rows that are not protected",
    "the released numbers themselves",
    "whether the noise was secret",
    "whether the noise was drawn for this unit and relation, and rows were assigned to the right people",
)
"""What is the publisher's word: no check of files can tell."""

Outcome = Literal["verified", "not all checked", "failed"]


_NAMES = "(epsilon|delta|relation)"
_YAML = rf'^ *{_NAMES}: "?([^"\n]+)"?$'
_FORMS: tuple[tuple[str, str, Callable[[float], str], Callable[[str], str]], ...] = (
    # A text file of a release, how numbers stand in it, and how numbers and sentences are written there.
    ("README.md", rf"^\| {_NAMES} \| (.+) \|$", lambda amount: typeset(rounded_up(amount)), escape_markdown),
    ("README.md", _YAML, yaml_scalar, yaml_scalar),
    ("card.html", rf'data-number="{_NAMES}" data-value="([^"]*)"', repr, escape_html),
    ("MLmodel", _YAML, yaml_scalar, yaml_scalar),
)
"""Forms of the numbers in each text file of a release, for people and for programs."""
_FALSE_ALARM = 1e-6  # that a sound release fails by its witnesses
_ROUNDING = 1e-9  # what another build of the same library may differ by
_MATERIAL = 1e-3  # a recorded ε this much (relatively) above the recomputed one is not that of these steps


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what, in a few words.
        passed: whether it is as it should be.
        detail: what was found.
        required: whether a failure makes the release fail; otherwise it is worth a note.
    """

    name: str
    passed: bool
    detail: str
    required: bool = True


@dataclass(frozen=True)
class Verification:
    """The outcome; fields are None where the manifest could not be read.

    Attributes:
        checks: what was looked at, in order.
        method: the method's name.
        epsilon: the recorded ε.
        delta: the recorded δ.
        relation: the recorded relation.
        unit: what one neighbour has more, as recorded.
        recomputed_epsilon: ε as the recorded steps imply it.
        events: the recorded steps.
        not_shown: what no check of files can show.
        publishers_word: what a release says that nothing in it implies.
    """

    checks: tuple[Check, ...]
    method: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    relation: str | None = None
    unit: str | None = None
    recomputed_epsilon: float | None = None
    events: tuple[JsonObject, ...] = ()
    not_shown: ClassVar[str] = NOT_SHOWN
    publishers_word: ClassVar[tuple[str, ...]] = UNVERIFIABLE

    def __repr__(self) -> str:
        failed = f": {', '.join(self.failures)}" * bool(self.failures)
        return f"{type(self).__name__}({self.outcome}{failed}; {len(self.checks)} checks)"

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the required checks that did not pass."""
        return tuple(check.name for check in self.checks if check.required and not check.passed)

    @property
    def outcome(self) -> Outcome:
        """'verified' needs steps that were planned again: an event states its own sensitivity.

        A release chooses what it says of its method and its version, and so whether this library can plan
        its steps and write its card; so 'not all checked' is no kind of 'verified'.
        """
        if self.failures:
            return "failed"
        return "not all checked" if self.missing_checks else "verified"

    @property
    def missing_checks(self) -> tuple[str, ...]:
        """Names of the checks that were not made, or told nothing, and without which nothing is verified."""
        passed = {check.name for check in self.checks if check.passed}
        wanted = (STEPS, RECORD, WORDS, CARD_TEXT)
        return tuple(name for name in wanted if name not in passed and name not in self.failures)

    @property
    def ok(self) -> bool:
        """Whether the outcome is 'verified'."""
        return self.outcome == "verified"

    def to_dict(self) -> JsonObject:
        """JSON-ready form."""
        found = {"ok": self.ok, "outcome": self.outcome, "failed": list(self.failures)}
        return {
            **{name: value for name, value in asdict(self).items() if name != "checks"},
            **found,
            "checks": [asdict(check) for check in self.checks],
            "not_shown": self.not_shown,
            "publishers_word": list(self.publishers_word),
        }


def verify_files(path: str | Path) -> Verification:
    """Check files and guarantee; a path that is no directory raises, everything else is a failed check.

    `verify_release` asks in addition whether the recorded steps are those of the recorded method; without
    that the outcome is at best 'not all checked'.
    """
    directory = bundle.require_directory(path)
    try:
        manifest = bundle.read_manifest_in(directory)
    except ReleaseError as problem:
        return Verification((Check("schema", False, str(problem)),))
    recorded = manifest.guarantee.guarantee
    recomputed, agreement = _recomputed("guarantee", recorded, manifest.events)
    checks = (
        Check("schema", True, f"release.json follows schema {manifest.schema_version}"),
        *(_attempt(f"file {name}", _unchanged, directory, name, manifest) for name in FILE_NAMES),
        _attempt("model", _loads, directory),
        agreement,
        *_promise("promise", recorded, manifest.facts.declared_units),
        *_charged(manifest),
        *(_attempt("witnesses", _witnessed, directory) for _ in [manifest.witnesses] if _ is not None),
        *(_attempt("owners", _joined, manifest) for _ in [manifest.owners] if _ is not None),
        *(_attempt("evaluation", _tested, own) for own in [manifest.evaluation] if own is not None),
        _attempt("publishable", _publishable, manifest),
        _attempt("card numbers", _card_numbers, directory, manifest),
        _versions(manifest),
        _card_text(directory, manifest),
        _other_files(directory),
    )
    return Verification(
        tuple(_without_repeats(checks)),
        method=manifest.method.name,
        **{name: getattr(manifest.guarantee, name) for name in ("epsilon", "delta", "relation", "unit")},
        recomputed_epsilon=None if recomputed is None else recomputed.epsilon,
        events=manifest.events,
    )


def _without_repeats(checks: Iterable[Check]) -> Iterator[Check]:
    """Without those that a file failed which an earlier check has named: nothing else was looked at there."""
    seen: set[str] = set()
    for check in checks:
        if check.passed or check.detail not in seen:
            yield check
        if not check.passed:
            seen.add(check.detail)


def _recomputed(
    name: str, recorded: Guarantee, steps: Sequence[JsonObject]
) -> tuple[Guarantee | None, Check]:
    """What the steps promise, and whether it is what was recorded."""
    delta, relation, unit = recorded.delta, recorded.relation, recorded.unit
    try:
        events = tuple(event_from_dict(fields) for fields in steps)
        found = guarantee_of(events, delta, recorded.assumptions, relation=relation, unit=unit)
    except DPTransferError as problem:
        return None, Check(name, False, f"it cannot be recomputed: {problem}")
    said = f"recorded epsilon {number(recorded.epsilon, 10)}, recomputed {number(found.epsilon, 10)}"
    wrong = _difference(recorded, found)
    detail = f"{wrong}: " * bool(wrong) + f"{said} at delta {number(delta)}"
    return found, Check(name, not wrong, detail)


def _difference(recorded: Guarantee, found: Guarantee) -> str:
    """In what the recorded guarantee is not that of its steps; nothing if it is."""
    if found.delta != recorded.delta:
        return f"the steps are stated otherwise, {found}"
    for name in ("epsilon", "rho", "mu"):
        claim, truth = getattr(recorded, name), getattr(found, name)
        if claim is None and truth is None:
            continue
        if claim is None or truth is None or truth > claim * (1 + _ROUNDING):
            return "the recorded steps do not support it"
        if claim - truth > _MATERIAL * claim:
            return "it is not that of the recorded steps"
    return ""


def _promise(name: str, recorded: Guarantee, units: int | None) -> tuple[Check, ...]:
    """A budget that `fit` would refuse promises nothing, and one that it would warn of little."""
    least = max(recorded.epsilon, np.finfo(np.float64).tiny)  # a budget is never 0, and a guarantee may be
    try:
        weak = weaknesses(Budget(epsilon=least, delta=recorded.delta, relation=recorded.relation), units)
    except DPTransferError as problem:
        return (Check(name, False, str(problem)),)
    if weak:
        return tuple(Check(name, False, why, required=False) for why in weak)
    return (Check(name, True, "epsilon and delta are small enough to mean something"),)


def _tested(recorded: JsonObject) -> str:
    """Results on test rows that are not protected: whether the figures follow from their table."""
    wrong = wrong_figure(Evaluation.from_dict(recorded))
    require(wrong is None, f"its {wrong} is not that of its own table")
    return "figures are those of its table, which is the publisher's word"


def _charged(manifest: Manifest) -> tuple[Check, ...]:
    """The guarantee of charged test results; `methods.replan` checks what one unit moves them by."""
    if manifest.charged_evaluation is None:
        return ()
    name = CHARGED
    try:
        recorded = ChargedEvaluation.from_dict(manifest.charged_evaluation)
    except DPTransferError as problem:
        return (Check(name, False, str(problem)),)
    agreement = _recomputed(name, recorded.guarantee, manifest.charged_evaluation["events"])[1]
    return (agreement, *_promise("promise to test rows", recorded.guarantee, None))


def _unchanged(directory: Path, name: str, manifest: Manifest) -> str:
    bundle.read_recorded(directory, name, manifest)
    return "size and SHA-256 as recorded"


def _loads(directory: Path) -> str:
    model = bundle.read_release(directory)
    count = len(model.weights)
    return f"loads; {count} released array{'s' * (count != 1)}, all finite"


def _witnessed(directory: Path) -> str:
    """The noise of the run: as large as stated, and normal; a sound run fails once in a million."""
    from dptransfer.privacy.witnesses import shape_p_value, size_p_value

    drawn = bundle.read_release(directory).witnesses
    require(drawn is not None, "the release records witnesses and has none")
    assert drawn is not None
    spread = float(np.sqrt(np.mean(np.square(drawn.draws))))
    said = f"{len(drawn.values)} draws of the fit's noise vary by {spread:.3f} times"
    enough = min(size_p_value(drawn.draws), shape_p_value(drawn.draws)) >= _FALSE_ALARM / 2
    require(enough, f"{said} what is stated, or by another law")
    return f"{said} what is stated"


def _joined(manifest: Manifest) -> str:
    """Of a joint release: the study implies its record, and every owner signed."""
    assert manifest.owners is not None
    return check_owners(manifest.owners, manifest)


def _publishable(manifest: Manifest) -> str:
    secure = manifest.publishable and not manifest.seeded
    require(secure, "the noise came from a seed, so this release is not private")
    return "noise from a secure source"


def _card_numbers(directory: Path, manifest: Manifest) -> str:
    """The sentence, ε, δ and the relation must stand in every text file as in the manifest."""
    guarantee = manifest.guarantee
    numbers = {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
    for name, stated, write, escape in _FORMS:
        wanted = [(key, write(amount)) for key, amount in numbers.items()]
        wanted.append(("relation", guarantee.relation))
        text = bundle.read_file(directory, name).decode(errors="replace")
        # Pairs, since a number may be stated twice, and otherwise.
        found = sorted((key, html.unescape(value)) for key, value in re.findall(stated, text, re.MULTILINE))
        same = found == sorted(wanted) and escape(typeset(guarantee.sentence)) in text
        require(same, f"'{name}' must state the manifest's numbers; it states others.")
    said = ", ".join(f"{key} {rounded_up(amount)}" for key, amount in numbers.items())
    return f"card and metadata state {said}, {guarantee.relation}"


def _written_again(directory: Path) -> str:
    written = text_files(bundle.read_release(directory), bundle.read_evaluation(directory))
    for name, text in written.items():
        same = bundle.read_file(directory, name) == text.encode()
        require(same, f"'{name}' is not word for word what this library writes for this release")
    return "card and metadata are word for word what this library writes for this release"


def _card_text(directory: Path, manifest: Manifest) -> Check:
    """Card and metadata must be word for word what this library writes; of other versions' that is a note."""
    found = _attempt(CARD_TEXT, _written_again, directory)
    if found.passed or manifest.versions == current_versions():
        return found
    said = f"{found.detail}; it names other versions, so only its table of numbers was checked"
    return Check(found.name, False, said, required=False)


def _versions(manifest: Manifest) -> Check:
    here = current_versions()
    differ = {name: old for name, old in manifest.versions.items() if here.get(name) != old}
    other = ", ".join(f"{name} {old} (here {here.get(name, 'absent')})" for name, old in differ.items())
    detail = f"written under other versions: {other}" if other else "the versions it was written under"
    return Check("versions", not other, detail, required=False)


def _other_files(directory: Path) -> Check:
    others = bundle.other_files(directory)
    detail = f"not covered by this verification: {one_line(', '.join(others))}" if others else "none"
    return Check("other files", not others, detail, required=False)


def _attempt(name: str, look: Callable[..., str], *given: object) -> Check:
    try:
        return Check(name, True, look(*given))
    except DPTransferError as problem:
        return Check(name, False, str(problem))
