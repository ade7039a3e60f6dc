import itertools

import numpy as np
import pytest
from PIL import Image

from dptransfer.data import EncoderIdentity
from dptransfer.encoders import ENCODERS, EncoderNote, ImageEncoder
from dptransfer.errors import MissingDependency
from dptransfer.testing.contract import ContractBroken
from dptransfer.testing.encoder_rules import ENCODER_CHECKS, check_encoder
from encoders.toys import MeanColour, WordLengths

IDENTITY, ROWS, REPEATABLE, ALONE, ONE_BY_ONE, THREADS = ENCODER_CHECKS
ODDS = itertools.count()


class Blocks(ImageEncoder):
    """How bright each part of an image is; what each cheat does wrong is in its class."""

    def __init__(self):
        self.identity = EncoderIdentity("blocks", "0" * 64, "grey 4 box")
        self.dimension = 16

    def prepare(self, image):
        return np.asarray(image.convert("L").resize((4, 4)), dtype=np.float32)

    def forward(self, pixels):
        return pixels.reshape(len(pixels), -1).copy()


def texts_of(change):
    """A text encoder whose rows are changed so."""

    class Changed(WordLengths):
        def encode(self, batch):
            return change(super().encode(batch), batch)

    return Changed


def note(**told):
    return EncoderNote(**{"name": "blocks", "load": Blocks, "dimension": 16, **told})


@pytest.mark.parametrize(
    "encoder",
    [Blocks, Blocks(), note(), WordLengths, MeanColour(), ENCODERS["small-cnn"]],
    ids=["class", "object", "note", "class of texts", "object that reads pictures", "note of ours"],
)
def test_honest_encoders_keep_every_rule(encoder):
    check_encoder(encoder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_the_librarys_own_encoders_keep_every_rule(name):
    try:
        ENCODERS[name].encoder()
    except MissingDependency as problem:
        pytest.skip(str(problem))
    check_encoder(ENCODERS[name])


def test_items_of_ones_own_may_be_tried():
    check_encoder(Blocks(), [Image.new("RGB", (9, 9), (shade, 0, 0)) for shade in range(0, 250, 50)])


class WrongIdentity(Blocks):
    def __init__(self):
        super().__init__()
        self.identity = "blocks"


class NoDigest(Blocks):
    def __init__(self):
        super().__init__()
        self.identity = EncoderIdentity("blocks", "none", "grey 4 box")


class OddKind(Blocks):
    kind = "sound"


class WrongWidth(Blocks):
    def __init__(self):
        super().__init__()
        self.dimension = 15


class NoWidth(Blocks):
    def __init__(self):
        super().__init__()
        self.dimension = 0


class WholeNumbers(Blocks):
    def forward(self, pixels):
        return super().forward(pixels).astype(np.int64)


class NotFinite(Blocks):
    def forward(self, pixels):
        return np.log(super().forward(pixels) - 1)


class AllAlike(Blocks):
    def forward(self, pixels):
        return np.zeros((len(pixels), 16), dtype=np.float32)


class Unsteady(Blocks):
    def forward(self, pixels):
        return super().forward(pixels) + next(ODDS) % 2


class MadeOtherwise(Blocks):
    made_by = MeanColour


class NormalisesTheBatch(Blocks):
    def forward(self, pixels):
        rows = super().forward(pixels)
        return rows - rows.mean(axis=0)


class MindsItsPlace(Blocks):
    def forward(self, pixels):
        rows = super().forward(pixels)
        return rows + np.arange(len(rows), dtype=np.float32)[:, None]


class CountsTheBatch(Blocks):
    one_by_one = True

    def forward(self, pixels):
        return super().forward(pixels) + len(pixels)


class SharesABuffer(Blocks):
    def __init__(self):
        super().__init__()
        self.buffer = np.zeros((4, 4), dtype=np.float32)

    def prepare(self, image):
        self.buffer[:] = super().prepare(image)
        for _ in range(200):
            self.buffer[:] = self.buffer + 1 - 1
        return self.buffer


CHEATS = {
    IDENTITY: [
        WrongIdentity,
        NoDigest,
        OddKind,
        NoWidth,
        note(name="brightness"),
        note(kind="text"),
        note(dimension=15),
    ],
    ROWS: [
        WrongWidth,
        WholeNumbers,
        NotFinite,
        AllAlike,
        texts_of(lambda rows, _: rows[:-1]),
        texts_of(lambda rows, _: rows.tolist()),
    ],
    REPEATABLE: [Unsteady, MadeOtherwise],
    ALONE: [NormalisesTheBatch, MindsItsPlace, texts_of(lambda rows, batch: rows + max(map(len, batch)))],
    ONE_BY_ONE: [CountsTheBatch],
    THREADS: [SharesABuffer],
}


@pytest.mark.filterwarnings("ignore:divide by zero|invalid value")
@pytest.mark.parametrize(
    ("rule", "encoder"), [pytest.param(rule, cheat) for rule in CHEATS for cheat in CHEATS[rule]]
)
def test_every_rule_catches_an_encoder_that_breaks_it(rule, encoder):
    with pytest.raises(ContractBroken, match=rule):
        check_encoder(encoder, skip=[other for other in ENCODER_CHECKS if other != rule])


def test_every_rule_has_a_cheat():
    assert CHEATS.keys() == ENCODER_CHECKS.keys()
