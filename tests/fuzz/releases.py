"""Release folders: an accepted one is the one that was written, or is honest about what it holds."""

import hashlib
import json
import math
import os
import struct
from dataclasses import replace

import numpy as np

from dptransfer.errors import DPTransferError

from .mutate import damaged, damaged_json
from .tables import CLASSES, other_header, rows_and_labels
from .target import Target, require

_NO_DIGEST = "0" * 64


class Release(Target):
    """The release of one method."""

    def __init__(self, method):
        self.name = f"release of {method}"
        self._method = method

    def write(self, folder):
        model = _fitted(self._method)
        model.save(folder / "release")
        self._guarantee, self._events, self._encoder = model.guarantee, model.events, model.encoder
        self._answers = model.predict_proba(_questions())

    def damage(self, folder, dice):
        release = folder / "release"
        victim = release / dice.choice(
            ("release.json",) * 6 + ("model.safetensors",) * 3 + ("README.md", "card.html")
        )
        kind = dice.random()
        if kind < 0.03:
            os.truncate(victim, 9 * 2**30)  # holes: no byte of it is on the disk
        elif victim.suffix == ".json" and kind < 0.8:
            victim.write_text(damaged_json(victim.read_text(), dice), errors="replace")
        elif victim.suffix == ".safetensors" and kind < 0.4:
            victim.write_bytes(_other_numbers(victim.read_bytes(), dice))
        else:
            victim.write_bytes(damaged(victim.read_bytes(), dice))
        return dice.random() < 0.7 and _repair(release)

    def use(self, folder, repaired):
        from dptransfer import load
        from dptransfer.accounting import guarantee_of
        from dptransfer.methods.replan import verify_release
        from dptransfer.release import card_of

        path = folder / "release"
        try:
            verified = verify_release(path).ok
        except DPTransferError:
            verified = False
        try:
            model = load(path)
        except DPTransferError:
            require(not verified, "verify passes a release that cannot be loaded")
            raise
        with np.errstate(all="ignore"):  # a forger's numbers may overflow; they are not private
            answers = model.predict_proba(_questions())
            model.predict(_questions())
        card_of(model).markdown()
        card_of(model).html()
        if not repaired:
            require(model.guarantee == self._guarantee, "a changed guarantee is accepted")
            require(model.events == self._events, "changed events are accepted")
            require(model.encoder == self._encoder, "a changed encoder is accepted")
            require(np.array_equal(answers, self._answers), "changed weights are accepted")
        if verified:
            said = model.guarantee
            true = guarantee_of(model.events, said.delta, said.assumptions, relation=said.relation)
            require(true.relation is said.relation, "verify passes another relation than that of the events")
            honest = math.isclose(true.epsilon, said.epsilon, rel_tol=1e-2) and true.delta <= said.delta
            require(honest, "verify passes a guarantee that its events do not give")


def _questions():
    dice = np.random.default_rng(1)
    return dice.normal(size=(7, 5))


def _fitted(name):
    """A model whose files are the same in every run: noise from a seed that says it is none, a fixed time."""
    import dptransfer as dpt

    class Repeatable(dpt.SeededNoise):
        seeded = False

    x, y = rows_and_labels()
    private = dpt.PrivateEmbeddings(x, y, classes=CLASSES, name="rows")
    public = dpt.PublicEmbeddings(np.random.default_rng(2).normal(size=(40, 5)), name="pool")
    mean = dpt.methods.MeanPrototypes()
    method = {
        "mean prototypes": mean,
        "a public prior": dpt.methods.PublicPriorPrototypes(),
        "DP-SGD": dpt.methods.DPSGDProbe(),
        "private tuning": dpt.methods.PrivateTuning(
            candidates=(mean, dpt.methods.MeanPrototypes(dpt.features.UnitNorm(pool=2)))
        ),
        "a changed encoder": mean,
    }[name]
    budget = dpt.Budget(epsilon=1, delta=1e-5)
    model = method.fit(private, public, budget=budget, ledger=dpt.Ledger.in_memory(), noise=Repeatable(3))
    if name == "a changed encoder":
        model = replace(model, facts=replace(model.facts, shape=(8, 6, 3)), encoder_delta=_delta())
    dated = replace(model.provenance, created="2026-11-15T10:00:00+00:00", ledger_head="cd" * 32)
    return replace(model, provenance=dated)


def _delta():
    from dptransfer.data import EncoderIdentity
    from dptransfer.encoders import EncoderDelta

    arrays = {"norm.weight": np.ones(4, dtype=np.float32), "norm.bias": np.zeros(4, dtype=np.float32)}
    return EncoderDelta(EncoderIdentity("tiny-net", "ab" * 32, "rgb 8, mean pool"), "state", arrays)


def _other_numbers(content, dice):
    """Weights with other numbers in them, or another header in front of them."""
    length = struct.unpack("<Q", content[:8])[0]
    if dice.random() < 0.5:
        return other_header(content, dice)
    numbers = bytearray(content)
    place = 8 + length + 8 * dice.randrange((len(content) - 8 - length) // 8)
    value = dice.choice((0.0, -1.0, 1e308, -1e308, 1e-320, math.nan, math.inf))
    numbers[place : place + 8] = struct.pack("<d", value)
    return bytes(numbers)


def _repair(release):
    """Put every checksum right as far as the manifest can still be read, as a forger would."""
    manifest = release / "release.json"
    try:
        told = json.loads(_content(manifest))
        for name, entry in told["files"].items():
            content = _content(release / name)
            entry.update(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        told["digest"] = _NO_DIGEST
        text = json.dumps(told, indent=1, ensure_ascii=False).encode()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return True  # too damaged to be repaired: the parser must say so
    head, _, tail = text.rpartition(_NO_DIGEST.encode())
    manifest.write_bytes(head + hashlib.sha256(text).hexdigest().encode() + tail)
    return True


def _content(path):
    return path.read_bytes() if path.stat().st_size < 2**24 else b""  # or it is all holes


def targets():
    methods = ("mean prototypes", "a public prior", "DP-SGD", "private tuning", "a changed encoder")
    return [Release(method) for method in methods]
