import itertools

import numpy as np
import pytest

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


def blocks_of(**attributes):
    """The encoder with other attributes."""

    class Changed(Blocks):
        def __init__(self):
            super().__init__()
            for name, value in attributes.items():
                setattr(self, name, value)

    return Changed


def rows_of(change, **attributes):
    """The encoder with rows that are changed so, and with other attributes."""

    class Changed(blocks_of(**attributes)):
        def forward(self, pixels):
            return change(super().forward(pixels))

    return Changed


def by_place(rows):
    return rows + np.arange(len(rows), dtype=np.float32)[:, None]


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
    IDENTITY: {
        "no identity": blocks_of(identity="blocks"),
        "no digest": blocks_of(identity=EncoderIdentity("blocks", "none", "grey 4 box")),
        "no width": blocks_of(dimension=0),
        "another name": note(name="brightness"),
        "another width": note(dimension=15),
    },
    ROWS: {
        "wrong width": blocks_of(dimension=15),
        "not finite": rows_of(lambda rows: np.log(rows - 1)),
        "all alike": rows_of(np.zeros_like),
        "one missing": texts_of(lambda rows, _: rows[:-1]),
    },
    REPEATABLE: {
        "unsteady": rows_of(lambda rows: rows + next(ODDS) % 2),
        "made otherwise": blocks_of(made_by=MeanColour),
    },
    ALONE: {
        "less the mean": rows_of(lambda rows: rows - rows.mean(axis=0)),
        "by place": rows_of(by_place),
        "padded": texts_of(lambda rows, batch: rows + max(map(len, batch))),
    },
    ONE_BY_ONE: {"counted": rows_of(lambda rows: rows + len(rows), one_by_one=True)},
    THREADS: {"a shared buffer": SharesABuffer},
}


@pytest.mark.filterwarnings("ignore:divide by zero|invalid value")
@pytest.mark.parametrize(("rule", "cheat"), [(rule, cheat) for rule in CHEATS for cheat in CHEATS[rule]])
def test_every_rule_catches_an_encoder_that_breaks_it(rule, cheat):
    with pytest.raises(ContractBroken, match=rule):
        check_encoder(CHEATS[rule][cheat], skip=[other for other in ENCODER_CHECKS if other != rule])


def test_every_rule_has_a_cheat():
    assert CHEATS.keys() == ENCODER_CHECKS.keys()
