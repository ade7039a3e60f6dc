from itertools import pairwise

from dptransfer.base.workers import pieces_of


def test_pieces_cover_everything_once_and_are_not_too_many():
    for count, each in ((1, 10), (10**6, 256), (10**9, 1536), (5, 2**30)):
        pieces = pieces_of(count, each)
        assert pieces[0].start == 0
        assert pieces[-1].stop == count
        assert all(one.stop == two.start for one, two in pairwise(pieces))
        assert len(pieces) <= 1024
