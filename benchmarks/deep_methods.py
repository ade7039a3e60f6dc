"""Methods that see pixels beside methods on rows: balanced accuracy at the same true ε, on the same pictures.

    python benchmarks/deep_methods.py clothing.zip --public caltech101-sample.zip --size 224 --device cuda
    python benchmarks/deep_methods.py cifar/ --public caltech101-sample.zip --rows 10000,1000 --size 96
    python benchmarks/deep_methods.py --table --out deep-methods.jsonl

`pictures.py` says what pictures can be. Every cell is a line of JSON in `--out`; the ε of one method and seed
are fitted in a process of their own, and a cell that is there is not run again. Noise is seeded, so that a
table can be made again. Of fewer rows all are among those of more.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
from cells import fill
from pictures import parts_in, rows_of

import dptransfer as dpt
from dptransfer.cli.options import settings_of
from dptransfer.methods.configuration import named_method
from dptransfer.methods.deep.network import network_of
from dptransfer.noise import SeededNoise
from dptransfer.sources import PrivateImages, PublicImages

DELTA = 1e-5
METHODS = ("public-prior", "transfer-pate", "prom-pate", "film", "lora", "warm-start-network")


def fitted(args, cells):
    name, rows = cells[0]["method"], cells[0]["rows"]
    encoder = network_of(args.encoder, size=args.size, device=args.device).encoder
    parts = parts_in(args.private, args.size, rows)
    (x, y), test = parts["train"], parts["test"]
    pool = next(iter(parts_in(args.public, args.size).values())).pixels
    settings = dict(settings_of(given_to(name, args), {})[0])
    method = named_method(name, settings)
    declared = {"classes": range(int(y.max()) + 1), "name": "pictures", "size": len(x)}
    if method.takes is PrivateImages:
        own = {"encoder": args.encoder, "size": args.size, "device": args.device}
        method = named_method(name, {**own, **settings})
        private, public = PrivateImages(x, y, **declared), PublicImages(pool)
    else:
        private = dpt.PrivateEmbeddings(rows_of(encoder, x), y, **declared)
        public = dpt.PublicEmbeddings(rows_of(encoder, pool), vocabulary=encoder.vocabulary)
    plain = rows_of(encoder, test.pixels)
    for cell in cells:
        budget, noise = dpt.Budget(epsilon=cell["epsilon"], delta=DELTA), SeededNoise(cell["seed"])
        started = time.perf_counter()
        model = method.fit(private, public, budget=budget, ledger=dpt.Ledger.in_memory(), noise=noise)
        taken = time.perf_counter() - started
        seen = plain if model.encoder_delta is None else rows_of(encoder, test.pixels, model)
        right = np.asarray(model.predict(seen)) == test.labels
        accuracy = np.mean([right[test.labels == one].mean() for one in np.unique(test.labels)])
        notes = list(model.provenance.notes)
        yield cell, {"accuracy": round(float(accuracy), 4), "seconds": round(taken, 2), "notes": notes}


def given_to(method: str, args: argparse.Namespace) -> list[str]:
    return [text.removeprefix(f"{method}.") for text in args.set if text.startswith(f"{method}.")]


def table(lines) -> None:
    """Mean balanced accuracy in %, with the distance of the lowest seed from the highest."""
    found = defaultdict(list)
    for line in lines:
        found[line["data"], line["size"], line["rows"] or 0, line["method"], line["epsilon"]].append(line)
    epsilons = sorted({key[-1] for key in found})
    print("| pictures | size | rows | method |", *(f"ε = {one:g} |" for one in epsilons), "seconds |")
    print("|---|---:|---:|---|" + "---:|" * (len(epsilons) + 1))
    for key in sorted({key[:-1] for key in found}, key=lambda one: (one[0], -one[2], one[3])):
        own = [found[*key, epsilon] for epsilon in epsilons]
        cells = [[100 * line["accuracy"] for line in cell] for cell in own]
        words = [f"{np.mean(c):.1f} ({len(c)}: {np.ptp(c):.1f})" if c else "–" for c in cells]
        seconds = np.median([line["seconds"] for cell in own for line in cell])
        print("|", " | ".join(map(str, key)), "|", " | ".join(words), f"| {seconds:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("private", nargs="?")
    parser.add_argument("--public")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--set", action="append", default=[], help="METHOD.FIELD=VALUE")
    parser.add_argument("--epsilons", default="1,2,4,8")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", help="how many, or several such numbers; all, if it is left out")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("deep-methods.jsonl"))
    parser.add_argument("--table", action="store_true", help="show what is there")
    args = parser.parse_args()
    if args.table:
        return table(map(json.loads, args.out.read_text().splitlines()))
    if args.private is None or args.public is None:
        parser.error("private pictures and --public are needed")
    sizes = [int(one) for one in args.rows.split(",")] if args.rows else [None]
    jobs = [
        [
            {
                "data": Path(args.private).stem,
                "rows": rows,
                "size": args.size,
                "encoder": args.encoder,
                "method": name,
                "given": " ".join(given_to(name, args)),
                "epsilon": float(epsilon),
                "seed": seed,
            }
            for epsilon in args.epsilons.split(",")
        ]
        for seed, rows, name in product(range(args.seeds), sizes, args.methods.split(","))
    ]
    fill(args.out, jobs, fitted, args, args.workers)


if __name__ == "__main__":
    main()
