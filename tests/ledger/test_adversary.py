"""The ledger against requests that depend on earlier answers."""

import math
from functools import partial

import pytest

from dptransfer.accounting import Requests, delta_of, fits, mu_for
from dptransfer.accounting.filters import BASIC_SHARE
from dptransfer.errors import BudgetExceeded
from dptransfer.ledger import Ledger
from dptransfer.privacy import Budget, GaussianEvent

from .adversary import KINDS, WITH, WITHOUT, adaptive_delta, delta_of_analyst, strongest, tuned
from .behind_its_back import copied
from .samples import ADD

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def old_rule(past, new, budget=BUDGET):
    """What the ledger went by before: past and new events together, as if fixed in advance."""
    return fits([*past, *new], budget)


def new_rule(rule=None, budget=BUDGET):
    return lambda past, new: Requests.of([past, new], rule).fit(budget)


UNSAMPLED = [name for name in KINDS if not name.startswith("sampled")]


def continuations(first, grants, names=KINDS):
    """Steps of these kinds, each as strong as the account grants it after the first one."""
    found = {name: strongest(KINDS[name], lambda new: grants([first], new)) for name in names}
    return [(KINDS[name], strength) for name, strength in found.items() if strength is not None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", [WITH, WITHOUT])
def test_the_adversary_realises_the_worst_case_that_is_accounted_for(kind, direction):
    step = KINDS[kind]
    strength = 3.0 if kind.startswith("sampled") else 0.7
    for epsilon in (0.05, 0.3):
        real = step.curve(strength, [epsilon], direction)[0]
        assert real <= delta_of([step.event(strength)], epsilon) * (1 + 1e-3)
    if kind in ("gaussian", "pure") or (kind.startswith("sampled") and direction == WITH):
        assert real >= delta_of([step.event(strength)], epsilon) * (1 - 2e-3)


@pytest.mark.parametrize(
    ("kind", "rule", "part", "names"),
    [
        ("gaussian", None, 0.8, [*UNSAMPLED, "sampled 0.001"]),
        *(
            pytest.param("gaussian", None, part, [*UNSAMPLED, "sampled 0.001"], marks=pytest.mark.slow)
            for part in (0.5, 0.95)
        ),
        ("gaussian", "renyi", 0.5, KINDS),
        pytest.param("gaussian", "renyi", 0.8, KINDS, marks=pytest.mark.slow),
        pytest.param("exponential", None, 0.5, [*UNSAMPLED, "sampled 0.01"], marks=pytest.mark.slow),
        pytest.param("exponential", "renyi", 0.4, KINDS, marks=pytest.mark.slow),
        ("sampled 0.01", None, 0.3, KINDS),
        pytest.param("sampled 0.01", "gaussian", 0.9, ["gaussian", "exponential"], marks=pytest.mark.slow),
        pytest.param("gaussian", None, 0.8, KINDS, marks=pytest.mark.slow),
    ],
)
def test_no_choice_made_after_an_answer_exceeds_the_budget(kind, rule, part, names):
    first = KINDS[kind]
    strength = part * strongest(first, lambda new: fits(new, BUDGET))
    options = continuations(first.event(strength), new_rule(rule), names)
    adaptive, alone = adaptive_delta(first, strength, options, BUDGET.epsilon)
    assert alone <= adaptive <= BUDGET.delta * (1 + 1e-4)  # the grids of the computation
    if kind == "gaussian" and rule is None:
        assert adaptive >= 0.99 * (1 - BASIC_SHARE) * BUDGET.delta  # the bound of one rule is reached


@pytest.mark.parametrize(
    "budget",
    [
        Budget(epsilon=4.0, delta=1e-5),
        pytest.param(Budget(epsilon=0.25, delta=1e-6), marks=pytest.mark.slow),
    ],
)
def test_no_choice_exceeds_a_larger_or_a_smaller_budget(budget):
    strength = 0.8 * mu_for(budget.epsilon, budget.delta)
    first = KINDS["gaussian"]
    options = continuations(first.event(strength), new_rule(budget=budget), [*UNSAMPLED, "sampled 0.01"])
    adaptive, _ = adaptive_delta(first, strength, options, budget.epsilon)
    assert adaptive <= budget.delta * (1 + 1e-4)


def test_the_old_rule_is_seen_to_break_its_promise():
    strength = 0.8 * mu_for(BUDGET.epsilon, BUDGET.delta)
    names = ["gaussian", "sampled 0.0001"]
    options = continuations(KINDS["gaussian"].event(strength), old_rule, names)
    adaptive, alone = adaptive_delta(KINDS["gaussian"], strength, options, BUDGET.epsilon)
    assert alone <= BUDGET.delta * (1 + 1e-3)  # each request alone looks right
    assert adaptive > 1.8 * BUDGET.delta


def either_rule_at_all_of_delta(requests, budget=BUDGET):
    """The wrong way to have two rules: δ is not split between them."""
    asked = Requests.of(requests)
    if not asked.later:
        return asked.fit(budget)
    by_rule = asked._by_rule(budget.delta, budget.epsilon)
    return min(by_rule, asked._by_basic_composition(budget.delta, math.inf)) <= budget.epsilon


@pytest.mark.parametrize(
    ("part", "more", "names"),
    [
        pytest.param(0.2, 2, ["gaussian", "pure"], marks=pytest.mark.slow),
        pytest.param(0.5, 2, ["gaussian", "pure"], marks=pytest.mark.slow),
        (0.7, 1, ["gaussian", "pure", "exponential", "permute-and-flip"]),
        pytest.param(0.35, 2, ["gaussian", "pure", "exponential"], marks=pytest.mark.slow),
        pytest.param(0.2, 3, ["gaussian", "pure"], marks=pytest.mark.slow),
    ],
)
def test_whoever_fills_one_rule_or_the_other_by_the_answers_stays_within_the_budget(part, more, names):
    strength = part * mu_for(BUDGET.epsilon, BUDGET.delta)
    analyst = partial(
        delta_of_analyst, strength, names, epsilon=BUDGET.epsilon, more=more, fractions=(1.0, 0.5)[:more]
    )
    reached = analyst(grants=lambda requests: Requests.of(requests).fit(BUDGET))
    assert 0.93 * BUDGET.delta <= reached <= BUDGET.delta * (1 + 1e-3)
    if part <= 0.5:
        assert analyst(grants=either_rule_at_all_of_delta) > 1.2 * BUDGET.delta


def test_two_rules_that_share_delta_are_each_needed():
    """What either grants alone is granted, and what neither grants is not."""
    half = KINDS["gaussian"].event(0.5 * mu_for(BUDGET.epsilon, BUDGET.delta))
    options = {
        name: most
        for (_, most), name in zip(
            continuations(half, new_rule(), ["gaussian", "pure"]), ["gaussian", "pure"], strict=True
        )
    }
    # The Gaussian one fills the first rule, the selection what basic composition leaves beside the first.
    assert options["gaussian"] == pytest.approx(0.2311, abs=2e-3)
    assert options["pure"] == pytest.approx(0.423, abs=2e-3)
    both = [[half], *([KINDS[name].event(0.75 * most)] for name, most in options.items())]
    assert not Requests.of(both).fit(BUDGET)


def test_a_real_ledger_grants_exactly_these_continuations(tmp_path):
    strength = 0.8 * mu_for(BUDGET.epsilon, BUDGET.delta)
    first = KINDS["gaussian"].event(strength)
    start = tmp_path / "start.sqlite"
    ledger = Ledger(start)
    ledger.set_budget("clinic-a", BUDGET)
    ledger.charge("clinic-a", [first], label="mean")
    for number, (kind, most) in enumerate(continuations(first, new_rule(), [*UNSAMPLED, "sampled 0.01"])):
        book = Ledger(copied(start, tmp_path / f"{number}.sqlite"))
        with pytest.raises(BudgetExceeded):
            book.charge("clinic-a", [kind.event(most * 1.011)], label="second")
        book.charge("clinic-a", [kind.event(most)], label="second")
        assert book.privacy_spent("clinic-a").epsilon == pytest.approx(BUDGET.epsilon, rel=1e-2)
    for step in (GaussianEvent(6.3, ADD), tuned(0.001)):
        Ledger(copied(start, tmp_path / f"{step.kind}.sqlite")).charge("clinic-a", [step], label="second")
    with pytest.raises(BudgetExceeded, match="by basic composition"):
        ledger.charge("clinic-a", [KINDS["sampled 0.0001"].event(1 / 0.28795)], label="second")
