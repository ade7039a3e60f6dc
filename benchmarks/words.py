"""Sums in the encoder's words beside sums in public axes: the grid behind `methods.word_share`.

    python benchmarks/words.py DATA_FOLDER --pool pool_tinyimagenet_efficientnet-lite0.npz
        caltech101_efficientnet-lite0.npz cifar10_efficientnet-lite0.npz … [--ratios 1 10] [--unnamed]

Archives hold `q_train, y_train, q_test, y_test, scale, offset, classes`, rows of EfficientNet-Lite0 as it
gave them. Noise is drawn in floats, so that a cell is given by n/s, the typical class over the noise of its
sums; counts get 3 % of the budget. A cell is the mean balanced accuracy of `--seeds`: sums in words alone, in
128 axes alone, and half or a quarter in words with both scores added. `pick` is what `word_share` takes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import dptransfer
from dptransfer.data import PublicEmbeddings, long_tail
from dptransfer.features import PublicMap, VocabularyMap, apply
from dptransfer.methods.hierarchical import posterior
from dptransfer.methods.named_words import named_words
from dptransfer.methods.public_prior import _INDEPENDENT_AXES
from dptransfer.methods.sparse_prior import sparse_posterior
from dptransfer.methods.word_share import word_share

AXES, COUNT_SHARE = 128, 0.03
SHARES = {"words": 1.0, "half": 0.5, "quarter": 0.25, "axes": 0.0}
SIGNALS = (1, 2, 4, 8, 12, 16, 24, 32)


def rows(archive, part):
    return archive[f"q_{part}"].astype(np.float32) * archive["scale"] + archive["offset"]


def class_sums(mapped, labels, classes):
    sums = np.zeros((classes, mapped.shape[1]))
    np.add.at(sums, labels, mapped)
    return sums


def balanced(scores, labels):
    chosen = scores.argmax(axis=1)
    return 100 * np.mean([(chosen[labels == own] == own).mean() for own in np.unique(labels)])


def cell(train, test, ratio, signal, named, moment, seed):
    """Balanced accuracy of each way, in one draw of rows and noise."""
    rng = np.random.default_rng(seed)
    classes = len(named)
    chosen = long_tail(train["labels"], ratio, rng=rng, classes=classes)
    labels = train["labels"][chosen]
    counts = np.bincount(labels, minlength=classes).astype(float)
    whole = np.exp(np.log(counts).mean()) / signal
    count_scale = whole * np.sqrt((1 - COUNT_SHARE) / COUNT_SHARE)
    noisy = counts + count_scale * rng.normal(size=classes)
    sums = {space: class_sums(train[space][chosen], labels, classes) for space in ("words", "axes")}
    noise = {space: rng.normal(size=one.shape) for space, one in sums.items()}

    def scores(space, share):
        if not share:
            return 0.0
        scale = whole / np.sqrt(share)
        found = sums[space] + scale * noise[space], noisy, scale, count_scale
        if space == "words":
            return test["words"] @ sparse_posterior(*found, named).weights.T
        linear, offset, precision = posterior(*found, moment).predictive()
        x = test["axes"]
        return (offset + x @ linear.T - 0.5 * (x * x) @ precision.T) * (_INDEPENDENT_AXES / AXES)

    return {
        way: balanced(scores("words", share) + scores("axes", 1 - share), test["labels"])
        for way, share in SHARES.items()
    }


def timed(work):
    start = time.perf_counter()
    made = work()
    return made, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--pool", required=True)
    parser.add_argument("--ratios", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--unnamed", action="store_true", help="as if classes had no names")
    given = parser.parse_args()
    vocabulary = dptransfer.vocabulary("efficientnet-lite0")
    pool = PublicEmbeddings(rows(np.load(given.folder / given.pool), "train"), vocabulary=vocabulary)
    axes, words = (features.fit(pool.dimension, pool) for features in (PublicMap(axes=AXES), VocabularyMap()))
    moment = (apply(axes, pool.rows[:5000]) ** 2).mean(axis=0)
    regrets, gains = [], []
    for name in given.sets:
        archive = np.load(given.folder / name)
        parts, seconds = [], {}
        for part in ("train", "test"):
            x = rows(archive, part)
            mapped, seconds["words"] = timed(lambda x=x: apply(words, x))
            along, seconds["axes"] = timed(lambda x=x: apply(axes, x))
            parts.append({"words": mapped, "axes": along, "labels": archive[f"y_{part}"].astype(np.int64)})
        sure = float(words.confidence(rows(archive, "train"), 2**30).mean() / 2**30)
        named = named_words([str(one) for one in archive["classes"]], vocabulary.names)
        named *= not given.unnamed
        share = float(named.any(axis=1).mean())
        slower = seconds["words"] / seconds["axes"]
        print(f"{name}: confidence {sure:.2f}, {share:.0%} named; mapping takes {slower:.1f} × that of axes")
        for ratio in given.ratios:
            for signal in SIGNALS:
                draws = [cell(*parts, ratio, signal, named, moment, seed) for seed in range(given.seeds)]
                found = {way: float(np.mean([draw[way] for draw in draws])) for way in SHARES}
                asked = word_share(sure, signal, len(vocabulary), share)
                pick = next(way for way, one in SHARES.items() if one == asked)
                regrets.append(max(found.values()) - found[pick])
                gains.append(found[pick] - found["axes"])
                told = "  ".join(f"{way} {score:4.1f}" for way, score in found.items())
                print(f"  ratio {ratio:g}, n/s {signal:2d}: {told}  pick {pick}", flush=True)
    print(f"behind the best: {np.mean(regrets):.2f} on average, {max(regrets):.1f} at worst")
    print(f"ahead of axes: {np.mean(gains):.2f} on average, {min(gains):.1f} at worst")


if __name__ == "__main__":
    main()
