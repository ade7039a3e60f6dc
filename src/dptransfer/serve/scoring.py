"""Score requests on one thread, those that wait in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np

from dptransfer.base.types import Floats
from dptransfer.serve.protocol import Items


class TooBusy(Exception):
    """More requests wait than may."""


@dataclass(eq=False)
class _Waiting:
    items: Items
    answer: asyncio.Future[Floats]

    @property
    def kind(self) -> tuple[object, ...]:
        """Inputs of one kind can be scored together: texts, files, or arrays of one type and width."""
        if isinstance(self.items, list):
            return (type(self.items[0]) if self.items else None,)
        return self.items.dtype, self.items.shape[1:]


class Scorer:
    """Scores for inputs, from many tasks at a time.

    While a batch is scored others come in; they are the next one. So a request that comes alone is scored at
    once, and many small ones cost little more than one. If a batch fails, each of its requests is tried by
    itself, so that nobody gets an error for the inputs of another.

    Args:
        score: gives a line of scores for each input; it is called on one thread, with a function that tells
            whether anybody still waits for them.
        most_inputs: of a batch, unless one request has more.
        most_waiting: requests.
    """

    def __init__(
        self, score: Callable[[Items, Callable[[], bool]], Floats], *, most_inputs: int, most_waiting: int
    ) -> None:
        self._score, self._most_inputs = score, most_inputs
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(most_waiting)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="score")
        self._task: asyncio.Task[None] | None = None
        self.batches = 0

    async def __aenter__(self) -> Scorer:
        """Begin to score."""
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *problem: object) -> None:
        """Score no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def scores(self, items: Items, seconds: float) -> Floats:
        """A line of scores for each input.

        Raises:
            TooBusy: too many others wait.
            TimeoutError: it took longer.
        """
        waiting = _Waiting(items, asyncio.get_running_loop().create_future())
        try:
            self._queue.put_nowait(waiting)
        except asyncio.QueueFull:
            raise TooBusy from None
        try:
            return await asyncio.wait_for(waiting.answer, seconds)
        finally:
            waiting.items = items[:0]  # who has given up may be in the queue for long

    async def _run(self) -> None:
        held: _Waiting | None = None
        while True:
            batch, held = [held or await self._queue.get()], None
            count = len(batch[0].items)
            while count < self._most_inputs and not self._queue.empty():
                following = self._queue.get_nowait()
                count += len(following.items)
                if following.kind != batch[0].kind or count > self._most_inputs:
                    held = following
                    break
                batch.append(following)
            await self._answer([one for one in batch if not one.answer.done()])  # some have given up

    async def _answer(self, batch: Sequence[_Waiting]) -> None:
        if not batch:
            return
        self.batches += 1
        loop = asyncio.get_running_loop()

        def wanted() -> bool:
            return not all(one.answer.done() for one in batch)

        lengths = [len(one.items) for one in batch]
        try:
            found = await loop.run_in_executor(self._thread, self._score, _together(batch), wanted)
        except Exception as problem:  # whatever it is belongs to who asked
            if len(batch) == 1:
                if not batch[0].answer.done():
                    batch[0].answer.set_exception(problem)
                return
            for one in batch:
                await self._answer([] if one.answer.done() else [one])
            return
        start = 0
        for one, length in zip(batch, lengths, strict=True):
            stop = start + length
            if not one.answer.done():
                one.answer.set_result(found[start:stop].copy())
            start = stop


def _together(batch: Sequence[_Waiting]) -> Items:
    first = batch[0].items
    if len(batch) == 1:
        return first
    if isinstance(first, np.ndarray):
        return np.concatenate([one.items for one in batch])
    return cast(Items, [inner for one in batch for inner in one.items])
