"""Class sums in the encoder's words, read with and without the names of classes, beside their cosines.

    python benchmarks/words.py DATA_FOLDER caltech101_efficientnet-lite0.npz cifar10_efficientnet-lite0.npz …
        [--ratios 1 10] [--seeds 2]

Archives hold `q_train, y_train, q_test, y_test, scale, offset, classes`, rows of EfficientNet-Lite0 as it
gave them. Noise is drawn in floats, so that a cell is given by n/s, the typical class over the noise of its
sums; counts get 3 % of the budget. A cell is the mean balanced accuracy of `--seeds`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import dptransfer
from dptransfer.exact.feature_map import apply
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.methods.heads.words import named_words, sparse_posterior
from dptransfer_lab.long_tail import long_tail

COUNT_SHARE = 0.03
SIGNALS = (1, 2, 4, 8, 12, 16, 24, 32)


def rows(archive, part):
    return archive[f"q_{part}"].astype(np.float32) * archive["scale"] + archive["offset"]


def balanced(scores, labels):
    chosen = scores.argmax(axis=1)
    return 100 * np.mean([(chosen[labels == own] == own).mean() for own in np.unique(labels)])


def cell(train, test, ratio, signal, named, seed):
    """Balanced accuracy of each way, in one draw of rows and noise."""
    rng = np.random.default_rng(seed)
    classes = len(named)
    chosen = long_tail(train[1], ratio, rng=rng, classes=classes)
    labels = train[1][chosen]
    counts = np.bincount(labels, minlength=classes).astype(float)
    scale = np.exp(np.log(counts).mean()) / signal
    count_scale = scale * np.sqrt((1 - COUNT_SHARE) / COUNT_SHARE)
    sums = np.zeros((classes, train[0].shape[1]))
    np.add.at(sums, labels, train[0][chosen])
    sums += scale * rng.normal(size=sums.shape)
    found = sums, counts + count_scale * rng.normal(size=classes), scale, count_scale
    ways = {
        "cosine": sums / np.linalg.norm(sums, axis=1, keepdims=True),
        "words": sparse_posterior(*found).weights,
        "names": sparse_posterior(*found, named).weights,
    }
    return {way: balanced(test[0] @ weights.T, test[1]) for way, weights in ways.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--ratios", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    vocabulary = dptransfer.encoders.vocabulary("efficientnet-lite0")
    words = FittedVocabularyMap.of(vocabulary)
    for name in given.sets:
        archive = np.load(given.folder / name)
        parts = [
            (apply(words, rows(archive, part)), archive[f"y_{part}"].astype(np.int64))
            for part in ("train", "test")
        ]
        sure = float(words.confidence(rows(archive, "train"), 2**30).mean() / 2**30)
        named = named_words([str(one) for one in archive["classes"]], vocabulary.names)
        print(f"{name}: confidence {sure:.2f}, {named.any(axis=1).mean():.0%} of the classes named")
        for ratio in given.ratios:
            for signal in SIGNALS:
                draws = [cell(*parts, ratio, signal, named, seed) for seed in range(given.seeds)]
                told = "  ".join(f"{way} {np.mean([draw[way] for draw in draws]):4.1f}" for way in draws[0])
                print(f"  ratio {ratio:g}, n/s {signal:2d}: {told}", flush=True)


if __name__ == "__main__":
    main()
