"""Methods that see pixels beside methods on rows: balanced accuracy at the same true ε, on the same pictures.

    python benchmarks/deep_methods.py clothing.zip --public caltech101-sample.zip --size 224 --device cuda
    python benchmarks/deep_methods.py cifar/ --public caltech101-sample.zip --rows 5000 --size 96 --workers 4

`pictures.py` says what pictures can be. Every cell is a line of JSON in `--out`, fitted in a process of its
own; a cell that is there is not run again. Noise is seeded, so that a table can be made again.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np
from cells import fill
from pictures import parts_in, rows_of

import dptransfer as dpt
from dptransfer.cli.declared import settings_of
from dptransfer.deep.network import network_of
from dptransfer.named import named_method
from dptransfer.noise import SeededNoise

DELTA = 1e-5
METHODS = ("public-prior", "transfer-pate", "prom-pate", "film", "lora", "warm-start-network")


def fitted(args, cells):
    encoder = network_of(args.encoder, size=args.size, device=args.device).encoder
    parts = parts_in(args.private, args.size, args.rows)
    (x, y), test = parts["train"], parts["test"]
    pool = next(iter(parts_in(args.public, args.size).values())).pixels
    for cell in cells:
        settings = dict(settings_of(given_to(cell["method"], args), {})[0])
        method = named_method(cell["method"], settings)
        declared = {"classes": range(int(y.max()) + 1), "name": "pictures", "size": len(x)}
        if method.takes is dpt.PrivateImages:
            own = {"encoder": args.encoder, "size": args.size, "device": args.device}
            method = named_method(cell["method"], {**own, **settings})
            private, public = dpt.PrivateImages(x, y, **declared), dpt.PublicImages(pool)
        else:
            private = dpt.PrivateEmbeddings(rows_of(encoder, x), y, **declared)
            public = dpt.PublicEmbeddings(rows_of(encoder, pool))
        budget, noise = dpt.Budget(epsilon=cell["epsilon"], delta=DELTA), SeededNoise(cell["seed"])
        started = time.perf_counter()
        model = method.fit(private, public, budget=budget, ledger=dpt.Ledger.in_memory(), noise=noise)
        taken = time.perf_counter() - started
        right = np.asarray(model.predict(rows_of(encoder, test.pixels, model))) == test.labels
        accuracy = np.mean([right[test.labels == one].mean() for one in np.unique(test.labels)])
        notes = list(model.provenance.notes)
        yield cell, {"accuracy": round(float(accuracy), 4), "seconds": round(taken, 2), "notes": notes}


def given_to(method: str, args: argparse.Namespace) -> list[str]:
    return [text.removeprefix(f"{method}.") for text in args.set if text.startswith(f"{method}.")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("private")
    parser.add_argument("--public", required=True)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--set", action="append", default=[], help="METHOD.FIELD=VALUE")
    parser.add_argument("--epsilons", default="1,2,4,8")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("deep-methods.jsonl"))
    args = parser.parse_args()
    about = {"data": Path(args.private).stem, "rows": args.rows, "size": args.size, "encoder": args.encoder}
    epsilons = map(float, args.epsilons.split(","))
    jobs = [
        [{**about, "method": name, "given": " ".join(given_to(name, args)), "epsilon": epsilon, "seed": seed}]
        for seed, name, epsilon in product(range(args.seeds), args.methods.split(","), epsilons)
    ]
    fill(args.out, jobs, fitted, args, args.workers)


if __name__ == "__main__":
    main()
