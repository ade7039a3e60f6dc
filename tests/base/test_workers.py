from itertools import pairwise

from dptransfer.base.progress import reported_to
from dptransfer.base.workers import Here, pieces_of


def test_every_piece_is_done_once_and_told_of():
    heard = []
    with reported_to(lambda done, of, what: heard.append((done, of, what))):
        assert dict(Here().each(abs, [-1, 2, -3], "number")) == {0: 1, 1: 2, 2: 3}
    assert heard == [(1, 3, "number"), (2, 3, "number"), (3, 3, "number")]


def test_pieces_cover_everything_once_and_are_not_too_many():
    for count, each in ((1, 10), (10**6, 256), (10**9, 1536), (5, 2**30)):
        pieces = pieces_of(count, each)
        assert pieces[0].start == 0
        assert pieces[-1].stop == count
        assert all(one.stop == two.start for one, two in pairwise(pieces))
        assert len(pieces) <= 1024
