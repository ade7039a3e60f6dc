import asyncio
import threading

import numpy as np
import pytest

from dptransfer.serve.scoring import Scorer, TooBusy


class Recorder:
    """Doubles its inputs, and keeps them; waits for `go` in front of each batch, and fails on NaN."""

    def __init__(self):
        self.batches, self.wanted, self.go = [], [], threading.Event()
        self.go.set()

    def __call__(self, items, wanted):
        self.go.wait(10)
        self.wanted.append(wanted())
        self.batches.append(len(items))
        if isinstance(items, list):
            return np.array([[len(one)] for one in items], dtype=float)
        if np.isnan(items).any():
            raise ValueError("NaN")
        return 2 * items


def rows(*values):
    return np.array(values, dtype=float)[:, None]


def run(steps, recorder=None, **limits):
    async def inside():
        how = {"most_inputs": 8, "most_waiting": 16, **limits}
        async with Scorer(recorder or Recorder(), **how) as scorer:
            return await steps(scorer)

    return asyncio.run(inside())


async def held(recorder, scorer, *requests):
    """One request that is being scored, and others that came meanwhile; all go on together."""
    recorder.go.clear()
    first = asyncio.create_task(scorer.scores(rows(0), 10))
    await asyncio.sleep(0.05)
    others = [asyncio.create_task(scorer.scores(one, 10)) for one in requests]
    await asyncio.sleep(0.05)
    recorder.go.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


def test_what_waits_is_scored_in_one_batch_and_each_gets_its_own():
    recorder = Recorder()
    found = run(lambda scorer: held(recorder, scorer, rows(1), rows(2, 3), rows(4)), recorder)
    assert [one.ravel().tolist() for one in found] == [[0], [2], [4, 6], [8]]
    assert recorder.batches == [1, 4]


def test_a_batch_is_of_one_kind_and_within_its_limit():
    recorder = Recorder()
    requests = [rows(*range(5)), rows(*range(5)), ["one", "three"], ["four"], np.zeros((1, 2))]
    found = run(lambda scorer: held(recorder, scorer, *requests), recorder)
    assert [len(one) for one in found] == [1, 5, 5, 2, 1, 1]
    assert recorder.batches == [1, 5, 5, 3, 1]


def test_an_error_is_told_to_none_but_whose_inputs_have_it():
    recorder = Recorder()
    found = run(lambda scorer: held(recorder, scorer, rows(1), rows(np.nan), rows(2)), recorder)
    assert isinstance(found[2], ValueError)
    assert [found[place].item() for place in (1, 3)] == [2, 4]


def test_too_many_that_wait_are_turned_away_and_nobody_waits_longer_than_asked():
    recorder = Recorder()

    async def steps(scorer):
        recorder.go.clear()
        waiting = [asyncio.create_task(scorer.scores(rows(one), 0.3)) for one in range(4)]
        await asyncio.sleep(0.05)
        more = [asyncio.create_task(scorer.scores(rows(one), 0.3)) for one in range(6)]
        return await asyncio.gather(*waiting, *more, return_exceptions=True)

    try:
        found = run(steps, recorder, most_waiting=4)
    finally:
        recorder.go.set()
    assert {type(one) for one in found} == {TimeoutError, TooBusy}


def test_scoring_learns_that_nobody_waits_any_more():
    recorder = Recorder()

    async def steps(scorer):
        await scorer.scores(rows(1), 10)
        recorder.go.clear()
        with pytest.raises(TimeoutError):
            await scorer.scores(rows(2), 0.05)
        recorder.go.set()
        await scorer.scores(rows(3), 10)

    run(steps, recorder)
    assert recorder.wanted == [True, False, True]


def test_what_gave_up_is_not_scored():
    recorder = Recorder()

    async def steps(scorer):
        recorder.go.clear()
        first = asyncio.create_task(scorer.scores(rows(1), 10))
        await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            await scorer.scores(rows(2), 0.05)
        recorder.go.set()
        await first
        await scorer.scores(rows(3), 10)

    run(steps, recorder)
    assert recorder.batches == [1, 1]
