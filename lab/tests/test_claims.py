import pytest

from dptransfer.errors import DataError
from dptransfer_lab.claims import Claim, Where, entries_of
from dptransfer_lab.claims import check as checked

from .figures.test_best import tried
from .figures.test_curves import mixed
from .synthetic import cells, grid, record

FIELDS = {"text": "a is better.", "source": "Section 1", "kind": "above", "left": "a", "right": ["b", "c"]}


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


def claim(kind, left, right=(), **more):
    return Claim(text="A claim.", source="Section 1", kind=kind, left=left, right=right, **more)


def check(claim, records):
    return checked(claim, cells(records))


def outcome(records, kind, left, right=(), **more):
    return check(claim(kind, left, right, **more), records).outcome


def budgets(**by_label):
    """Two seeds around a value, for each label and each of four budgets."""
    return [
        record("mean", label=label, epsilon=epsilon, seed=seed, balanced=value + (0.01 if seed else -0.01))
        for label, values in by_label.items()
        for epsilon, value in zip((0.1, 1.0, 2.0, 8.0), values, strict=True)
        for seed in range(2)
    ]


def test_a_claim_holds_in_the_share_of_cells_it_asks_for():
    records = budgets(a=(0.5, 0.6, 0.7, 0.2), b=(0.4, 0.5, 0.6, 0.3))
    found = check(claim("above", "a", "b"), records)
    assert found.outcome == "confirmed"
    assert "ahead in 3 of 4" in found.because
    assert "mean difference +5.0 points" in found.because
    assert "at flowers, ε = 8: 20.0 % against 30.0" in found.because
    assert "n = 2 runs per mean" in found.because
    assert outcome(records, "above", "a", "b", share=1.0) == "not confirmed here"
    assert outcome(records, "below", "a", "b") == "not confirmed here"
    assert outcome(records, "above", "a", "b", share=1.0, where={"epsilon_max": 2}) == "confirmed"


def test_of_several_labels_the_best_counts():
    records = budgets(a=(0.5,) * 4, b=(0.1,) * 4, c=(0.6,) * 4)
    assert outcome(records, "above", "a", ["b", "c"]) == "not confirmed here"
    assert outcome(records, "above", ["a", "c"], "b") == "confirmed"


def test_close_is_within_the_tolerance():
    records = budgets(a=(0.5, 0.5, 0.5, 0.5), b=(0.505, 0.495, 0.5, 0.53))
    assert outcome(records, "close", "a", "b", tolerance=0.01) == "confirmed"
    assert outcome(records, "close", "a", "b", tolerance=0.01, share=1.0) == "not confirmed here"
    assert outcome(records, "close", "a", "b", tolerance=0.04, share=1.0) == "confirmed"
    found = check(claim("close", "a", "b"), records).because
    assert "3.0 points at flowers, ε = 8" in found


def test_a_trend_compares_the_ends_of_its_axis():
    records = budgets(a=(0.2, 0.9, 0.1, 0.5))
    assert outcome(records, "rises", "a") == "confirmed"
    found = check(claim("falls", "a"), records)
    assert found.outcome == "not confirmed here"
    assert "ε = 0.1 to 8 in 0 of 1" in found.because
    pools = [record(pool_rows=n, seed=s, balanced=0.5 + n / 10_000) for n in (100, 1000) for s in range(2)]
    assert outcome(pools, "rises", "mean", axis="pool_rows") == "confirmed"
    tail = [record(imbalance=r, rows=int(900 / r), balanced=0.9 / r) for r in (1.0, 10.0)]
    assert outcome(tail, "falls", "mean", axis="imbalance") == "confirmed"


def test_the_best_k_and_the_boost_have_tests_of_their_own():
    assert outcome(tried({0.1: 1, 10.0: 10}), "best-k-rises", "top-K") == "confirmed"
    assert outcome(tried({0.1: 10, 10.0: 1}), "best-k-rises", "top-K") == "not confirmed here"
    found = check(claim("boost-falls", "adamix", metric="accuracy"), mixed())
    assert found.outcome == "not confirmed here"
    assert "4.00 with 2 shots, 5.00 with 10" in found.because
    falls = mixed(adamix=(0.22, 0.29))
    assert outcome(falls, "boost-falls", "adamix", metric="accuracy") == "confirmed"


@pytest.mark.parametrize("kind", ["above", "below", "close", "rises", "falls", "best-k-rises", "boost-falls"])
def test_what_was_not_run_is_not_tested(kind):
    found = check(claim(kind, "nobody", "mean"), grid(("mean",)))
    assert found.outcome == "not tested here"
    assert "nobody" in found.because
    refused = [record(status="refused", message="no")]
    assert outcome(refused, "above", "mean", "mean") == "not tested here"


def test_different_budgets_are_not_compared():
    records = [
        record("mean", epsilon=1.0),
        record("public", epsilon=2.0),
        record("public", relation="replace-one"),
    ]
    assert outcome(records, "above", "mean", "public") == "not tested here"


def test_units_can_be_compared_and_are_not_mixed_otherwise():
    records = [
        record("mean", unit=unit, seed=seed, balanced=value)
        for unit, value in (("row", 0.8), ("person", 0.79), ("group", 0.1))
        for seed in range(2)
    ]
    close = claim("close", "person", "row", compare="unit", tolerance=0.02)
    assert check(close, records).outcome == "confirmed"
    assert outcome(records, "above", "person", "group", compare="unit") == "confirmed"
    rival = [record("public", unit="person", seed=seed, balanced=0.7) for seed in range(2)]
    found = check(claim("above", "mean", "public"), [*records, *rival])
    assert "in 1 of 1 cells" in found.because
    assert "79.0 % against 70.0 %" in found.because
