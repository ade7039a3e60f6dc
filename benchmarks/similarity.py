"""The similarity engine: seconds, rate, share of the peak, memory, and the bare product beside it.

    python benchmarks/similarity.py                  # CPU: 8,192 public x 8,192 private rows, 1280 dimensions
    python benchmarks/similarity.py --growth         # doubles one size at a time
    python benchmarks/similarity.py --device cuda    # 1,281,167 x 50,000 x 1280 on one GPU

The peak on CPU is the rate of the bare float32 product; on CUDA, that of a large square bf16 product (for
int8, twice that). On CPU a run of ours and one of the bare product alternate, so that other work on the
machine falls on both; seconds are medians, and so is the ratio, which is taken within each pair and shown
with its quartiles. JAX, where installed, runs the same formula in float32, one jitted call per class and
block of public rows, which is compiled anew for every class size.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from dptransfer.exact.capped_similarity import GRID_DTYPE, GRID_NORM, ClassSimilarity

CAPS = (0.97, 1.05)  # of one: both are active on random rows
HEADER = ("backend", "classes", "seconds", "TFLOP/s", "of peak", "extra MiB", "bare / this")


def grid(rng, rows: int, width: int, precision: str):
    x = rng.standard_normal((rows, width), dtype=np.float32)
    x *= 0.9999 * GRID_NORM[precision] / np.linalg.norm(x, axis=1, keepdims=True)
    return np.trunc(x, out=x).astype(GRID_DTYPE[precision])


def class_labels(sizes: list[int]):
    return np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))


def balanced(rows: int, classes: int) -> list[int]:
    return [rows // classes + (c < rows % classes) for c in range(classes)]


def long_tail(classes: int = 100) -> list[int]:
    return [round(500 * (5 / 500) ** (c / (classes - 1))) for c in range(classes)]


def caps(precision: str) -> tuple[int, int]:
    one = GRID_NORM[precision] ** 2
    return round(CAPS[0] * one), round(CAPS[1] * one)


def seconds_of(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best(*works, repeats: int) -> list[float]:
    """Least seconds of each, taken in turn."""
    seconds = [[] for _ in works]
    for _ in range(repeats):
        for own, work in zip(seconds, works, strict=True):
            own.append(seconds_of(work))
    return [min(own) for own in seconds]


def paired(ours, bare, repeats: int) -> tuple[float, float, str]:
    """Median seconds of ours and of the bare product; median and quartiles of their ratio within a pair."""
    ours(), bare()  # warm
    seconds = np.array([(seconds_of(ours), seconds_of(bare)) for _ in range(repeats)])
    low, middle, high = np.quantile(seconds[:, 1] / seconds[:, 0], [0.25, 0.5, 0.75])
    return *np.median(seconds, axis=0), f"{middle:.2f} ({low:.2f} to {high:.2f})"


def jax_sums(x, labels, classes: int, public, precision: str):
    """Ready to call: the formula in JAX, from float32 unit rows, class by class."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # not all of the device at once
    import jax
    import jax.numpy as jnp

    norm = float(GRID_NORM[precision])
    own = [jnp.asarray(x[labels == c].astype(np.float32) / norm) for c in range(classes)]
    pool = jnp.asarray(public, dtype=jnp.float32) / norm

    @jax.jit
    def one_class(p, rows):
        return (jnp.clip(1.0 + p @ rows.T, *CAPS) - CAPS[0]).sum(axis=1)

    def run():
        parts = []
        for rows in own:
            step = max(1024, 2**28 // max(1, len(rows)))  # a gigabyte of products at a time
            parts += [
                jnp.concatenate([one_class(pool[s : s + step], rows) for s in range(0, len(pool), step)])
            ]
        return jax.block_until_ready(jnp.stack(parts, axis=1))

    return run


class Table:
    """Prints a row at a time."""

    def __init__(self, flops: float, peak: float) -> None:
        self.flops, self.peak = flops, peak
        print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))

    def row(self, name, classes, seconds, ratio=None, extra=None, flops=None, peak=None) -> None:
        """One line; flops and peak are the table's unless given."""
        rate = (flops or self.flops) / seconds
        share = f"{rate / (peak or self.peak):.0%}"
        memory = "" if extra is None else f"{extra:.0f}"
        ratio = f"{ratio:.2f}" if isinstance(ratio, float) else ratio or ""
        print(
            f"| {name} | {classes} | {seconds:.4g} | {rate / 1e12:.4g} | {share} | {memory} | {ratio} |",
            flush=True,
        )


def on_cpu(options) -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"  # it would take a GPU where there is one
    rng = np.random.default_rng(0)
    width, precision = options.dimension, "float16"
    x, pool = (grid(rng, count or 8192, width, precision) for count in (options.private, options.public))
    wide_x, wide_pool = x.astype(np.float32), pool.astype(np.float32)
    product = np.empty((len(pool), len(x)), dtype=np.float32)
    flops = 2.0 * len(pool) * len(x) * width

    def bare():
        np.dot(wide_pool, wide_x.T, out=product)

    table = None
    for classes in options.classes or [10, 100]:
        labels = class_labels(balanced(len(x), classes))

        def ours(labels=labels, classes=classes):
            ClassSimilarity(x, labels, classes, *caps(precision))(pool)

        seconds, alone, ratio = paired(ours, bare, options.repeats)
        if table is None:
            table = Table(flops, flops / alone)
            table.row("bare float32 product (NumPy)", "", alone, 1.0)
        extra = extra_memory(len(pool), len(x), width, classes)
        table.row("dptransfer, CPU", classes, seconds, ratio, extra)
        if importlib.util.find_spec("jax"):
            run = jax_sums(x, labels, classes, pool, precision)
            cold = seconds_of(run)
            seconds, _, ratio = paired(run, bare, min(3, options.repeats))
            table.row(f"JAX float32, CPU (first call {cold:.1f} s)", classes, seconds, ratio)


def extra_memory(public: int, private: int, width: int, classes: int) -> float:
    """Peak MiB beyond arguments and result, in a process of its own."""
    command = [sys.executable, __file__, "--worker", *map(str, (public, private, width, classes))]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def worker(public: int, private: int, width: int, classes: int) -> None:
    rng = np.random.default_rng(0)
    x, pool = grid(rng, private, width, "float16"), grid(rng, public, width, "float16")
    labels = class_labels(balanced(private, classes))
    ClassSimilarity(x[:9], labels[:9], classes, *caps("float16"))(pool[:9])
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # forget the peak of making the rows
    before = status("VmRSS")
    result = ClassSimilarity(x, labels, classes, *caps("float16"))(pool)
    print(status("VmHWM") - before - result.nbytes / 2**20)


def status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def growth(options) -> None:
    """Seconds when one size doubles; linear growth gives a ratio of 2 (classes cost nothing: 1)."""
    base = {"public": 4096, "private": 4096, "dimension": 1280, "classes": 10}
    print("| what doubles | from | seconds | seconds doubled | ratio |\n|---|---|---|---|---|")
    for name in base:
        works = []
        for factor in (1, 2):
            size = {**base, name: factor * base[name]}
            rng = np.random.default_rng(0)
            x, pool = (grid(rng, size[part], size["dimension"], "float16") for part in ("private", "public"))
            labels = class_labels(balanced(size["private"], size["classes"]))
            arguments = (x, labels, size["classes"], *caps("float16"))
            works.append(lambda arguments=arguments, pool=pool: ClassSimilarity(*arguments)(pool))
        once, twice = best(*works, repeats=options.repeats)
        print(f"| {name} | {base[name]} | {once:.3f} | {twice:.3f} | {twice / once:.2f} |", flush=True)


def on_cuda(options) -> None:
    import torch

    from dptransfer.exact.capped_similarity import ClassRows
    from dptransfer.exact.similarity_cuda import CudaCappedSums

    def device_seconds(work, repeats=5) -> float:
        times = []
        for _ in range(repeats + 2):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1000)
        return float(np.median(times[2:]))

    def rows_on_device(count: int, width: int, precision: str):
        x = torch.randn(count, width, device="cuda", dtype=torch.float32)
        x *= 0.9999 * GRID_NORM[precision] / x.norm(dim=1, keepdim=True)
        return x.trunc_().to(torch.int8 if precision == "int8" else torch.float16)

    def bare(a, b) -> None:
        for start in range(0, len(a), 2**14):
            a[start : start + 2**14] @ b.T

    public, private, width = options.public or 1_281_167, options.private or 50_000, options.dimension
    square = torch.randn(8192, 8192, device="cuda").bfloat16()
    peak = 2.0 * 8192**3 / device_seconds(lambda: square @ square, 20)
    print(f"{torch.cuda.get_device_name()}; bf16 peak measured: {peak / 1e12:.0f} TFLOP/s (8192 cubed)")
    table = Table(2.0 * public * private * width, peak)
    for precision in GRID_NORM:
        top = peak * (2 if precision == "int8" else 1)
        pool, x = (rows_on_device(count, width, precision) for count in (public, private))
        if precision == "float16":
            normal = torch.randn_like(pool).bfloat16(), torch.randn_like(x).bfloat16()
            alone = device_seconds(partial(bare, *normal))
            table.row("cuBLAS bf16 product alone, normal rows", "", alone, 1.0)
            seconds = device_seconds(partial(bare, pool.bfloat16(), x.bfloat16()))
            table.row("cuBLAS bf16 product alone, these rows", "", seconds, alone / seconds)
            del normal
        for name, sizes in (
            ("balanced", balanced(private, 10)),
            ("balanced", balanced(private, 100)),
            ("balanced, same rows as the tail", balanced(sum(long_tail()), 100)),
            ("long tail 500 to 5", long_tail()),
        ):
            flops = 2.0 * public * sum(sizes) * width
            bounds = [cap - GRID_NORM[precision] ** 2 for cap in caps(precision)]
            given = x[: sum(sizes)], class_labels(sizes), len(sizes)
            ready = CudaCappedSums(ClassRows(*given), *bounds, precision=precision)
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated() + 8 * public * len(sizes)  # the result is not extra
            seconds = device_seconds(partial(ready.of_slab, pool))
            extra = (torch.cuda.max_memory_allocated() - before) / 2**20
            shown = f"dptransfer, CUDA {precision}, {name}, {sum(sizes):,} rows"
            share = alone * flops / table.flops
            table.row(shown, len(sizes), seconds, share / seconds, extra, flops, top)
        streamed(table, pool, x, precision, balanced(private, 100), top, alone)
    if importlib.util.find_spec("jax"):
        jax_on_cuda(table, x, pool, private, alone)


def streamed(table, pool, x, precision, sizes, top, alone) -> None:
    """From a memory-mapped file to an array of integers: reading, both copies and the work."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pool.npy"
        np.save(file, pool.cpu().numpy().astype(GRID_DTYPE[precision]))
        mapped, labels = np.load(file, mmap_mode="r"), class_labels(sizes)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()

        def work():
            scores = ClassSimilarity(x, labels, len(sizes), *caps(precision), precision, "cuda")
            scores(mapped)

        seconds = min(seconds_of(work) for _ in range(3))
        extra = (torch.cuda.max_memory_allocated() - before) / 2**20
        shown = f"dptransfer, CUDA {precision}, streamed from a file to host integers"
        table.row(shown, len(sizes), seconds, alone / seconds, extra, peak=top)


def jax_on_cuda(table, x, pool, private: int, alone: float) -> None:
    host = x.cpu().numpy()
    part = pool[: len(pool) // 8].cpu().numpy()  # an eighth, and eight times the seconds: memory
    for classes in (10, 100):
        run = jax_sums(host, class_labels(balanced(private, classes)), classes, part, "int8")
        cold = seconds_of(run)
        warm = 8 * min(seconds_of(run) for _ in range(3))
        table.row(f"JAX float32, CUDA (8 x an eighth; first call {cold:.1f} s)", classes, warm, alone / warm)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    for name in ("public", "private"):
        arguments.add_argument(f"--{name}", type=int)
    for name, default in (("dimension", 1280), ("repeats", 7)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    arguments.add_argument("--classes", type=int, nargs="*")
    arguments.add_argument("--growth", action="store_true")
    arguments.add_argument("--worker", type=int, nargs=4)
    options = arguments.parse_args()
    if options.worker:
        return worker(*options.worker)
    return growth(options) if options.growth else (on_cuda if options.device == "cuda" else on_cpu)(options)


if __name__ == "__main__":
    main()
