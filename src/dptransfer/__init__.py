"""Differentially private classifiers from private embeddings and public encoders.

Names are imported when they are first used, so that `import dptransfer` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dptransfer.data import PrivateEmbeddings, PrivateImages, PublicEmbeddings, PublicImages
    from dptransfer.features import PublicMap, UnitNorm
    from dptransfer.ledger import Ledger
    from dptransfer.methods import (
        NGD,
        PPGD,
        AdaMix,
        Auto,
        CoinPressPrototypes,
        DPSGDProbe,
        FeatureCovariance,
        FromNames,
        FromShots,
        FromZero,
        FullyPrivate,
        GlobalAdapt,
        LanguageInit,
        LeastSquares,
        MeanEstimation,
        MeanPrototypes,
        NewtonHead,
        NoisyGD,
        OnlyPublic,
        Pace,
        PrivateTuning,
        PublicPriorPrototypes,
        PublicPrototypes,
        TopKPrototypes,
    )
    from dptransfer.methods.replan import verify_release as verify
    from dptransfer.noise import SecureNoise, SeededNoise
    from dptransfer.privacy import Budget, Guarantee, Relation
    from dptransfer.release import PrivateClassifier, evaluate
    from dptransfer.release import read_release as load

_HOMES = {
    "data": ("PrivateEmbeddings", "PrivateImages", "PublicEmbeddings", "PublicImages"),
    "features": ("PublicMap", "UnitNorm"),
    "ledger": ("Ledger",),
    "methods": (
        "AdaMix",
        "Auto",
        "CoinPressPrototypes",
        "DPSGDProbe",
        "FeatureCovariance",
        "FromNames",
        "FromShots",
        "FromZero",
        "FullyPrivate",
        "GlobalAdapt",
        "LanguageInit",
        "LeastSquares",
        "MeanEstimation",
        "MeanPrototypes",
        "NewtonHead",
        "NGD",
        "NoisyGD",
        "OnlyPublic",
        "Pace",
        "PPGD",
        "PrivateTuning",
        "PublicPriorPrototypes",
        "PublicPrototypes",
        "TopKPrototypes",
    ),
    "methods.replan": ("verify",),
    "noise": ("SecureNoise", "SeededNoise"),
    "privacy": ("Budget", "Guarantee", "Relation"),
    "release": ("PrivateClassifier", "evaluate", "load"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_CALLED_AT_HOME = {"load": "read_release", "verify": "verify_release"}

__version__ = "0.3.0"
__all__ = [  # noqa: RUF022  # sorted as people read it, without regard to case
    "AdaMix",
    "Auto",
    "Budget",
    "CoinPressPrototypes",
    "DPSGDProbe",
    "evaluate",
    "FeatureCovariance",
    "FromNames",
    "FromShots",
    "FromZero",
    "FullyPrivate",
    "GlobalAdapt",
    "Guarantee",
    "LanguageInit",
    "LeastSquares",
    "Ledger",
    "load",
    "MeanEstimation",
    "MeanPrototypes",
    "NewtonHead",
    "NGD",
    "NoisyGD",
    "OnlyPublic",
    "Pace",
    "PPGD",
    "PrivateClassifier",
    "PrivateEmbeddings",
    "PrivateImages",
    "PrivateTuning",
    "PublicEmbeddings",
    "PublicImages",
    "PublicMap",
    "PublicPriorPrototypes",
    "PublicPrototypes",
    "Relation",
    "SecureNoise",
    "SeededNoise",
    "TopKPrototypes",
    "UnitNorm",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dptransfer' has no attribute {name!r}")
    return getattr(import_module(f"dptransfer.{_HOME_OF[name]}"), _CALLED_AT_HOME.get(name, name))


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
