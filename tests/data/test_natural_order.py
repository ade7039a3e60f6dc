from dptransfer.data.tables import natural_order


def test_numbers_of_any_length_count_as_numbers_and_no_two_names_are_equal():
    names = ["a2b10", "a2b9", "a10", "a02", "a2", "a", "b1", f"a{10**30}", "2", "10"]
    ordered = ["2", "10", "a", "a02", "a2", "a2b9", "a2b10", "a10", f"a{10**30}", "b1"]
    assert sorted(names, key=natural_order) == sorted(names[::-1], key=natural_order) == ordered
