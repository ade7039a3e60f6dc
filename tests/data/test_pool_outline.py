import pytest

from dptransfer.data.embeddings import PoolOutline, RowsNeeded
from dptransfer.errors import ArgumentError


def test_an_outline_knows_numbers_and_whoever_asks_for_more_is_told():
    pool = PoolOutline(9, 5)
    assert (len(pool), len(pool.vocabulary)) == (9, 5)
    for name in ("rows", "shots", "fingerprint", "dimension"):
        with pytest.raises(RowsNeeded):
            getattr(pool, name)
    assert PoolOutline(9, unlabelled=True).shots is None
    with pytest.raises(ArgumentError, match="whole number"):
        PoolOutline(0)
