"""Reduced ablations of Prom-PATE (Tables 3, 6, 9, 10, 11 of the paper) at one true ε, on your own pictures.

    python benchmarks/prom_pate_ablation.py pictures.npz results.jsonl --size 96 --device cuda
    python benchmarks/prom_pate_ablation.py pictures.npz results.jsonl --tables 3,9 --epsilon 2,8 --seeds 2

`pictures.npz` holds bytes: x_train, y_train (private), x_test, y_test, x_public and, if answers are to be
compared with what they should be, y_public; pictures of any one size, which are squeezed to `--size`. Every
line of the results is one cell: table, setting, ε, seed, accuracy on x_test, share of right answers, seconds.
A cell that is in the file is not run again; what teachers say is computed once for all ε of a setting.

Every ε is that of the guarantee, at δ = 1e-5: the paper's 1.019 for 1,000 queries is 3.178 by this count. The
votes are asked plainly (all questions answered, soft labels), where the paper has a threshold: `--confident`
sets its threshold, 0.6 of the teachers, and at most 684 of 1,000 answers. Noise is seeded: for benchmarks.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

import dptransfer as dpt
from dptransfer.encoders import encode_pixels, encoder_of, get_encoder
from dptransfer.methods.image_method import ImageMethod

DELTA = 1e-5
ENCODER = "efficientnet-lite0"
FROM_SCRATCH = {"student": "fixmatch", "student_trains": "full", "student_encoder": "small-cnn"}


def settings(side: int) -> Iterator[tuple[str, str, str, dict]]:
    """(table, setting, method, settings of the method) of every cell."""
    yield "3", "A: prompts, student pre-trained", "prom-pate", {}
    yield "3", "B: prompts, student from scratch", "prom-pate", FROM_SCRATCH
    yield "3", "C: linear teachers, student pre-trained", "transfer-pate", {}
    yield "3", "E: teachers from scratch, student pre-trained", "pate", {}
    yield "3", "F: teachers and student from scratch", "pate", FROM_SCRATCH
    for teachers in (100, 250, 500, 1000):
        yield "6", f"{teachers} teachers", "prom-pate", {"teachers": teachers}
    for mask in (False, True):
        yield "9", "with the mask" if mask else "without the mask", "prom-pate", {"mask": mask}
    for label_map in ("random", "one-layer", "two-layer"):
        yield "10", label_map, "prom-pate", {"label_map": label_map}
    for inner in (64, 128, 160, 192, 210):
        yield "11", f"{inner} of 224", "prom-pate", {"inner": round(inner / 224 * side)}


class Remembering(dpt.SeededNoise):
    """Keeps what teachers say: it depends on the seed and the setting, and not on ε."""

    def __init__(self, seed: int, said: dict) -> None:
        super().__init__(seed)
        self._said = said

    def kept(self, what, compute):
        """Ballots as they were; what a student keeps is its own business."""
        if not what.startswith("ballots"):
            return compute()
        if what not in self._said:
            self._said[what] = compute()
        return np.array(self._said[what])


def squeezed(pixels, side: int):
    if pixels.shape[1:3] == (side, side):
        return pixels
    with ThreadPoolExecutor() as threads:
        small = threads.map(lambda one: np.asarray(Image.fromarray(one).resize((side, side), 3)), pixels)
        return np.stack(list(small))


class Pictures:
    """The pictures, and their rows once they are needed."""

    def __init__(self, path: str, options) -> None:
        data, rng = np.load(path), np.random.default_rng(0)
        chosen = rng.permutation(len(data["x_train"]))[: options.rows]
        self.classes = [str(one) for one in np.unique(data["y_train"])]  # declared, as those of a benchmark
        self.labels, self.truth = data["y_train"][chosen].astype(str), data["y_test"].astype(str)
        self.public_truth = data["y_public"].astype(str) if "y_public" in data else None
        self.train = squeezed(data["x_train"][chosen], options.size)
        self.test = squeezed(data["x_test"], options.size)
        self.public = squeezed(data["x_public"][: options.pool], options.size)
        self._options, self._rows = options, {}

    def rows(self, part: str):
        """The encoder's rows of one part."""
        if part not in self._rows:
            encoder = get_encoder(ENCODER, size=self._options.size, device=self._options.device)
            self._rows[part] = encode_pixels(getattr(self, part), encoder)
        return self._rows[part]

    def data(self, images: bool):
        """Private and public pictures, or their rows."""
        x = (self.train, self.public) if images else (self.rows("train"), self.rows("public"))
        private, public = (
            (dpt.PrivateImages, dpt.PublicImages) if images else (dpt.PrivateEmbeddings, dpt.PublicEmbeddings)
        )
        declared = {"classes": self.classes, "size": len(self.labels), "name": "ablation"}
        return private(x[0], self.labels, **declared), public(x[1])

    def accuracy(self, model, images: bool) -> float:
        """Of the test pictures, through the encoder that the model takes rows of."""
        if not images or (model.encoder_delta is None and model.encoder.name == ENCODER):
            return float(model.score(self.rows("test"), self.truth))
        base = model.encoder if model.encoder_delta is None else model.encoder_delta.base
        encoder = encoder_of(base, device=self._options.device, delta=model.encoder_delta)
        return float(model.score(encode_pixels(self.test, encoder), self.truth))


def right_answers(model, truth) -> float | None:
    """Share of the answered public pictures whose answer is their class; of those that are of some class."""
    if truth is None:
        return None
    told = [(name, row) for name, rows in model.provenance.answers["rows"].items() for row in rows]
    return float(np.mean([truth[row] == name for name, row in told])) if told else None


def run(options) -> None:
    out, pictures = Path(options.out), None
    lines = out.read_text().splitlines() if out.exists() else []
    done = {tuple(json.loads(line)["cell"]) for line in lines}
    for seed in range(options.seeds):
        for table, setting, name, own in settings(options.size):
            cells = [(table, setting, epsilon, seed) for epsilon in options.epsilon]
            if table not in options.tables or all(cell in done for cell in cells):
                continue
            pictures = pictures or Pictures(options.pictures, options)
            said: dict = {}
            for cell in cells:
                if cell in done:
                    continue
                line = fitted(pictures, name, own, cell, said, options)
                print(line, flush=True)
                with out.open("a") as stream:
                    stream.write(line + "\n")


def fitted(pictures: Pictures, name: str, own: dict, cell: tuple, said: dict, options) -> str:
    """Fit one cell, and what came of it as a line of JSON."""
    kind = dpt.METHODS[name]
    images = issubclass(kind, ImageMethod)
    teachers = own.get("teachers", options.teachers)
    asked = {"teachers": teachers, "queries": min(options.queries, len(pictures.public))}
    if options.confident:
        answers = round(0.684 * asked["queries"])
        asked |= {"threshold": 0.6 * teachers, "answers": answers, "labels": "hard"}
    if images:
        asked |= {"encoder": ENCODER, "size": options.size, "device": options.device}
        asked["student_steps"] = options.student_steps
    method = kind(**{**asked, **own})
    private, public = pictures.data(images)
    started = time.perf_counter()
    budget = dpt.Budget(epsilon=cell[2], delta=DELTA)
    noise = Remembering(cell[3], said)
    model = method.fit(private, public, budget=budget, ledger=dpt.Ledger.in_memory(), noise=noise)
    taken = time.perf_counter() - started
    answered = sum(map(len, model.provenance.answers["rows"].values()))
    return json.dumps(
        {
            "cell": cell,
            "method": name,
            "epsilon": model.guarantee.epsilon,
            "accuracy": pictures.accuracy(model, images),
            "answered": answered,
            "right answers": right_answers(model, pictures.public_truth),
            "seconds": round(taken, 1),
            "settings": {**asked, **own},
        }
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("pictures", help="the .npz file")
    arguments.add_argument("out", help="results, a line of JSON for each cell; read first if it is there")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--size", type=int, default=96, help="side that pictures are squeezed to")
    arguments.add_argument("--rows", type=int, default=50_000, help="most private pictures")
    arguments.add_argument("--pool", type=int, default=9_000, help="most public pictures")
    arguments.add_argument("--teachers", type=int, default=1000)
    arguments.add_argument("--queries", type=int, default=1000)
    arguments.add_argument("--student-steps", type=int, default=1000, help="of students from scratch")
    arguments.add_argument("--epsilon", default="1,2,4,8")
    arguments.add_argument("--tables", default="3,6,9,10,11")
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--confident", action="store_true")
    options = arguments.parse_args()
    options.epsilon = [float(one) for one in options.epsilon.split(",")]
    options.tables = options.tables.split(",")
    run(options)


if __name__ == "__main__":
    main()
