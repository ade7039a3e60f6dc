"""The methods, one file each; `METHODS` finds them, and those of other packages, by name.

Each of our own is listed here and nowhere else, twice: for the interpreter, which imports it when it is asked
for, and for type checkers, which do not follow such imports. A test keeps the two lists equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dptransfer.base.plugins import Registry, imported
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.methods.about import About as About
    from dptransfer.methods.auto import Auto as Auto
    from dptransfer.methods.base import EmbeddingMethod as EmbeddingMethod
    from dptransfer.methods.base import Plan as Plan
    from dptransfer.methods.base import PrivateMethod as PrivateMethod
    from dptransfer.methods.base import configuration_of as configuration_of
    from dptransfer.methods.deep.film import FiLM as FiLM
    from dptransfer.methods.deep.lora import LoRA as LoRA
    from dptransfer.methods.deep.warm_start_network import WarmStartNetwork as WarmStartNetwork
    from dptransfer.methods.heads.dpsgd import DPSGDProbe as DPSGDProbe
    from dptransfer.methods.heads.feature_covariance import FeatureCovariance as FeatureCovariance
    from dptransfer.methods.heads.global_adapt import GlobalAdapt as GlobalAdapt
    from dptransfer.methods.heads.gradient_head import Pace as Pace
    from dptransfer.methods.heads.least_squares import LeastSquares as LeastSquares
    from dptransfer.methods.heads.newton import NewtonHead as NewtonHead
    from dptransfer.methods.heads.noisy_gd import NoisyGD as NoisyGD
    from dptransfer.methods.heads.public_prior import PublicPriorPrototypes as PublicPriorPrototypes
    from dptransfer.methods.heads.start import FromNames as FromNames
    from dptransfer.methods.heads.start import FromShots as FromShots
    from dptransfer.methods.heads.start import FromZero as FromZero
    from dptransfer.methods.heads.warm_start import WarmStart as WarmStart
    from dptransfer.methods.image_method import ImageMethod as ImageMethod
    from dptransfer.methods.mixed.adamix import AdaMix as AdaMix
    from dptransfer.methods.mixed.baselines import NGD as NGD
    from dptransfer.methods.mixed.baselines import PPGD as PPGD
    from dptransfer.methods.mixed.baselines import FullyPrivate as FullyPrivate
    from dptransfer.methods.mixed.baselines import LanguageInit as LanguageInit
    from dptransfer.methods.mixed.baselines import OnlyPublic as OnlyPublic
    from dptransfer.methods.private_evaluation import PrivateEvaluation as PrivateEvaluation
    from dptransfer.methods.prototypes.coinpress import CoinPressPrototypes as CoinPressPrototypes
    from dptransfer.methods.prototypes.mean_estimation import MeanEstimation as MeanEstimation
    from dptransfer.methods.prototypes.mean_prototypes import MeanPrototypes as MeanPrototypes
    from dptransfer.methods.prototypes.pool_selection import PublicPrototypes as PublicPrototypes
    from dptransfer.methods.prototypes.pool_selection import TopKPrototypes as TopKPrototypes
    from dptransfer.methods.prototypes.projection import Projection as Projection
    from dptransfer.methods.tuning import PictureTuning as PictureTuning
    from dptransfer.methods.tuning import PrivateTuning as PrivateTuning
    from dptransfer.methods.votes.pate import PATE as PATE
    from dptransfer.methods.votes.prom_pate import PromPATE as PromPATE
    from dptransfer.methods.votes.transfer_pate import TransferPATE as TransferPATE
    from dptransfer.methods.votes.vote_aggregation import Inquiry as Inquiry
    from dptransfer.methods.votes.vote_aggregation import aggregate_votes as aggregate_votes
    from dptransfer.methods.votes.vote_report import VoteReport as VoteReport

# In the order of every list, table and legend.
_OWN = {
    "auto": "auto:Auto",
    "public-prior": "heads.public_prior:PublicPriorPrototypes",
    "mean": "prototypes.mean_prototypes:MeanPrototypes",
    "public": "prototypes.pool_selection:PublicPrototypes",
    "top-k": "prototypes.pool_selection:TopKPrototypes",
    "mean-estimation": "prototypes.mean_estimation:MeanEstimation",
    "projection": "prototypes.projection:Projection",
    "coinpress": "prototypes.coinpress:CoinPressPrototypes",
    "least-squares": "heads.least_squares:LeastSquares",
    "dpsgd": "heads.dpsgd:DPSGDProbe",
    "warm-start": "heads.warm_start:WarmStart",
    "global-adapt": "heads.global_adapt:GlobalAdapt",
    "noisy-gd": "heads.noisy_gd:NoisyGD",
    "newton": "heads.newton:NewtonHead",
    "feature-covariance": "heads.feature_covariance:FeatureCovariance",
    "adamix": "mixed.adamix:AdaMix",
    "ngd": "mixed.baselines:NGD",
    "ppgd": "mixed.baselines:PPGD",
    "fully-private": "mixed.baselines:FullyPrivate",
    "only-public": "mixed.baselines:OnlyPublic",
    "language": "mixed.baselines:LanguageInit",
    "transfer-pate": "votes.transfer_pate:TransferPATE",
    "prom-pate": "votes.prom_pate:PromPATE",
    "pate": "votes.pate:PATE",
    "film": "deep.film:FiLM",
    "lora": "deep.lora:LoRA",
    "warm-start-network": "deep.warm_start_network:WarmStartNetwork",
}
_PARTS = (
    "about:About",
    "base:EmbeddingMethod",
    "image_method:ImageMethod",
    "base:Plan",
    "base:PrivateMethod",
    "base:configuration_of",
    "heads.gradient_head:Pace",
    "tuning:PictureTuning",
    "private_evaluation:PrivateEvaluation",
    "tuning:PrivateTuning",
    "heads.start:FromNames",
    "heads.start:FromShots",
    "heads.start:FromZero",
    "votes.vote_aggregation:Inquiry",
    "votes.vote_aggregation:aggregate_votes",
    "votes.vote_report:VoteReport",
)
_PLACES = {place.partition(":")[2]: f"{__name__}.{place}" for place in (*_OWN.values(), *_PARTS)}


def _accepted(name: str, found: Any) -> type[PrivateMethod]:
    """A class that can be used as the method of this name, or of its own name where none is given."""
    from dataclasses import MISSING, fields
    from inspect import isabstract

    from dptransfer.methods.base import PrivateMethod
    from dptransfer.methods.configuration import parts_of

    if not (isinstance(found, type) and issubclass(found, PrivateMethod)) or isabstract(found):
        raise ArgumentError(
            "A method is a class that derives from EmbeddingMethod or ImageMethod and has plan and run; got "
            f"{found!r}. The page 'Adding a method' shows one."
        )
    theirs, own = not found.__module__.startswith(f"{__name__}."), getattr(found, "name", "")
    if not own or own != (name or own):
        raise ArgumentError(f"A method bears the name that it is found by; this one is named '{own}'.")
    if theirs and own in (*_OWN, "private-tuning"):
        raise ArgumentError(f"Names of this library cannot be taken; '{own}' is one. Choose another.")
    if any(one.default is MISSING and one.default_factory is MISSING for one in fields(found)):
        raise ArgumentError(f"Every field of a method has a default; one of '{own}' has none. Give it one.")
    if theirs:
        try:
            tuple(parts_of(found))  # as whoever verifies a release does, of this method or of another
        except NameError as problem:
            raise ArgumentError(
                f"The types of a method's fields must be there when it runs; of '{own}' {problem}. "
                "Import it outside of TYPE_CHECKING."
            ) from None
    return found


METHODS: Registry[type[PrivateMethod]] = Registry(
    "method", "dptransfer.methods", {name: f"{__name__}.{place}" for name, place in _OWN.items()}, _accepted
)

if not TYPE_CHECKING:  # type checkers would take every name for one that is there, or none
    __all__ = sorted(["METHODS", *_PLACES], key=str.lower)

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
        return imported(_PLACES[name])


def __dir__() -> list[str]:
    return sorted(["METHODS", *_PLACES])
