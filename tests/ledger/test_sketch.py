import numpy as np
import pytest
from scipy.stats import binom

from dptransfer.data import ShardedRows
from dptransfer.ledger import sketch as row_hashes
from dptransfer.ledger.sketch import (
    GRIDS,
    KEPT,
    KEPT_GRID,
    SHARE,
    RowHasher,
    Sketch,
    parts_of,
    siphash,
    siphash_with,
)

from .samples import sketch_of

KEY, OTHER_KEY = b"k" * 32, b"o" * 32

WIDTHS = (4, 16, 40, 384)


def people(seed, count=600, width=40):
    return np.random.default_rng(seed).normal(size=(count, width)) + 0.5


def overlap(one, other):
    return sketch_of(one, KEY).overlaps(sketch_of(other, KEY))


DISGUISES = {
    "as they are": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "another order": lambda x: x[::-1],
    "a fold": lambda x: x[: len(x) // 5],
    "half of them, in float16": lambda x: x[::2].astype(np.float16),
    "a few fewer": lambda x: x[7:],
    "a few more": lambda x: np.vstack([people(9, 7, x.shape[1]), x]),
    "among many others": lambda x: np.vstack([people(9, 4 * len(x), x.shape[1]), x]),
    "every row twice": lambda x: np.repeat(x, 2, axis=0),
    "column by column": np.asfortranarray,
    "three of them": lambda x: x[:3],
}


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_are_known_again_in_any_disguise_and_strangers_are_not(width):
    rows = people(0, 200, width)  # fewer than a sketch holds
    unknown = [name for name, disguise in DISGUISES.items() if not overlap(rows, disguise(rows))]
    assert unknown == []
    assert not overlap(rows, people(1, 200, width))
    assert repr(sketch_of(rows, KEY)) == "Sketch()"  # how many rows it holds is told to nobody


@pytest.mark.parametrize("name", [name for name in DISGUISES if name != "three of them"])
def test_a_sample_is_enough_to_know_many_rows_again(name):
    rows = people(0, 2 * KEPT)
    assert len(sketch_of(rows, KEY).hashes) == KEPT
    assert overlap(rows, DISGUISES[name](rows))
    assert not overlap(people(1, 2 * KEPT), DISGUISES[name](rows))


def test_a_small_overlap_is_none():
    """One row in a hundred is below the threshold of one in twenty."""
    rows = people(0, 2000)
    assert not overlap(rows, np.vstack([rows[:20], people(1, 1980)]))
    assert overlap(rows, np.vstack([rows[:400], people(1, 1600)]))


def test_a_small_part_of_a_large_set_is_compared_as_far_as_both_samples_reach():
    whole, part = Sketch(tuple(range(KEPT))), Sketch(tuple(range(0, 40 * KEPT, 40)))
    assert whole.overlaps(part)  # all seven of the part's that the larger sample would hold
    assert part.overlaps(whole)
    assert not Sketch(range(100)).overlaps(Sketch(range(99, 300)))  # both are whole


def test_the_rates_in_the_docstring():
    kept = 9 / 10
    assert binom.cdf(KEPT // SHARE, KEPT, kept / 10) < 1e-30
    assert binom.sf(KEPT // SHARE, KEPT, 0.01) < 1e-100
    expected = KEPT / 50_000 * kept * 100
    assert 14.7 < expected < 14.8
    assert np.exp(-expected) < 4e-7


def normal_rows(seed=0, count=4000, width=384):
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
    rows = normal_rows(count=20_000)
    each, any_of_them = agree(rows, rows.astype(np.float16))
    assert (each[:2] > 0.96).all()
    assert (each[2:5] > 0.88).all()
    assert (hashes(rows)[2:5] == hashes(rows.astype(np.float16))[2:5]).any(axis=0).mean() > 0.998
    assert any_of_them > 0.9998


def test_half_of_the_copies_in_whole_bytes_are_recognised():
    rows = normal_rows()
    step = np.abs(rows).max() / 127
    _, any_of_them = agree(rows, np.rint(rows / step) * step)
    assert any_of_them > 0.4


@pytest.mark.parametrize("width", [16, 17, 384, 1280])
def test_the_length_of_a_row_plays_no_part(width):
    rows = normal_rows(width=width)
    for other in (3.7 * rows, rows / np.linalg.norm(rows, axis=1, keepdims=True), rows.astype(np.float64)):
        each, any_of_them = agree(rows, other)
        assert any_of_them == 1
        assert (each[:5] > 0.99).all()
        assert (each[5:] > 0.8).all()


def test_where_there_are_few_coordinates_their_length_counts():
    rows = normal_rows(width=15)
    assert agree(rows, rows.astype(np.float64))[1] == 1
    assert agree(rows, 3 * rows)[1] == 0


def test_every_grid_has_hashes_of_its_own_and_every_key():
    one, two = hashes(normal_rows()), hashes(normal_rows(), OTHER_KEY)
    assert len(np.unique(np.concatenate([*one, *two]))) == one.size + two.size
    kept = np.concatenate([part.kept for part in RowHasher(384, KEY).chunks(normal_rows())])
    assert np.array_equal(kept, siphash(one[KEPT_GRID], KEY))


def test_rows_of_few_values_do_not_tell():
    words = np.zeros((40, 300))
    words[np.arange(40), np.arange(40)] = 1  # one-hot words, and all of them twice
    words[:, 200:202] = 1
    assert not telling(words).any()
    assert not telling(normal_rows(width=15)).any()
    assert telling(normal_rows(width=16)).mean() > 0.999
    assert telling(normal_rows()).all()


def test_rows_without_content_have_no_hash():
    rows = normal_rows(count=8)
    rows[1], rows[2], rows[3], rows[4], rows[5] = 0, 5, -0.3, np.nan, np.inf
    assert hashes(rows).shape[1] == 3
    assert hashes(np.float64(1e300) * rows).shape[1] == 3


@pytest.mark.parametrize("width", [8, 64])
def test_rows_that_are_nearly_constant_or_beyond_float32_are_told_apart(width):
    rows, others = normal_rows(count=500, width=width), normal_rows(1, 500, width)
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
