import numpy as np
import pytest

from dptransfer.accounting import epsilon_of, mu_of
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import OnLattice, UnitNorm
from dptransfer.mechanisms import GaussianRounds, JointRounds, jointly, rounds_of
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Bound, GaussianEvent, Relation, Unit, for_group
from dptransfer.queries import ClassSums, SecondMoments, SoftmaxGradient
from dptransfer.queries.second_moments import OfAll, OfClasses
from dptransfer.queries.softmax_gradient import ROW_NORM

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
ROWS = OnLattice(4, ROW_NORM)
MOMENT, SUMS = SecondMoments(ROWS, OfAll()), ClassSums(ROWS, 2)
GRADIENT = SoftmaxGradient(ROWS, np.zeros((2, 4)), np.zeros(2))
DATA = np.full((3, 4), 2**14, dtype=np.int32), np.array([0, 1, 1])


def parts(relation=REPLACE, z=3.0, times=5):
    return [
        GaussianRounds(MOMENT, z / 0.2**0.5, relation, 1),
        GaussianRounds(GRADIENT, z * (times / 0.8) ** 0.5, relation, times),
    ]


def test_the_joint_price_is_the_reach_times_the_sum_of_the_prices():
    (joint,) = jointly(parts(), "both")
    apart = [part.event for part in parts()]
    assert joint.reach == pytest.approx(0.8, rel=1e-3)
    assert (1 / joint.event.noise_multiplier) ** 2 == pytest.approx(joint.reach / 3.0**2)
    assert joint.event.sensitivity**2 == pytest.approx(joint.reach)
    assert joint.event.scale == pytest.approx(3.0)  # of answers in units of sensitivity, weighted
    assert epsilon_of([joint.event], 1e-5) < 0.9 * epsilon_of(apart, 1e-5)
    each = [event.numeric_epsilon for event in apart]
    assert joint.event.numeric_epsilon == pytest.approx(sum(each), rel=1e-12, abs=0)
    (twice,) = jointly([parts()[1]] * 2, "both")
    assert twice.event.numeric_epsilon == pytest.approx(2 * each[1], rel=1e-12, abs=0)
    assert each[1] > 0


def test_add_remove_steps_stay_what_they_were():
    assert jointly(parts(ADD), "both") == parts(ADD)


def test_questions_about_persons_are_paid_for_one_by_one():
    """Nothing is proven of what one person can do to both."""
    of_people = ClassSums(ROWS, 2, bound=Bound(Unit.PERSON, 2.0))
    apart = [GaussianRounds(of_people, 4.0, REPLACE, 1), GaussianRounds(of_people, 5.0, REPLACE, 3)]
    assert jointly(apart, "both") == apart
    assert jointly([parts()[0], apart[0]], "both") == [parts()[0], apart[0]]


def test_a_joint_event_is_one_gaussian_event_for_groups_too():
    (joint,) = jointly(parts(), "both")
    assert type(joint.event) is GaussianEvent
    assert joint.event.relation is REPLACE
    assert mu_of([for_group(joint.event, 3)]) == pytest.approx(3 * mu_of([joint.event]), rel=1e-6)


def test_the_rounds_of_a_plan_are_found_in_any_of_its_steps():
    apart = parts()
    assert [part.query for part in rounds_of(jointly(apart, "both"))] == [MOMENT, GRADIENT]
    assert rounds_of(apart) == apart
    assert all(part.is_part for part in rounds_of(jointly(apart, "both")))
    assert rounds_of([JointRounds((), "none")]) == []


def test_a_part_answers_questions_of_its_own_kind_about_rows_on_the_grid_alone():
    moment, gradient = rounds_of(jointly(parts(), "both"))
    noise = SeededNoise(0)
    bolder = SoftmaxGradient(ROWS, np.ones((2, 4)), np.ones(2), clip=0.1)
    assert gradient.open(noise=noise).release(bolder, *DATA).shape == (2, 4)
    unmapped = SecondMoments(UnitNorm().fit(4, None), OfAll())
    finer = SecondMoments(OnLattice(4, 2**14), OfAll())
    by_class = SecondMoments(ROWS, OfClasses(1))
    wider = SoftmaxGradient(OnLattice(8, ROW_NORM), np.zeros((1, 8)), np.zeros(1))  # no more coordinates
    asked = ((gradient, SUMS), (moment, by_class), (moment, unmapped), (moment, finer), (gradient, wider))
    for paid, query in asked:
        rounds = paid.open(noise=noise)
        with pytest.raises(ArgumentError, match="its planned kind"):
            rounds.release(query, *DATA)
        assert rounds.asked == 0
