"""Verify the steps and the record of a release: its method plans again, and both are compared with the plan.

A guarantee is computed from events, and an event states its own sensitivity: a release that understates it
adds up, and protects nobody. So the method is built again from the recorded configuration, plans for the
recorded facts and guarantee, and each step is asked what it costs at the recorded noise. That must be the
recorded event, field by field. The noise itself may differ by what it is calibrated to: ε is computed from
the recorded one. What a release lists beside its steps is compared with the plan, too.

A release chooses which method and version it names, and so whether this library can plan its steps again.
Where it cannot, the outcome is 'not all checked' and not 'verified'. Another version may plan otherwise,
but one example moves a sum as far as ever: a sensitivity below the method's fails whatever version is named,
and so does a promise to persons by a method that bounds what rows contribute.

No public row is needed: of a pool, a plan takes the number of rows, which is on record.

A reader takes the words and lists of a release for what was paid for: 200 answers that are listed where 50
were paid for cost four times what the guarantee says. So notes, lists of public
rows, map and hold-out, and all else that follows from the plan or from another part of the record, are
compared with it. What follows from nothing is the publisher's word, and
`release.verify.UNVERIFIABLE` names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from dptransfer.base.document import one_line
from dptransfer.data import PrivateEmbeddings
from dptransfer.data.embeddings import PoolOutline, RowsNeeded
from dptransfer.encoders.encoder import BESIDE
from dptransfer.errors import DPTransferError
from dptransfer.exact.feature_map import FittedSideBySide, FittedUnitNorm, UnitNorm
from dptransfer.exact.lattice import require_exact_norms
from dptransfer.exact.public_map import FittedPublicMap, FittedSpan, PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.mechanisms.mechanism import at_noise_of
from dptransfer.methods import METHODS, configuration, fitting, private_evaluation
from dptransfer.methods.deep.fine_tuning import FineTuning, WarmStartNetwork
from dptransfer.methods.deep.network import delta_kind
from dptransfer.methods.heads.public_start import sources_of_start
from dptransfer.methods.method import Plan, PrivateMethod
from dptransfer.methods.prototypes.pool_selection import PoolSelection
from dptransfer.methods.tuning import PrivateTuning, Trials
from dptransfer.methods.votes import pate, voting
from dptransfer.privacy import Budget, Event, Unit, event_to_dict
from dptransfer.release import bundle, heads, manifest
from dptransfer.release.charged_evaluation import without_holdout
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.verify import CHARGED, RECORD, STEPS, WORDS, Check, Verification, verify_files
from dptransfer.sources import PrivateImages

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_SHOWN = 1e-3  # a note shows four digits of a noise that is calibrated to six
_NOTES_OF_RUNS = {"public-prior": 1, "public": 1, "top-k": 1, PrivateTuning.name: 2}
"""Number of notes that a run adds to those of its plan, about decisions made from released values."""
_OF_AUTO = "Auto "  # how the note begins that `Auto` puts in front of those of the plan it took


def contradictions(model: PrivateClassifier, plan: Plan) -> Iterator[str]:
    """Contradictions between the record and the plan, or between two parts of the record."""
    method, record = plan.method, model.provenance.public
    if (method.takes is PrivateImages) is not (len(model.facts.shape) == 3):
        yield f"'{method.name}' is not fitted on {model.facts.form}"
    yield from _in_notes(model, plan)
    yield from _in_lists(model, plan)
    if record is None and method.needs_public:
        yield f"'{method.name}' needs public data, and none are on record"
    own = model.facts.encoder
    if record is not None and method.takes is PrivateEmbeddings and own is not None:
        if record.get("encoder") not in (None, own.to_dict()):
            yield "the public rows on record are of another encoder than the private ones"
    if METHODS.package(method.name) is None:
        yield from _in_map(model, plan)
        changed = None if model.encoder_delta is None else model.encoder_delta.kind
        if all(changed not in changes_of_encoder(one) for one in _methods(plan)):
            yield "the encoder is not changed as the method changes one"
    charged = model.charged
    if charged is not None:
        if charged.holdout is not None and charged.ledger_head != model.provenance.ledger_head:
            yield "fit and hold-out are one charge, and name different entries of the ledger"
        if charged.guarantee.assumptions != private_evaluation.ASSUMPTIONS:
            yield "the assumptions of the charged evaluation are not those of such an evaluation"


def _in_notes(model: PrivateClassifier, plan: Plan) -> Iterator[str]:
    notes, charged = list(model.provenance.notes), model.charged
    if charged is not None and charged.holdout is not None:
        budget = Budget(epsilon=1.0, relation=model.guarantee.relation)
        made = fitting.FitPlan(plan.method, model.facts, budget, plan, holdout=charged.holdout)
        if not notes or (notes.pop(),) != made.notes:
            yield "the note about the hold-out is not that of its chance and relation"
    implied = [*plan.notes, *_answered(model, plan.method)]
    if notes and notes[0].startswith(_OF_AUTO):
        del notes[0]
    if len(notes) < len(implied) or not all(map(_same, notes, implied)):
        yield "the notes are not those of the plan"
    of_run = _NOTES_OF_RUNS.get(plan.method.name, isinstance(plan.method, FineTuning))
    if METHODS.package(plan.method.name) is None and len(notes) - len(implied) > of_run:
        yield "there are notes that no plan and no run of the method makes"


def _same(recorded: str, implied: str) -> bool:
    """Whether two notes have the same words and whole numbers, and other numbers but for their last digit."""

    def close(one: str, other: str) -> bool:
        if one == other or (one.isdigit() and other.isdigit()):
            return one == other
        # One in the last digit after the point that some of these has; a little more, for rounding.
        digits = max(len(number.partition(".")[2]) for number in (one, other))
        last = 0.0 if "e" in one + other else 1.01 * 10.0**-digits
        return math.isclose(float(one), float(other), rel_tol=_SHOWN, abs_tol=last)

    same_words = _NUMBER.sub("#", recorded) == _NUMBER.sub("#", implied)
    return same_words and all(map(close, _NUMBER.findall(recorded), _NUMBER.findall(implied)))


def _answered(model: PrivateClassifier, method: PrivateMethod) -> tuple[str, ...]:
    """The notes that follow from the listed answers."""
    listed = model.provenance.answers
    if not isinstance(method, voting.Voting) or listed is None:
        return ()
    return method.notes_of(sum(map(len, listed["rows"].values())))


def _in_lists(model: PrivateClassifier, plan: Plan) -> Iterator[str]:
    """Prototypes and answers are as many as were paid for, of public rows that there are, by class."""
    told, pool = model.provenance, (model.provenance.public or {}).get("rows", 0)
    for name, listed in (("prototypes", told.prototypes), ("answers", told.answers)):
        if listed is not None and not _is_a_list(listed, model.classes, pool):
            yield f"the {name} are no list of public rows for each class"
    found = [next(_miscounted(model, method, pool), None) for method in _methods(plan)]
    if None not in found:
        yield from filter(None, found[:1])


def _miscounted(model: PrivateClassifier, method: PrivateMethod, pool: int) -> Iterator[str]:
    prototypes, answers = (
        None if listed is None else list(listed["rows"].values())
        for listed in (model.provenance.prototypes, model.provenance.answers)
    )
    if isinstance(method, PoolSelection):
        wanted, head = getattr(method, "k", 1), model.head
        if prototypes is None or {len(own) for own in prototypes} != {wanted}:
            yield f"the method chooses {wanted} prototypes of each class, and as many are not listed"
        several = head.prototypes.shape[1] if isinstance(head, heads.MeanCosineHead) else None
        if wanted != (isinstance(head, heads.CosineHead) if several is None else several):
            yield f"the method chooses {wanted} prototypes of each class, and the head has others"
        prototypes = None
    if isinstance(method, voting.Voting):
        if answers is None:
            yield "the method answers questions about public examples, and none are listed"
        rows = [row for own in answers or () for row in own]
        most = method.queries if method.answers is None else method.answers
        enough = len(rows) <= (most or 0) if method.threshold is not None else len(rows) == most
        if not enough or len(set(rows)) < len(rows):
            yield f"{len(rows)} answers are listed, and {most} were paid for"
        if not set(rows) <= set(method.questions(pool).tolist()):
            yield "answers are listed to questions that were not asked"
        answers = None
    # What a package's method may list is its own affair.
    if METHODS.package(method.name) is None and (prototypes, answers) != (None, None):
        yield "public examples are listed that the method neither chooses nor asks about"


def _is_a_list(listed: Mapping[str, Any], classes: Sequence[str | int], pool: int) -> bool:
    """Whether this is what `data.examples.public_record` writes about a pool of so many examples."""
    names, rows = [str(name) for name in classes], listed.get("rows", {})
    sources = listed.get("sources", rows)
    return (
        {"rows"} <= listed.keys() <= {"rows", "sources"}
        and _are_lists(rows, names, int)
        and all(len(set(own)) == len(own) and all(0 <= row < pool for row in own) for own in rows.values())
        and (sources is rows or _are_lists(sources, names, str))
        and all(len(sources[name]) == len(rows[name]) for name in names)
    )


def _are_lists(listed: object, names: list[str], kind: type) -> bool:
    """Whether these are lists of one kind of value, one under each name, in this order."""
    if not isinstance(listed, dict) or list(listed) != names:
        return False
    return all(isinstance(own, list) and all(type(one) is kind for one in own) for own in listed.values())


def _in_map(model: PrivateClassifier, plan: Plan) -> Iterator[str]:
    """The feature map is of the settings on record, and was learned from the public rows on record.

    That of a method on pictures is learned from rows of public pictures, which the release does not name.
    """
    pictures, record = plan.method.takes is PrivateImages, model.provenance.public or {}
    words, features = record.get("vocabulary") or {}, model.features
    # Methods that train a network have the width of a public map.
    every = _methods(plan)
    settings = [getattr(one, "features", None) or PublicMap(axes=getattr(one, "axes", 1)) for one in every]
    maps = [one for one in settings if isinstance(one, PublicMap)]
    for part in (features.first, features.second) if isinstance(features, FittedSideBySide) else (features,):
        problem = "the feature map is not that of the settings on record"
        if isinstance(part, FittedPublicMap):
            if not pictures and part.pool != record.get("fingerprint"):
                yield "the feature map was learned from other public rows than those on record"
            if all(part.whitening != one.whitening for one in maps) or part.dimension > max(
                one.axes for one in maps
            ):
                yield problem
        elif isinstance(part, FittedVocabularyMap):
            if (part.vocabulary, part.dimension) != (words.get("identity"), words.get("words")):
                yield "the feature map is in other words than those on record"
        elif isinstance(part, FittedUnitNorm):
            if not pictures and all(part.pool != one.pool for one in settings if isinstance(one, UnitNorm)):
                yield problem
        elif isinstance(part, FittedSpan):
            if part is features or not sources_of_start(recorded_pool(record or None), model.facts):
                yield "the feature map has a public start, and none is on record"


def changes_of_encoder(method: PrivateMethod) -> tuple[str | None, ...]:
    """Kinds of change of an encoder that a run may release; None is for no change."""
    if isinstance(method, FineTuning):
        kind = delta_kind(method.train)
        return (f"{kind}{BESIDE}" if kind is not None and isinstance(method, WarmStartNetwork) else kind,)
    return (None, "state") if isinstance(method, pate.PictureVoting) else (None,)


def _methods(plan: Plan) -> list[PrivateMethod]:
    """The method, or those of which one trial was released."""
    trials = [one for step in plan.mechanisms if isinstance(step, Trials) for one in step.plans]
    return [one.method for one in trials or [plan]]


_ROUNDING = 1e-9  # what another build of the same arithmetic may differ by
_HAIR = 1 + 1e-9  # so that a plan that is exactly the recorded one fits its own guarantee
_CALIBRATED = 1e-3  # what noise that is calibrated again may differ by
_NOISE = ("noise_multiplier", "scale", "epsilon")  # what an event says of its noise


def verify_release(path: str | Path) -> Verification:
    """Check a release directory as a stranger would: its files, its guarantee, and the steps behind it.

    What no check of files can show is in `Verification.not_shown`.

    Args:
        path: the directory that `save` wrote.
    """
    found = verify_files(path)
    if found.method is None or not any(check.name == "model" and check.passed for check in found.checks):
        return found  # there is nothing that could be planned again
    model = bundle.read_release(path)
    checks = [_check_charged(model, one) for one in found.checks]
    steps, plan = check_steps(model)
    place = 1 + next(number for number, check in enumerate(checks) if check.name == "guarantee")
    recorded = [] if plan is None else [check_record(model, plan)]
    checks[place:place] = [steps, check_words(model), *recorded]
    return replace(found, checks=tuple(checks))


def _check_charged(model: PrivateClassifier, check: Check) -> Check:
    """The check of charged test results; it fails where their step is not that of such an evaluation."""
    if check.name != CHARGED or not check.passed or model.charged is None:
        return check
    said = "its step and the noise it states are not those of such an evaluation"
    try:
        if private_evaluation.is_planned_step(model.charged):
            return check
    except DPTransferError as problem:
        said = str(problem)
    return replace(check, passed=False, detail=said)


def check_steps(model: PrivateClassifier) -> tuple[Check, Plan | None]:
    """Check the recorded steps; with the plan of the fit, where it is that of the record."""

    def not_checked(why: str) -> tuple[Check, None]:
        return Check(STEPS, False, one_line(f"not checked: {why}"), required=False), None

    name = model.provenance.method
    if name not in METHODS and name != PrivateTuning.name:
        return not_checked(
            f"'{name}' is no method of this library or of an installed package, which could plan its steps"
        )
    understated = False
    try:
        model = without_holdout(model)  # what a hold-out was asked, `verify_files` has checked
        method = configuration.method_from_configuration(model.provenance.configuration)
        if method.name != name:
            raise ValueError(f"the recorded configuration is that of '{method.name}'")
        understated = not _bounds(method, model.facts.unit)
        if len(model.facts.shape) == 1:
            require_exact_norms(model.facts.dimension)  # as a fit does; a plan may make room for that width
        plan = _on_cpu(method).plan(model.facts, budget_of(model), recorded_pool(model.provenance.public))
        problem = _difference(model, plan)
        understated |= any(map(_understates, model.events, plan.events))
    except RowsNeeded:
        return not_checked("this plan looks at the public rows themselves, which a release does not hold")
    except Exception as error:  # the words and numbers of a forger reach all that a plan does
        problem = f"the recorded method cannot plan them: {error}"
        if isinstance(error, configuration.UnknownType) and name == PrivateTuning.name:
            return not_checked(problem)
    if problem is None:
        added = METHODS.package(name)
        whose = f"'{name}'" if added is None else f"'{name}', of the installed package '{added}',"
        return Check(STEPS, True, f"as {whose} plans them for the recorded settings and facts"), plan
    written = _other_version(model.provenance.versions)
    if written is not None and not understated:
        return not_checked(f"written by {written}, which may plan otherwise than what is here: {problem}")
    return Check(STEPS, False, one_line(problem)), None


def check_record(model: PrivateClassifier, plan: Plan) -> Check:
    """Check that what is listed beside the steps follows from them."""
    try:
        problem = next(contradictions(model, plan), None)
    except Exception as error:  # as for a plan
        problem = f"it cannot be compared: {error}"
    if problem is not None:
        written = _other_version(model.provenance.versions)
        said = "" if written is None else f"; it was written by {written}, which may record otherwise"
        return Check(RECORD, False, one_line(f"{problem}{said}"), required=written is None)
    # Notes that nothing implies: why a method was chosen, and what its run decided.
    more = len(model.provenance.notes) - (model.charged is not None and model.charged.holdout is not None)
    more -= len(plan.notes) + len(_answered(model, plan.method))
    said = f"; what the run decided ({more} note{'s' * (more != 1)}) cannot be checked" if more else ""
    return Check(RECORD, True, f"notes, lists, feature map and hold-out follow from the steps{said}")


def check_words(model: PrivateClassifier) -> Check:
    """Whether a release describes its method as the method does."""
    told = model.provenance
    if told.method not in METHODS and told.method != PrivateTuning.name:
        return Check(WORDS, False, "what it says of its method are its publisher's words", required=False)
    about = (PrivateTuning if told.method == PrivateTuning.name else METHODS[told.method]).about
    if (told.summary, told.reference) == (about.card, about.reference):
        return Check(WORDS, True, "as the method describes itself")
    written = _other_version(told.versions)
    said = "the release describes its method in other words than the method does"
    said += "" if written is None else f"; it was written by {written}, which may have other words"
    return Check(WORDS, False, one_line(said), required=written is None)


def _other_version(recorded: Mapping[str, str]) -> str | None:
    """The package and version that wrote a release, if another version is installed here."""
    here = manifest.current_versions(*recorded)
    planning = {"dptransfer", *recorded} - (manifest.current_versions().keys() - {"dptransfer"})
    other = (f"{one} {recorded.get(one)}" for one in sorted(planning) if recorded.get(one) != here[one])
    return next(other, None)


def _bounds(method: PrivateMethod, unit: Unit) -> bool:
    """Whether the method, and all it chooses from, bounds what one unit contributes: rows are no persons."""
    inner = method.candidates if isinstance(method, PrivateTuning) else ()
    return unit in method.units and all(_bounds(one, unit) for one in inner)


def budget_of(model: PrivateClassifier) -> Budget:
    """The budget that the guarantee exhausts; in μ or ρ where there is one, since ε may be 0 at a large δ."""
    promise = model.guarantee
    delta, relation = promise.delta, promise.relation
    if model.events and delta > 0 and promise.mu is not None:
        return Budget.gdp(promise.mu * _HAIR, delta=delta, relation=relation)
    if model.events and delta > 0 and promise.rho is not None:
        return Budget.zcdp(promise.rho * _HAIR, delta=delta, relation=relation)
    epsilon = promise.epsilon * _HAIR if model.events else 1.0
    return Budget(epsilon=epsilon, delta=delta, relation=relation)


def _on_cpu(method: PrivateMethod) -> PrivateMethod:
    """The same method without a GPU, which the machine that verifies may not have; no plan depends on it."""
    changes: dict[str, Any] = {"device": "cpu"} if "device" in {one.name for one in fields(method)} else {}
    if isinstance(method, PrivateTuning):
        changes["candidates"] = tuple(_on_cpu(one) for one in method.candidates)
    return replace(method, **changes)


def _difference(model: PrivateClassifier, plan: Plan) -> str | None:
    """First difference between the release and the plan, in words."""
    if model.guarantee.assumptions != plan.guarantee.assumptions:
        return "the recorded assumptions are not those of the method"
    if len(model.events) != len(plan.mechanisms):
        return f"{len(model.events)} steps are recorded, and the method takes {len(plan.mechanisms)}"
    for number, (event, step) in enumerate(zip(model.events, plan.mechanisms, strict=True), start=1):
        recorded = event_to_dict(event)
        found = _unlike(recorded, event_to_dict(at_noise_of(event, step).event), _as_exact)
        if found is None and _unlike(recorded, event_to_dict(step.event), _as_noisy) is not None:
            found = "other noise than the method plans for this guarantee"
        if found is not None:
            return f"step {number} of {len(model.events)} is recorded with {found}"
    return None


def _as_exact(name: str, recorded: Any, planned: Any) -> bool:
    """Whether two values are the same but for rounding."""
    numbers = isinstance(recorded, float) and isinstance(planned, float)
    return recorded == planned or (numbers and math.isclose(recorded, planned, rel_tol=_ROUNDING))


def _as_noisy(name: str, recorded: Any, planned: Any) -> bool:
    """Whether two values, if they say how much noise there is, are the same but for its calibration."""
    return name not in _NOISE or math.isclose(recorded, planned, rel_tol=_CALIBRATED)


def _unlike(
    recorded: Any, planned: Any, alike: Callable[[str, Any, Any], bool], name: str = "event"
) -> str | None:
    """The first field that is not alike in two events, as JSON."""
    if isinstance(recorded, dict) and isinstance(planned, dict):
        names = sorted({**planned, **recorded}, key=lambda one: one.startswith("numeric"))  # what tells most
        found = (_unlike(recorded.get(one), planned.get(one), alike, one) for one in names)
    elif isinstance(recorded, list) and isinstance(planned, list) and len(recorded) == len(planned):
        found = (_unlike(*pair, alike, name) for pair in zip(recorded, planned, strict=True))
    elif alike(name, recorded, planned):
        return None
    else:
        return f"{name.replace('_', ' ')} {recorded!r}, where the method has {planned!r}"
    return next((problem for problem in found if problem is not None), None)


def _understates(recorded: Event, planned: Event) -> bool:
    """Whether the same step is recorded with a smaller sensitivity than it has."""
    inner = zip(recorded.inner(), planned.inner(), strict=False)
    if any(any(map(_understates, *pair)) for pair in inner):
        return True
    if type(recorded) is not type(planned) or recorded.label != planned.label:
        return False
    mine, least = getattr(recorded, "sensitivity", 0.0), getattr(planned, "sensitivity", 0.0)
    return bool(mine < least * (1 - _ROUNDING))


def recorded_pool(record: Mapping[str, Any] | None) -> PoolOutline | None:
    """Outline of the public rows by what is recorded of them: numbers, and classes of labelled ones."""
    if record is None:
        return None

    def counted(count: object, what: str) -> int:
        if type(count) is not int or count < 1:
            raise ValueError(f"the recorded number of {what} is {count!r}")
        return count

    words, names = record.get("vocabulary"), record.get("names")
    of_words = None if words is None else counted(words["words"], "words")
    of_names = 0 if names is None else counted(names["rows"], "class names")
    classes = (record.get("shots") or record).get("classes", ())
    return PoolOutline(counted(record["rows"], "public rows"), of_words, names=of_names, classes=classes)
