"""What people read, command by command and error by error; `python tests/messages.py` records messages.txt.

Tests of single features assert the class of an error and a key word. The sentences are here, in one file: who
changes one runs the command above, and reads the difference as prose.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

RECORD = Path(__file__).with_name("messages.txt")
WIDTH = 100
BUDGET = "--epsilon 1 --delta 1e-5"
FIT = f"fit private.npz --method mean --classes cat,dog,bird {BUDGET} --name pets"

SESSION = f"""
plan {BUDGET} --classes cat,dog,bird --dim 16 --method mean
check private.npz --test test.npz --classes cat,dog,bird
ledger budget pets --epsilon 2 --delta 1e-5
{FIT} --test test.npz --out model --seed 1 --unsafe-for-publication
{FIT} --out again --holdout 0.2 --seed 1 --unsafe-for-publication --budget mu=0.1
{FIT} --out model --seed 1 --unsafe-for-publication
{FIT} --out again --seed 1
{FIT} --out third --seed 1 --unsafe-for-publication
fit private.npz --method mean --classes cat,dog,bird {BUDGET} --name others --out fourth
fit private.npz --method public --public private.npz --classes cat,dog,bird {BUDGET} --name pets --out fourth
fit private.npz --method public --public mixed.npz --classes cat,dog,bird {BUDGET} --name pets --out fourth
fit private.npz --method public --classes cat,dog,bird {BUDGET} --name pets --out fourth
fit private.npz --method mean --classes cat,dog {BUDGET} --name pets --out fourth
fit private.npz --method mean {BUDGET} --name pets --out fourth
fit private.npz --method mean --classes cat,dog,bird --name pets --out fourth
fit rows.mat --method mean {BUDGET}
fit nowhere.npz --method mean {BUDGET}
fit private.npz --method meen --classes cat,dog,bird {BUDGET}
fit private.npz --method mean --classes cat,dog,bird {BUDGET} --set clip=2
fit private.npz --method mean --classes cat,dog,bird --epsilon 1 --delta 0 --out fourth
fit table.csv --method mean --classes cat,dog {BUDGET}
fit broken.npz --method mean --classes cat,dog {BUDGET}
card model --json=3
card model
verify model
verify nowhere
predict model test.npz --top 2 --out answers.csv
predict model other.npz
evaluate model test.npz
evaluate model private.npz
evaluate model test.npz --private --epsilon 0.2 --delta 1e-5
ledger show
ledger history
ledger budget nobody
ledger verify
export model
attack model --members private.npz --others test.npz
methods mean
methods nothing
encode nowhere --out rows.emb
ledger shwo
plan --epsilom 1
"""
"""A data set's way through the command line, and what goes wrong on it."""


def make_data(folder: Path) -> None:
    """Three well-separated classes in 16 dimensions, and files with one mistake each."""
    centres = 3 * np.random.default_rng(0).normal(size=(3, 16))
    for seed, (name, count) in enumerate((("private", 300), ("test", 60), ("pool", 120)), start=1):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 3, count)
        rows = (centres[labels] + rng.normal(size=(count, 16))).astype(np.float32)
        np.savez(folder / f"{name}.npz", x=rows, **({} if name == "pool" else {"y": labels}))
    with np.load(folder / "private.npz") as private, np.load(folder / "pool.npz") as pool:
        np.savez(folder / "mixed.npz", x=np.concatenate([pool["x"], private["x"][:20]]))
    np.savez(folder / "other.npz", x=np.zeros((9, 7), dtype=np.float32))
    (folder / "rows.mat").write_bytes(b"MATLAB")
    (folder / "broken.npz").write_bytes(b"PK\x03\x04")
    (folder / "table.csv").write_text("a,b\n1,2\n3,x\n")


def errors() -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls from Python that raise."""
    import dptransfer as dpt
    from dptransfer.methods import METHODS

    rows, labels = np.eye(4), [0, 1, 0, 1]
    private = dpt.PrivateEmbeddings(rows, labels, classes=[0, 1], name="toy")
    budget = dpt.Budget(epsilon=1.0, delta=1e-5)
    yield "Budget(epsilon=-1, delta=1e-5)", lambda: dpt.Budget(epsilon=-1, delta=1e-5)
    yield "Budget()", lambda: dpt.Budget()
    yield "labels that were not declared", lambda: dpt.PrivateEmbeddings(rows, labels, classes=[0, 2])
    yield "as many labels as rows", lambda: dpt.PrivateEmbeddings(rows, [0], classes=[0, 1])
    yield "rows in three dimensions", lambda: dpt.PrivateEmbeddings(rows[None], labels, classes=[0, 1])
    yield "two forms in one array", lambda: dpt.fit(np.zeros((2, 3, 4)), [0, 1], epsilon=1, classes=2)
    yield "no classes", lambda: dpt.fit(rows, labels, epsilon=1)
    yield (
        "a method without its public data",
        lambda: METHODS["public"]().fit(private, None, budget=budget, ledger=dpt.Ledger.in_memory()),
    )
    yield (
        "a seeded model is saved",
        lambda: (
            METHODS["mean"]()
            .fit(private, None, budget=budget, ledger=dpt.Ledger.in_memory(), noise=dpt.SeededNoise(1))
            .save("seeded")
        ),
    )
    yield "an encoder that is not there", lambda: dpt.encoders.get_encoder("resnet-9000")
    yield "a release that is not there", lambda: dpt.load("nowhere")


def plain(text: str, folder: Path) -> str:
    """Without what differs between machines and days: places, dates, durations, digests, versions."""
    text = text.replace(str(folder.resolve()), "~").replace(str(folder), "~")
    text = re.sub(r"\d{4}-\d\d-\d\d", "YYYY-MM-DD", text)
    text = re.sub(r"\d\d:\d\d(:\d\d)?", lambda time: "hh:mm:ss"[: len(time[0])], text)
    text = re.sub(r"(?<![.\w])(?=[0-9a-f]*\d)[0-9a-f]{12,64}\b", lambda digest: "#" * len(digest[0]), text)
    text = re.sub(r"\b\d+\.\d+\.\d+(\.dev\d+)?\b", "VERSION", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def messages(folder: Path) -> str:
    """Everything that the session and the errors print, with what was typed before it."""
    from typer.testing import CliRunner

    from dptransfer.cli.commands import app
    from dptransfer.errors import DPTransferError

    make_data(folder)
    parts = []
    with chdir(folder):
        for line in SESSION.strip().splitlines():
            result = CliRunner().invoke(app, line.split())
            shown = f"{result.stdout}{result.stderr}".strip("\n")
            code = "" if result.exit_code == 0 else f"\n(exit code {result.exit_code})"
            parts.append(f"$ dptransfer {line}\n{plain(shown, folder)}{code}")
        for title, call in errors():
            with pytest.raises(DPTransferError) as raised:
                call()
            found = textwrap.fill(plain(str(raised.value), folder), WIDTH, break_long_words=False)
            parts.append(f"# {title}: {raised.type.__name__}\n{found}")
    return "\n\n".join(parts) + "\n"


def record(folder: Path, patch: pytest.MonkeyPatch) -> str:
    """The messages in a plain terminal of one width, with a ledger and a cache of their own."""
    for name, value in {"COLUMNS": WIDTH, "NO_COLOR": 1, "TERM": "dumb"}.items():
        patch.setenv(name, str(value))
    patch.delenv("FORCE_COLOR", raising=False)
    patch.setenv("DPTRANSFER_LEDGER", str(folder / "ledger.sqlite"))
    patch.setenv("DPTRANSFER_CACHE", str(folder / "cache"))
    patch.setattr("dptransfer.ledger.entry._user", lambda: "somebody")  # the real one is kept by the process
    repeat_noise(patch)
    logger = logging.getLogger("dptransfer")
    patch.setattr(logger, "handlers", [logging.lastResort])  # standard error, under pytest as elsewhere
    return messages(folder)


def repeat_noise(patch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in every run where none is given, so that no number is a matter of luck."""
    from dptransfer.noise import SecureNoise, SeededNoise

    source = SeededNoise(3)
    for name in set(vars(SecureNoise)) & set(vars(SeededNoise)):
        if not name.startswith("_") and callable(drawn := getattr(source, name)):
            patch.setattr(SecureNoise, name, lambda self, *given, drawn=drawn: drawn(*given))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        RECORD.write_text(record(Path(name), patch))
    print(f"Wrote {RECORD}. Read the difference as prose.", file=sys.stderr)
