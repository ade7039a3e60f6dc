import pytest

from dptransfer.privacy import Relation


def test_there_are_two_relations_and_they_read_as_sentences():
    assert [relation.value for relation in Relation] == ["add/remove", "replace-one"]
    assert Relation.ADD_REMOVE.sentence == "adding or removing one example"
    assert Relation.REPLACE_ONE.sentence == "replacing one example by any other"


def test_an_unknown_relation_is_refused():
    with pytest.raises(ValueError, match="neighbours"):
        Relation("neighbours")
