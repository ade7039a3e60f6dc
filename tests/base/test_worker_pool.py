import pickle
from concurrent.futures import Future

import pytest

from dptransfer.base import worker_pool
from dptransfer.base.progress import reported_to
from dptransfer.base.worker_pool import TaskResult, WorkerLost, map_with_retries, run_task
from dptransfer.errors import DataError, DPTransferError, MissingDependency

from . import jobs


class Scripted:
    """A crew that does what a script says for each attempt at each piece: 'done', 'lost', or nothing."""

    window = 2

    def __init__(self, script):
        self.script, self.attempts, self.gathered, self.ended = script, [], 0, 0
        self.looks_left = None

    def gather(self):
        self.gathered += 1
        return self

    def submit(self, piece):
        what = self.script(piece, self.attempts.count(piece))
        self.attempts.append(piece)
        answer = Future()
        if what == "done":
            answer.set_result(TaskResult(piece * 10, None))
        elif what == "lost":
            answer.set_exception(WorkerLost("it is gone"))
        elif what is not None:
            answer.set_result(TaskResult(None, what))
        return answer

    def outcome(self, answer):
        return answer.result()

    def require_alive(self):
        if self.looks_left is not None:
            self.looks_left -= 1
            if self.looks_left < 0:
                raise DPTransferError("nobody is left")

    def end(self):
        self.ended += 1


def run(script, count=4, patience=0.01):
    crew = Scripted(script)
    return crew, map_with_retries(crew.gather, range(count), "piece", patience=patience)


def test_each_piece_is_given_once_and_told_of_once():
    heard = []
    crew, results = run(lambda piece, attempt: "lost" if attempt < piece % 3 else "done")
    with reported_to(lambda done, of, what: heard.append((done, of, what))):
        assert sorted(results) == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert heard == [(done, 4, "piece") for done in (1, 2, 3, 4)]
    assert (crew.gathered, crew.ended) == (1, 1)


def test_a_piece_that_is_lost_three_times_with_none_finished_in_between_ends_it_all():
    crew, results = run(lambda piece, attempt: "lost")
    with pytest.raises(DPTransferError, match="3 times"):
        list(results)
    assert max(crew.attempts.count(piece) for piece in range(4)) == 3
    assert crew.ended == 1


def test_many_losses_at_once_are_one_each():
    """A machine that dies takes all its pieces with it, and that happened once."""
    crew, results = run(lambda piece, attempt: "lost" if attempt == 0 else "done", count=9)
    crew.window = 9
    assert len(list(results)) == 9


def test_finished_pieces_begin_the_count_again():
    """Losses that are far apart are no sign of work that kills."""
    crew, results = run(lambda piece, attempt: "lost" if piece == 0 and attempt < 5 else "done", count=12)
    assert len(list(results)) == 12
    assert crew.attempts.count(0) == 6


def test_whoever_hangs_is_replaced_with_all_that_they_had():
    crew, results = run(lambda piece, attempt: None if attempt == 0 and piece in (1, 2) else "done")
    assert sorted(number for number, _ in results) == [0, 1, 2, 3]
    assert crew.gathered == crew.ended == 2


def test_what_hangs_again_and_again_ends_it_all():
    crew, results = run(lambda piece, attempt: None)
    with pytest.raises(DPTransferError):
        list(results)
    assert crew.gathered == crew.ended == 3


def test_what_the_work_raises_is_raised_here_and_not_tried_again():
    crew, results = run(lambda piece, attempt: KeyError("mine") if piece == 1 else "done")
    with pytest.raises(KeyError, match="mine"):
        list(results)
    assert crew.attempts.count(1) == 1
    assert crew.ended == 1


def test_who_wants_no_more_ends_the_workers():
    crew, results = run(lambda piece, attempt: "done")
    next(results)
    assert crew.ended == 0
    results.close()
    assert crew.ended == 1


@pytest.mark.parametrize(
    ("piece", "kind", "words"),
    [
        ("ours", DataError, "It must be even; it is odd. Add one."),
        ("missing", MissingDependency, "dptransfer[images]"),
        ("odd", DPTransferError, "raised Odd, which cannot be sent"),  # Python sends it and cannot receive it
    ],
)
def test_errors_survive_the_way_home(piece, kind, words):
    result, problem = pickle.loads(pickle.dumps(run_task(jobs.refuse, piece)))
    assert result is None
    assert type(problem) is kind
    assert words in str(problem)
    assert "in refuse" in problem.__notes__[0]


def test_no_pieces_need_no_workers():
    crew, results = run(lambda piece, attempt: "done", count=0)
    assert list(results) == []
    assert crew.gathered == 0


def test_while_nothing_comes_back_it_is_seen_whether_anybody_is_there(monkeypatch):
    monkeypatch.setattr(worker_pool, "_LOOK", 0.01)
    crew, results = run(lambda piece, attempt: None, patience=1)
    crew.looks_left = 3
    with pytest.raises(DPTransferError, match="nobody is left"):
        list(results)
    assert (crew.gathered, crew.ended) == (1, 1)


def test_what_a_crew_loses_when_it_is_gone_is_not_handed_out_again():
    crew, results = run(lambda piece, attempt: "lost")
    crew.looks_left = 0
    with pytest.raises(DPTransferError, match="nobody is left"):
        list(results)
    assert max(crew.attempts.count(piece) for piece in range(4)) == 1
