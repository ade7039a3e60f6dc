"""Ids become numbers: equal where the ids are, alone where there is none, and no id is ever told."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptransfer.data.labels import person_positions
from dptransfer.errors import DataError

NAN = float("nan")


def numbers(ids):
    return person_positions(ids, len(ids)).tolist()


def alone(ids):
    return numbers(ids) == list(range(len(ids)))


WORDS = st.text(st.characters(exclude_categories=("Z", "Cc", "M")), min_size=1, max_size=4)


@given(st.lists(st.one_of(st.none(), WORDS.filter(lambda word: word.strip()), st.integers())))
def test_numbers_are_equal_exactly_where_ids_are(ids):
    found = numbers(ids)
    for i, one in enumerate(ids):
        for j, other in enumerate(ids[:i]):
            same = one is not None and other is not None and str(one) == str(other)
            assert (found[i] == found[j]) == same


@given(st.lists(st.integers(0, 5)))
def test_numbers_count_from_zero_in_order_of_appearance(ids):
    found = numbers(ids)
    assert list(dict.fromkeys(found)) == list(range(len(set(ids))))
    assert numbers(found) == found  # numbered again, nothing changes
    assert (
        numbers([f"patient {9 - one}" for one in ids]) == found
    )  # what the ids are, or their order, is gone


@pytest.mark.parametrize(
    "ids",
    [
        [None] * 10_000,
        [NAN] * 10_000,
        [""] * 10_000,
        [" \t\r\n"] * 10_000,
        np.full(10_000, np.nan, dtype=np.float32),
        np.ma.masked_all(10_000, dtype=np.int64),
        ["ann", None, "", NAN, "\x1f", " "],
        [],
    ],
    ids=["None", "NaN", "empty", "blanks", "array of NaN", "masked", "mixed", "no rows"],
)
def test_a_missing_id_is_a_person_of_its_own(ids):
    assert alone(ids)


def test_one_id_for_all_is_one_person():
    assert numbers(["ann"] * 1000) == numbers(np.full(1000, 2**63, dtype=np.uint64)) == [0] * 1000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (7, "7"),
        (7.0, "7"),
        (7, 7.0),
        (-0.0, 0),
        (np.int8(7), " 7\n"),
        (np.float32(7), np.str_("7")),
        ("ann", " ann\t"),
        ("Jos\u00e9", "Jose\u0301"),
        (10**30, "1" + "0" * 30),
        (10.0**20, 10**20),
    ],
)
def test_spellings_of_one_id_are_one_person(one, other):
    assert numbers([one, other, one]) == [0, 0, 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "07"),
        ("ann", "Ann"),
        ("ann", "an n"),
        ("a\x00b", "a\x00c"),
        ("a\x1b[31m", "a"),
        ("nan", NAN),
        ("None", None),
        (2**63, 2**63 + 1),
        (0.5, 0),
        (float("inf"), "∞"),
        ("\udc80", "\udc81"),
    ],
)
def test_ids_that_differ_are_two_persons_whatever_they_are_made_of(one, other):
    assert numbers([one, other]) == [0, 1]


@pytest.mark.parametrize("long", ["x" * 10**6, "é" * 10**6, 1 << 4_000_000], ids=["word", "é", "number"])
def test_ids_of_a_million_characters_differ_in_the_last(long):
    assert numbers([long, long + ("x" if isinstance(long, str) else 1), long]) == [0, 1, 0]


def test_one_long_id_costs_its_own_length_and_not_that_of_all_rows():
    assert numbers(["x" * 10**6, *["ann"] * 50_000, "x" * 10**6])[-2:] == [1, 0]


def test_a_long_pile_of_accents_comes_to_an_end():
    """Put in order one by one, it would take hours."""
    piled = "a" + "\u0300\u0316" * 500_000
    assert numbers([piled, piled]) == [0, 0]


def test_long_whole_numbers_with_gaps_stay_apart():
    pa = pytest.importorskip("pyarrow")
    ids = [2**60, 2**60 + 1, None, 2**60]
    assert np.asarray(pa.array(ids))[0] == np.asarray(pa.array(ids))[1]  # as floats they run together
    assert numbers(pa.array(ids)) == numbers(pa.chunked_array([ids[:2], ids[2:]])) == [0, 1, 2, 0]
    assert numbers(np.ma.array([2**60, 2**60 + 1, 5, 2**60], mask=[0, 0, 1, 0])) == [0, 1, 2, 0]


@pytest.mark.parametrize("dtype", ["object", "string", "category", "Int64", "Float64"])
def test_columns_of_pandas_with_gaps(dtype):
    pd = pytest.importorskip("pandas")
    ids = [5, 6, None, 5, None] if dtype in ("Int64", "Float64") else ["a", "b", None, "a", None]
    assert numbers(pd.Series(ids, dtype=dtype, index=[9, 8, 7, 6, 5])) == [0, 1, 2, 0, 3]


def test_each_of_the_gaps_of_pandas_is_a_missing_id():
    pd = pytest.importorskip("pandas")
    assert numbers(["a", pd.NA, pd.NaT, NAN, None, "a"]) == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize(
    "ids",
    [
        np.array(["a", "b", "a"]),
        np.array(["a", "b", "a"], dtype=object),
        np.array(["a", "b", "a"], dtype=np.dtypes.StringDType()),
        np.array([3, 1, 3], dtype=np.uint8),
        np.array([3.0, 1.0, 3.0], dtype=np.float16),
        ("a", 1, "a"),
        range(3),
    ],
)
def test_columns_of_any_kind(ids):
    assert numbers(ids) == ([0, 1, 2] if isinstance(ids, range) else [0, 1, 0])


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([True, False], "bool"),
        (np.array([True, False]), "bool"),
        (["ann", np.True_], "bool"),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"), "datetime64"),
        (np.array([b"secret-7", b"b"]), "bytes"),
        (["ann", ["secret-7"]], "list"),
        ([Decimal(7), Decimal(8)], "Decimal"),
        ([1j, 2j], "complex"),
        (np.array([("secret-7", 2), ("b", 3)], dtype="U9,i8"), "tuple"),
    ],
)
def test_ids_of_another_type_are_refused_without_telling_one(ids, kind):
    with pytest.raises(DataError, match=f"words or whole numbers; got the type {kind}") as caught:
        person_positions(ids, 2)
    assert "secret" not in str(caught.value)
    assert not any(digit in str(caught.value) for digit in "789")


@pytest.mark.parametrize(
    "ids",
    [
        "ab",
        b"ab",
        7,
        None,
        np.array("ab"),
        [["a"], ["b"]] * 2,
        np.zeros((2, 1)),
        {"a", "b"},
        iter("ab"),
        ["a"],
    ],
)
def test_what_is_no_column_of_that_length_is_refused(ids):
    with pytest.raises(DataError, match="one entry per example; it does not"):
        person_positions(ids, 2)


def test_a_table_is_no_column():
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="one entry per example"):
        person_positions(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), 2)
