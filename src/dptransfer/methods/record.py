"""Check that notes, lists of public rows, map and hold-out of a release follow from its steps.

A reader takes the words and lists of a release for what was paid for: 200 answers that are listed where 50
were paid for cost four times what the guarantee says. So all that follows from the plan, or from another
part of the record, is compared with it. What follows from nothing is the publisher's word, and
`release.verify.UNVERIFIABLE` names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dptransfer.data import PrivateEmbeddings
from dptransfer.encoders.encoder import BESIDE
from dptransfer.exact.feature_map import FittedFeatures, FittedSideBySide, FittedUnitNorm, UnitNorm
from dptransfer.exact.public_map import FittedPublicMap, PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.methods import METHODS
from dptransfer.methods.deep.fine_tuning import FineTuning
from dptransfer.methods.deep.trained_parts import delta_kind
from dptransfer.methods.deep.warm_start_network import WarmStartNetwork
from dptransfer.methods.fit_plan import FitPlan
from dptransfer.methods.method import Plan, PrivateMethod
from dptransfer.methods.private_evaluation import ASSUMPTIONS
from dptransfer.methods.prototypes.pool_selection import PoolSelection
from dptransfer.methods.tuning import PrivateTuning, Trials
from dptransfer.methods.votes.picture_voting import PictureVoting
from dptransfer.methods.votes.voting import Voting
from dptransfer.privacy import Budget
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.heads import CosineHead, MeanCosineHead
from dptransfer.sources import PrivateImages

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_SHOWN = 1e-3  # a note shows four digits of a noise that is calibrated to six
_NOTES_OF_RUNS = {"public-prior": 1, "public": 1, "top-k": 1, PrivateTuning.name: 2}
"""Number of notes that a run adds to those of its plan, about decisions made from released values."""
_OF_AUTO = "Auto "  # how the note begins that `Auto` puts in front of those of the plan it took


def contradiction(model: PrivateClassifier, plan: Plan) -> str | None:
    """First contradiction between the record and the plan, or between two parts of the record."""
    return (
        _kind(model, plan.method)
        or _notes(model, plan)
        or _lists(model, plan)
        or _public(model, plan.method)
        or _map(model, plan)
        or _encoder(model, plan)
        or _charged_evaluation(model)
    )


def notes_of_publisher(model: PrivateClassifier, plan: Plan) -> int:
    """Number of notes that nothing implies: why a method was chosen, and what its run decided."""
    recorded = len(model.provenance.notes) - (model.charged is not None and model.charged.holdout is not None)
    return recorded - len(plan.notes) - len(_answered(model, plan.method))


def _kind(model: PrivateClassifier, method: PrivateMethod) -> str | None:
    if (method.takes is PrivateImages) == (len(model.facts.shape) == 3):
        return None
    return f"'{method.name}' is not fitted on {model.facts.form}"


def _notes(model: PrivateClassifier, plan: Plan) -> str | None:
    notes = list(model.provenance.notes)
    charged = model.charged
    if charged is not None and charged.holdout is not None:
        budget = Budget(epsilon=1.0, relation=model.guarantee.relation)
        made = FitPlan(plan.method, model.facts, budget, plan, holdout=charged.holdout)
        if not notes or (notes.pop(),) != made.notes:
            return "the note about the hold-out is not that of its chance and relation"
    implied = [*plan.notes, *_answered(model, plan.method)]
    if notes and notes[0].startswith(_OF_AUTO):
        del notes[0]
    if len(notes) < len(implied) or not all(map(_same, notes, implied)):
        return "the notes are not those of the plan"
    own = METHODS.package(plan.method.name) is None
    if own and len(notes) - len(implied) > _NOTES_OF_RUNS.get(plan.method.name, 0):
        return "there are notes that no plan and no run of the method makes"
    return None


def _same(recorded: str, implied: str) -> bool:
    """Whether two notes have the same words and whole numbers, and other numbers but for their last digit."""
    if _NUMBER.sub("#", recorded) != _NUMBER.sub("#", implied):
        return False
    pairs = zip(_NUMBER.findall(recorded), _NUMBER.findall(implied), strict=True)
    return all(
        one == other
        or (
            not (one.isdigit() and other.isdigit()) and math.isclose(float(one), float(other), rel_tol=_SHOWN)
        )
        for one, other in pairs
    )


def _answered(model: PrivateClassifier, method: PrivateMethod) -> tuple[str, ...]:
    """The notes that follow from the listed answers."""
    listed = model.provenance.answers
    if not isinstance(method, Voting) or listed is None:
        return ()
    return method.notes_of(sum(map(len, _rows_of(listed).values())))


def _lists(model: PrivateClassifier, plan: Plan) -> str | None:
    """Prototypes and answers are as many as were paid for, of public rows that there are, by class."""
    told, pool = model.provenance, (model.provenance.public or {}).get("rows", 0)
    for name, listed in (("prototypes", told.prototypes), ("answers", told.answers)):
        if listed is not None and not _is_a_list(listed, model.classes, pool):
            return f"the {name} are no list of public rows for each class"
    found = [_miscounted(model, method, pool) for method in _methods(plan)]
    return None if None in found else found[0]


def _miscounted(model: PrivateClassifier, method: PrivateMethod, pool: int) -> str | None:
    prototypes, answers = model.provenance.prototypes, model.provenance.answers
    if isinstance(method, PoolSelection):
        wanted = getattr(method, "k", 1)
        if prototypes is None or {len(own) for own in _rows_of(prototypes).values()} != {wanted}:
            return f"the method chooses {wanted} prototypes of each class, and as many are not listed"
        head = model.head
        if wanted != (
            head.prototypes.shape[1] if isinstance(head, MeanCosineHead) else isinstance(head, CosineHead)
        ):
            return f"the method chooses {wanted} prototypes of each class, and the head has others"
        prototypes = None
    if isinstance(method, Voting):
        if answers is None:
            return "the method answers questions about public examples, and none are listed"
        rows = [row for own in _rows_of(answers).values() for row in own]
        most = method.queries if method.answers is None else method.answers
        enough = len(rows) <= (most or 0) if method.threshold is not None else len(rows) == most
        if not enough or len(set(rows)) < len(rows):
            return f"{len(rows)} answers are listed, and {most} were paid for"
        if not set(rows) <= set(method.questions(pool).tolist()):
            return "answers are listed to questions that were not asked"
        answers = None
    if METHODS.package(method.name) is not None:
        return None  # what a package's method may list is its own affair
    if (prototypes, answers) != (None, None):
        return "public examples are listed that the method neither chooses nor asks about"
    return None


def _is_a_list(listed: Mapping[str, Any], classes: Sequence[str | int], pool: int) -> bool:
    """Whether this is what `data.examples.public_record` writes about a pool of so many examples."""
    names, rows = [str(name) for name in classes], listed.get("rows", {})
    if not {"rows"} <= listed.keys() <= {"rows", "sources"} or not _are_lists(rows, names, int):
        return False
    if any(len(set(own)) < len(own) or not all(0 <= row < pool for row in own) for own in rows.values()):
        return False
    if "sources" not in listed:
        return True
    sources = listed["sources"]
    return _are_lists(sources, names, str) and all(len(sources[name]) == len(rows[name]) for name in names)


def _are_lists(listed: object, names: list[str], kind: type) -> bool:
    """Whether these are lists of one kind of value, one under each name, in this order."""
    if not isinstance(listed, dict) or list(listed) != names:
        return False
    return all(isinstance(own, list) and all(type(one) is kind for one in own) for own in listed.values())


def _rows_of(listed: Mapping[str, Any]) -> Mapping[str, list[int]]:
    rows: Mapping[str, list[int]] = listed["rows"]
    return rows


def _public(model: PrivateClassifier, method: PrivateMethod) -> str | None:
    """Public data are on record where the method needs some, and are of the encoder of the private ones."""
    record = model.provenance.public
    if record is None:
        return f"'{method.name}' needs public data, and none are on record" if method.needs_public else None
    own = model.facts.encoder
    theirs = record.get("encoder")
    if method.takes is PrivateEmbeddings and own is not None and theirs not in (None, own.to_dict()):
        return "the public rows on record are of another encoder than the private ones"
    return None


def _map(model: PrivateClassifier, plan: Plan) -> str | None:
    """The feature map is of the settings on record, and was learned from the public rows on record.

    That of a method on pictures is learned from rows of public pictures, which the release does not name.
    """
    if METHODS.package(plan.method.name) is not None:
        return None
    pictures = plan.method.takes is PrivateImages
    record = model.provenance.public or {}
    words = record.get("vocabulary") or {}
    settings = [_configured_map(method) for method in _methods(plan)]
    for part in _parts(model.features):
        if isinstance(part, FittedPublicMap):
            stretched = {one.whitening for one in settings if isinstance(one, PublicMap)}
            most = max((one.axes for one in settings if isinstance(one, PublicMap)), default=0)
            if not pictures and part.pool != record.get("fingerprint"):
                return "the feature map was learned from other public rows than those on record"
            if part.whitening not in stretched or part.dimension > most:
                return "the feature map is not that of the settings on record"
        elif isinstance(part, FittedVocabularyMap):
            if (part.vocabulary, part.dimension) != (words.get("identity"), words.get("words")):
                return "the feature map is in other words than those on record"
        elif isinstance(part, FittedUnitNorm):
            pooled = {one.pool for one in settings if isinstance(one, UnitNorm)}
            if not pictures and part.pool not in pooled:
                return "the feature map is not that of the settings on record"
    return None


def _encoder(model: PrivateClassifier, plan: Plan) -> str | None:
    """An encoder is changed where the method changes one, and as it does."""
    if METHODS.package(plan.method.name) is not None:
        return None
    changed = None if model.encoder_delta is None else model.encoder_delta.kind
    if any(changed in _changes(method) for method in _methods(plan)):
        return None
    return "the encoder is not changed as the method changes one"


def _changes(method: PrivateMethod) -> tuple[str | None, ...]:
    """Kinds of change of an encoder that a run may release; None is for no change."""
    if isinstance(method, FineTuning):
        kind = delta_kind(method.train)
        beside = kind is not None and isinstance(method, WarmStartNetwork)
        return (f"{kind}{BESIDE}" if beside else kind,)
    return (None, "state") if isinstance(method, PictureVoting) else (None,)


def _configured_map(method: PrivateMethod) -> object:
    """The feature map in a method's settings; methods that train a network have the width of a public map."""
    return getattr(method, "features", None) or PublicMap(axes=getattr(method, "axes", 1))


def _methods(plan: Plan) -> list[PrivateMethod]:
    """The method, or those of which one trial was released."""
    trials = [one for step in plan.mechanisms if isinstance(step, Trials) for one in step.plans]
    return [one.method for one in trials or [plan]]


def _parts(features: FittedFeatures) -> Iterator[FittedFeatures]:
    if isinstance(features, FittedSideBySide):
        yield from (features.first, features.second)
    else:
        yield features


def _charged_evaluation(model: PrivateClassifier) -> str | None:
    charged = model.charged
    if charged is None:
        return None
    if charged.holdout is not None and charged.ledger_head != model.provenance.ledger_head:
        return "fit and hold-out are one charge, and name different entries of the ledger"
    if charged.guarantee.assumptions != ASSUMPTIONS:
        return "the assumptions of the charged evaluation are not those of such an evaluation"
    return None
