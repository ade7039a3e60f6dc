import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.data import sharded_rows as npy_shards
from dptransfer.data.examples import content_digest
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.errors import ArgumentError, DataError

COUNT, WIDTH = 23, 3
WHOLE = np.random.default_rng(0).integers(-128, 128, size=(COUNT, WIDTH)).astype(np.int8)
SCALE = 0.37
CUTS = [(), (1,), (22,), (5, 6, 20), tuple(range(1, COUNT))]


def expected(kind):
    return WHOLE.astype(np.float32) * np.float32(SCALE) if kind == "int8" else WHOLE.astype(kind) / 7


def cut(folder, kind, where, by_column=False):
    """The same rows in files that end at these places."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = WHOLE if kind == "int8" else expected(kind)
    files = []
    for number, part in enumerate(np.split(whole, where)):
        files.append(folder / f"{number:02}.npy")
        np.save(files[-1], np.asfortranarray(part) if by_column else part)
    return ShardedRows(files, scale=SCALE if kind == "int8" else None)


def parquet(folder, where, form, groups):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    files = []
    for number, part in enumerate(np.split(expected("float64"), where)):
        files.append(folder / f"{number:02}.parquet")
        lists = pa.array(part.tolist(), type=pa.list_(pa.float64(), 3 if form == "fixed" else -1))
        columns = {f"f{place}": part[:, place] for place in range(WIDTH)}
        table = pa.table(columns if form == "columns" else {"embedding": lists})
        pq.write_table(table, files[-1], row_group_size=groups)
    return ShardedRows(files)


@pytest.fixture(scope="module")
def pools(tmp_path_factory):
    """Every kind of file, cut in every way, with the one array that they are."""
    root = tmp_path_factory.mktemp("pools")
    made = [
        (cut(root / f"{kind}{place}{by_column}", kind, where, by_column), expected(kind))
        for kind in ("float16", "float32", "float64", "int8")
        for place, where in enumerate(CUTS)
        for by_column in (False, True)
    ]
    try:
        for place, (form, groups) in enumerate([("lists", 4), ("fixed", 7), ("columns", 100)]):
            (root / str(place)).mkdir()
            made.append((parquet(root / str(place), CUTS[3], form, groups), expected("float64")))
    except pytest.skip.Exception:
        pass
    return made


BOUND = st.none() | st.integers(-30, 30)


@settings(max_examples=100, deadline=None)
@given(
    number=st.integers(0, 2**16),
    part=st.builds(slice, BOUND, BOUND, st.sampled_from([None, 1, 2, -1, 5])),
    places=st.lists(st.integers(-COUNT, COUNT - 1), max_size=40),
)
def test_any_part_of_any_cut_is_that_of_the_one_array(pools, number, part, places):
    rows, whole = pools[number % len(pools)]
    positions = np.array(places, dtype=np.int64)
    for which in (part, positions):
        found = rows[which]
        assert type(found) is np.ndarray
        assert found.dtype == rows.dtype == whole.dtype
        assert found.tolist() == whole[which].tolist()
    chosen = rows.take(positions)
    assert chosen.shape == (len(places), WIDTH)
    assert chosen[part].tolist() == whole[positions][part].tolist()


def test_the_fingerprint_does_not_depend_on_the_cut(pools):
    for rows, whole in pools:
        assert content_digest(rows) == content_digest(np.ascontiguousarray(whole))


def test_rows_here_and_there_are_read_a_window_of_the_file_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(npy_shards, "_WINDOW_BYTES", 4 * WIDTH * 4)  # of four rows
    rows, mapped = cut(tmp_path, "float32", (20,)), []
    plain = npy_shards.NpyShard._mapped
    monkeypatch.setattr(
        npy_shards.NpyShard, "_mapped", lambda self, *ends: mapped.append(ends) or plain(self, *ends)
    )
    positions = np.array([22, 0, 9, 9, 1, 11, 19, 3])
    assert rows[positions].tolist() == expected("float32")[positions].tolist()
    assert mapped == [(0, 4), (9, 12), (19, 20), (2, 3)]


def test_a_slice_inside_one_file_of_floats_is_not_copied(tmp_path):
    inside, across = (cut(tmp_path, "float32", (10,))[part] for part in (slice(2, 9), slice(2, 12)))
    assert not inside.flags.owndata
    assert across.flags.owndata
    assert not inside.flags.writeable


def test_the_integers_of_small_rows_are_there_as_they_are_stored(tmp_path):
    rows = cut(tmp_path, "int8", (10,))
    for which in (slice(2, 9), slice(2, 12), np.array([20, 3])):
        stored = rows.read(which, as_stored=True)
        assert stored.dtype == np.int8
        assert stored.tolist() == WHOLE[which].tolist()
    assert (rows.stored, rows.dtype, rows.scale, rows.finite) == (np.int8, np.float32, SCALE, True)
    assert ShardedRows(rows.files)[:].tolist() == WHOLE.astype(np.float32).tolist()


def test_rows_travel_by_their_paths(tmp_path):
    (tmp_path / "p").mkdir()
    for rows in (cut(tmp_path, "float32", (10,)), parquet(tmp_path / "p", (10,), "lists", 4)):
        before = rows[3:15]
        assert len(pickle.dumps(rows)) < 5000 + 200 * len(rows.files)
        for other in (pickle.loads(pickle.dumps(rows)), deepcopy(rows)):
            assert other[3:15].tolist() == before.tolist()
        with ThreadPoolExecutor(4) as threads:
            parts = list(threads.map(rows.read, [slice(start, start + 2) for start in range(0, COUNT, 2)]))
        assert np.concatenate(parts).tolist() == rows[:].tolist()


def test_rows_named_from_here_are_found_from_elsewhere(tmp_path, monkeypatch):
    cut(tmp_path, "float32", (10,))
    monkeypatch.chdir(tmp_path)
    sent = pickle.dumps(ShardedRows(["00.npy", "01.npy"]))
    monkeypatch.chdir(tmp_path.parent)
    assert len(pickle.loads(sent)[:]) == COUNT


def test_walking_through_decodes_each_row_group_once(tmp_path, monkeypatch):
    rows = parquet(tmp_path, (10,), "lists", 4)
    from pyarrow.parquet import ParquetFile

    decoded, read = [], ParquetFile.read_row_group
    monkeypatch.setattr(
        ParquetFile, "read_row_group", lambda self, *a, **k: decoded.append(a) or read(self, *a, **k)
    )
    for start in range(0, COUNT, 3):
        rows[start : start + 3]
    assert len(decoded) == 3 + 4
    rows[21:23]
    assert len(decoded) == 7
    rows[0:2]
    assert len(decoded) == 8


def test_all_at_once_is_refused(tmp_path):
    rows = cut(tmp_path, "float32", (10,))
    for greedy in (np.asarray, list, lambda all: all[3], lambda all: all[[1, 2]], lambda all: all[:, 0]):
        with pytest.raises(DataError, match="Read a slice"):
            greedy(rows)
    for beyond in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError):
            rows[np.array([beyond])]
    assert repr(rows) == "ShardedRows(dimension 3, float32)"


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_a_file_that_changed_is_not_read_on(tmp_path, kind):
    rows = cut(tmp_path, "float32", (10,)) if kind == "npy" else parquet(tmp_path, (10,), "lists", 4)
    rows[:4]
    os.utime(rows.files[1], ns=(1, 1))
    assert len(rows[:10]) == 10
    with pytest.raises(DataError, match=r"01\..*changed"):
        rows[8:12]
    rows.files[1].unlink()
    with pytest.raises(DataError, match=r"01\..*readable"):
        rows[8:12]


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda file: file.unlink(), "must be readable"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "cut short"),
        (lambda file: file.write_bytes(file.read_bytes() + b"0"), "has more"),
        (
            lambda file: np.save(file, np.zeros((2, 4), np.float32)),
            "one width; this has 4, and '00.npy' has 3",
        ),
        (
            lambda file: np.save(file, np.zeros((2, 3), np.float16)),
            "this is float16, and the first is float32",
        ),
        (lambda file: np.save(file, np.zeros((2, 3), np.int32)), "found int32"),
        (lambda file: np.save(file, np.zeros(2, np.float32)), "found 1 dimensions"),
        (lambda file: np.save(file, np.zeros((0, 3), np.float32)), "at least one row"),
    ],
)
def test_a_shard_that_does_not_fit_is_named_in_one_line(tmp_path, spoil, rule):
    files = cut(tmp_path, "float32", (10, 15)).files
    spoil(files[1])
    with pytest.raises(DataError, match=rule) as caught:
        ShardedRows(files)
    assert "01.npy" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shards_are_files_of_one_kind_and_a_scale_is_for_integers(tmp_path):
    files = cut(tmp_path, "float32", (10,)).files
    for wrong, rule in (((), "at least one file"), ((files[0], "a.parquet"), "all .npy or all .parquet")):
        with pytest.raises(DataError, match=rule):
            ShardedRows(wrong)
    with pytest.raises(ArgumentError, match="for int8"):
        ShardedRows(files, scale=2.0)
    for scale in (0, float("nan"), 1e300):
        with pytest.raises(ArgumentError, match="scale must be"):
            ShardedRows(cut(tmp_path, "int8", (10,)).files, scale=scale)


def test_a_parquet_file_whose_lists_are_uneven_is_refused_when_they_are_read(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"x": [[1.0, 2.0]] * 70 + [[1.0]]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=70)
    rows = ShardedRows([tmp_path / "a.parquet"])
    assert rows.shape[1] == 2
    with pytest.raises(DataError, match="one width"):
        rows[:]


def test_a_row_is_told_by_its_file_and_its_number_there(tmp_path):
    rows = cut(tmp_path, "float32", (10, 15))
    assert rows.whereabouts(12) == f"row 2 of '{rows.files[1]}'"
    assert rows.take(np.array([3, 22])).whereabouts(1) == f"row 7 of '{rows.files[2]}'"
