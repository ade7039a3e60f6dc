"""A method of another package is tried on made-up examples before it is charged for; our own are not."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import dptransfer
from dptransfer.errors import DPTransferError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.mechanisms.row_shares import recording
from dptransfer.methods import Auto, EmbeddingMethod, ImageMethod, MeanPrototypes, PrivateTuning
from dptransfer.methods.fitting import make_up_examples
from dptransfer.methods.method import Outcome, with_query
from dptransfer.privacy import Unit
from dptransfer.queries import ClassSums
from dptransfer.release.heads import CosineHead
from dptransfer.sklearn.pipeline import make_private_pipeline
from dptransfer.sklearn.private_classifier import PrivateClassifier
from dptransfer.sources import PrivateImages

from .samples import BUDGET, CLASSES, WIDTH, Watched, clusters, private


@dataclass(frozen=True)
class Forgets(EmbeddingMethod):
    """Runs the planned step on the outline of a feature map: `with_query` was forgotten."""

    name: ClassVar[str] = "forgets"
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    def plan(self, facts, budget, public=None):
        query = ClassSums(self.outline(facts, public), len(facts.classes), bound=facts.bound)
        return self.calibrated_plan(lambda z: [GaussianMechanism(query, z, budget.relation)], budget)

    def run(self, task):
        step = self.fitted(task.plan.mechanisms[0], task.prepared)
        sums = step.release(*task.examples, noise=task.noise)
        return Outcome(CosineHead(np.asarray(sums, dtype=float)), (step.event,))

    def fitted(self, step, features):
        return step


class Remembers(Forgets):
    """The same as it should be."""

    name = "remembers"

    def fitted(self, step, features):
        return with_query(step, features=features)


class RunsTwice(Remembers):
    """Takes one step more than was charged."""

    name = "runs-twice"

    def run(self, task):
        once = super().run(task)
        return replace(once, events=once.events * 2)


class SharpensTooMuch(Remembers):
    """Changes what the step costs."""

    name = "sharpens-too-much"

    def fitted(self, step, features):
        return with_query(step, features=features, bound=replace(step.query.bound, examples=3.0))


class Fails(Remembers):
    """Has a bug."""

    name = "fails"

    def fitted(self, step, features):
        return 1 / 0


BAD = pytest.mark.parametrize("method", [Forgets(), RunsTwice(), SharpensTooMuch(), Fails()])


@BAD
@pytest.mark.parametrize(("people", "holdout"), [(False, None), (True, 0.2)])
def test_a_run_that_cannot_match_its_plan_is_refused_before_the_charge(method, people, holdout):
    x, y = clusters()
    data = Watched(x, y, classes=CLASSES, name="samples", people=np.arange(len(x)) if people else None)
    reads, ledger = data.reads, Ledger.in_memory()
    with pytest.raises(DPTransferError, match=f"'{method.name}' failed"):
        method.fit(data, budget=BUDGET, ledger=ledger, holdout=holdout)
    assert ledger.history() == []
    assert data.reads == reads
    good = Remembers().fit(data, budget=BUDGET, ledger=ledger, holdout=holdout)  # so the check above can fail
    assert ledger.history()[0].events == good.events


def through_one_call(method, ledger, _):
    dptransfer.fit(*clusters(), epsilon=1, classes=CLASSES, method=method, name="samples", ledger=ledger)


def through_sklearn(method, ledger, _):
    x, y = clusters()
    estimator = PrivateClassifier(method, classes=CLASSES, name="samples", ledger=ledger)
    make_private_pipeline(estimator).fit(x, np.array(CLASSES)[y])


def through_auto(method, ledger, _):
    Auto(candidates=(method,)).fit(private(), budget=BUDGET, ledger=ledger)


def through_tuning(method, ledger, _):
    tuned = PrivateTuning(candidates=(method, replace(method, features=UnitNorm(pool=2))))
    tuned.fit(private(), budget=BUDGET, ledger=ledger)


def in_a_workspace(method, ledger, folder):
    method.fit(private(), budget=BUDGET, ledger=ledger, workspace=folder / "run")


DOORS = pytest.mark.parametrize(
    "door", [through_one_call, through_sklearn, through_auto, through_tuning, in_a_workspace]
)


@DOORS
def test_a_method_as_it_should_be_passes_every_door(door, tmp_path):
    ledger = Ledger.in_memory()
    door(Remembers(), ledger, tmp_path)
    assert ledger.history()[0].outcome == "released"


@BAD
@DOORS
def test_every_way_to_a_fit_refuses_it(method, door, tmp_path):
    ledger = Ledger.in_memory()
    with pytest.raises(DPTransferError):
        door(method, ledger, tmp_path)
    assert ledger.history() == []
    assert list(tmp_path.iterdir()) == []


def test_a_method_that_chooses_among_others_is_tried_for_their_sake_and_not_otherwise(monkeypatch):
    runs = []
    own = MeanPrototypes.run

    def run(self, task):
        runs.append(len(task.private.labels))
        return own(self, task)

    monkeypatch.setattr(MeanPrototypes, "run", run)
    MeanPrototypes().fit(private(), budget=BUDGET, ledger=Ledger.in_memory())
    assert runs == [600]

    class Theirs(MeanPrototypes):
        name = "theirs"

    Theirs().fit(private(), budget=BUDGET, ledger=Ledger.in_memory())
    assert runs == [600, 6, 600]


@pytest.mark.parametrize("facts", [{}, {"size": 500}, {"person_bound": 2.0, "people": True}])
def test_made_up_examples_have_the_declared_facts_and_no_private_value(facts):
    x, y = clusters()
    people = np.arange(600) // 3 if facts.pop("people", False) else None
    data = Watched(x, y, classes=CLASSES, name="samples", people=people, **facts)
    reads = data.reads
    found = make_up_examples(data, data.facts)
    assert data.reads == reads
    assert found.facts is data.facts
    assert (found.name, len(found.labels), found.rows.shape) == (None, 6, (6, WIDTH))
    assert sorted(found.labels) == [0, 0, 1, 1, 2, 2]
    assert (found.people is None) == (people is None)
    many = replace(data.facts, classes=tuple(range(1000)))
    assert len(make_up_examples(data, many).labels) == 32


@dataclass(frozen=True)
class OnPictures(ImageMethod):
    """Looks at the pictures it is given; fails if it is told to."""

    name: ClassVar[str] = "on-pictures"
    fails: bool = False

    def plan(self, facts, budget, public=None):
        return self.make_plan([], budget)

    def run(self, task):
        seen = task.private.pixels[np.arange(len(task.private.labels))]
        assert seen.shape[1:] == task.private.facts.shape == (4, 4, 3)
        if self.fails:
            raise RuntimeError("no good")
        return Outcome(CosineHead(np.eye(2, 4)), events=(), features=UnitNorm().fit(4, None))


def test_methods_on_pictures_are_tried_on_pictures():
    data = PrivateImages(np.zeros((2, 4, 4, 3), np.uint8), [0, 1], classes=["a", "b"], name="wards")
    ledger = Ledger.in_memory()
    with pytest.raises(DPTransferError, match="no good"):
        OnPictures(fails=True).fit(data, budget=BUDGET, ledger=ledger)
    assert ledger.history() == []
    OnPictures().fit(data, budget=BUDGET, ledger=ledger)
    assert [entry.label for entry in ledger.history()[:1]] == ["on-pictures"]


def test_a_trial_is_no_release_for_whoever_records_them():
    with recording() as releases:
        Remembers().fit(private(), budget=BUDGET, ledger=Ledger.in_memory())
    assert [len(one.shares) for one in releases] == [600]


def test_what_only_real_rows_bring_about_is_still_found_after_the_run():
    class Waits(Remembers):
        name = "waits"

        def run(self, task):
            found = super().run(task)
            return found if len(task.private.labels) < 100 else replace(found, events=())

    ledger = Ledger.in_memory()
    with pytest.raises(DPTransferError, match="The charge stands"):
        Waits().fit(private(), budget=BUDGET, ledger=ledger)
    assert ledger.history()[0].outcome == "failed"
