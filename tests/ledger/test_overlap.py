import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings, ShardedRows
from dptransfer.errors import PrivateOverlap, RowsOnRecord
from dptransfer.ledger import Ledger
from dptransfer.ledger import sketch as row_hashes
from dptransfer.ledger.overlap import OverlapCheck, RowOverlap, rows_of, sketches_of, sources_of
from dptransfer.ledger.sketch import KEPT_GRID
from dptransfer.privacy import GaussianEvent, Relation

KEY = b"k" * 32
EVENT = GaussianEvent(8.0, Relation.ADD_REMOVE)


def compared(mine, others):
    return sketches_of(rows_of(mine), sources_of(mine), KEY, others)


def people(seed=0, count=600, width=40):
    return np.random.default_rng(seed).normal(size=(count, width)) + 0.5


def private(x, name="ward", **how):
    return PrivateEmbeddings(x, np.zeros(len(x), dtype=int), classes=["a", "b"], name=name, **how)


def refused(rows, pool, **how):
    try:
        mine = private(rows)
        compared(mine, OverlapCheck([PublicEmbeddings(pool, **how)], KEY, rows_of(mine)))
    except PrivateOverlap:
        return True
    return False


def quantised(x, levels=127):
    step = np.abs(x).max() / levels
    return np.rint(x / step) * step


DISGUISES = {
    "as they are": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "another order": lambda x: x[::-1],
    "at length 1": lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
    "one row": lambda x: x[5:6],
    "one row, in float16": lambda x: x[17:18].astype(np.float16),
    "one row at another length": lambda x: 3 * x[-1:],
    "one row among many others": lambda x: np.vstack([people(9, 2000, x.shape[1]), x[33:34]]),
    "a tenth of a pool": lambda x: np.vstack([people(9, 540, x.shape[1]), x[:60]]),
    "a tenth of a pool, in whole bytes": lambda x: quantised(np.vstack([people(9, 540, x.shape[1]), x[:60]])),
    "every row twice": lambda x: np.repeat(x, 2, axis=0),
    "column by column": np.asfortranarray,
}


@pytest.mark.parametrize("width", [16, 384])
@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_pool_with_private_rows_is_refused_in_any_disguise(disguise, width):
    rows = people(width=width)
    assert refused(rows, DISGUISES[disguise](rows))
    assert not refused(rows, DISGUISES[disguise](people(1, width=width)))


def test_copies_that_agree_in_coarse_cells_alone_are_refused():
    rows = people(width=384)
    assert refused(rows, quantised(rows, 60))
    assert refused(rows, quantised(rows[:60], 60))  # a small pool, too
    assert not refused(rows, quantised(people(1, width=384), 60))


def as_int8(folder, x, levels=127):
    """The rows as int8 with one scale, in a file."""
    step = float(np.abs(x).max()) / levels
    np.save(folder / f"{len(list(folder.iterdir()))}.npy", np.rint(x / step).astype(np.int8))
    return ShardedRows([max(folder.iterdir())], scale=step)


@pytest.mark.parametrize("width", [20, 384])
def test_one_row_is_found_where_public_or_private_rows_are_stored_as_int8(tmp_path, width):
    rows, others = people(width=width), people(1, 500, width)
    one = np.vstack([others, rows[5:6]])
    assert refused(rows, as_int8(tmp_path, one, 30))
    assert not refused(rows, as_int8(tmp_path, others, 30))
    assert refused(as_int8(tmp_path, rows, 30), one)
    assert not refused(as_int8(tmp_path, rows, 30), others)


def test_a_tenth_of_a_pool_is_found_where_rounding_moves_rows_by_hundredths_of_their_length():
    """As int8 with one scale does to rows of encoders, of which few numbers are large."""
    rows, others = people(width=384), people(1, 2700, 384)
    assert refused(rows, quantised(np.vstack([others, rows[:300]]), 60))
    assert not refused(rows, quantised(others, 60))


def test_private_rows_are_counted_once_where_they_are_rounded_as_well(tmp_path):
    narrow, others = people(0, 200, 12), people(1, 4000, 12)
    assert refused(narrow, as_int8(tmp_path, np.vstack([others, narrow[:14]])))
    assert not refused(narrow, as_int8(tmp_path, np.vstack([others, narrow[:7]])))


def test_a_grid_is_used_where_but_one_row_in_a_thousand_shares_its_cells():
    rows = people(1, 3000, 64)
    alike = lambda count: RowOverlap(np.vstack([rows, rows[:count] + 1e-3]), KEY).grids  # noqa: E731
    assert 0 in alike(2)
    assert 0 not in alike(12)
    assert KEPT_GRID not in alike(12)


def test_rows_with_one_large_common_part_are_told_apart():
    """They share all coarse cells, which says nothing; a copy still agrees in the finest ones."""
    common = 1e4 * people(7, 1)
    rows, others = common + people(0), common + people(1)
    assert not refused(rows, others)
    assert refused(rows, np.vstack([others, rows[3:4]]))
    assert refused(rows, rows.astype(np.float32))


@pytest.mark.parametrize("changed", [lambda x: 1e6 + x, lambda x: 1e39 * x], ids=["one level", "huge"])
def test_nearly_constant_rows_and_huge_ones_are_compared_too(changed):
    assert refused(changed(people()), changed(people()))
    assert refused(changed(people()), np.vstack([people(1), changed(people())[3:4]]))
    assert not refused(changed(people()), changed(people(1)))


def test_what_was_met_in_one_part_of_the_private_rows_counts_after_all_parts(monkeypatch):
    monkeypatch.setattr(row_hashes, "_CHUNK_ELEMENTS", 400)  # ten rows of 40
    rows = people(count=60)
    assert refused(rows, np.vstack([people(1), rows[3:4]]))
    assert refused(rows, np.vstack([people(1), rows[-1:]]))
    narrow, many = people(0, 200, 5), people(1, 4000, 5)  # narrow ones in parts of 80
    assert refused(narrow, np.vstack([many, narrow[:15]]))
    assert not refused(narrow, np.vstack([many, narrow[:5]]))
    assert refused(many, np.vstack([narrow, many[::200]]))  # one of each few parts


def test_rows_that_repeat_by_chance_are_refused_only_where_they_are_many():
    words = np.eye(300)
    rows = np.vstack([people(0, 1000, 300), words[:30]])  # more than a fiftieth, less than a twentieth
    assert not refused(rows, np.vstack([people(1, 1000, 300), words[:40]]))
    assert refused(words[:100], words)
    narrow = people(0, 1000, 5)
    assert not refused(people(0, 5000, 2), people(1, 100, 2))  # in coarse cells a tenth of them are shared
    assert not refused(narrow, np.vstack([people(1, 1000, 5), narrow[:20]]))
    assert refused(narrow, np.vstack([people(1, 1000, 5), narrow[:100]]))
    assert refused(narrow[:10], np.vstack([people(1, 1000, 5), narrow[:10]]))  # all private ones
    assert refused(narrow, narrow[:10])  # all public ones


def test_rows_that_resemble_private_ones_closely_are_none_of_them():
    """Like pictures of one film: they share coarse cells alone, and few of the public ones do."""
    rows = people(0, 400, 64)
    nudge = np.random.default_rng(3).normal(size=(3, 64))
    for others in (400, 20):
        assert not refused(rows, np.vstack([people(1, others, 64), rows[:3] + 0.04 * nudge]))


def test_rows_of_one_kind_are_no_copies_of_each_other():
    """Like scans of one organ: few public rows may be apart in cells in which private rows are not."""
    kinds, rng = people(0, 3, 64), np.random.default_rng(5)
    like = lambda count: np.repeat(kinds, count, axis=0) + 0.03 * rng.normal(size=(3 * count, 64))  # noqa: E731
    rows = like(100)
    assert not refused(rows, np.vstack([like(5), people(1, 30, 64)]))
    assert refused(rows, np.vstack([like(5), people(1, 30, 64), rows[4:5]]))


def test_rows_of_another_width_and_rows_without_content_share_nothing():
    assert not refused(people(), people(width=41))
    assert not refused(np.zeros((50, 40)), np.zeros((50, 40)))


def test_shots_at_the_side_of_a_pool_are_looked_at():
    rows = people()
    shots = PublicEmbeddings(rows[:3], [0, 1, 0], classes=["a", "b"])
    with pytest.raises(PrivateOverlap):
        compared(private(rows), OverlapCheck([PublicEmbeddings(people(1)).with_shots(shots)], KEY))


def test_one_source_behind_both_is_enough():
    digests = np.arange(600, dtype=np.uint64)  # 0 is what cannot be recognised
    mine = private(people(), source_digests=digests)
    other = PublicEmbeddings(people(1, 3, 7), source_digests=np.array([0, 1000, 1001], dtype=np.uint64))
    same = PublicEmbeddings(people(1, 3, 7), source_digests=np.array([0, 1000, 599], dtype=np.uint64))
    compared(mine, OverlapCheck([other], KEY))
    with pytest.raises(PrivateOverlap):
        compared(mine, OverlapCheck([same], KEY))


def charge(ledger, data, pool=None, **how):
    return ledger.charge(data, [EVENT], label="test", beside=pool, **how)


@pytest.fixture
def ledger():
    book = Ledger.in_memory()
    charge(book, private(people(), source_digests=np.arange(1, 601, dtype=np.uint64)))
    return book


def test_rows_of_any_set_on_record_are_refused_and_nothing_is_charged(ledger):
    before, others = ledger.head, private(people(2), "other")
    tenth = np.vstack([people(1, 540), people()[:60]]).astype(np.float16)
    among_many = np.vstack([people(1, 2000), people()[7:8]])
    for pool in (people(), people()[7:8], among_many, tenth):
        with pytest.raises(PrivateOverlap) as refusal:
            charge(ledger, others, PublicEmbeddings(pool))
        assert "'ward'" in str(refusal.value)
        assert not any(digit.isdigit() for digit in str(refusal.value))  # no counts
    assert ledger.head == before
    charge(ledger, others, PublicEmbeddings(people(1)))


def test_rows_on_record_that_repeat_by_chance_are_refused_where_they_are_many():
    book, narrow, other = Ledger.in_memory(), people(0, 400, 5), private(people(2, 50, 5), "other")
    charge(book, private(narrow))
    charge(book, other, PublicEmbeddings(np.vstack([people(1, 1000, 5), narrow[:5]])))
    with pytest.raises(PrivateOverlap):
        charge(book, other, PublicEmbeddings(np.vstack([people(1, 400, 5), narrow[:100]])))


def test_rows_of_one_kind_are_not_those_on_record():
    kind, rng, book = people(5, 1, 64), np.random.default_rng(6), Ledger.in_memory()
    like = lambda count: kind + 1e-3 * rng.normal(size=(count, 64))  # noqa: E731
    charge(book, private(np.vstack([people(0, 600, 64), like(200)])))
    other = private(people(2, 50, 64), "other")
    charge(book, other, PublicEmbeddings(np.vstack([people(1, 600, 64), like(40)])))


def test_a_tenth_of_a_pool_from_a_large_set_on_record_is_found():
    large, book = people(0, 50_000, 64).astype(np.float32), Ledger.in_memory()
    charge(book, private(large))
    pool = np.vstack([people(1, 900, 64), large[::500]])
    with pytest.raises(PrivateOverlap):
        charge(book, private(people(2, 50, 64), "other"), PublicEmbeddings(pool))


def test_earlier_versions_of_the_same_set_are_refused_whatever_the_owner_says(ledger):
    later = private(people()[300:])
    for new_data_set in (False, True):
        with pytest.raises(PrivateOverlap):
            charge(ledger, later, PublicEmbeddings(people()[:300]), new_data_set=new_data_set)


def test_rows_and_sources_of_every_charge_stay_on_record(ledger):
    charge(ledger, private(people(), source_digests=np.arange(1, 601, dtype=np.uint64)))
    charge(ledger, private(people(5), source_digests=np.arange(5001, 5601, dtype=np.uint64)))
    sources = {"source_digests": np.array([7], np.uint64)}
    for pool in (PublicEmbeddings(people()[3:4]), PublicEmbeddings(people(1, 1), **sources)):
        with pytest.raises(PrivateOverlap):
            charge(ledger, private(people(2), "other"), pool)
    for rows, digests in ((people(), None), (people(2), np.arange(1, 601, dtype=np.uint64))):
        with pytest.raises(RowsOnRecord):
            charge(ledger, private(rows, "other", source_digests=digests))


def test_the_owner_may_say_that_rows_on_record_are_other_peoples(ledger):
    charge(ledger, private(people(2), "other"), PublicEmbeddings(people()), new_data_set=True)
    with pytest.raises(PrivateOverlap):  # but not of this very set
        charge(ledger, private(people(3), "third"), PublicEmbeddings(people(3)[:1]), new_data_set=True)


@pytest.mark.parametrize("events", [[EVENT], []])
def test_rows_of_this_very_set_are_refused_under_strict_names_too(events):
    book = Ledger.in_memory(strict_names=True)
    book.charge(private(people(5), "first"), [EVENT], label="test")
    for _ in range(2):
        with pytest.raises(PrivateOverlap):
            book.charge(private(people()), events, label="test", beside=PublicEmbeddings(people()[3:4]))
    book.charge(private(people()), events, label="test", beside=PublicEmbeddings(people(5)))
    assert all(entry.sketch is None for entry in book.history())


def test_sources_on_record_are_known_whatever_the_rows(ledger):
    digests = np.arange(1, 601, dtype=np.uint64)
    again = private(people(3, 600, 7), "again", source_digests=digests)
    with pytest.raises(RowsOnRecord, match="ward"):
        charge(ledger, again)
    with pytest.raises(RowsOnRecord):
        charge(ledger, private(people(3, 40, 7), "some", source_digests=digests[:40]))
    few = np.concatenate([digests[:1], np.arange(1000, 1099, dtype=np.uint64)])
    charge(ledger, private(people(3, 100, 7), "others", source_digests=few))  # one in a hundred
    with pytest.raises(PrivateOverlap):
        charge(ledger, private(people(4), "x"), PublicEmbeddings(people(5, 100, 40), source_digests=few))
    charge(ledger, again, new_data_set=True)


def test_sources_on_record_are_asked_about_before_they_are_encoded(tmp_path):
    digests, path = np.arange(1, 601, dtype=np.uint64), tmp_path / "ledger.sqlite"
    book, strict = Ledger(path), Ledger(path, strict_names=True)
    charge(book, private(people(), source_digests=digests))
    for name in ("other", None):
        with pytest.raises(RowsOnRecord):
            book.require_new_sources(digests, name)
        strict.require_new_sources(digests, name)
        book.require_new_sources(digests, name, new_data_set=True)
        book.require_new_sources(digests + 600, name)
    book.require_new_sources(digests, "Ward")
    charge(book, private(people(2), None, source_digests=digests + 2000))
    book.require_new_sources(digests + 2000, None)  # it may be the very set
    with pytest.raises(RowsOnRecord):
        book.require_new_sources(digests + 2000, "other")


def test_unprotected_test_rows_are_compared_with_all_that_is_private(ledger):
    ledger.require_unrelated(people(1), private=private(people(2), "mine"))
    for test in (people()[3:4], PublicEmbeddings(people(1, 2), source_digests=np.array([5, 0], np.uint64))):
        with pytest.raises(PrivateOverlap):
            ledger.require_unrelated(test)
        ledger.require_unrelated(test, new_data_set=True)
        with pytest.raises(PrivateOverlap):  # of the data set that they are to stand beside
            ledger.require_unrelated(test, private=private(people(2)), new_data_set=True)
    with pytest.raises(PrivateOverlap):
        ledger.require_unrelated(people(2)[3:4], private=private(people(2), "mine"), new_data_set=True)
    strict = Ledger.in_memory(strict_names=True)
    with pytest.raises(PrivateOverlap):
        strict.require_unrelated(people(2)[3:4], private=private(people(2), "mine"))
    strict.require_unrelated(people(1), private=private(people(2), "mine"))
    Ledger.in_memory().require_unrelated(people())
