"""One cell to one record: fit, evaluate and predict through the public API, and say what it cost."""

from __future__ import annotations

import datetime
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dptransfer import Fit, Ledger, SeededNoise, Source, __version__
from dptransfer.audit.instance_loss import has_instance_losses, instance_losses
from dptransfer.audit.membership import membership_attack, score_losses, smaller_share
from dptransfer.base.types import JsonObject
from dptransfer.base.worker_env import usable_cores
from dptransfer.errors import DPTransferError, PrivacyWarning
from dptransfer.methods import EmbeddingMethod, PrivateMethod
from dptransfer.privacy import Budget
from dptransfer.release import Evaluation, PrivateClassifier, evaluate_scores
from dptransfer_lab.as_published import is_private, method_of, sees_pictures
from dptransfer_lab.cell_privacy import budget_of_one, group_epsilon, loss_metrics, loss_summary
from dptransfer_lab.cells import Cell
from dptransfer_lab.results import COST, METRICS, SIZES, Record
from dptransfer_lab.stored import Stored
from dptransfer_lab.tasks import Task, task_of
from dptransfer_lab.unprotected import NoNoise, Unprotected, WithoutNoise

OWN = ("evaluate", "attack", "instance_loss", "public_map")
"""What a method's own time goes into, besides the fit; a record's extra has the seconds of each."""
_MOST_PROTOTYPES = 200
_PRINTED = 7  # another stream of random numbers than those of tasks and of the noise


def sources_of(cell: Cell, stored: Mapping[str, Stored]) -> tuple[Stored, Stored | None]:
    """The arrays a cell needs: of its data set, and of its pool."""
    pool = cell.task.pool_fingerprint
    return stored[cell.task.data_fingerprint], None if pool is None else stored[pool]


def measure(cell: Cell, stored: Mapping[str, Stored]) -> Record:
    """Fit and test one cell.

    A refusal of the library's (a budget the method cannot be paid from, a missing pool) is a result and is
    recorded as one; any other error is raised.

    Args:
        cell: what to fit.
        stored: data sets and pools by fingerprint.
    """
    started, before = time.perf_counter(), time.process_time()
    clock = _Clock()
    task: Task | None = None
    try:
        task = task_of(cell.task, *sources_of(cell, stored))
        with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # `run_study` gave it, once
            outcome = _fitted(cell, task, clock)
    except DPTransferError as refusal:
        outcome = _without_result("refused", str(refusal))
    whole = time.perf_counter() - started
    cost = {
        "fit_seconds": clock.seconds["fit"],
        "cell_seconds": whole,
        "overhead_seconds": whole - sum(clock.seconds.values()),
        "peak_mib": outcome.pop("peak_mib", None),
    }
    extra = {
        **outcome.pop("extra", {}),
        "cut": _asked_sizes(cell),
        **({} if task is None or task.people is None else {"people": len(task.rows_by_person)}),
        "pool_fingerprint": cell.task.pool_fingerprint,
        **{f"{what}_seconds": clock.seconds[what] for what in OWN},
        "overhead_processor_seconds": time.process_time() - before - clock.processor,
    }
    return {**_described(cell, task), **outcome, "cost": cost, "extra": extra}


def failed_record(cell: Cell, message: str) -> Record:
    """The record of a cell that could not be brought to an end."""
    nothing = {"cost": dict.fromkeys(COST), "extra": {"cut": _asked_sizes(cell)}}
    return {**_described(cell, None), **_without_result("failed", message), **nothing}


class _Clock:
    """Seconds by what they were spent on, and the processor's seconds of all of them together."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.processor = 0.0

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        started, before = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - started
            self.processor += time.process_time() - before


def _asked_sizes(cell: Cell) -> dict[str, int | None]:
    """None where all there is was taken."""
    return {name: getattr(cell.task, name) for name in SIZES}


def _described(cell: Cell, task: Task | None) -> Record:
    """What a record says of the cell itself, before any result."""
    key = cell.task
    public = None if task is None or key.pool is None else task.public
    return {
        "cell": cell.address,
        "study": cell.study,
        **{name: getattr(key, name) for name in ("data", "encoder", "pool", "shots", "seed")},
        "classes": key.classes if task is None else len(task.classes),
        "dimension": key.dimension if task is None else int(task.rows.shape[1]),
        "rows": key.rows if task is None else len(task.rows),
        "pool_rows": 0 if public is None else len(public),
        "imbalance": float(key.imbalance),
        "unit": cell.unit,
        "person_bound": cell.person_bound,
        "budget": {"flavour": Budget.from_dict(cell.budget).flavour, **cell.budget},
        "method": cell.method,
        "label": cell.label,
        "settings": {**cell.settings, "declare": cell.declare},
        "marks": {
            "oracle_tuned": cell.oracle_tuned,
            "seeded": True,
            "not_private": not is_private(cell.method),
        },
        "made": {
            "version": __version__,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "host_cores": usable_cores(),
            "study_digest": cell.study_digest,
            "data_fingerprint": key.data_fingerprint,
        },
    }


def _fitted(cell: Cell, task: Task, clock: _Clock) -> JsonObject:
    method, budget = method_of(cell.method, cell.given), Budget.from_dict(cell.budget)
    pictures, protected = sees_pictures(method), isinstance(method, PrivateMethod)
    noise: SeededNoise = SeededNoise(cell.task.seed)
    if isinstance(method, WithoutNoise):
        budget, noise = method.budget(budget), NoNoise(cell.task.seed)
        method = method.method
    private = task.private(cell.declare, cell.unit, cell.person_bound, pictures=pictures)
    public = task.pictures.public if pictures else task.public
    size = int(task.rows_by_person.max()) if cell.unit == "group" else 1
    if size > 1 and protected and isinstance(method, PrivateMethod):
        budget = budget_of_one(method, private.facts, public, budget, size)
    if isinstance(method, PrivateMethod):
        _map_once(method, task, clock)
    _forget_peak()
    before = _resident("VmRSS")
    model: PrivateClassifier | Unprotected
    with clock.on("fit"):
        if isinstance(method, PrivateMethod):
            pool = None if public is None else Source(public)
            request = Fit(Source(private), budget, method, pool, calibrate=False)  # scores as they are
            model = request.run(Ledger.in_memory(strict_names=True), noise)
        else:
            model = method.fit(task, budget, np.random.default_rng([cell.task.seed, _PRINTED]))
    peak = _resident("VmHWM")
    with clock.on("evaluate"):
        if sees_pictures(method) and isinstance(model, PrivateClassifier):
            task = task.seen_by(method.encoder_after(model.facts.encoder, model.encoder_delta))
        tested = _evaluated(model, task)
    with clock.on("attack"):
        attack = _attacked(model, task) if cell.attack else {}
    losses = None
    if cell.instance_loss and protected and isinstance(method, PrivateMethod) and has_instance_losses(method):
        with clock.on("instance_loss"):
            noise = SeededNoise(cell.task.seed)  # the path of the fit above, once more
            own = instance_losses(method, private, public, budget=budget, noise=noise)
            losses = loss_summary(own, task.labels, len(task.classes), private.people)
    promise = None
    if isinstance(model, PrivateClassifier) and protected:
        whole = model.guarantee.to_dict()
        promise = {name: whole[name] for name in ("epsilon", "delta", "relation", "rho", "mu")}
        if size > 1:
            together = group_epsilon(model.events, size, model.guarantee.delta)
            promise |= {"epsilon": together, "rho": None, "mu": None}
    return {
        "status": "done",
        "message": None,
        "guarantee": promise,
        "metrics": {**_metrics(tested), "attack_auc": attack.pop("auc", None), **loss_metrics(losses)},
        "peak_mib": None if peak is None or before is None else max(0.0, peak - before),
        "extra": {
            **_extra(model, cell),
            **({"group": size} if cell.unit == "group" else {}),
            **({"attack": attack} if attack else {}),
            **({"instance_loss": losses} if losses else {}),
        },
    }


_MAPPED: set[tuple[str, str]] = set()


def _map_once(method: PrivateMethod, task: Task, clock: _Clock) -> None:
    """Fit the public map once per worker, so that no single fit carries what the others find done."""
    if task.public is None or not isinstance(method, EmbeddingMethod):
        return
    key = task.public.fingerprint, repr(method.features)
    if key not in _MAPPED:
        with clock.on("public_map"):
            method.features.fit(task.rows.shape[1], task.public)
        _MAPPED.add(key)


def _evaluated(model: PrivateClassifier | Unprotected, task: Task) -> Evaluation:
    head = model.head if isinstance(model, PrivateClassifier) else model
    scores, labels = model.scores(task.test_rows), task.labelled(task.test_labels)
    return evaluate_scores(
        scores, labels, classes=task.classes, temperature=head.temperature, minority_of=task.sizes
    )


def _attacked(model: PrivateClassifier | Unprotected, task: Task) -> JsonObject:
    """The loss-threshold attack on rows it was fitted on, against as many of each class that it was not."""
    if task.members is None or task.others is None or not len(task.members):
        return {}
    inside = task.rows[task.members], task.labelled(task.labels[task.members])
    outside = task.others[0], task.labelled(task.others[1])
    if isinstance(model, PrivateClassifier):
        people = None if task.people is None else task.people[task.members]
        # The task draws both sets alike, so whether they differ without the model is not tested.
        sets = (*inside, people), (*outside, task.other_people)
        found = membership_attack(model, *sets, check_sets=False).to_dict()
        return {name: value for name, value in found.items() if name != "guarantee"}
    losses = [
        score_losses(model.scores(rows), labels, classes=task.classes, temperature=model.temperature)
        for rows, labels in (inside, outside)
    ]
    return {"auc": smaller_share(*losses), "members": len(inside[0]), "others": len(outside[0])}


def _metrics(tested: Evaluation) -> JsonObject:
    names = ("balanced_accuracy", "accuracy", "minority_accuracy", "macro_f1", "calibration_error")
    return {
        **{name: getattr(tested, name) for name in names},
        "worst_class": min(recall for recall in tested.recall if recall is not None),
        "per_class": list(tested.recall),
    }


def _extra(model: PrivateClassifier | Unprotected, cell: Cell) -> JsonObject:
    """What the method chose, where that is known."""
    extra: JsonObject
    if isinstance(model, Unprotected):
        rows = model.prototypes
        extra = {"chosen": cell.method, "notes": [model.note] if model.note else []}
    else:
        made = model.provenance
        rows = {} if made.prototypes is None else made.prototypes["rows"]
        extra = {
            "chosen": made.method,
            "configuration": made.configuration,
            "axes": model.features.dimension,
            "notes": list(made.notes),
        }
    if rows and sum(len(chosen) for chosen in rows.values()) <= _MOST_PROTOTYPES:
        extra["prototypes"] = rows
    return extra


def _without_result(status: str, message: str) -> JsonObject:
    metrics: JsonObject = {**dict.fromkeys(METRICS), "per_class": []}
    return {"status": status, "message": message, "guarantee": None, "metrics": metrics}


def _forget_peak() -> None:
    """Let the kernel count the peak from here on; elsewhere than on Linux there is no peak to read."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _resident(what: str) -> float | None:
    """MiB of resident memory of this process, now (VmRSS) or at most (VmHWM)."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = [line for line in text.splitlines() if line.startswith(what)]
    return int(found[0].split()[1]) / 1024 if found else None
