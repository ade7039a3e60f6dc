import pytest

from dptransfer.errors import DataError
from dptransfer_lab.claims import Claim, Where, entries_of

from .synthetic import cells, record

FIELDS = {"text": "a is better.", "source": "Section 1", "kind": "above", "left": "a", "right": ["b", "c"]}


def test_one_name_stands_for_a_list_of_one():
    (claim,) = entries_of({"claim": [FIELDS]}, "claim", Claim)
    assert claim.left == ("a",)
    assert claim.right == ("b", "c")


@pytest.mark.parametrize("wrong", [{"kind": "nicer"}, {"colour": "red"}, {"where": {"ratio": 1}}])
def test_a_claim_that_cannot_be_read_is_named(wrong):
    with pytest.raises(DataError, match="Claim 2"):
        entries_of({"claim": [FIELDS, {**FIELDS, **wrong}]}, "claim", Claim)


def test_where_says_which_cells_are_meant():
    where = Where(imbalance=[10, 50], epsilon_max=1, data="flowers", flavour="approximate")
    meant = record(imbalance=10.0, epsilon=1.0)
    others = [
        record(imbalance=1.0, epsilon=1.0),
        record(imbalance=10.0, epsilon=1.1),
        record(imbalance=10.0, epsilon=1.0, data="birds"),
        record(imbalance=10.0, epsilon=1.0, flavour="pure"),
    ]
    assert where.of(cells([*others, meant]))["cell"].tolist() == [meant["cell"]]
    assert len(Where().of(cells([*others, meant]))) == 5


def test_a_budget_in_rho_is_placed_by_its_epsilon():
    small, large = record(epsilon=0.125, flavour="zcdp"), record(epsilon=0.5, flavour="zcdp")
    assert Where(epsilon_max=2.0).of(cells([small, large]))["cell"].tolist() == [small["cell"]]


def test_a_study_without_claims_has_none():
    assert entries_of({}, "claim", Claim) == []
    assert Claim.model_validate(FIELDS).share == 0.75
