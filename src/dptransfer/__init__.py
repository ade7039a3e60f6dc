"""Differentially private classifiers from private embeddings and public encoders.

Names are imported when they are first used, so that `import dptransfer` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dptransfer import methods as _methods
from dptransfer._version import __version__ as __version__
from dptransfer.plugins import imported as _imported

if TYPE_CHECKING:
    from dptransfer.checkup import check as check
    from dptransfer.data import PrivateEmbeddings as PrivateEmbeddings
    from dptransfer.data import PrivateImages as PrivateImages
    from dptransfer.data import PublicEmbeddings as PublicEmbeddings
    from dptransfer.data import PublicImages as PublicImages
    from dptransfer.data import Vocabulary as Vocabulary
    from dptransfer.encoders import vocabulary as vocabulary
    from dptransfer.features import PublicMap as PublicMap
    from dptransfer.features import UnitNorm as UnitNorm
    from dptransfer.features import VocabularyMap as VocabularyMap
    from dptransfer.ledger import Ledger as Ledger
    from dptransfer.methods import *  # noqa: F403
    from dptransfer.methods.replan import verify_release
    from dptransfer.noise import SecureNoise as SecureNoise
    from dptransfer.noise import SeededNoise as SeededNoise
    from dptransfer.one_call import fit as fit
    from dptransfer.privacy import Budget as Budget
    from dptransfer.privacy import Guarantee as Guarantee
    from dptransfer.privacy import Relation as Relation
    from dptransfer.release import PrivateClassifier as PrivateClassifier
    from dptransfer.release import evaluate as evaluate
    from dptransfer.release import read_release
    from dptransfer.workers import Processes as Processes
    from dptransfer.workers import RayCluster as RayCluster

    load, verify = read_release, verify_release

_HOMES = {
    "checkup": ("check",),
    "data": ("PrivateEmbeddings", "PrivateImages", "PublicEmbeddings", "PublicImages", "Vocabulary"),
    "features": ("PublicMap", "UnitNorm", "VocabularyMap"),
    "ledger": ("Ledger",),
    "methods": tuple(dir(_methods)),
    "noise": ("SecureNoise", "SeededNoise"),
    "one_call": ("fit",),
    "privacy": ("Budget", "Guarantee", "Relation"),
    "release": ("PrivateClassifier", "evaluate"),
    "workers": ("Processes", "RayCluster"),
}
_PLACES = {
    **{name: f"dptransfer.{home}:{name}" for home, names in _HOMES.items() for name in names},
    "load": "dptransfer.release:read_release",
    "vocabulary": "dptransfer.encoders:vocabulary",
    "verify": "dptransfer.methods.replan:verify_release",
}

if not TYPE_CHECKING:  # type checkers would take every name for one that is there, or none
    __all__ = sorted(_PLACES, key=str.lower)

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module 'dptransfer' has no attribute {name!r}")
        return _imported(_PLACES[name])


def __dir__() -> list[str]:
    return sorted([*_PLACES, "__version__"])
