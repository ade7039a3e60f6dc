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
_FEATURES = (
    "Mehta, Krichene, Thakurta, Kurakin, Cutkosky: Differentially Private Image Classification from "
    "Features (TMLR 2023)"
)
_MIXED = (
    "Golatkar, Achille, Wang, Roth, Kearns, Soatto: Mixed Differential Privacy in Computer Vision (CVPR 2022)"
)
_STEPS = "with the accounting corrected: T steps cost T/2σ² in zCDP, where T²/2σ² is printed."
_STEPS_SEE = "every step saw the private rows only through a sum of clipped gradients with Gaussian noise"

_METHODS: dict[str, MethodWords] = {
    "public-prior": MethodWords(
        "Class counts, one mean of all private rows, and the sums of the rows of each class in axes learned "
        "from public data were released with Gaussian noise; and, where classes are well above the noise, "
        "the gradients of a few steps. The notes say what was spent on what. All else is post-processing: a "
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
    "noisy-gd": MethodWords(
        f"A linear softmax head was trained by full-batch gradient descent; {_STEPS_SEE}. Where the "
        "weights started, and how far the steps went, was fixed without private rows.",
        f"{_MIXED}, Algorithm 1, {_STEPS}",
    ),
    "dpsgd": MethodWords(
        "A linear softmax head was trained by DP-SGD: every step drew a fresh Poisson sample of the "
        "private rows and saw it only through a sum of clipped gradients with Gaussian noise. The sums "
        "were not divided by the size of the sample, which is private, and who was in a sample is not "
        "told.",
        "Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang: Deep Learning with Differential Privacy "
        "(CCS 2016), for a linear head and with the sampling that its accounting assumes.",
    ),
    "global-adapt": MethodWords(
        "A linear softmax head was trained by DP-SGD on Poisson samples of the private rows; each step "
        "released, in one answer with Gaussian noise, a sum of scaled gradients and a count of those "
        "above an upper clip. The noisy count moved the upper clip for the next step, and was divided by "
        "a declared size.",
        "Esipova, Ghomi, Luo, Cresswell: Disparate Impact in Differential Privacy from Gradient "
        "Misalignment (ICLR 2023), DPSGD-Global-Adapt.",
    ),
    "least-squares": MethodWords(
        "Three things were released once, with Gaussian noise: the second moments of all private rows, "
        "those of each class, and the class sums. A regularised least-squares problem per class is solved "
        "from them.",
        f"{_FEATURES}, DP-LS, with exact composition: noise multiplier 6.46 at epsilon 1 (5.94 under "
        "replace-one), where the published conversion needs 8.49.",
    ),
    "newton": MethodWords(
        "A linear softmax head was trained by a few second-order steps; every step saw the private rows "
        "only through a sum of clipped gradients and through a curvature matrix for each class, both with "
        "Gaussian noise. What divides the gradient is the noisy curvature, which is post-processing.",
        f"{_FEATURES}, DP-Newton, with an upper bound in place of the Hessian.",
    ),
    "feature-covariance": MethodWords(
        "The second moments of the private rows were released once with Gaussian noise; a linear softmax "
        f"head was then trained by gradient descent in the metric they give, and {_STEPS_SEE}.",
        f"{_FEATURES}, DP-FC.",
    ),
    "adamix": MethodWords(
        "A linear softmax head was trained on private rows and a few labelled public rows together; "
        f"{_STEPS_SEE}. The sizes of the private classes were declared, counted with noise or left out of "
        "account. Its start, and the clip and axes of every step, were fixed or came from public data, which "
        "are not protected.",
        f"{_MIXED}, Algorithm 2, {_STEPS}",
    ),
    "only-public": MethodWords(
        "A linear softmax head was fitted to labelled public rows. No private row was used.",
        f"{_MIXED}, the baseline Only-Public.",
    ),
    "fully-private": MethodWords(
        f"A linear softmax head was trained from zero by full-batch gradient descent; {_STEPS_SEE}. No "
        "labelled public row was used.",
        f"{_MIXED}, the baseline Fully-Private, {_STEPS}",
    ),
    "ngd": MethodWords(
        "A linear softmax head was trained on private rows and a few labelled public rows together; "
        f"{_STEPS_SEE}. Its start and its clip were fixed or came from public data, which are not "
        "protected.",
        f"{_MIXED}, the ablation NGD, {_STEPS}",
    ),
    "ppgd": MethodWords(
        f"A linear softmax head was trained from zero by full-batch gradient descent; {_STEPS_SEE}, "
        "clipped at the norm of the mean public gradient. Labelled public rows, which are not protected, "
        "were then fitted with a pull toward that head.",
        "Wang, Zhou: Differentially Private Learning with Small Public Data (AAAI 2020), with full "
        "batches as Golatkar et al. (CVPR 2022) run it.",
    ),
    "language": MethodWords(
        "Each class's weights are the encoding of its name by a public text encoder. No private row was "
        "used.",
        f"{_MIXED}, Section 3.3; Radford et al.: Learning Transferable Visual Models From Natural Language "
        "Supervision (ICML 2021).",
    ),
    "private-tuning": MethodWords(
        "One of several configurations was chosen on the private rows: a random number of trials ran, "
        "each with a noisy score, and only the best was released. The price of choosing is part of the "
        "guarantee.",
        "Papernot, Steinke: Hyperparameter Tuning with Rényi Differential Privacy (ICLR 2022).",
    ),
    "coinpress": MethodWords(
        "The mean of each class was estimated in a few steps, each with Gaussian noise and a smaller "
        "search region than the one before. Class sizes are public.",
        "Biswas, Dong, Kamath, Ullman: CoinPress (NeurIPS 2020).",
    ),
}
_ALIASES = {
    "public-prior-prototypes": "public-prior",
    "mean-prototypes": "mean",
    "public-prototypes": "public",
    "top-k-prototypes": "top-k",
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
