import numpy as np

from dptransfer.methods.votes.voting import teacher_of_each_row
from dptransfer.noise import SecureNoise, SeededNoise


class Fixed(SeededNoise):
    """Draws that are known, whatever their number."""

    def integers(self, below, count):
        return (np.arange(count) * 7 + 3) % below


def test_all_rows_of_a_person_go_to_one_teacher():
    people = np.random.default_rng(0).integers(0, 40, 500)
    teachers = teacher_of_each_row(500, people, 9, SecureNoise())
    assert all(len(set(teachers[people == one])) == 1 for one in range(40))
    assert len(set(teachers)) > 1


def test_one_row_more_leaves_the_teachers_of_the_others_alone():
    before = teacher_of_each_row(20, None, 6, Fixed(0))
    after = teacher_of_each_row(21, None, 6, Fixed(0))
    assert (after[:20] == before).all()


def test_parts_have_random_sizes_that_no_number_of_rows_decides():
    sizes = np.bincount(teacher_of_each_row(1000, None, 10, SeededNoise(1)), minlength=10)
    assert sizes.sum() == 1000
    assert sizes.min() > 50  # nobody is left out, the last one neither
    assert sizes.max() - sizes.min() > 10  # parts of equal size would tell the number of rows


def test_no_rows_are_with_no_teacher():
    assert teacher_of_each_row(0, None, 5, SecureNoise()).tolist() == []
    assert teacher_of_each_row(0, np.zeros(0, dtype=np.int64), 5, SecureNoise()).tolist() == []
