"""Names for authors of plug-ins: methods, encoders, queries, events and readers are written with these.

They stay where they are for as long as this module lists them; whatever is imported from elsewhere may move.
`dptransfer.testing` has the checks that a plug-in must pass. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dptransfer.base.plugins import imported as _imported

if TYPE_CHECKING:
    from dptransfer.accounting import fits as fits
    from dptransfer.accounting import guarantee_of as guarantee_of
    from dptransfer.accounting import noise_multiplier_for as noise_multiplier_for
    from dptransfer.accounting import selection_epsilon_for as selection_epsilon_for
    from dptransfer.accounting.pure import SelectionGroup as SelectionGroup
    from dptransfer.accounting.steps import GaussianPart as GaussianPart
    from dptransfer.accounting.steps import RenyiPart as RenyiPart
    from dptransfer.accounting.steps import part_of as part_of
    from dptransfer.data import EncoderIdentity as EncoderIdentity
    from dptransfer.data import Facts as Facts
    from dptransfer.data import PrivateEmbeddings as PrivateEmbeddings
    from dptransfer.data import PublicEmbeddings as PublicEmbeddings
    from dptransfer.data import RawTable as RawTable
    from dptransfer.data import Vocabulary as Vocabulary
    from dptransfer.encoders import Encoder as Encoder
    from dptransfer.encoders import EncoderDelta as EncoderDelta
    from dptransfer.encoders import EncoderNote as EncoderNote
    from dptransfer.encoders import ImageEncoder as ImageEncoder
    from dptransfer.errors import ArgumentError as ArgumentError
    from dptransfer.errors import BudgetError as BudgetError
    from dptransfer.errors import DataError as DataError
    from dptransfer.errors import DPTransferError as DPTransferError
    from dptransfer.exact.feature_map import UnitNorm as UnitNorm
    from dptransfer.exact.lattice import clipped_lattice as clipped_lattice
    from dptransfer.exact.public_map import PublicMap as PublicMap
    from dptransfer.exact.sums import scaled_down as scaled_down
    from dptransfer.mechanisms import ExponentialMechanism as ExponentialMechanism
    from dptransfer.mechanisms import GaussianMechanism as GaussianMechanism
    from dptransfer.mechanisms import GaussianRounds as GaussianRounds
    from dptransfer.mechanisms import GaussianShares as GaussianShares
    from dptransfer.mechanisms import Mechanism as Mechanism
    from dptransfer.mechanisms import PermuteAndFlip as PermuteAndFlip
    from dptransfer.mechanisms import TopKMechanism as TopKMechanism
    from dptransfer.methods.about import About as About
    from dptransfer.methods.base import EmbeddingMethod as EmbeddingMethod
    from dptransfer.methods.base import Outcome as Outcome
    from dptransfer.methods.base import Plan as Plan
    from dptransfer.methods.base import with_query as with_query
    from dptransfer.methods.image_method import ImageMethod as ImageMethod
    from dptransfer.methods.votes.voting import Voting as Voting
    from dptransfer.noise import NoiseSource as NoiseSource
    from dptransfer.privacy import Bound as Bound
    from dptransfer.privacy import Budget as Budget
    from dptransfer.privacy import Event as Event
    from dptransfer.privacy import GaussianEvent as GaussianEvent
    from dptransfer.privacy import Relation as Relation
    from dptransfer.privacy import SelectionEvent as SelectionEvent
    from dptransfer.privacy import Unit as Unit
    from dptransfer.queries import ClassCounts as ClassCounts
    from dptransfer.queries import ClassSums as ClassSums
    from dptransfer.queries import ClassSumsAndCounts as ClassSumsAndCounts
    from dptransfer.queries import SecondMoments as SecondMoments
    from dptransfer.queries import SoftmaxGradient as SoftmaxGradient
    from dptransfer.queries.base import BoundedQuery as BoundedQuery
    from dptransfer.queries.base import L2Query as L2Query
    from dptransfer.queries.base import ScoreQuery as ScoreQuery
    from dptransfer.release.heads import CosineHead as CosineHead
    from dptransfer.release.heads import LinearHead as LinearHead
    from dptransfer.release.heads import QuadraticHead as QuadraticHead
    from dptransfer.sources import PrivateImages as PrivateImages
    from dptransfer.sources import PublicImages as PublicImages

_HOMES = {
    "accounting": (
        "fits",
        "guarantee_of",
        "noise_multiplier_for",
        "selection_epsilon_for",
    ),
    "accounting.pure": ("SelectionGroup",),
    "accounting.steps": (
        "GaussianPart",
        "RenyiPart",
        "part_of",
    ),
    "exact.sums": ("scaled_down",),
    "data": (
        "EncoderIdentity",
        "Facts",
        "PrivateEmbeddings",
        "PublicEmbeddings",
        "RawTable",
        "Vocabulary",
    ),
    "sources": (
        "PrivateImages",
        "PublicImages",
    ),
    "encoders": (
        "Encoder",
        "EncoderDelta",
        "EncoderNote",
        "ImageEncoder",
    ),
    "errors": (
        "ArgumentError",
        "BudgetError",
        "DataError",
        "DPTransferError",
    ),
    "exact.public_map": ("PublicMap",),
    "exact.feature_map": ("UnitNorm",),
    "exact.lattice": ("clipped_lattice",),
    "mechanisms": (
        "ExponentialMechanism",
        "GaussianMechanism",
        "GaussianRounds",
        "GaussianShares",
        "Mechanism",
        "PermuteAndFlip",
        "TopKMechanism",
    ),
    "methods.about": ("About",),
    "methods.base": (
        "EmbeddingMethod",
        "Outcome",
        "Plan",
        "with_query",
    ),
    "methods.image_method": ("ImageMethod",),
    "methods.votes.voting": ("Voting",),
    "noise": ("NoiseSource",),
    "privacy": (
        "Bound",
        "Budget",
        "Event",
        "GaussianEvent",
        "Relation",
        "SelectionEvent",
        "Unit",
    ),
    "queries": (
        "ClassCounts",
        "ClassSums",
        "ClassSumsAndCounts",
        "SecondMoments",
        "SoftmaxGradient",
    ),
    "queries.base": (
        "BoundedQuery",
        "L2Query",
        "ScoreQuery",
    ),
    "release.heads": (
        "CosineHead",
        "LinearHead",
        "QuadraticHead",
    ),
}
_PLACES = {name: f"dptransfer.{home}:{name}" for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # type checkers would take every name for one that is there, or none
    __all__ = sorted(_PLACES, key=str.lower)

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
        return _imported(_PLACES[name])


def __dir__() -> list[str]:
    return sorted(_PLACES)
