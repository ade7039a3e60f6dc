"""What the laboratory adds to a cell: a sweep on real embeddings, its own time beside the methods'.

    python benchmarks/bench_overhead.py DATA_FOLDER [--cells 1000] [--workers 2]

DATA_FOLDER holds agnews_minilm.npz and banking77_minilm.npz, each the other's pool. Prints the sweep's wall
time, the methods' own time (fit, prediction, attack) and the overhead per cell: mean, median, 95 % quantile.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from dptransfer_lab.results import read_results
from dptransfer_lab.run import run_study
from dptransfer_lab.study import parse_study

STUDY = """
name = "overhead"
seeds = {seeds}
imbalance = [1, 10]
[[data]]
name = "agnews"
source = {{ minilm = "agnews_minilm.npz" }}
pool = "banking-texts"
[[data]]
name = "banking77"
source = {{ minilm = "banking77_minilm.npz" }}
pool = "news-texts"
[[pool]]
name = "news-texts"
source = {{ minilm = "agnews_minilm.npz" }}
[[pool]]
name = "banking-texts"
source = {{ minilm = "banking77_minilm.npz" }}
[[budget]]
epsilon = [0.25, 0.5, 1, 2, 4]
delta = 1e-5
[[method]]
name = "mean"
[[method]]
name = "mean-estimation"
[[method]]
name = "mean"
label = "mean, 64 axes"
settings = {{ axes = 64 }}
[[method]]
name = "public"
settings = {{ axes = 64 }}
[[method]]
name = "public-prior"
"""
CELLS_PER_SEED = 2 * 2 * 5 * 5


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--cells", type=int, default=1000)
    arguments.add_argument("--workers", type=int, default=2)
    options = arguments.parse_args()
    study = parse_study(STUDY.format(seeds=max(1, options.cells // CELLS_PER_SEED)))
    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        tally = run_study(study, out, folders=[options.folder], workers=options.workers)
        whole = time.perf_counter() - started
        cells = read_results(out)
        size = (Path(out) / "results.jsonl").stat().st_size
    overhead, fits = 1000 * cells["overhead_seconds"], 1000 * cells["fit_seconds"]
    print(f"{tally.counts}, {tally.workers} workers, {size / tally.total:.0f} bytes a record")
    print(f"wall {whole:.1f} s; sweep {tally.seconds:.1f} s, of which {tally.starting:.1f} s to start")
    own, beside = 1000 * tally.own_seconds / tally.ran, 1000 * tally.overhead / tally.ran
    print(f"per cell: own {own:.1f} ms (fit {fits.mean():.1f}), overhead {beside:.1f} ms with writing")
    busy = 1000 * cells["extra"].map(lambda extra: extra["overhead_processor_seconds"])
    print(f"of it work, in processor time: mean {busy.mean():.2f} ms, median {busy.median():.2f} ms")
    low, high = overhead.quantile([0.5, 0.95])
    print(f"overhead without writing: median {low:.1f} ms, 95 % of cells below {high:.1f} ms")
    used = tally.own_seconds / (tally.workers * (tally.seconds - tally.starting))
    print(f"share of the workers' time that went into the methods: {100 * used:.1f} %")


if __name__ == "__main__":
    main()
