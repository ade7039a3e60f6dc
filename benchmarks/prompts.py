"""What many prompted teachers cost: seconds for 1, 10, 100 and 1,000 of them on the same pictures.

    python benchmarks/prompts.py                                        # CPU, small pictures
    python benchmarks/prompts.py --device cuda --size 224 --rows 64000 --batch 16
    python benchmarks/prompts.py --neighbours [--device cuda --size 224]

Every count of teachers looks at the same number of pictures once, forward and backward. "Plain" is one pass
of the frozen network over as many, to the gradient of its input, without prompts, label maps or optimiser:
what nobody can do without. They take turns, and the best of the repeats is shown; seconds on a CPU are
processor time.

`--neighbours` asks whether a teacher depends on those beside it, bit for bit: it learns twice, at the same
place, beside teachers with other pictures, other labels and other numbers of pictures, and its weights are
compared with ==. It is what `deep.teachers` assumes of the kernels of a device.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from dptransfer.encoders.per_example import exact_kernels
from dptransfer.methods.deep.network import network_of
from dptransfer.methods.deep.teachers import Course, Prompts, SmallTeachers, _lessons, ballots_of, teach


def pictures(rows: int, side: int):
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (rows, side, side, 3), dtype=np.uint8), rng.integers(0, 10, rows)


def now(device: str) -> float:
    """Seconds on a GPU, and of processor time on a CPU, which other work hardly disturbs."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def plain(network, pixels, at_once: int) -> None:
    with exact_kernels():
        for first in range(0, len(pixels), at_once):
            inputs = network.inputs(pixels[first : first + at_once]).requires_grad_()
            torch.autograd.grad(network.classify(network.rows(inputs)).logsumexp(1).sum(), inputs)


def taught(model, pixels, labels, teachers: int, options) -> None:
    """All teachers learn, and are asked one question, so that nothing but learning counts."""
    steps = len(pixels) // (teachers * options.batch)
    course = Course(steps, options.batch, 0.05, 0.7, min(teachers, options.together))
    parts = np.array_split(np.arange(len(pixels)), teachers)
    ballots_of(model, course, pixels, labels, parts, pixels[:1], lambda what, compute: compute())


def cost(options) -> None:
    counts = [int(one) for one in options.teachers.split(",")]
    rows = max(counts) * options.batch * -(-options.rows // (max(counts) * options.batch))
    pixels, labels = pictures(rows, options.size)
    network = network_of("efficientnet-lite0", size=options.size, device=options.device)
    model = Prompts(network, 10)
    works = {"plain": lambda: plain(network, pixels, options.together * options.batch)}
    for teachers in counts:
        works[f"{teachers} teachers"] = lambda teachers=teachers: taught(
            model, pixels, labels, teachers, options
        )
    best: dict[str, float] = {}
    for _ in range(options.repeats):
        for name, work in works.items():
            started = now(options.device)
            work()
            best[name] = min(best.get(name, np.inf), now(options.device) - started)
    print(f"{rows} pictures of {options.size} px, batches of {options.batch}, {options.device}")
    print("| what | seconds | pictures a second | ÷ plain |\n|---|---|---|---|")
    for name, taken in best.items():
        print(f"| {name} | {taken:.2f} | {rows / taken:.0f} | {taken / best['plain']:.2f} |")


def neighbours(options) -> None:
    pixels, labels = pictures(8 * options.together, options.size)
    network = network_of("efficientnet-lite0", size=options.size, device=options.device)
    course = Course(5, options.batch, 0.05, 0.7, options.together)
    rng = np.random.default_rng(1)
    print(f"{options.together} teachers together, {options.size} px, {options.device}")
    print("| teachers | place | weights that differ beside other neighbours |\n|---|---|---|")
    for name, model in {
        "prompts": Prompts(network, 10),
        "from scratch": SmallTeachers(10),
    }.items():
        for place in sorted({0, options.together // 2, options.together - 1}):
            learned = []
            for _ in range(3):
                theirs = rng.permutation(np.arange(8, len(pixels)))
                cuts = np.sort(rng.integers(0, len(theirs), options.together - 2))
                parts = np.split(theirs, cuts)
                parts.insert(place, np.arange(8))
                with exact_kernels():
                    lessons = _lessons(course, pixels, labels, parts)
                    found = teach(model, course, lessons, lambda done: None)
                learned.append([one[place].detach() for one in found])
            differ = sum(
                int((one != other).sum())
                for again in learned[1:]
                for one, other in zip(learned[0], again, strict=True)
            )
            whole = 2 * sum(one.numel() for one in learned[0])
            print(f"| {name} | {place} | {differ} of {whole} |", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments.add_argument("--teachers", default="1,10,100,1000")
    arguments.add_argument("--rows", type=int, default=4_000)
    arguments.add_argument("--size", type=int, default=32)
    arguments.add_argument("--batch", type=int, default=4)
    arguments.add_argument("--together", type=int, help="teachers in one pass; default 8, on a GPU 32")
    arguments.add_argument("--repeats", type=int, default=2)
    arguments.add_argument("--neighbours", action="store_true")
    options = arguments.parse_args()
    options.together = options.together or (8 if options.device == "cpu" else 32)
    (neighbours if options.neighbours else cost)(options)


if __name__ == "__main__":
    main()
