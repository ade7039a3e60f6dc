"""Pieces handed out to workers that may die or hang: what is lost is handed out again, and counted once."""

from __future__ import annotations

import pickle
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dptransfer.errors import DPTransferError
from dptransfer.progress import tell
from dptransfer.workers.base import Piece

if TYPE_CHECKING:
    from concurrent.futures import Future


ATTEMPTS = 3
"""A piece that is lost so often, while no other is finished, is given up with all the rest."""

_SLOWEST_TIMES, _AT_LEAST = 20.0, 600.0
_LOOK = 5.0  # seconds between two looks at whether anybody is there


class Lost(Exception):
    """A worker is gone before it could answer; its words say what is known of why."""


class Outcome(NamedTuple):
    """What became of a piece: a result, or what was raised."""

    result: Any
    problem: BaseException | None


class Crew(Protocol):
    """Those who work at present."""

    @property
    def window(self) -> int:
        """How many pieces they have at a time."""

    def submit(self, piece: Any) -> Future[Outcome]:
        """Hand a piece to whoever is free."""

    def outcome(self, answer: Future[Outcome]) -> Outcome:
        """What came back; raises `Lost` if nothing did."""

    def require_alive(self) -> None:
        """Raise if there is nobody left who could answer, or replace whoever died."""

    def end(self) -> None:
        """End them at once, in the middle of a piece if need be."""


def handed_out(
    gather: Callable[[], Crew], pieces: Sequence[Any], what: str, *, patience: float | None
) -> Iterator[tuple[int, Any]]:
    """(number, result) of every piece, each once, as they come back.

    A piece whose worker dies is handed out again. If none comes back for too long, somebody hangs: all are
    ended, and others begin with what they had. Each of that is one loss of a piece; three losses of one,
    without another finished in between, end everything, so that work which kills whoever does it does not
    go on forever, and a machine that dies with many pieces is one loss each. A crew that is gone as a whole
    ends everything at once.

    Args:
        gather: begins a crew.
        pieces: what is handed out.
        what: what a piece is called.
        patience: seconds in which one piece must come back; None for twenty times what the slowest has taken
            so far, and at least ten minutes.
    """
    from concurrent.futures import FIRST_COMPLETED, Future, wait

    waiting, losses, done, slowest = deque(range(len(pieces))), Counter[int](), 0, 0.0
    running: dict[Future[Outcome], tuple[int, float]] = {}
    if not pieces:
        return
    crew = gather()
    try:
        while waiting or running:
            while waiting and len(running) < crew.window:
                number = waiting.popleft()
                running[crew.submit(pieces[number])] = number, time.monotonic()
            limit = max(_AT_LEAST, _SLOWEST_TIMES * slowest) if patience is None else patience
            answers, until = set[Future[Outcome]](), time.monotonic() + limit
            while not answers and (left := until - time.monotonic()) > 0:
                answers = wait(running, min(left, _LOOK), return_when=FIRST_COMPLETED).done
                crew.require_alive()
            if not answers:
                lost = sorted(number for number, _ in running.values())
                _count(losses, lost, what, f"none came back in {limit:.0f} s")
                running.clear()
                waiting.extendleft(reversed(lost))
                crew.end()
                crew = gather()
            for answer in answers:
                number, began = running.pop(answer)
                try:
                    result, problem = crew.outcome(answer)
                except Lost as why:
                    _count(losses, [number], what, str(why))
                    waiting.appendleft(number)
                    continue
                if problem is not None:
                    raise problem
                losses.clear()
                slowest = max(slowest, time.monotonic() - began)
                yield number, result
                done += 1
                tell(done, len(pieces), what)
    finally:
        crew.end()


def answered(work: Callable[[Piece], Any], piece: Piece) -> Outcome:
    """What work gives for a piece, or raises: it goes home as it is, and no worker prints it."""
    try:
        return Outcome(work(piece), None)
    except BaseException as problem:
        return Outcome(None, sendable(problem))


def sendable(problem: BaseException) -> BaseException:
    """What was raised, with where; or that it was, if it does not survive the way home."""
    where = "".join(traceback.format_tb(problem.__traceback__)).rstrip()
    try:
        pickle.loads(pickle.dumps(problem))
    except Exception:
        problem = DPTransferError(f"Work on a piece raised {type(problem).__name__}, which cannot be sent.")
    problem.add_note(f"In a worker:\n{where}")
    return problem.with_traceback(None)


def _count(losses: Counter[int], numbers: Sequence[int], what: str, why: str) -> None:
    losses.update(numbers)
    if max(losses.values()) >= ATTEMPTS:
        raise DPTransferError(
            f"Workers must live to finish a {what}; {ATTEMPTS} times one was lost, and none finished in "
            f"between: {why}. "
            "Give each more memory or time: fewer workers, smaller pieces, or a larger machine."
        )
