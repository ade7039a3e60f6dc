"""What a pair of neighbours does to all the answers of one run, on the path that the run took."""

import numpy as np

from audit.witness import witnessing
from dptransfer.methods.heads.descent import head_rows
from dptransfer.methods.method import Task
from dptransfer.noise import SeededNoise

from .samples import REPLACE


def price_of_pair(method, data, other, seed=0):
    """Σ (gap/scale)² over the answers of a run on `data`, relative to what its one event pays for.

    The questions are those the run asked; they are asked again of `other`, with one row replaced.
    """
    plan = method.plan(data.facts, REPLACE)
    (event,) = plan.events
    features = method.features.fit(data.facts.dimension, None)
    with witnessing() as shown:
        method.run(Task(plan, features, data, SeededNoise(seed), None))
    there = head_rows(features, other)
    spent = 0.0
    for step in shown:
        gap = step.query(*step.data) - step.query(there.rows, there.labels)
        spent += float((gap.astype(np.float64) ** 2).sum()) / (step.scale * step.query.grid) ** 2
    return spent * event.noise_multiplier**2
