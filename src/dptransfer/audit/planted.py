"""Faults that an audit plants in what it tests, to see whether it would find them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dptransfer.audit import evidence
from dptransfer.audit.evidence import Evidence
from dptransfer.audit.replay import KeyedNoise, Replay, WatchedAnswer, changed_array
from dptransfer.base.types import AnyArray, Floats, Integers
from dptransfer.mechanisms import LaplaceNoisyMax

_DRAWS = 60_000
_CHOICES = 1_000


@dataclass(frozen=True)
class PlantedFault:
    """One planted fault.

    Attributes:
        fault: what was broken.
        caught_by: the tests that found it; none, if it was missed.
    """

    fault: str
    caught_by: tuple[str, ...]


class _Louder:
    """A question whose contributions are twice as long as they may be: rows that nobody clips."""

    def __init__(self, query: Any) -> None:
        self._query = query

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def __call__(self, *data: AnyArray) -> Integers:
        return 2 * np.asarray(self._query(*data))


def planted_faults(made: Replay, delta: float) -> list[PlantedFault]:
    """Each fault that can be planted in this release's steps, and what found it."""
    found = []
    for fault, findings in _faults(made, delta):
        caught = [one.name for one in evidence.judge(findings) if one.verdict == "refuted"]
        found.append(PlantedFault(fault, tuple(caught)))
    return found


def _faults(made: Replay, delta: float) -> Iterator[tuple[str, list[Evidence]]]:
    """Each fault, and what the tests say of a copy that has it."""
    for one in made.gaussian[:1]:
        for factor, words in ((0.5, "half of the noise"), (0.95, "5% less noise"), (0.97, "3% less noise")):
            yield words, evidence.noise_tests("planted", _draws(one, made, factor))
        mean = _draws(one, made, 1.0) / len(one.rows)
        yield "a mean where a sum is paid for", evidence.noise_tests("planted", mean)
    if made.asked and not made.asked[0].is_vote:
        loud = [replace(one, query=_Louder(one.query)) for one in made.asked[:3]]
        yield "rows that are not clipped", evidence.sensitivity(replace(made, asked=loud))
    chosen = [one for one in made.asked if not one.is_gaussian and not isinstance(one.step, LaplaceNoisyMax)]
    if chosen and chosen[0].step.members == 1:
        step = chosen[0].step
        sharp = replace(chosen[0], step=replace(step, epsilon=2 * step.epsilon), stated=step.event)
        choices = evidence.selections(replace(made, asked=[sharp]), KeyedNoise(made.seed + 2), _CHOICES)
        yield "a choice with half of its noise", choices
    if made.asked:
        unpaid = replace(made, asked=[*made.asked, *made.asked[-1:]])
        yield "one answer that was not paid for", [evidence.price(unpaid, delta)]
    if made.difference is not None:
        yield "a list of classes read off the rows", [evidence.nothing_beside(_class_list(made))]


def _draws(one: WatchedAnswer, made: Replay, factor: float) -> Floats:
    return one.one_more(KeyedNoise(made.seed + 2, factor), _DRAWS)


def _class_list(made: Replay) -> Replay:
    """The replay, had the release only the classes that are among the rows: the second set lacks one."""
    classes = {name: array for name, array in made.arrays.items() if array.ndim}
    fewer = {name: array[:-1] for name, array in classes.items()}
    return replace(made, difference=changed_array(classes, fewer))
