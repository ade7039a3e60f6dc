"""Public, row-by-row feature maps that end on an integer lattice."""

from dptransfer.features.base import Features, FittedFeatures, apply, describe, read_features
from dptransfer.features.on_lattice import OnLattice
from dptransfer.features.principal_axes import cache_folder
from dptransfer.features.public_map import FittedPublicMap, PublicMap
from dptransfer.features.side_by_side import FittedSideBySide
from dptransfer.features.unit_norm import FittedUnitNorm, UnitNorm
from dptransfer.features.vocabulary_map import FittedVocabularyMap, VocabularyMap

__all__ = [
    "Features",
    "FittedFeatures",
    "FittedPublicMap",
    "FittedSideBySide",
    "FittedUnitNorm",
    "FittedVocabularyMap",
    "OnLattice",
    "PublicMap",
    "UnitNorm",
    "VocabularyMap",
    "apply",
    "cache_folder",
    "describe",
    "read_features",
]
