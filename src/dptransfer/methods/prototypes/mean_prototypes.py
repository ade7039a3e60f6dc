"""Noisy class sums, classified by direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.exact.cuda import DEVICES, use_cuda
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.about import BLUE, PROTOTYPES, About
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask, with_query
from dptransfer.methods.settings import one_of
from dptransfer.privacy import Budget, Unit
from dptransfer.queries import ClassSums
from dptransfer.release.heads import CosineHead


@dataclass(frozen=True)
class MeanPrototypes(EmbeddingMethod):
    """One prototype per class: the noisy sum of its unit-norm rows.

    Releases:      the (classes, dimension) matrix of class sums, all classes at once.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   see `ClassSums`: 1 under add/remove, 2 under replace-one.
    Assumes:       declared classes; a public feature map.
    Reference:     Wahdany et al. (2025), Section 4.1. Printed there: class means with noise 2r/(n_c·√(2ρ)).
                   That noise tells n_c, which is private under add/remove (claimed ε = 1.99, true ε = 97.6
                   for a class of 5). Sums need no n_c, half the noise, and cosine needs no count; an empty
                   class is a prototype of pure noise, not an error.

    Attributes:
        features: `UnitNorm()`, `UnitNorm(pool=4)` to average neighbouring features first, or a `PublicMap`.
        device: where rows are mapped and summed, 'cpu' or 'cuda'; a setting of speed, which changes no sum.
    """

    device: Annotated[str, one_of(*DEVICES)] = "cpu"
    name: ClassVar[str] = "mean"
    about: ClassVar[About] = About(
        summary="Noisy class sums: needs no public pool, and is the simplest to explain.",
        card="The sum of the private rows of each class was released with Gaussian noise, all classes in one "
        "release; a row is given the class whose sum it points along.",
        reference=f"{PROTOTYPES}, DPPL-Mean, with sums in place of means: the printed noise reveals class "
        "sizes.",
        family="From sums",
        colour=BLUE,
        marker="o",
    )
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """One Gaussian release of all class sums."""
        use_cuda(self.device)  # refused, where there is none, before anything is charged
        query = ClassSums(self.outline(facts, public), len(facts.classes), bound=facts.bound)
        return self.calibrated_plan(lambda z: [GaussianMechanism(query, z, budget.relation)], budget)

    def run(self, task: RowsTask) -> Outcome:
        """Release the sums; their directions are the prototypes."""
        (planned,) = task.plan.mechanisms
        sums = with_query(planned, features=task.prepared, device=self.device)
        released = sums.release(*task.examples, noise=task.noise)
        return Outcome(CosineHead(released), (sums.event,))
