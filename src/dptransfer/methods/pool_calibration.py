"""Calibration without a charged evaluation: the same method, with the same noise, on tasks of public rows.

How confident a head should be depends on how hard its task is, which public rows tell only where they have
classes of their own. Tasks in which those stand for the private classes asked for a change in the right
direction on the data sets we tried; tasks of mixed unlabelled rows for anything. So a pool without enough
classes calibrates nothing. Tasks from one pool still tend to be easier than the private one: half of the
smallest change (in logarithms) that all of them ask for is taken, and none where they disagree about the
direction. `docs/scores.md` has the figures.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dptransfer.base.progress import steps as counted
from dptransfer.data import PublicData, PublicEmbeddings
from dptransfer.methods.auto import fitted_on, tasks_like
from dptransfer.methods.configuration import method_from_configuration
from dptransfer.methods.method import EmbeddingMethod
from dptransfer.methods.surrogate import Surrogate, has_classes
from dptransfer.privacy import Budget
from dptransfer.release.calibration import SIMULATED, Calibration
from dptransfer.release.classifier import PrivateClassifier, probabilities

_TEMPERATURES = np.exp(np.linspace(-math.log(4), math.log(4), 65))


def calibrate_on_public(
    model: PrivateClassifier, public: PublicData | None, *, budget: Budget
) -> PrivateClassifier:
    """The model with `simulated` set, where public rows with enough classes of their own allow for it.

    No private row is read and nothing is charged: it takes four fits on at most 5,000 public rows each.

    Args:
        model: a fitted classifier; one with a charged evaluation has a better calibration, and stays.
        public: the public rows that it was fitted with.
        budget: what its fit was allowed; the tasks get as much noise.
    """
    if model.charged is not None or not isinstance(public, PublicEmbeddings):
        return model
    if not has_classes(public, len(model.classes)):
        return model
    try:
        method = method_from_configuration(model.provenance.configuration)
        if not isinstance(method, EmbeddingMethod):
            return model
        tasks, scaled = tasks_like(model.facts, budget, public)
        asked = [
            _log_temperature(fitted_on(tasks[place], method, scaled), tasks[place])
            for place in counted(len(tasks), "task made of public rows")
        ]
    except Exception:  # whatever a method makes of such tasks: the model is paid for, and must not be lost
        return model
    if max(asked) >= 0 >= min(asked):  # they disagree about the direction
        return model
    flat = (0.0,) * len(model.classes)
    return replace(model, simulated=Calibration(math.exp(min(asked, key=abs) / 2), flat, SIMULATED))


def _log_temperature(model: PrivateClassifier, task: Surrogate) -> float:
    """Where the mean confidence of a classifier is its accuracy, on the test rows of its task."""
    scores = model.scores(task.test_rows)
    accuracy = float((scores.argmax(axis=1) == task.test_labels).mean())
    means = [
        float(probabilities(scores, model.head.temperature * factor).max(axis=1).mean())
        for factor in _TEMPERATURES
    ]
    return float(np.interp(accuracy, means[::-1], np.log(_TEMPERATURES)[::-1]))
