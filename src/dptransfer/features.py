"""Feature maps: public, row by row, from floats to integers of bounded norm."""

from dptransfer.exact.feature_map import (
    Features,
    FittedFeatures,
    FittedSideBySide,
    FittedUnitNorm,
    OnLattice,
    UnitNorm,
    apply,
    describe,
    read_features,
)
from dptransfer.exact.principal_axes import cache_folder
from dptransfer.exact.public_map import FittedPublicMap, PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap, VocabularyMap

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
