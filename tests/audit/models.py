"""Hand-made classifiers with one weight per class and feature, for attacks whose answer is known."""

import numpy as np

from dptransfer.accounting import guarantee_of
from dptransfer.data.facts import Facts
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.privacy import GaussianEvent, Relation, Unit
from dptransfer.release.classifier import PrivateClassifier, Provenance
from dptransfer.release.heads import LinearHead

MU_ONE = GaussianEvent(1.0, Relation.ADD_REMOVE)


def linear_model(weights, events=(MU_ONE,), temperature=1.0, seeded=True, unit=Unit.ROW):
    weights = np.asarray(weights, dtype=np.float64)
    return PrivateClassifier(
        head=LinearHead(weights, np.zeros(len(weights)), temperature=temperature),
        features=UnitNorm().fit(weights.shape[1], None),
        facts=Facts(tuple(range(len(weights))), weights.shape[1], unit=unit),
        events=tuple(events),
        guarantee=guarantee_of(tuple(events), 1e-5),
        provenance=Provenance(method="by-hand", configuration={}, seeded=seeded),
    )
