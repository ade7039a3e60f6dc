"""Prepare, charge, run, wrap: a planned fit, written once for every method.

A method of another package is tried on made-up data before anything is charged for it. A run must take the
steps that its plan said, or nothing may be released; found out after the charge, that costs the owner's
budget. So whoever brings a method of their own has its run tried first on a few made-up examples with the
same declared facts, the same plan and the same public data, and with noise that is thrown away. It depends on
public values alone. The methods of this library are tested, and not tried again. What is tried may still do
otherwise on real data: `require_as_planned` asks again after the run.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from dptransfer.base.progress import reported_to
from dptransfer.data import Facts, PrivateData, PrivateEmbeddings, PublicData
from dptransfer.data.examples import content_digest, public_record
from dptransfer.data.labels import Labelled
from dptransfer.data.sharded_rows import stored_bytes
from dptransfer.errors import DPTransferError, WorkspaceError
from dptransfer.ledger import Ledger
from dptransfer.mechanisms.row_shares import not_recording
from dptransfer.methods import METHODS
from dptransfer.methods.charging import charge_run, open_workspace
from dptransfer.methods.checkpoint import RecordedNoise
from dptransfer.methods.fit_plan import FitPlan
from dptransfer.methods.method import PrivateMethod, Task, configuration_of, require_as_planned
from dptransfer.noise import NoiseSource, SeededNoise
from dptransfer.privacy import Unit, event_to_dict
from dptransfer.release.classifier import PrivateClassifier, Provenance
from dptransfer.release.manifest import current_versions
from dptransfer.sources import PrivateImages

_MOST_EXAMPLES = 32  # of a rehearsal


def fit_planned(
    made: FitPlan,
    private: PrivateData,
    public: PublicData | None,
    ledger: Ledger,
    noise: NoiseSource,
    new_data_set: bool,
    workspace: str | os.PathLike[str] | None,
) -> PrivateClassifier:
    """Prepare, charge the ledger, run, and wrap the result; arguments as for `PrivateMethod.fit`."""
    plan, method = made.plan, made.method
    method.require_data(private, public)
    method.require_public(private.facts, public)
    public = method.with_words(public)
    task = Task(plan, method.prepare(private.facts, public), private, noise, public)
    rehearse(task, made.facts_of_fit)
    public_facts = None if public is None else public.record  # here, as it may read public files
    checkpoint = None if workspace is None else open_workspace(workspace, noise)
    with nullcontext() if checkpoint is None else checkpoint:
        number = (
            None if checkpoint is None else checkpoint.bind(_request(made, private, public, public_facts))
        )
        charge = charge_run(ledger, private, made.events, method.name, new_data_set, number, public)
        with charge as receipt:
            if checkpoint is not None:
                noise = RecordedNoise(noise, checkpoint, finished=receipt.finished)
            train, held_out = made.split(private, noise)
            outcome = method.run(replace(task, private=train, noise=noise))
            require_as_planned(plan, outcome)
            features = task.prepared if outcome.features is None else outcome.features
            evaluation = made.evaluate(held_out, outcome, features, noise, receipt.head)
    return PrivateClassifier(
        head=outcome.head,
        features=features,
        facts=replace(train.facts, encoder=outcome.encoder) if outcome.encoder else train.facts,
        events=made.events,
        guarantee=made.guarantee,
        provenance=Provenance(
            method=method.name,
            configuration=configuration_of(method),
            seeded=noise.seeded,
            notes=(*plan.notes, *outcome.notes, *made.notes),
            public=public_facts,
            ledger_head=receipt.head,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            versions=current_versions(*_packages(method)),
            prototypes=public_record(outcome.prototypes, private.facts, public),
            answers=public_record(outcome.answers, private.facts, public),
            summary=method.about.card,
            reference=method.about.reference,
        ),
        encoder_delta=outcome.encoder_delta,
        charged=evaluation,
    )


def _request(
    made: FitPlan, private: PrivateData, public: PublicData | None, public_facts: Mapping[str, object] | None
) -> dict[str, object]:
    """Identity of a fit, which a resumed run must share with the one that was interrupted.

    Rows are digested again: an array, or a file that is mapped, may be another since they were first read.
    """
    if not private.is_unchanged():
        raise WorkspaceError(
            "A run in a workspace goes on with the examples that it began with; these changed since they "
            "were first read. Nothing was charged. Make the data anew, and do not write to their array."
        )
    method = made.method
    return {
        "method": method.name,
        "software version": current_versions(*_packages(method)),
        "configuration": configuration_of(method),
        **({} if made.holdout is None else {"hold-out": made.holdout}),
        "budget": [event_to_dict(event) for event in made.events],
        "list of declared facts": private.facts.to_dict(),
        "public data set": public_facts,
        # Bytes are scored as they are, and the same rows in floats are not: pieces must not be mixed.
        "form of public rows": stored_bytes(getattr(public, "rows", None)),
        "private data set": private.fingerprint,
        "person for some row": None if private.people is None else content_digest(private.people),
    }


def _packages(method: PrivateMethod) -> set[str]:
    """The packages that add this method, or one that it chooses among, to the library's own."""
    found = {METHODS.package(one.name) for one in (method, *getattr(method, "candidates", ()))}
    return {package for package in found if package is not None}


def rehearse(task: Task[Any, Any, Any], facts: Facts) -> None:
    """Raise if the method is not this library's own and its run on made-up data is not as planned.

    Args:
        task: what is to run; of the private data only the type is looked at, and how pictures were read.
        facts: what is declared of the data that the run gets.
    """
    method = task.plan.method
    them = (method, *getattr(method, "candidates", ()))
    if all(type(one).__module__.partition(".")[0] == "dptransfer" for one in them):
        return
    tried = replace(task, private=make_up_examples(task.private, facts), noise=SeededNoise(0))
    try:
        with reported_to(lambda *_: None), not_recording():
            require_as_planned(task.plan, method.run(tried))
    except Exception as problem:
        said = " ".join(f"{type(problem).__name__}: {problem}".split()).rstrip(".")
        raise DPTransferError(
            "A method of another package is tried on made-up examples before it is charged for; the run of "
            f"'{method.name}' failed ({said}). Nothing was read or charged. Its author must repair it: "
            "with_query gives a planned step its fitted features."
        ) from problem


def make_up_examples(private: PrivateData, facts: Facts) -> PrivateData:
    """A few random examples of the kind, with these declared facts; no private value is looked at."""
    rng = np.random.default_rng(0)
    count = min(2 * len(facts.classes), _MOST_EXAMPLES)
    labels = Labelled(np.arange(count) % len(facts.classes), facts.classes)
    people = np.arange(count) // 2 if facts.unit is Unit.PERSON else None
    found: PrivateData
    if isinstance(private, PrivateImages):
        pixels = rng.integers(0, 256, (count, *facts.shape), dtype=np.uint8)
        found = PrivateImages(pixels, labels, people=people, grey_range=private.grey_range)
    else:
        found = PrivateEmbeddings(rng.normal(size=(count, facts.dimension)), labels, people=people)
    found.facts = facts
    return found
