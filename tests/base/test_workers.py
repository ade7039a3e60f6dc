from dptransfer.base.progress import reported_to
from dptransfer.base.workers import Here


def test_every_piece_is_done_once_and_told_of():
    heard = []
    with reported_to(lambda done, of, what: heard.append((done, of, what))):
        assert dict(Here().each(abs, [-1, 2, -3], "number")) == {0: 1, 1: 2, 2: 3}
    assert heard == [(1, 3, "number"), (2, 3, "number"), (3, 3, "number")]
