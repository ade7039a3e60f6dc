"""A warm start beside plain DP-SGD after 2, 10 and 40 passes at ε = 2 and δ = 1/50,000: Tables 2 and 3.

    python benchmarks/warm_start.py rows cifar10.npz banking77.npz     # a linear head on embeddings
    python benchmarks/warm_start.py pixels digits                      # a small network on pictures
    python benchmarks/warm_start.py pixels cifar/ --size 32 --micro-batch 256 --device cuda

Embeddings are archives with `q_train, y_train, q_test, y_test, scale, offset`, or `x_train, …`. Pictures are
scikit-learn's digits, or what `deep_methods.py` reads. The tables are those of Zhu and Zhang. Noise is
seeded; every cell is the mean of `--seeds`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from deep_methods import from_sprites, from_zip, squeezed
from PIL import Image

from dptransfer.data import PrivateEmbeddings, PrivateImages
from dptransfer.encoders import adapted, encode_pixels, get_encoder
from dptransfer.ledger import Ledger
from dptransfer.methods import (
    DPSGDProbe,
    MeanEstimation,
    MeanPrototypes,
    NoisyGD,
    WarmStart,
    WarmStartNetwork,
)
from dptransfer.methods.fine_tuning import FineTuning
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

BUDGET = Budget(epsilon=2.0, delta=1 / 50_000)
EPOCHS = (2, 10, 40)
FORMS = [(loss, temperature) for loss in ("logits", "average") for temperature in (0.05, 1.0)]


@dataclass(frozen=True)
class Plain(FineTuning):
    """DP-SGD of the same parts of a network without a prior."""

    train: str = "all"
    name: ClassVar[str] = "plain"

    def parts(self, network, classes, features):
        """As a warm start without public pictures has them."""
        return WarmStartNetwork(train=self.train, blocks=self.blocks).parts(network, classes, features)


def fitted(method, private, seed):
    ledger = Ledger.in_memory(strict_names=True)
    return method.fit(private, budget=BUDGET, ledger=ledger, noise=SeededNoise(seed))


def line(name: str, scores: list[float]) -> None:
    print(f"| {name} | {np.mean(scores):.1f} | {np.std(scores):.1f} |", flush=True)


def on_rows(path: Path, rate: float, seeds: int) -> None:
    found = np.load(path, allow_pickle=True)

    def rows(part: str) -> np.ndarray:
        if f"x_{part}" in found:
            return found[f"x_{part}"]
        return found[f"q_{part}"].astype(np.float32) * found["scale"] + found["offset"]

    x, y = rows("test"), found["y_test"].astype(np.int64)
    labels = found["y_train"].astype(np.int64)
    private = PrivateEmbeddings(rows("train"), labels, classes=range(int(y.max()) + 1), name="rows")
    print(f"\n{path.stem}\n\n| method, passes | accuracy | ± |\n|---|---|---|")

    def shown(name, method):
        line(name, [100 * fitted(method, private, seed).score(x, y) for seed in range(seeds)])

    shown("mean", MeanPrototypes())
    shown("mean-estimation", MeanEstimation())
    shown("noisy-gd, 30 steps", NoisyGD())
    for epochs in EPOCHS:
        given = {"steps": round(epochs / rate), "sampling_rate": rate}
        shown(f"dpsgd, {epochs}", DPSGDProbe(**given))
        for loss, temperature in FORMS:
            warm = WarmStart(**given, loss=loss, prior_temperature=temperature)
            shown(f"warm-start, {loss}, temperature {temperature}, {epochs}", warm)


def pictures_in(source: str, side: int, rows: int | None):
    if source != "digits":
        path = Path(source)
        parts = from_sprites(path, side, rows) if path.is_dir() else from_zip(path, side)
        return *parts["train"][:2], *parts["test"][:2]
    from sklearn.datasets import load_digits

    found = load_digits()
    grey = [Image.fromarray((one * 15.9).astype(np.uint8)) for one in found.images]
    pixels, labels = np.array([squeezed(one, side) for one in grey]), found.target
    order = np.random.default_rng(0).permutation(len(labels))
    own, test = order[:1400], order[1400:]
    return pixels[own], labels[own], pixels[test], labels[test]


def on_pixels(source: str, args: argparse.Namespace) -> None:
    pixels, labels, test, truth = pictures_in(source, args.size, args.rows)
    private = PrivateImages(pixels, labels, classes=range(int(labels.max()) + 1), name="pictures")
    plain = get_encoder(args.encoder, size=args.size, device=args.device)
    print(f"\n{source}, {args.encoder}, {args.train}\n\n| method, passes | accuracy | ± |\n|---|---|---|")

    def score(method, seed):
        model = fitted(method, private, seed)
        delta = model.encoder_delta
        return 100 * model.score(encode_pixels(test, adapted(plain, delta) if delta else plain), truth)

    given = {name: getattr(args, name) for name in ("encoder", "size", "device", "train", "micro_batch")}
    given["sampling_rate"] = args.rate
    for epochs in args.epochs:
        steps = round(epochs / args.rate)
        line(f"plain, {epochs}", [score(Plain(**given, steps=steps), seed) for seed in range(args.seeds)])
        for loss, temperature in FORMS:
            warm = WarmStartNetwork(**given, steps=steps, loss=loss, prior_temperature=temperature)
            name = f"warm-start-network, {loss}, temperature {temperature}, {epochs}"
            line(name, [score(warm, seed) for seed in range(args.seeds)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("rows", "pixels"))
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--encoder", default="small-cnn")
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--train", default="all")
    parser.add_argument("--micro-batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, nargs="+", default=EPOCHS)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    for source in args.sources:
        if args.what == "rows":
            on_rows(Path(source), args.rate, args.seeds)
        else:
            on_pixels(source, args)


if __name__ == "__main__":
    main()
