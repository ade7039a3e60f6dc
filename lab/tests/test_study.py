import pytest

from dptransfer.errors import DataError
from dptransfer_lab.study import parse_study

from .samples import SMALL


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds = 2", "seedz = 2", "mean 'seeds'"),
        ("oracle_tuned = true", "oracle_tund = true", "in [method]"),
        ("oracle_tuned = true", "only = { dat = 'x' }", "in [method.only]"),
        ("oracle_tuned = true", "colour = 3", "Known here:"),
        ('name = "mean"', 'name = "meen"', "mean 'mean'"),
        ('features = "unit-norm"', "nonsense = 1", "no 'nonsense'"),
        ("delta = 1e-5", "", "delta above 0"),
        ("epsilon = [0.5, 2]", "pure = [1]", "has no delta"),
        ("epsilon = [0.5, 2]", "", "one of epsilon"),
        ("epsilon = [0.5, 2]", "epsilon = [-1]", "epsilon must be"),
        ("imbalance = [1, 4]", "imbalance = [0.5]", "ratios of"),
        ("seeds = 2", "seeds = 0", "at least 1"),
        ("seeds = 2", "seeds = [1, 1]", "distinct"),
        ('pool = "pool"', 'pool = "puddle"', "[[pool]] table"),
        ('source = { made = "pool', 'source = { other = "pool', "encoder 'made'"),
        ('label = "sums"', 'label = "public"', "two methods"),
        ('name = "small"', 'name = "../up"', "at name"),
        ("seeds = 2", 'seeds = 2\nunit = "people"', "'person' or"),
        ("seeds = 2", "seeds = 2\nunit = []", "each once"),
        ("seeds = 2", "seeds = 2\nperson_bound = [0.0]", "person_bound must be"),
        ("seeds = 2", "seeds = 2\nperson_bound = [2, 2]", "different numbers"),
        ('{ made = "toy.npz" }', '{ made = ["toy.npz", "pool.npz"] }', "'toy' lists several"),
        ('name = "small"', "name = ", "must be TOML"),
    ],
)
def test_mistakes_are_explained(old, new, said):
    assert old in SMALL
    with pytest.raises(DataError) as problem:
        parse_study(SMALL.replace(old, new, 1))
    assert said in str(problem.value)


def test_defaults_are_filled_in_and_change_the_digest(small):
    whole = small.resolved()
    assert whole["seeds"] == [0, 1]
    assert whole["method"][0]["declare"] == "nothing"
    assert whole["data"][0]["source"]["made"] == {"train": "toy.npz", "test": None, "more": [], "size": None}
    assert parse_study(SMALL + "\n# a comment\n").digest == small.digest
    assert parse_study(SMALL.replace("seeds = 2", "seeds = [0, 1]")).digest == small.digest
    assert parse_study(SMALL.replace("seeds = 2", "seeds = 3")).digest != small.digest


def test_budgets_of_every_currency():
    tables = """
[[budget]]
pure = 1
relation = "replace-one"
[[budget]]
rho = [0.1]
[[budget]]
mu = 0.5
delta = 1e-6
"""
    study = parse_study(SMALL + tables)
    found = [budget for grid in study.budget for budget in grid.budgets()]
    assert [budget.flavour for budget in found] == ["approximate", "approximate", "pure", "zcdp", "gdp"]
    assert found[2].relation.value == "replace-one"
    assert (found[3].delta, found[4].delta) == (1e-5, 1e-6)


def test_a_pool_may_be_a_list_of_files():
    text = SMALL.replace('{ made = "pool.npz" }', '{ made = ["pool.npz", "more.npz", "most.npz"] }')
    source = parse_study(text).pool[0].source["made"]
    assert (source.train, source.more) == ("pool.npz", ("more.npz", "most.npz"))
