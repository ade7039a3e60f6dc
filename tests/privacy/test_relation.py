import pytest

from dptransfer.privacy import Relation, Unit


def test_where_persons_are_the_unit_the_relation_says_so():
    person = "one person, with all their examples"
    assert Relation.ADD_REMOVE.sentence(Unit.PERSON) == f"adding or removing {person}"
    assert Relation.REPLACE_ONE.sentence(Unit.PERSON) == f"replacing {person}, by any other"
    assert [one.words(Unit.PERSON) for one in Relation] == ["add/remove, by person", "replace-one, by person"]
    assert [one.words() for one in Relation] == ["add/remove", "replace-one"]


def test_an_unknown_relation_is_refused():
    with pytest.raises(ValueError, match="neighbours"):
        Relation("neighbours")
