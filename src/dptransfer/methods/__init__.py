"""The methods, one file each; `METHODS` maps command-line names to classes."""

from dptransfer.methods.adamix import AdaMix
from dptransfer.methods.auto import Auto
from dptransfer.methods.base import EmbeddingMethod, ImageMethod, Plan, PrivateMethod
from dptransfer.methods.coinpress import CoinPressPrototypes
from dptransfer.methods.descent import Pace
from dptransfer.methods.dpsgd import DPSGDProbe
from dptransfer.methods.feature_covariance import FeatureCovariance
from dptransfer.methods.global_adapt import GlobalAdapt
from dptransfer.methods.language import LanguageInit
from dptransfer.methods.least_squares import LeastSquares
from dptransfer.methods.mean_estimation import MeanEstimation
from dptransfer.methods.mean_prototypes import MeanPrototypes
from dptransfer.methods.mixed_baselines import NGD, PPGD, FullyPrivate, OnlyPublic
from dptransfer.methods.newton import NewtonHead
from dptransfer.methods.noisy_gd import NoisyGD
from dptransfer.methods.private_tuning import PrivateTuning
from dptransfer.methods.public_prior import PublicPriorPrototypes
from dptransfer.methods.public_prototypes import PublicPrototypes
from dptransfer.methods.start import FromNames, FromShots, FromZero
from dptransfer.methods.top_k_prototypes import TopKPrototypes

METHODS: dict[str, type[PrivateMethod]] = {
    method.name: method
    for method in (
        MeanPrototypes,
        MeanEstimation,
        CoinPressPrototypes,
        PublicPrototypes,
        TopKPrototypes,
        PublicPriorPrototypes,
        NoisyGD,
        DPSGDProbe,
        GlobalAdapt,
        LeastSquares,
        NewtonHead,
        FeatureCovariance,
        AdaMix,
        OnlyPublic,
        FullyPrivate,
        NGD,
        PPGD,
        LanguageInit,
        Auto,
    )
}

__all__ = [
    "METHODS",
    "NGD",
    "PPGD",
    "AdaMix",
    "Auto",
    "CoinPressPrototypes",
    "DPSGDProbe",
    "EmbeddingMethod",
    "FeatureCovariance",
    "FromNames",
    "FromShots",
    "FromZero",
    "FullyPrivate",
    "GlobalAdapt",
    "ImageMethod",
    "LanguageInit",
    "LeastSquares",
    "MeanEstimation",
    "MeanPrototypes",
    "NewtonHead",
    "NoisyGD",
    "OnlyPublic",
    "Pace",
    "Plan",
    "PrivateMethod",
    "PrivateTuning",
    "PublicPriorPrototypes",
    "PublicPrototypes",
    "TopKPrototypes",
]
