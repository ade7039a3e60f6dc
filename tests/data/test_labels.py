"""Labels become positions and ids become numbers; no error tells a label or an id."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptransfer.data import Labelled, PrivateEmbeddings, PublicEmbeddings, long_tail_counts
from dptransfer.data.labels import class_positions, declared_classes, person_positions
from dptransfer.errors import DataError

ROWS = np.eye(3)
NAN = float("nan")

# --- classes ---


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["a", ""], "blank"),
        (["a", "b\0"], "control"),
        (["a", "a "], "distinct"),
        (["caf\u00e9", "cafe\u0301"], "distinct"),
        ([7, 7], "distinct"),
    ],
)
def test_odd_names_are_refused_without_being_printed(names, word):
    with pytest.raises(DataError, match=word) as caught:
        PrivateEmbeddings([[1.0], [2.0]], [0, 1], classes=names)
    assert repr(names[0]) not in str(caught.value)


@pytest.mark.parametrize("names", [["Übelkeit 🤢", "\u202eevil"], ["a b", "a  b"], [" a", "b"], [0, 1]])
def test_other_names_are_taken_as_they_are(names):
    assert PrivateEmbeddings([[1.0], [2.0]], [0, 1], classes=names).facts.classes == tuple(names)


@pytest.mark.parametrize(
    "classes",
    [
        [["a", "b"]], [0.5, 1.5], [True, False], "ab", 3.0, [None, "a"], ["a", 1], [1, "a"], [1, "1"],
        ["a", True], [["a"], ["b", "c"]], ["\ud800", "a"],
    ],
)  # fmt: skip
def test_classes_are_one_list_of_words_or_whole_numbers(classes):
    with pytest.raises(DataError, match="classes must be"):
        PrivateEmbeddings(np.zeros((0, 2)), [], classes=classes)


def test_a_number_of_classes_stands_for_numbered_ones_wherever_they_are_declared():
    for number in (3, np.int64(3)):
        assert PrivateEmbeddings(ROWS, [2, 0, 1], classes=number).facts.classes == (0, 1, 2)
        assert PublicEmbeddings(ROWS, [2, 0, 1], classes=number).classes == (0, 1, 2)
    for number in (1, 0, -3, True, 10**6 + 1):
        with pytest.raises(DataError, match="2 to a million"):
            declared_classes(number)


def test_a_list_is_never_read_off_the_labels():
    for make in (Labelled.of, lambda y: PrivateEmbeddings(ROWS, y), lambda y: PublicEmbeddings(ROWS, y)):
        with pytest.raises(DataError, match="never inferred"):
            make(["a", "b", "a"])


# --- labels ---


@pytest.mark.parametrize("classes", [("a", "b", "c"), (7, 0, 1)])
def test_names_and_positions_are_inverses(classes):
    found = Labelled.of([classes[2], classes[0], classes[2]], classes)
    assert found.positions.tolist() == [2, 0, 2]
    assert found.names.tolist() == [classes[2], classes[0], classes[2]]
    assert class_positions(found.names, classes).tolist() == [2, 0, 2]
    assert found.of_rows(np.array([False, True, True])).positions.tolist() == [0, 2]
    assert repr(found) == "Labelled(3 declared classes)"


def test_whole_numbers_are_names_where_classes_are_numbers_and_positions_where_they_are_words():
    assert Labelled.of([1, 0], [0, 1]).positions.tolist() == [1, 0]
    assert Labelled.of([1, 0], [1, 0]).positions.tolist() == [0, 1]
    assert Labelled.of([1, 0], ["x", "y"]).positions.tolist() == [1, 0]
    assert Labelled.of([20, 10], [10, 20]).positions.tolist() == [1, 0]
    with pytest.raises(DataError):
        Labelled.of([1, 0], [10, 20])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_float_labels_are_taken_where_they_are_whole(kind):
    for classes in (["a", "b"], [0, 1], [0.0, 1.0], np.array([0, 1], dtype=kind)):
        found = Labelled.of(np.array([0, 1, 1], dtype=kind), classes)
        assert found.positions.tolist() == [0, 1, 1]
        assert not any(isinstance(name, float) for name in found.classes)
        for odd in (0.5, np.nan, 7, np.inf, -1):
            with pytest.raises(DataError, match="at least one") as caught:
                Labelled.of(np.array([0, 1, odd], dtype=kind), classes)
            assert not {"7", "nan", "0.5", "inf"} & set(str(caught.value).split())


def test_another_list_must_have_every_class_that_occurs_and_may_lack_the_others():
    found = Labelled.of(["b", "b"], ["a", "b"])
    assert found.among(("c", "b")).positions.tolist() == [1, 1]
    assert found.among(found.classes) is found
    with pytest.raises(DataError, match="at least one"):
        found.among(("a", "c"))


def test_a_label_that_is_none_is_refused_without_being_named():
    for positions in ([-1], [0, 2]):
        with pytest.raises(DataError, match="2 declared classes"):
            Labelled(np.array(positions), ("a", "b"))
    assert len(Labelled(np.zeros(0, np.int64), ("a", "b"))) == 0
    with pytest.raises(DataError, match="at least one") as caught:
        Labelled.of(["a", "rare-disease"], ["a", "b"])
    assert "rare-disease" not in str(caught.value)
    for y in ([0, 1], ["a", "b"], [0.0, 1.0]):
        with pytest.raises(DataError, match="0 declared classes"):
            PublicEmbeddings(np.ones((2, 3)), y, classes=[])


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint64])
def test_positions_are_of_the_type_that_every_sum_by_class_is_made_for(kind):
    """On a GPU an array of bytes would be taken for a mask, and a narrow product wraps round."""
    labelled = Labelled(np.array([1, 0, 1], dtype=kind), ("a", "b"))
    assert PrivateEmbeddings(ROWS, labelled).labels.dtype == np.int64


# --- people ---


def numbers(ids):
    return person_positions(ids, len(ids)).tolist()


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
    renamed = [f"patient {9 - one}" for one in ids]
    assert numbers(renamed) == found  # what the ids are, or their order, is gone


MISSING = {
    "None": [None] * 10_000,
    "NaN": [NAN] * 10_000,
    "blanks": [" \t\r\n"] * 10_000,
    "masked": np.ma.masked_all(10_000, dtype=np.int64),
    "mixed": ["ann", None, "", NAN, "\x1f", " "],
}


@pytest.mark.parametrize("ids", MISSING.values(), ids=MISSING)
def test_a_missing_id_is_a_person_of_its_own(ids):
    assert numbers(ids) == list(range(len(ids)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (7, "7"), (7.0, "7"), (7, 7.0), (-0.0, 0), (np.int8(7), " 7\n"), (np.float32(7), np.str_("7")),
        ("ann", " ann\t"), ("Jos\u00e9", "Jose\u0301"), (10**30, "1" + "0" * 30), (10.0**20, 10**20),
    ],
)  # fmt: skip
def test_spellings_of_one_id_are_one_person(one, other):
    assert numbers([one, other, one]) == [0, 0, 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "07"), ("ann", "Ann"), ("ann", "an n"), ("a\x00b", "a\x00c"), ("a\x1b[31m", "a"), ("nan", NAN),
        ("None", None), (2**63, 2**63 + 1), (0.5, 0), (float("inf"), "∞"), ("\udc80", "\udc81"),
    ],
)  # fmt: skip
def test_ids_that_differ_are_two_persons_whatever_they_are_made_of(one, other):
    assert numbers([one, other]) == [0, 1]


def test_long_ids_take_no_longer_than_their_length():
    """A pile of accents would take hours, put in order one by one."""
    assert numbers(["x" * 10**6, *["ann"] * 50_000, "x" * 10**6])[-2:] == [1, 0]
    assert numbers([1 << 4_000_000, (1 << 4_000_000) + 1, 1 << 4_000_000]) == [0, 1, 0]
    assert numbers(["a" + "\u0300\u0316" * 500_000] * 2) == [0, 0]


def test_long_whole_numbers_with_gaps_stay_apart():
    pa = pytest.importorskip("pyarrow")
    ids = [2**60, 2**60 + 1, None, 2**60]
    assert np.asarray(pa.array(ids))[0] == np.asarray(pa.array(ids))[1]  # as floats they run together
    assert numbers(pa.array(ids)) == numbers(pa.chunked_array([ids[:2], ids[2:]])) == [0, 1, 2, 0]
    assert numbers(np.ma.array([2**60, 2**60 + 1, 5, 2**60], mask=[0, 0, 1, 0])) == [0, 1, 2, 0]


@pytest.mark.parametrize("dtype", ["object", "string", "category", "Int64", "Float64"])
def test_columns_and_gaps_of_pandas(dtype):
    pd = pytest.importorskip("pandas")
    ids = [5, 6, None, 5, None] if dtype in ("Int64", "Float64") else ["a", "b", None, "a", None]
    assert numbers(pd.Series(ids, dtype=dtype, index=[9, 8, 7, 6, 5])) == [0, 1, 2, 0, 3]
    assert numbers(["a", pd.NA, pd.NaT, NAN, None, "a"]) == [0, 1, 2, 3, 4, 0]
    with pytest.raises(DataError, match="one entry"):
        person_positions(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), 2)


@pytest.mark.parametrize(
    "ids",
    [
        np.array(["a", "b", "a"], dtype=object),
        np.array(["a", "b", "a"], dtype=np.dtypes.StringDType()),
        np.array([3.0, 1.0, 3.0], dtype=np.float16),
    ],
)
def test_columns_of_any_kind(ids):
    assert numbers(ids) == [0, 1, 0]
    assert numbers(range(3)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([True, False], "bool"),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"), "datetime64"),
        (np.array([b"secret-7", b"b"]), "bytes"),
        (["ann", ["secret-7"]], "list"),
        (np.array([("secret-7", 2), ("b", 3)], dtype="U9,i8"), "tuple"),
    ],
)
def test_ids_of_another_type_are_refused_without_telling_one(ids, kind):
    with pytest.raises(DataError, match=f"the type {kind}") as caught:
        person_positions(ids, 2)
    assert "secret" not in str(caught.value)
    assert not any(digit in str(caught.value) for digit in "789")


@pytest.mark.parametrize("ids", ["ab", [["a"], ["b"]] * 2, np.zeros((2, 1)), iter("ab"), ["a"]])
def test_what_is_no_column_of_that_length_is_refused(ids):
    with pytest.raises(DataError, match="one entry"):
        person_positions(ids, 2)


def test_counts_fall_from_the_largest_to_exactly_its_ratio_as_in_the_published_code():
    assert long_tail_counts(1000, 100, 3).tolist() == [1000, 100, 10]
    assert long_tail_counts(5, 100, 3).tolist() == [5, 1, 1]
    t = np.linspace(0, 10, 10)
    assert long_tail_counts(500, 50, 10).tolist() == np.rint(500 * 50.0 ** (-t / 10)).astype(int).tolist()
