"""What the card says about each method, and the paper behind it; keys are command-line names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodWords:
    """One method in two sentences, and where it comes from."""

    summary: str
    reference: str


_PROTOTYPES = (
    "Wahdany, Jagielski, Dziedzic, Boenisch: Differentially Private Prototypes for Imbalanced "
    "Transfer Learning (AAAI 2025)"
)
_OURS = "dptransfer; see docs/methods."

_METHODS: dict[str, MethodWords] = {
    "public-prior": MethodWords(
        "Sums of the private rows of each class, and class counts, were released once with Gaussian "
        "noise, in axes learned from public data. Everything after that is post-processing: a "
        "hierarchical model turns the noisy sums into class means with honest uncertainty.",
        _OURS,
    ),
    "mean": MethodWords(
        "The sum of the private rows of each class was released with Gaussian noise, all classes in one "
        "release; a row is given the class whose sum it points along.",
        f"{_PROTOTYPES}, DPPL-Mean, with sums in place of means: the printed noise reveals class sizes.",
    ),
    "public": MethodWords(
        "For each class one public example was chosen as its prototype, with a probability that grows "
        "with its likeness to the private rows of that class; a row is given the class of the nearest "
        "prototype.",
        f"{_PROTOTYPES}, DPPL-Public.",
    ),
    "top-k": MethodWords(
        "For each class a set of public examples was chosen as prototypes, with a probability that grows "
        "with their likeness to the private rows of that class; a row is given the class whose prototypes "
        "are nearest on average.",
        f"{_PROTOTYPES}, DPPL-PublicK, with the set weights corrected to C(y−1, K−1).",
    ),
    "mean-estimation": MethodWords(
        "Sums and counts of the private rows of each class were released together with Gaussian noise; a "
        "row is given the class whose noisy mean is nearest.",
        "Zhu, Zhang: Mean Estimation Strikes Back! An Efficient Solution to Private Classification, "
        "Algorithm 1, with the noise recalibrated: the printed one is too small.",
    ),
    "least-squares": MethodWords(
        "Noisy second moments of the private rows and noisy class sums were released; a ridge regression "
        "is solved from them.",
        "Mehta, Krichene, Thakurta, Kurakin, Cutkosky: Differentially Private Image Classification from "
        "Features (TMLR 2023), DP-LS.",
    ),
    "noisy-gradient": MethodWords(
        "A linear head was trained by full-batch gradient descent; every step saw the private rows only "
        "through a sum of clipped gradients with Gaussian noise.",
        "Golatkar, Achille, Wang, Roth, Kearns, Soatto: Mixed Differential Privacy in Computer Vision "
        "(CVPR 2022), Algorithm 1, with the accounting corrected.",
    ),
    "coinpress": MethodWords(
        "The mean of each class was estimated in a few steps, each with Gaussian noise and a smaller "
        "search region than the one before. Class sizes are public.",
        "Biswas, Dong, Kamath, Ullman: CoinPress (NeurIPS 2020).",
    ),
}
_ALIASES = {
    "auto": "public-prior",
    "house": "public-prior",
    "public-prior-prototypes": "public-prior",
    "mean-prototypes": "mean",
    "public-prototypes": "public",
    "top-k-prototypes": "top-k",
    "noisy-gd": "noisy-gradient",
    "noisy-gradient-descent": "noisy-gradient",
    "dp-ls": "least-squares",
}


def words_for(method: str) -> MethodWords:
    """The description of a method; one the card has no words for is only named.

    >>> words_for("mean_prototypes").reference[:7]
    'Wahdany'
    """
    name = method.replace("_", "-").lower()
    known = _METHODS.get(_ALIASES.get(name, name))
    return known or MethodWords(
        f"The method named '{method}'. The accounting section lists every step that saw private rows.",
        "See the documentation of the library that provides it.",
    )
