"""Differentially private classifiers from private embeddings and public encoders.

Names are imported when they are first used, so that `import dptransfer` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dptransfer._version import __version__ as __version__
from dptransfer.base.plugins import imported as _imported

if TYPE_CHECKING:
    from dptransfer import accounting as accounting
    from dptransfer import encoders as encoders
    from dptransfer import errors as errors
    from dptransfer import features as features
    from dptransfer import methods as methods
    from dptransfer import privacy as privacy
    from dptransfer import testing as testing
    from dptransfer.api.check import check as check
    from dptransfer.api.fit import fit as fit
    from dptransfer.base.ray_workers import RayCluster as RayCluster
    from dptransfer.base.worker_pool import Processes as Processes
    from dptransfer.data import PrivateEmbeddings as PrivateEmbeddings
    from dptransfer.data import PublicEmbeddings as PublicEmbeddings
    from dptransfer.ledger import Ledger as Ledger
    from dptransfer.methods.auto import Auto as Auto
    from dptransfer.methods.replan import verify_release
    from dptransfer.noise import SecureNoise as SecureNoise
    from dptransfer.noise import SeededNoise as SeededNoise
    from dptransfer.privacy import Budget as Budget
    from dptransfer.privacy import Guarantee as Guarantee
    from dptransfer.privacy import Relation as Relation
    from dptransfer.privacy import Unit as Unit
    from dptransfer.release import PrivateClassifier as PrivateClassifier
    from dptransfer.release import evaluate as evaluate
    from dptransfer.release import read_release
    from dptransfer.sources import PrivateImages as PrivateImages
    from dptransfer.sources import PublicImages as PublicImages

    load, verify = read_release, verify_release

_HOMES = {
    "api.check": ("check",),
    "api.fit": ("fit",),
    "base.ray_workers": ("RayCluster",),
    "base.worker_pool": ("Processes",),
    "data": ("PrivateEmbeddings", "PublicEmbeddings"),
    "ledger": ("Ledger",),
    "methods.auto": ("Auto",),
    "noise": ("SecureNoise", "SeededNoise"),
    "privacy": ("Budget", "Guarantee", "Relation", "Unit"),
    "release": ("PrivateClassifier", "evaluate"),
    "sources": ("PrivateImages", "PublicImages"),
}
_MODULES = ("accounting", "encoders", "errors", "features", "methods", "privacy", "testing")
_PLACES = {
    **{name: f"dptransfer.{home}:{name}" for home, names in _HOMES.items() for name in names},
    "load": "dptransfer.release:read_release",
    "verify": "dptransfer.methods.replan:verify_release",
}

if not TYPE_CHECKING:  # type checkers would take every name for one that is there, or none
    __all__ = sorted([*_PLACES, *_MODULES], key=str.lower)

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"dptransfer.{name}")
        if name not in _PLACES:
            raise AttributeError(f"module 'dptransfer' has no attribute {name!r}")
        return _imported(_PLACES[name])


def __dir__() -> list[str]:
    return sorted([*_PLACES, *_MODULES, "__version__"])
