"""Commands that die at any operation on the disk; a module of its own for their processes."""

import builtins
import io
import os
import signal

import numpy as np

import dptransfer as dpt
from dptransfer.cli.commands import app
from dptransfer.data import atomic_files as on_disk
from dptransfer.data import write_embeddings
from dptransfer.encoders import EncodeOptions, encode_examples
from dptransfer.sources import find_images
from encoders.toys import MeanColour

NAMES = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "fsync", "fdatasync", "truncate")
ROWS = np.arange(240.0, dtype=np.float32).reshape(60, 4)


def until(count, tally, work, *given):
    """Do some work in this process, and kill it at its `count`-th operation; 0 counts them, into a file."""
    done = [0]

    def step():
        done[0] += 1
        if done[0] == count:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(usual):
        def operation(*given, **named):
            step()
            return usual(*given, **named)

        return operation

    def opening(usual):
        def opened(path, mode="r", *given, **named):
            writes = isinstance(mode, str) and set(mode) & set("wxa+")
            if writes:
                step()
            stream = usual(path, mode, *given, **named)
            if writes:
                step()  # it is there, and empty
            return stream

        return opened

    for name in NAMES:
        if hasattr(os, name):
            setattr(os, name, counted(getattr(os, name)))
    builtins.open = io.open = opening(io.open)
    on_disk._exchanged = counted(on_disk._exchanged)
    code = work(*given)
    total, count = done[0], None
    tally.write_text(str(total))
    os._exit(code or 0)


def save(folder):
    """Replace a release; which one it is, its title says."""
    private = dpt.PrivateEmbeddings(ROWS, np.arange(60) % 2, classes=2, name="a")
    fitted = dpt.methods.MeanPrototypes().fit(
        private, budget=dpt.Budget(epsilon=1.0, delta=1e-5), ledger=dpt.Ledger.in_memory()
    )
    fitted.save(folder / "out", overwrite=True, title=f"number {len(list(folder.glob('run*')))}")


def write(folder):
    """Replace rows by others."""
    write_embeddings(folder / "out.emb", ROWS + len(list(folder.glob("run*"))), overwrite=True)


def encode(folder, **how):
    """Encode photographs."""
    found, options = find_images(folder / "photos"), EncodeOptions(batch=4, **how)
    encode_examples(found, MeanColour(), folder / "out.emb", options)


def encode_again(folder):
    """Encode photographs into a folder that may be there."""
    encode(folder, overwrite=True)


def encode_in_shards(folder):
    """Encode photographs in files of a few rows."""
    encode(folder, shard_rows=3)


def command(folder, *words):
    """A command of `dptransfer`."""
    os.chdir(folder)
    os.environ["DPTRANSFER_LEDGER"] = str(folder / "ledger.sqlite")
    os.environ["DPTRANSFER_CACHE"] = str(folder / "cache")
    try:
        app(list(words))
    except SystemExit as end:
        return end.code
