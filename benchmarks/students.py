"""What a student gains from unlabelled pictures, given some right or wrong answers: accuracy and seconds.

    python benchmarks/students.py pictures.npz --size 96 --answers 200 --steps 300 --device cuda
    python benchmarks/students.py pictures.npz --wrong 0.3 --students linear,freematch-head

`pictures.npz` holds bytes x_public with their classes y_public, of which only `--answers` are told, as many
of each class, a share `--wrong` of them wrong; and x_test, y_test. Students: linear, and fixmatch- or
freematch-, followed by head, full, or scratch for 'small-cnn'. One line of JSON each.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from PIL import Image

import dptransfer as dpt
from dptransfer.encoders import apply_delta, encode_pixels, encoder_of
from dptransfer.exact.feature_map import apply
from dptransfer.methods.votes.voting import TeacherAnswers
from dptransfer.sources import PublicImages

STUDENTS = "linear,fixmatch-head,freematch-head,fixmatch-full,freematch-full,freematch-scratch"
TEACHERS = 100


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("pictures")
    options.add_argument("--students", default=STUDENTS)
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--answers", type=int, default=200)
    options.add_argument("--wrong", type=float, default=0.0)
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--pool", type=int, default=None, help="public pictures at most")
    options.add_argument("--threads", type=int, default=None)
    options.add_argument("--device", default="cpu")
    told = options.parse_args()
    if told.threads:
        import torch

        torch.set_num_threads(told.threads)
    held = np.load(told.pictures)
    names = np.unique(held["y_public"])
    order = np.random.default_rng(0).permutation(len(held["x_public"]))[: told.pool]
    public = PublicImages(squeezed(held["x_public"][order], told.size))
    test = squeezed(held["x_test"], told.size)
    known, wanted = (np.searchsorted(names, one) for one in (held["y_public"][order], held["y_test"]))
    answers = answered(known, len(names), told.answers, told.wrong)
    for name in told.students.split(","):
        began, method = time.perf_counter(), student(name, told)
        start = method.student_start(method.network(), public)
        found = method.train_student(start, public, answers, dpt.SeededNoise(0))
        seconds = time.perf_counter() - began
        encoder = encoder_of(start.network.identity, device=told.device)
        changed = encoder if found.encoder_delta is None else apply_delta(encoder, found.encoder_delta)
        scores = found.head.scores(apply(found.features, encode_pixels(test, changed)))
        right = float((scores.argmax(axis=1) == wanted).mean())
        line = {"student": name, "answers": len(answers.positions), "wrong": told.wrong, "pool": len(public)}
        line |= {"steps": told.steps, "batch": told.batch, "accuracy": round(right, 4)}
        print(json.dumps(line | {"seconds": round(seconds, 1)}), flush=True)


def student(name: str, told: argparse.Namespace) -> dpt.methods.PromPATE:
    rule, _, part = name.partition("-")
    trains = "full" if part in ("full", "scratch") else "head"
    return dpt.methods.PromPATE(
        student=rule,
        student_trains=trains,
        student_encoder="small-cnn" if part == "scratch" else None,
        student_steps=told.steps,
        student_batch=told.batch,
        labels="hard",
        size=told.size,
        device=told.device,
    )


def answered(known: np.ndarray, classes: int, count: int, wrong: float) -> TeacherAnswers:
    """Labels of as many pictures of each class, a share of them changed to another class."""
    rng = np.random.default_rng(1)
    each = [np.flatnonzero(known == one)[: count // classes] for one in range(classes)]
    positions = np.concatenate(each)
    off = rng.integers(1, classes, len(positions)) * (rng.random(len(positions)) < wrong)
    labels = (known[positions] + off) % classes
    return TeacherAnswers(positions, labels, TEACHERS * np.eye(classes)[labels], 1.0, TEACHERS)


def squeezed(pixels: np.ndarray, side: int) -> np.ndarray:
    if pixels.shape[1] == side:
        return pixels
    return np.stack([np.asarray(Image.fromarray(one).resize((side, side), 3)) for one in pixels])


if __name__ == "__main__":
    main()
