"""A person is carried from the query to the event, the guarantee, the ledger, the files and the sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import Requests, fits, guarantee_of
from dptransfer.errors import ArgumentError, RelationMismatch
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import (
    ExponentialMechanism,
    GaussianMechanism,
    GaussianRounds,
    GaussianShares,
    TopKMechanism,
)
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    GaussianEvent,
    Guarantee,
    Relation,
    Unit,
    event_from_dict,
    event_to_dict,
    for_group,
    in_relation,
    same_relation,
)
from dptransfer.queries import ClassSums
from dptransfer.release.verify import verify_files
from mechanisms.samples import GivenScores
from release.models import make_model, rewrite

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
PERSON_WORDS = "one person, with all their examples"


class PersonSums(ClassSums):
    """Stands for a query that bounds what all examples of a person contribute."""

    unit = Unit.PERSON


SUMS = PersonSums(UnitNorm().fit(4, None), 2)
SCORES = GivenScores(np.zeros((3, 2), dtype=np.int64), 1, unit=Unit.PERSON)
STEPS = {
    "gaussian": GaussianMechanism(SUMS, 4.0, ADD),
    "shares": GaussianShares(SUMS, 4.0, ADD, "shares"),
    "rounds": GaussianRounds(SUMS, 8.0, ADD, 3),
    "sampled rounds": GaussianRounds(SUMS, 8.0, ADD, 3, sampling_rate=0.1),
    "selection": ExponentialMechanism(SCORES, 0.5, ADD),
    "top-k": TopKMechanism(SCORES, 0.5, ADD, 2),
}
EVENTS = {
    **{name: step.event for name, step in STEPS.items()},
    "tuned": BestOfManyEvent(((STEPS["gaussian"].event, STEPS["selection"].event),), 3, 1.0),
}
ROW = GaussianEvent(4.0, ADD)
PERSON = replace(ROW, unit=Unit.PERSON)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_a_step_protects_the_unit_of_its_query_and_says_so_everywhere(event):
    assert event.unit is Unit.PERSON
    written = json.loads(json.dumps(event_to_dict(event)))
    assert written["unit"] == "person"
    assert event_from_dict(written) == event
    assert for_group(event, 2).unit is in_relation(event, REPLACE).unit is Unit.PERSON
    promise = guarantee_of([event], 1e-5)
    assert promise.unit is Unit.PERSON
    assert str(promise).endswith(f"adding or removing {PERSON_WORDS}.")
    assert Guarantee.from_dict(json.loads(json.dumps(promise.to_dict()))) == promise
    later = Requests.of([[event], [event]]).guarantee(1e-5, ADD)
    assert later.unit is Unit.PERSON
    assert later.epsilon > promise.epsilon


def test_of_rows_nothing_is_written_that_was_not_written_before():
    assert "unit" not in event_to_dict(ROW)
    assert "unit" not in guarantee_of([ROW], 1e-5).to_dict()
    assert event_from_dict({**event_to_dict(ROW), "unit": "row"}) == ROW
    ledger = Ledger.in_memory()
    ledger.set_budget("clinic", Budget(epsilon=1.0))
    assert "unit" not in json.loads(_bodies(ledger)[0])


def test_units_are_not_mixed():
    for events in ([ROW, PERSON], [PERSON, ROW]):
        with pytest.raises(RelationMismatch, match="person and row"):
            same_relation(events)
        with pytest.raises(RelationMismatch, match="one unit"):
            fits(events, Budget(epsilon=9.0, delta=1e-5))
        with pytest.raises(RelationMismatch, match="one unit"):
            BestOfManyEvent((events,), 2, 1.0)
    with pytest.raises(RelationMismatch, match="by person events"):
        guarantee_of([PERSON], 1e-5, unit=Unit.ROW)
    with pytest.raises(ArgumentError, match="a Unit"):
        GaussianEvent(4.0, ADD, unit="person")
    tuned = event_to_dict(EVENTS["tuned"])
    with pytest.raises(ArgumentError, match="its candidates"):
        event_from_dict({key: value for key, value in tuned.items() if key != "unit"})


def test_a_release_states_its_unit_and_one_that_mixes_units_is_refused(tmp_path):
    model = make_model(events=(PERSON,))
    replace(model, facts=replace(model.facts, unit=Unit.PERSON)).save(tmp_path / "release")
    found = verify_files(tmp_path / "release")
    assert not found.failures
    assert found.unit == found.to_dict()["unit"] == "person"
    assert PERSON_WORDS in (tmp_path / "release" / "README.md").read_text()

    def forge(fields):
        del fields["guarantee"]["unit"]
        fields["guarantee"]["sentence"] = str(guarantee_of([ROW], 1e-5))

    rewrite(tmp_path / "release", forge)
    found = verify_files(tmp_path / "release")
    assert found.failures == ("schema",)
    assert "another unit" in found.checks[0].detail


def _bodies(ledger):
    with ledger._store.transaction() as chain:
        return [row.body for row in chain.rows]
