"""Registry of methods: our own, and those of other packages, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptransfer.base.plugins import Registry
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.methods.method import PrivateMethod

_PACKAGE = "dptransfer.methods"
# In the order of every list, table and legend.
OWN = {
    "auto": "auto:Auto",
    "public-prior": "heads.public_prior:PublicPriorPrototypes",
    "mean": "prototypes.class_sums:MeanPrototypes",
    "public": "prototypes.pool_selection:PublicPrototypes",
    "top-k": "prototypes.pool_selection:TopKPrototypes",
    "mean-estimation": "prototypes.class_sums:MeanEstimation",
    "projection": "prototypes.projection:Projection",
    "coinpress": "prototypes.class_sums:CoinPressPrototypes",
    "least-squares": "heads.second_order:LeastSquares",
    "dpsgd": "heads.noisy_gd:DPSGDProbe",
    "warm-start": "heads.noisy_gd:WarmStart",
    "global-adapt": "heads.noisy_gd:GlobalAdapt",
    "noisy-gd": "heads.noisy_gd:NoisyGD",
    "newton": "heads.second_order:NewtonHead",
    "feature-covariance": "heads.second_order:FeatureCovariance",
    "adamix": "heads.mixed:AdaMix",
    "ngd": "heads.mixed:NGD",
    "ppgd": "heads.mixed:PPGD",
    "fully-private": "heads.mixed:FullyPrivate",
    "only-public": "heads.mixed:OnlyPublic",
    "language": "heads.mixed:LanguageInit",
    "transfer-pate": "votes.transfer_pate:TransferPATE",
    "prom-pate": "votes.picture_voting:PromPATE",
    "pate": "votes.picture_voting:PATE",
    "film": "deep.fine_tuning:FiLM",
    "lora": "deep.fine_tuning:LoRA",
    "warm-start-network": "deep.fine_tuning:WarmStartNetwork",
}


def _accepted(name: str, found: object) -> type[PrivateMethod]:
    """A class that can be used as the method of this name, or of its own name where none is given."""
    from dataclasses import MISSING, fields
    from inspect import isabstract

    from dptransfer.methods.configuration import parts_of
    from dptransfer.methods.method import PrivateMethod

    if not (isinstance(found, type) and issubclass(found, PrivateMethod)) or isabstract(found):
        raise ArgumentError(
            "A method is a class that derives from EmbeddingMethod or ImageMethod and has plan and run; got "
            f"{found!r}. The page 'Adding a method' shows one."
        )
    theirs, own = not found.__module__.startswith(f"{_PACKAGE}."), getattr(found, "name", "")
    if not own or own != (name or own):
        raise ArgumentError(f"A method bears the name that it is found by; this one is named '{own}'.")
    if theirs and own in (*OWN, "private-tuning"):
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
    "method", _PACKAGE, {name: f"{_PACKAGE}.{place}" for name, place in OWN.items()}, _accepted
)
