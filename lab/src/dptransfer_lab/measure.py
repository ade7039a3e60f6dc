"""One cell to one record: fit, evaluate and predict through the public API, and say what it cost."""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from dptransfer import __version__
from dptransfer.audit import instance_losses, membership_attack
from dptransfer.audit.membership import row_losses, smaller_share
from dptransfer.compute.cores import usable_cores
from dptransfer.data import PublicEmbeddings
from dptransfer.errors import DPTransferError, PrivacyWarning
from dptransfer.ledger import Ledger
from dptransfer.methods import PrivateMethod
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Guarantee
from dptransfer.release import Evaluation, PrivateClassifier, evaluate
from dptransfer_lab.cells import Cell
from dptransfer_lab.instance_loss import loss_metrics, loss_summary
from dptransfer_lab.lineup import entrant, is_private
from dptransfer_lab.record_file import Record
from dptransfer_lab.results import METRICS
from dptransfer_lab.tasks import Task, TaskBench, as_labels
from dptransfer_lab.unprotected import Unprotected

OWN = ("evaluate_seconds", "attack_seconds", "instance_loss_seconds", "public_map_seconds")
"""What a record's extra says of the method's own time, besides the fit."""
_MOST_PROTOTYPES = 200
_PRINTED = 7  # another stream of random numbers than those of tasks and of the noise


@dataclass
class _Clock:
    """Seconds by what they were spent on, and the processor's seconds of all of them together."""

    fit: float = 0.0
    evaluate: float = 0.0
    attack: float = 0.0
    instance_loss: float = 0.0
    public_map: float = 0.0
    processor: float = 0.0

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        started, before = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.perf_counter() - started)
            self.processor += time.process_time() - before


def measure(cell: Cell, tasks: TaskBench) -> Record:
    """Fit and test one cell.

    A refusal of the library's (a budget the method cannot be paid from, a missing pool) is a result and is
    recorded as one; any other error is raised.

    Args:
        cell: what to fit.
        tasks: where its rows come from.
    """
    started, before = time.perf_counter(), time.process_time()
    clock = _Clock()
    outcome: dict[str, Any]
    task: Task | None = None
    try:
        task = tasks.task(cell.task)
        with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # `run_study` gave it, once
            outcome = _fitted(cell, task, clock)
    except DPTransferError as refusal:
        outcome = _without_result("refused", str(refusal))
    whole = time.perf_counter() - started
    spent = clock.fit + clock.evaluate + clock.attack + clock.instance_loss + clock.public_map
    cost = {
        "fit_seconds": clock.fit,
        "cell_seconds": whole,
        "overhead_seconds": whole - spent,
        "peak_mib": outcome.pop("peak_mib", None),
    }
    extra = {
        **outcome.pop("extra", {}),
        "cut": _cut(cell),
        "pool_fingerprint": cell.task.pool_fingerprint,
        "evaluate_seconds": clock.evaluate,
        "attack_seconds": clock.attack,
        "instance_loss_seconds": clock.instance_loss,
        "public_map_seconds": clock.public_map,
        "overhead_processor_seconds": time.process_time() - before - clock.processor,
    }
    return {**described(cell, task), **outcome, "cost": cost, "extra": extra}


def failed(cell: Cell, message: str) -> Record:
    """The record of a cell that could not be brought to an end."""
    cost = {"fit_seconds": None, "cell_seconds": None, "overhead_seconds": None, "peak_mib": None}
    return {
        **described(cell, None),
        **_without_result("failed", message),
        "cost": cost,
        "extra": {"cut": _cut(cell)},
    }


def _cut(cell: Cell) -> dict[str, int | None]:
    """The sizes that were asked for; None where all there is was taken."""
    return {name: getattr(cell.task, name) for name in ("rows", "classes", "pool_rows", "dimension")}


def described(cell: Cell, task: Task | None) -> Record:
    """What a record says of the cell itself, before any result."""
    key = cell.task
    public = None if task is None else task.public
    pool_rows = 0 if public is None or key.pool is None else len(public)
    return {
        "cell": cell.address,
        "study": cell.study,
        "data": key.data,
        "encoder": key.encoder,
        "classes": key.classes if task is None else len(task.classes),
        "dimension": key.dimension if task is None else int(task.rows.shape[1]),
        "rows": key.rows if task is None else len(task.rows),
        "pool": key.pool,
        "pool_rows": pool_rows,
        "shots": key.shots,
        "imbalance": float(key.imbalance),
        "budget": {"flavour": Budget.from_dict(cell.budget).flavour, **cell.budget},
        "method": cell.method,
        "label": cell.label,
        "settings": {**cell.settings, "declare": cell.declare},
        "seed": key.seed,
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


_MAPPED: set[tuple[str, str]] = set()


def _fitted(cell: Cell, task: Task, clock: _Clock) -> dict[str, Any]:
    method = entrant(cell.method, cell.given)
    private, public = task.private(cell.declare), task.public
    budget = Budget.from_dict(cell.budget)
    if isinstance(method, PrivateMethod) and public is not None:
        _map_once(method, private.facts.dimension, public, clock)
    _forget_peak()
    before = _resident("VmRSS")
    with clock.on("fit"):
        model: PrivateClassifier | Unprotected
        if isinstance(method, PrivateMethod):
            noise = SeededNoise(cell.task.seed)
            model = method.fit(
                private, public, budget=budget, ledger=Ledger.in_memory(strict_names=True), noise=noise
            )
        else:
            model = method(private, public, budget, np.random.default_rng([cell.task.seed, _PRINTED]))
    peak = _resident("VmHWM")
    with clock.on("evaluate"):
        tested = _evaluated(model, task)
    with clock.on("attack"):
        attack = _attacked(model, task) if cell.attack else {}
    losses = None
    if cell.instance_loss and isinstance(method, PrivateMethod):
        with clock.on("instance_loss"):
            noise = SeededNoise(cell.task.seed)  # the path of the fit above, once more
            own = instance_losses(method, private, public, budget=budget, noise=noise)
            losses = loss_summary(own, task.labels, len(task.classes))
    return {
        "status": "done",
        "message": None,
        "guarantee": _promise(model.guarantee) if isinstance(model, PrivateClassifier) else None,
        "metrics": {**_metrics(tested, attack.pop("auc", None)), **loss_metrics(losses)},
        "peak_mib": None if peak is None or before is None else max(0.0, peak - before),
        "extra": {
            **_extra(model, cell),
            **({"attack": attack} if attack else {}),
            **({"instance_loss": losses} if losses else {}),
        },
    }


def _map_once(method: Any, dimension: int, public: PublicEmbeddings, clock: _Clock) -> None:
    """Fit the public map once per worker, so that no single fit carries what the others find done."""
    key = public.fingerprint, repr(method.features)
    if key not in _MAPPED:
        with clock.on("public_map"):
            method.features.fit(dimension, public)
        _MAPPED.add(key)


def _evaluated(model: PrivateClassifier | Unprotected, task: Task) -> Evaluation:
    labels = as_labels(task.test_labels, task.classes)
    return evaluate(cast(PrivateClassifier, model), task.test_rows, labels, minority_of=task.sizes)


def _attacked(model: PrivateClassifier | Unprotected, task: Task) -> dict[str, Any]:
    """The loss-threshold attack on rows it was fitted on, against as many of each class that it was not."""
    if not len(task.members):
        return {}
    inside = task.rows[task.members], as_labels(task.labels[task.members], task.classes)
    outside = task.others[0], as_labels(task.others[1], task.classes)
    if isinstance(model, PrivateClassifier):
        found = membership_attack(model, inside, outside).to_dict()
        return {name: value for name, value in found.items() if name != "guarantee"}
    losses = [row_losses(cast(PrivateClassifier, model), *side) for side in (inside, outside)]
    return {"auc": smaller_share(*losses), "members": len(inside[0]), "others": len(outside[0])}


def _metrics(tested: Evaluation, attack: float | None) -> dict[str, Any]:
    seen = [recall for recall in tested.recall if recall is not None]
    return {
        "balanced_accuracy": tested.balanced_accuracy,
        "accuracy": tested.accuracy,
        "minority_accuracy": tested.minority_accuracy,
        "worst_class": min(seen),
        "macro_f1": tested.macro_f1,
        "calibration_error": tested.calibration_error,
        "per_class": list(tested.recall),
        "attack_auc": attack,
    }


def _promise(guarantee: Guarantee) -> dict[str, Any]:
    whole = guarantee.to_dict()
    return {name: whole[name] for name in ("epsilon", "delta", "relation", "rho", "mu")}


def _extra(model: PrivateClassifier | Unprotected, cell: Cell) -> dict[str, Any]:
    """What the method chose, where that is known."""
    extra: dict[str, Any]
    if isinstance(model, PrivateClassifier):
        made = model.provenance
        rows = {} if made.prototypes is None else made.prototypes["rows"]
        extra = {
            "chosen": made.method,
            "configuration": made.configuration,
            "axes": model.features.dimension,
            "notes": list(made.notes),
        }
    else:
        rows = model.prototypes
        extra = {"chosen": cell.method, "notes": list(model.notes)}
    if rows and sum(len(chosen) for chosen in rows.values()) <= _MOST_PROTOTYPES:
        extra["prototypes"] = rows
    return extra


def _without_result(status: str, message: str) -> dict[str, Any]:
    metrics: dict[str, Any] = {**dict.fromkeys(METRICS), "per_class": []}
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
