import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.privacy import Guarantee, Relation, Unit


def test_the_sentence_names_epsilon_delta_and_the_relation():
    sentence = str(Guarantee(0.5, 1e-6, Relation.REPLACE_ONE))
    assert sentence == (
        "This model is (ε = 0.5, δ = 1e-6)-differentially private "
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


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        (1.0, "1"),
        (0.99999999, "1"),
        (1.0000004, "1.000001"),
        (0.3, "0.3"),
        (2.1661031401, "2.166104"),
        (12345.6789, "12345.68"),
        (1e-9, "1e-9"),
        (math.inf, "unbounded"),
    ],
)
def test_the_sentence_rounds_epsilon_up(epsilon, said):
    assert f"(ε = {said})-" in str(Guarantee(epsilon, 0.0, Relation.ADD_REMOVE))


def test_the_sentence_rounds_delta_up():
    assert "δ = 1e-5)" in str(Guarantee(1.0, 1e-5, Relation.ADD_REMOVE))
    assert "δ = 1.000001e-5)" in str(Guarantee(1.0, 1.0000001e-5, Relation.ADD_REMOVE))


@given(epsilon=st.floats(1e-9, 1e6), delta=st.floats(1e-300, 0.999))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_what_the_sentence_says_is_never_less_and_hardly_more(epsilon, delta):
    said = re.search(r"ε = (\S+), δ = (\S+)\)", str(Guarantee(epsilon, delta, Relation.ADD_REMOVE)))
    for number, true in zip(map(float, said.groups()), (epsilon, delta), strict=True):
        assert true <= number <= true * (1 + 1.1e-6)


def test_a_notebook_shows_the_whole_sentence_and_a_terminal_the_numbers():
    promise = Guarantee(1.0, 0.0, Relation.REPLACE_ONE, assumptions=("a < b",), unit=Unit.PERSON)
    assert repr(promise) == "Guarantee(ε = 1, replace-one, by person)"
    assert promise._repr_html_() == f"<p>{str(promise).replace('<', '&lt;')}</p>"
