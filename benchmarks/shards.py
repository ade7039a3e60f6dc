"""Prototypes from a pool in many files: seconds, share of bare reading and product, peak memory.

    python benchmarks/shards.py                                   # 10⁶, 4·10⁶ and 2·10⁷ rows of 256 int8
    python benchmarks/shards.py --rows 1000000 --cases open       # a small one
    python benchmarks/shards.py --cold                            # from the disk, and not from its cache
    python benchmarks/shards.py --device cuda --private 50000 --workers 0 --cases capped    # on one GPU

The pool is made on the fly, random directions on the grid of norm 127 in shards of half a million rows; pools
of several sizes are the first shards of the largest. `ours` is all of a fit of `public` on int8: mapping,
scoring, counting, drawing and looking up. `bare` is what nobody can do without: the same slices of the same
files, mapped by numpy, made into floats and multiplied by BLAS, on as many threads as there are cores, with
nothing done to the products.

- open: no caps, so that a class is one vector, the sum of its rows. Bare multiplies with these in float64:
  the products, 127² a private row, are too large for float32 to hold them exactly, as ours must be.
- capped: 1 + cosine between 0.8 and 1.3 counts, so that every private row is multiplied. Bare multiplies
  with all of them in float32, and neither caps nor sums.

On a GPU bare is the kernel of `similarity.py` on the same files, from the disk to integers on the host.

Every measurement is a process of its own, and bare is measured before and after ours. Memory is the sum of
the high-water marks of that process and all that it starts, mapped parts of files included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

CAPS = {"open": (0.0, 2.0), "capped": (0.8, 1.3)}
NORM, SHARD_ROWS, SLAB_ROWS, CLASSES = 127, 500_000, 1024, 10
HEADER = ("rows", "caps", "who", "seconds", "rows a second", "bare, s", "share", "in processor time", "MiB")


def directions(seed: int, rows: int, width: int):
    """Unit directions on the grid."""
    x = np.random.default_rng(seed).standard_normal((rows, width), dtype=np.float32)
    x *= 0.9999 * NORM / np.linalg.norm(x, axis=1, keepdims=True)
    return np.trunc(x, out=x).astype(np.int8)


def made(folder: Path, rows: int, width: int) -> None:
    """The shards that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = [n for n in range(-(-rows // SHARD_ROWS)) if not file_of(folder, n).exists()]
    needed, free = len(todo) * SHARD_ROWS * width, shutil.disk_usage(folder).free
    print(f"{rows:,} rows of {width} int8 in {folder}: {needed / 2**30:.1f} GiB, {free / 2**30:.0f} free.")
    if needed > free:
        sys.exit("The disk is too small: lower --rows, or name another --folder.")

    def write(number: int) -> None:
        part = file_of(folder, number).with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, directions(number, SHARD_ROWS, width))
            file.flush()
            os.fsync(file.fileno())  # so that --cold can have it forgotten
        part.rename(file_of(folder, number))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, todo))


def file_of(folder: Path, number: int) -> Path:
    return folder / f"shard_{number}.npy"


def private_rows(count: int, width: int):
    return directions(10**6, count, width), np.arange(count) % CLASSES


def bare(files: list[Path], rows: int, x, labels, case: str) -> None:
    """Reading and product alone."""
    from threadpoolctl import threadpool_limits

    own = x.astype(np.float32)
    if case == "open":
        own = np.stack([own[labels == c].sum(axis=0, dtype=np.float64) for c in range(CLASSES)])

    def slab(part) -> None:
        np.dot(part.astype(own.dtype), own.T)

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for file in files:
            mapped = np.load(file, mmap_mode="r")[:rows]
            list(pool.map(slab, (mapped[s : s + SLAB_ROWS] for s in range(0, len(mapped), SLAB_ROWS))))
            rows -= len(mapped)


def streamed(files: list[Path], rows: int, x, labels, case: str) -> None:
    """The kernel of `similarity.py` alone, from the files to integers on the host."""
    from dptransfer.exact.capped_similarity import ClassSimilarity

    caps = (round(cap * NORM**2) for cap in CAPS[case])
    for file in files:
        mapped = np.load(file, mmap_mode="r")[:rows]
        ClassSimilarity(x, labels, CLASSES, *caps, precision="int8", device="cuda")(mapped)
        rows -= len(mapped)


def ours(files: list[Path], rows: int, x, labels, case: str, workers: int, device: str) -> None:
    """A fit, as anybody would do it."""
    import dptransfer as dpt
    from dptransfer.data.sharded_rows import ShardedRows
    from dptransfer.parallel import Processes

    shards = ShardedRows(files)
    pool = dpt.PublicEmbeddings(
        shards if rows == len(shards) else shards.chosen(np.arange(rows)),
        fingerprint="0" * 64,  # as in a manifest, where it is on record
    )
    lowest, highest = CAPS[case]
    method = dpt.methods.PublicPrototypes(precision="int8", device=device, lowest=lowest, highest=highest)
    method.fit(
        dpt.PrivateEmbeddings(x.astype(np.float32), labels, classes=CLASSES),
        pool.with_workers(Processes(workers)) if workers else pool,
        budget=dpt.Budget(epsilon=1, delta=1e-5),
        ledger=dpt.Ledger.in_memory(),
        noise=dpt.SeededNoise(0),
    )


def worker(told: dict) -> None:
    """One measurement; its seconds go to standard output."""
    x, labels = private_rows(told["private"], told["width"])
    files = [file_of(Path(told["folder"]), n) for n in range(-(-told["rows"] // SHARD_ROWS))]
    job = files, told["rows"], x, labels, told["case"]
    alone = bare if told["device"] == "cpu" else streamed
    run = alone if told["who"] == "bare" else partial(ours, workers=told["workers"], device=told["device"])
    run(files[:1], 1000, x, labels, told["case"])  # what is loaded and compiled once is not measured
    if told["cold"]:
        for file in files:
            with file.open("rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    began, before = time.perf_counter(), processor_seconds()
    run(*job)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "processor": processor_seconds() - before}))


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(**told) -> dict:
    """One measurement in a process of its own, with its peak memory in MiB."""
    command = [sys.executable, __file__, "--worker", json.dumps(told)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peaks: dict[int, float] = {}
    while True:
        for each in family(process.pid):
            peaks[each] = max(peaks.get(each, 0), high_water(each))
        try:
            out, _ = process.communicate(timeout=0.1)
            break
        except subprocess.TimeoutExpired:
            pass
    if process.returncode:
        sys.exit(process.returncode)
    return {**json.loads(out), "MiB": sum(peaks.values())}


def family(process: int) -> list[int]:
    """A process and all below it."""
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += family(int(child))
        except OSError:  # gone meanwhile
            pass
    return found


def high_water(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, nargs="*", default=[10**6, 4 * 10**6, 2 * 10**7])
    arguments.add_argument("--width", type=int, default=256)
    arguments.add_argument("--private", type=int, default=2000)
    arguments.add_argument("--cases", nargs="*", choices=list(CAPS), default=list(CAPS))
    arguments.add_argument("--workers", type=int, nargs="*", default=[0, 2], help="0: this process")
    arguments.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments.add_argument("--cold", action="store_true")
    arguments.add_argument("--folder", type=Path, help="keeps the pool; default a temporary one")
    arguments.add_argument("--worker", type=json.loads)
    options = arguments.parse_args()
    if options.worker:
        return worker(options.worker)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="shards-"))
    try:
        made(folder, max(options.rows), options.width)
        print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
        for rows in options.rows:
            for case in options.cases:
                compared(options, folder, rows, case)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def compared(options, folder: Path, rows: int, case: str) -> None:
    """Ours between two of bare."""
    told = {"folder": str(folder), "rows": rows, "case": case, "cold": options.cold}
    told |= {"width": options.width, "private": options.private, "device": options.device}
    before = measured(**told, who="bare")
    for workers in options.workers:
        own = measured(**told, who="ours", workers=workers)
        after = measured(**told, who="bare")
        seconds, processor = ((before[name] + after[name]) / 2 for name in ("seconds", "processor"))
        cells = (
            f"{rows:,}",
            case,
            f"{workers} processes" if workers else "this process",
            f"{own['seconds']:.3g}",
            f"{rows / own['seconds']:.3g}",
            f"{seconds:.3g}",
            f"{seconds / own['seconds']:.0%}",
            f"{processor / own['processor']:.0%}",
            f"{own['MiB']:.0f}",
        )
        print("| " + " | ".join(cells) + " |", flush=True)
        before = after


if __name__ == "__main__":
    main()
