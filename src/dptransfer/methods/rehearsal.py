"""Try a method of another package on made-up data, before anything is charged for it.

A run must take the steps that its plan said, or nothing may be released; found out after the charge, that
costs the owner's budget. So whoever brings a method of their own has its run tried first on a few made-up
examples with the same declared facts, the same plan and the same public data, and with noise that is thrown
away. It depends on public values alone. The methods of this library are tested, and not tried again.

What is tried may still do otherwise on real data: `base.require_as_planned` asks again after the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer.base.progress import reported_to
from dptransfer.data import Facts, PrivateData, PrivateEmbeddings
from dptransfer.data.labels import Labelled
from dptransfer.errors import DPTransferError
from dptransfer.mechanisms.row_shares import not_recording
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Unit
from dptransfer.sources import PrivateImages

if TYPE_CHECKING:
    from dptransfer.methods.base import Outcome, Plan, PrivateMethod, Task

_MOST_EXAMPLES = 32


def require_rehearsed(
    task: Task[Any, Any, Any], facts: Facts, check: Callable[[Plan, Outcome], None]
) -> None:
    """Raise if the method is not this library's own and its run on made-up data fails the check.

    Args:
        task: what is to run; of the private data only the type is looked at, and how pictures were read.
        facts: what is declared of the data that the run gets.
        check: raises for an outcome that is not as planned.
    """
    method = task.plan.method
    if not _is_foreign(method):
        return
    tried = replace(task, private=made_up(task.private, facts), noise=SeededNoise(0))
    try:
        with reported_to(lambda *_: None), not_recording():
            check(task.plan, method.run(tried))
    except Exception as problem:
        said = " ".join(f"{type(problem).__name__}: {problem}".split()).rstrip(".")
        raise DPTransferError(
            "A method of another package is tried on made-up examples before it is charged for; the run of "
            f"'{method.name}' failed ({said}). Nothing was read or charged. Its author must repair it: "
            "with_query gives a planned step its fitted features."
        ) from problem


def made_up(private: PrivateData, facts: Facts) -> PrivateData:
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


def _is_foreign(method: PrivateMethod) -> bool:
    """Whether another package made the method, or one that it chooses among."""
    them = (method, *getattr(method, "candidates", ()))
    return any(type(one).__module__.partition(".")[0] != "dptransfer" for one in them)
