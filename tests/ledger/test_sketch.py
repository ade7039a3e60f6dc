import numpy as np
import pytest
from scipy.stats import binom

from dptransfer.ledger.sketch import KEPT, SHARE, Sketch, sketch_of

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


@pytest.mark.parametrize("name", [name for name in DISGUISES if name != "three of them"])
def test_a_sample_is_enough_to_know_many_rows_again(name):
    rows = people(0, 2 * KEPT)
    assert len(sketch_of(rows, KEY).hashes) == KEPT
    assert overlap(rows, DISGUISES[name](rows))
    assert not overlap(people(1, 2 * KEPT), DISGUISES[name](rows))


def test_wide_rows_are_known_again_at_another_length():
    rows = people(0)
    assert overlap(rows, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    assert not overlap(people(0, width=8), 3 * people(0, width=8))  # narrow rows need their length


def test_a_small_overlap_is_none():
    """One row in a hundred is below the threshold of one in twenty."""
    rows = people(0, 2000)
    assert not overlap(rows, np.vstack([rows[:20], people(1, 1980)]))
    assert overlap(rows, np.vstack([rows[:400], people(1, 1600)]))


def test_a_small_part_of_a_large_set_is_compared_as_far_as_both_samples_reach():
    whole, part = Sketch(tuple(range(KEPT))), Sketch(tuple(range(0, 40 * KEPT, 40)))
    assert whole.overlaps(part)  # all seven of the part's that the larger sample would hold
    assert part.overlaps(whole)


def test_nine_rows_of_ten_keep_their_cells_in_float16():
    for width in WIDTHS:
        rows = people(0, 4000, width)
        whole, copy = sketch_of(rows, KEY), sketch_of(rows.astype(np.float16), KEY)
        reach = min(whole.hashes[-1], copy.hashes[-1])
        both = [{one for one in sketch.hashes if one <= reach} for sketch in (whole, copy)]
        # of at least 3600 draws with chance 9/10 fewer than 0.87 agree with probability under 1e-8
        assert min(map(len, both)) >= 3600
        assert len(both[0] & both[1]) > 0.87 * len(both[0])


def test_the_rates_in_the_docstring():
    kept = 9 / 10
    assert binom.cdf(KEPT // SHARE, KEPT, kept / 10) < 1e-30
    assert binom.sf(KEPT // SHARE, KEPT, 0.01) < 1e-100
    expected = KEPT / 50_000 * kept * 100
    assert 14.7 < expected < 14.8
    assert np.exp(-expected) < 4e-7


def test_rows_without_content_make_no_strangers_alike():
    empty = np.zeros((300, 40))
    empty[50:100] = 7.0
    empty[100:150] = np.nan
    empty[150:200, 3] = np.inf
    empty[200:250] = np.float64(1e308)
    empty[250:] = -1e-320
    assert sketch_of(empty, KEY) is None  # and no warning, which would tell of them
    assert sketch_of(np.zeros((0, 40)), KEY) is None
    assert sketch_of(people(0, width=1), KEY) is None
    assert not overlap(np.vstack([people(0), empty]), np.vstack([people(1), empty]))


def test_another_ledger_has_other_hashes():
    mine, theirs = sketch_of(people(0), KEY), sketch_of(people(0), OTHER_KEY)
    assert not set(mine.hashes.tolist()) & set(theirs.hashes.tolist())


def test_rows_are_read_a_chunk_at_a_time():
    class Chunked:
        """Rows that cannot be had all at once."""

        shape = (3000, 1280)

        def __len__(self):
            return 3000

        def __getitem__(self, part):
            assert (part.stop - part.start) * 1280 <= 2**20
            return rows[part]

    rows = people(0, 3000, 1280).astype(np.float32)
    assert sketch_of(Chunked(), KEY) == sketch_of(rows, KEY)


def test_what_is_written_reads_back_and_nothing_else_does():
    sketch = sketch_of(people(0, 2 * KEPT), KEY)
    assert Sketch.from_text(sketch.to_text()) == sketch
    assert len(sketch.to_text()) < 90_000
    wrong = ["", "????", "AAAA", Sketch((2, 1)).to_text(), Sketch((1, 1)).to_text(), "é"]
    for text in [*wrong, Sketch(tuple(range(KEPT + 1))).to_text()]:
        with pytest.raises(ValueError):  # noqa: PT011  # of several kinds, all of which void the entry
            Sketch.from_text(text)
