"""Pictures a second from files to rows: ONNX Runtime, torch, and ONNX Runtime alone on prepared tensors.

    python benchmarks/encode.py photos/
    python benchmarks/encode.py caltech101-sample.zip --size 128 --pictures 500
    python benchmarks/encode.py photos/ --device cuda --batch 256  # torch on a GPU, and its share of the time

The ways take turns, one round of each after the other, so that whatever else the machine does meets all of
them alike; what counts are the ratios, of which the median over the rounds is shown, and the time that cores
worked, which others on the machine change least. 'alone' is what ONNX Runtime does with pictures that are
decoded and squeezed already, the faster of two ways to call it: all pictures of a batch with its own threads,
or a picture a call on threads of ours. 'pictures' is what opening and squeezing do with no network behind
them. The others are whole encodings, with decoding, squeezing and an `.emb` folder written. Where more
pictures are asked for than there are, they are taken again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from dptransfer.base.worker_env import usable_cores
from dptransfer.encoders import (
    EncodeOptions,
    ImageEncoder,
    encode_examples,
    encode_images_in_memory,
    get_encoder,
)
from dptransfer.encoders.efficientnet import NAME
from dptransfer.sources import find_images
from dptransfer.sources.decode import open_image


def bare_ways(pixels: np.ndarray, size: int, batch: int) -> dict:
    """ONNX Runtime alone on prepared pictures."""
    import onnxruntime

    graph, cores = get_encoder(NAME, size=size).graph(), usable_cores()
    sessions = []
    for threads in (cores, 1):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        sessions.append(onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"]))
    starts = range(0, len(pixels), batch)
    pool = ThreadPoolExecutor(cores)

    def in_batches() -> None:
        for start in starts:
            sessions[0].run(None, {"pixels": pixels[start : start + batch]})

    def one_by_one() -> None:
        list(pool.map(lambda i: sessions[1].run(None, {"pixels": pixels[i : i + 1]}), range(len(pixels))))

    return {"alone, batches": in_batches, "alone, one by one": one_by_one}


class NoNetwork(ImageEncoder):
    """Pictures are prepared as for an encoder, and nothing is done with them."""

    dimension = 1

    def __init__(self, encoder: ImageEncoder) -> None:
        self.identity, self._encoder = encoder.identity, encoder
        self.picklable_prepare = encoder.picklable_prepare

    def prepare(self, image: Image.Image) -> np.ndarray:
        """As the encoder does."""
        return self._encoder.prepare(image)

    def forward(self, pixels: np.ndarray) -> np.ndarray:
        """Rows of nothing."""
        return np.zeros((len(pixels), 1), dtype=np.float32)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("pictures_in", type=Path, help="a folder of pictures, or a zip of one")
    arguments.add_argument("--device", default="cpu", help="of torch")
    for name, default in (("size", 224), ("pictures", 192), ("batch", 32), ("rounds", 5)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = options.pictures_in
        if source.suffix == ".zip":
            with zipfile.ZipFile(source) as packed:
                packed.extractall(folder)
            source = Path(folder)
        every = find_images(source, labelled=False)
        step, times = max(1, len(every) // options.pictures), -(-options.pictures // len(every))
        images = find_images((every.paths[::step] * times)[: options.pictures], labelled=False)
        measure(images, options, Path(folder))


def measure(images, options, folder: Path) -> None:
    encoders = {
        "ours": get_encoder(NAME, size=options.size, runtime="onnx"),
        f"torch, {options.device}": get_encoder(
            NAME, size=options.size, device=options.device, runtime="torch"
        ),
    }
    pixels = np.stack([encoders["ours"].prepare(open_image(path)) for path in images.paths])
    network = encoders[f"torch, {options.device}"]

    def in_torch() -> None:
        for start in range(0, len(pixels), options.batch):
            network.forward(pixels[start : start + options.batch])

    ways = {
        name: lambda encoder=encoder: encode_examples(
            images, encoder, folder / "x.emb", EncodeOptions(batch=options.batch, overwrite=True)
        )
        for name, encoder in encoders.items()
    }
    nothing = NoNetwork(network)
    ways["pictures"] = lambda: encode_images_in_memory(images, nothing, batch=options.batch)
    ways |= {"torch's network": in_torch, **bare_ways(pixels, options.size, options.batch)}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    busy: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.rounds + 1):  # the first is not counted
        for name, work in ways.items():
            started, worked = time.perf_counter(), sum(os.times()[:4])  # with processes that have ended
            work()
            if turn:
                seconds[name].append(time.perf_counter() - started)
                busy[name].append(sum(os.times()[:4]) - worked)
    print(f"{len(images)} pictures at {options.size} px, {usable_cores()} cores, {options.rounds} rounds\n")
    print("| | pictures a second, median | best | ms of a core a picture |\n|---|---|---|---|")
    for name, found in seconds.items():
        median, best = statistics.median(found), min(found)
        cores = 1000 * statistics.median(busy[name]) / len(images)
        print(f"| {name} | {len(images) / median:.1f} | {len(images) / best:.1f} | {cores:.1f} |")
    alone = [min(pair) for pair in zip(*(seconds[name] for name in ways if "alone" in name), strict=True)]
    other = f"torch, {options.device}"
    roof = [max(pair) for pair in zip(seconds["pictures"], seconds["torch's network"], strict=True)]
    shown = (
        (f"ours ÷ {other}", seconds[other], seconds["ours"]),
        ("ours ÷ alone", alone, seconds["ours"]),
        ("torch's network, share of the time", seconds["torch's network"], seconds[other]),
        (f"{other} ÷ the slower of pictures and network", roof, seconds[other]),
    )
    for told, against, mine in shown:
        ratios = [there / here for there, here in zip(against, mine, strict=True)]
        print(f"\n{told}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
