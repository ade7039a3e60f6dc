import json

from dptransfer.privacy import Guarantee, Relation


def test_the_sentence_names_epsilon_delta_and_the_relation():
    sentence = str(Guarantee(0.5, 1e-6, Relation.REPLACE_ONE))
    assert sentence == (
        "This model is (ε = 0.5, δ = 1e-06)-differentially private "
        "with respect to replacing one example by any other."
    )
    assert "adding or removing" in str(Guarantee(0.5, 1e-6, Relation.ADD_REMOVE))


def test_a_pure_guarantee_mentions_no_delta():
    assert "δ" not in str(Guarantee(0.5, 0.0, Relation.ADD_REMOVE))
    assert "δ" in str(Guarantee(0.5, 1e-9, Relation.ADD_REMOVE))


def test_assumptions_follow_the_sentence():
    guarantee = Guarantee(1.0, 1e-5, Relation.ADD_REMOVE, assumptions=("real arithmetic", "public classes"))
    assert str(guarantee).endswith("Assuming: real arithmetic; public classes.")
    assert "Assuming" not in str(Guarantee(1.0, 1e-5, Relation.ADD_REMOVE))


def test_a_guarantee_survives_json_and_carries_its_sentence():
    guarantee = Guarantee(1.0, 1e-5, Relation.ADD_REMOVE, rho=0.1, mu=0.3, assumptions=("a",))
    fields = json.loads(json.dumps(guarantee.to_dict()))
    assert fields["sentence"] == str(guarantee)
    assert Guarantee.from_dict(fields) == guarantee
    assert Guarantee.from_dict({**fields, "epsilon": 2.0}) != guarantee
