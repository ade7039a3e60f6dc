"""The methods, one file each; `METHODS` maps command-line names to classes."""

from dptransfer.methods.auto import Auto
from dptransfer.methods.base import Plan, PrivateMethod
from dptransfer.methods.coinpress import CoinPressPrototypes
from dptransfer.methods.mean_estimation import MeanEstimation
from dptransfer.methods.mean_prototypes import MeanPrototypes
from dptransfer.methods.public_prior import PublicPriorPrototypes
from dptransfer.methods.public_prototypes import PublicPrototypes
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
        Auto,
    )
}

__all__ = [
    "METHODS",
    "Auto",
    "CoinPressPrototypes",
    "MeanEstimation",
    "MeanPrototypes",
    "Plan",
    "PrivateMethod",
    "PublicPriorPrototypes",
    "PublicPrototypes",
    "TopKPrototypes",
]
