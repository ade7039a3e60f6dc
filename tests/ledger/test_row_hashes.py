import numpy as np
import pytest

from dptransfer.data import ShardedRows
from dptransfer.ledger import sketch as row_hashes
from dptransfer.ledger.sketch import GRIDS, KEPT_GRID, RowHasher, parts_of, siphash, siphash_with

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


def people(seed=0, count=4000, width=384):
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def hashes(rows, key=KEY):
    found = list(RowHasher(rows.shape[1], key).chunks(rows, grids=range(len(GRIDS))))
    return np.stack([np.concatenate([part.grids[grid] for part in found]) for grid in range(len(GRIDS))])


def telling(rows):
    return np.concatenate(
        [part.is_distinctive for part in RowHasher(rows.shape[1], KEY).chunks(rows, grids=range(len(GRIDS)))]
    )


def agree(rows, other):
    """The share of rows that agree, in each grid and in any."""
    same = hashes(rows) == hashes(other)
    return same.mean(axis=1), same.any(axis=0).mean()


def test_siphash_is_the_published_function():
    """The vector for the message 00 ... 07 under the key 00 ... 0f, from its reference implementation."""
    message = np.frombuffer(bytes(range(8)), dtype="<u8").astype(np.uint64)
    assert int(siphash_with(message, bytes(range(16)))[0]).to_bytes(8, "little").hex() == "6224939a79f5f593"
    assert not np.array_equal(siphash(message, KEY), siphash(message, OTHER_KEY))


def test_copies_in_half_precision_are_recognised_row_by_row():
    rows = people(count=20_000)
    each, any_of_them = agree(rows, rows.astype(np.float16))
    assert (each[:2] > 0.96).all()
    assert (each[2:5] > 0.88).all()
    assert (hashes(rows)[2:5] == hashes(rows.astype(np.float16))[2:5]).any(axis=0).mean() > 0.998
    assert any_of_them > 0.9998


def test_half_of_the_copies_in_whole_bytes_are_recognised():
    rows = people()
    step = np.abs(rows).max() / 127
    _, any_of_them = agree(rows, np.rint(rows / step) * step)
    assert any_of_them > 0.4


@pytest.mark.parametrize("width", [16, 17, 384, 1280])
def test_the_length_of_a_row_plays_no_part(width):
    rows = people(width=width)
    for other in (3.7 * rows, rows / np.linalg.norm(rows, axis=1, keepdims=True), rows.astype(np.float64)):
        each, any_of_them = agree(rows, other)
        assert any_of_them == 1
        assert (each[:5] > 0.99).all()
        assert (each[5:] > 0.8).all()


def test_where_there_are_few_coordinates_their_length_counts():
    rows = people(width=15)
    assert agree(rows, rows.astype(np.float64))[1] == 1
    assert agree(rows, 3 * rows)[1] == 0


def test_every_grid_has_hashes_of_its_own_and_every_key():
    one, two = hashes(people()), hashes(people(), OTHER_KEY)
    assert len(np.unique(np.concatenate([*one, *two]))) == one.size + two.size
    kept = np.concatenate([part.kept for part in RowHasher(384, KEY).chunks(people())])
    assert np.array_equal(kept, siphash(one[KEPT_GRID], KEY))


def test_without_all_grids_there_is_the_one_that_is_kept():
    (part,) = RowHasher(384, KEY).chunks(people(count=5))
    (whole,) = RowHasher(384, KEY).chunks(people(count=5), grids=range(len(GRIDS)))
    assert list(part.grids) == [KEPT_GRID]
    assert np.array_equal(part.grids[KEPT_GRID], whole.grids[KEPT_GRID])
    assert np.array_equal(part.kept, whole.kept)


def test_rows_of_few_values_do_not_tell():
    words = np.zeros((40, 300))
    words[np.arange(40), np.arange(40)] = 1  # one-hot words, and all of them twice
    words[:, 200:202] = 1
    assert not telling(words).any()
    assert not telling(people(width=15)).any()
    assert telling(people(width=16)).mean() > 0.999
    assert telling(people()).all()


def test_rows_without_content_have_no_hash():
    rows = people(count=8)
    rows[1], rows[2], rows[3], rows[4], rows[5] = 0, 5, -0.3, np.nan, np.inf
    assert hashes(rows).shape[1] == 3
    assert hashes(np.float64(1e300) * rows).shape[1] == 3


@pytest.mark.parametrize("width", [8, 64])
def test_rows_that_are_nearly_constant_or_beyond_float32_are_told_apart(width):
    rows, others = people(count=500, width=width), people(1, 500, width)
    for changed in (lambda x: 1e6 + x.astype(np.float64), lambda x: np.float64(1e39) * x, lambda x: -1e5 - x):
        mine = hashes(changed(rows))
        assert mine.shape[1] == 500
        assert len(np.unique(mine[4])) == 500
        assert np.array_equal(mine, hashes(changed(rows)))
        assert not np.isin(mine, hashes(changed(others))).any()
    far = np.float64(1e100) * rows
    assert agree(far, 2 * far)[1] == (0 if width < 16 else 1)  # few coordinates: the length counts
    assert agree(1e5 + rows.astype(np.float64), (1e5 + rows).astype(np.float32))[1] > 0.8


def test_of_very_many_rows_in_files_an_even_sample_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(row_hashes, "SAMPLE", 256)
    rows = np.arange(3000, dtype=np.float32)[:, None] * np.ones(4, np.float32)
    np.save(tmp_path / "rows.npy", rows)
    sharded = ShardedRows([tmp_path / "rows.npy"])
    read = np.concatenate(list(parts_of(sharded)))[:, 0]
    assert len(read) == 256
    assert read[0] == 0
    assert read[-1] == 2999
    assert np.diff(np.sort(read)).max() < 1000
    assert len(np.concatenate(list(parts_of(rows)))) == 3000  # in memory all are looked at
    few = sharded.take(np.arange(512))
    assert len(np.concatenate(list(parts_of(few)))) == 512
