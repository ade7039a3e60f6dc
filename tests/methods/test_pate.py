import pytest

pytest.importorskip("torch")

from dptransfer.methods.deep.small_teachers import SmallTeachers  # torch is there

from .test_picture_voting import METHODS, POOL, private


def test_its_teachers_have_networks_of_their_own_and_its_student_works_on_the_encoder():
    prepared = METHODS["pate"].prepare(private().facts, POOL)
    assert isinstance(prepared.teachers, SmallTeachers)
    assert prepared.student.network.identity.name == "tiny-classifier"
