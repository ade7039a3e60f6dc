from .reference import class_similarity_reference


def test_a_worked_example():
    """By hand: products 3·1 + 4·2 = 11 and −11, on a grid of norm 5, capped to [20, 30]."""
    private, labels = [[3, 4], [-3, -4], [3, 4]], [0, 0, 2]
    assert class_similarity_reference(private, labels, 3, [[1, 2]], low=20, high=30, one=25) == [[10, 0, 10]]
    assert class_similarity_reference(private, labels, 3, [[1, 2]], low=0, high=50, one=25) == [[50, 0, 36]]


def test_it_works_in_integers_of_any_size():
    huge = 10**30
    assert class_similarity_reference([[huge]], [0], 1, [[huge]], 0, 10**70, one=1) == [[huge**2 + 1]]


def test_no_rows_and_no_candidates_are_ordinary():
    assert class_similarity_reference([], [], 2, [[1, 2]], 0, 9, one=4) == [[0, 0]]
    assert class_similarity_reference([[1, 2]], [0], 2, [], 0, 9, one=4) == []
