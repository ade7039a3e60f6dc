import numpy as np
import pytest
from PIL import Image

from dptransfer.data import Columns, PrivateData, PrivateEmbeddings
from dptransfer.errors import DataError, Incompatible
from dptransfer.ledger import Ledger
from dptransfer.privacy import GaussianEvent, Relation, Unit
from dptransfer.sources import PrivateImages, PublicImages, find_images
from ledger.samples import sketch_of

KEY = b"k" * 32
LABELS = [0, 1, 1, 0]
SPENT = GaussianEvent(5.0, Relation.ADD_REMOVE)


def pixels(count=4, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 6, 5, 3), dtype=np.uint8)


def private(x=None, y=LABELS, **told):
    return PrivateImages(pixels() if x is None else x, y, **{"classes": ["a", "b"], **told})


@pytest.fixture
def folder(tmp_path):
    """Three cats and two dogs, one of which is no picture."""
    rng = np.random.default_rng(0)
    for name in ("cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (10, 14, 3), dtype=np.uint8)).save(tmp_path / name)
    (tmp_path / "dog" / "9.png").write_bytes(b"no picture")
    return tmp_path


def test_private_pictures_keep_their_counsel():
    made = private(name="zoo")
    assert repr(made) == "PrivateImages('zoo', 2 declared classes, pictures of 6 × 5 pixels)"
    assert (made.facts.shape, made.facts.unit) == ((6, 5, 3), Unit.ROW)
    with pytest.raises(TypeError):
        len(made)
    with pytest.raises(Incompatible, match="Encode"):
        made.facts.dimension  # noqa: B018
    assert isinstance(made, PrivateData)
    assert isinstance(PrivateEmbeddings(np.eye(2), [0, 1], classes=["a", "b"]), PrivateData)
    assert not isinstance(PublicImages(pixels()), PrivateData)


def test_files_are_decoded_by_position_and_an_unreadable_private_one_is_black(folder, monkeypatch):
    made = PrivateImages(find_images(folder), resolution=(8, 6))
    assert made.facts.classes == ("cat", "dog")
    assert made.labels.tolist() == [0, 0, 0, 1, 1]
    batch = made.pixels[[4, 1]]
    assert (batch.shape, batch.dtype) == ((2, 8, 6, 3), np.uint8)
    assert (batch[0] == 0).all()
    with Image.open(folder / "cat" / "1.png") as image:
        expected = np.asarray(image.convert("RGB").resize((6, 8), Image.Resampling.BICUBIC))
    assert (batch[1] == expected).all()
    assert (made.pixels[1] == expected).all()
    assert made.pixels[[]].shape == (0, 8, 6, 3)
    monkeypatch.setattr(Image.Image, "resize", lambda *_: (_ for _ in ()).throw(MemoryError("cat/0.png")))
    assert not made.pixels[:].any()  # what cannot be squeezed is black too


def test_a_private_set_that_is_all_black_is_refused_when_it_is_charged_and_single_ones_are_not(folder):
    black, labels = np.zeros((600, 128, 128, 3), dtype=np.uint8), np.arange(600) % 2  # two slabs and more
    late = black.copy()
    late[-1, 3, 4, 1] = 1
    unread = [folder / f"{number}.png" for number in range(4)]
    for x, y in ((black, labels), (black[:1], labels[:1]), (unread, labels[:4])):
        data = private(x, y, classes=2, resolution=8, name="night")
        for ledger in (Ledger.in_memory(), Ledger.in_memory(strict_names=True)):
            with pytest.raises(DataError, match="are black"):
                ledger.charge(data, [SPENT], label="film")
            assert not ledger.datasets()
            ledger.charge(data, [], label="nothing spent")
    for x, y in ((late, labels), (black[:0], labels[:0])):
        Ledger.in_memory().charge(private(x, y, classes=2), [SPENT], label="film")


def test_an_unreadable_public_picture_is_an_error_that_names_it(folder):
    public = PublicImages(find_images(folder), resolution=8)
    assert public.sources[-1] == "dog/9.png"
    assert public.pixels[:4].shape == (4, 8, 8, 3)
    with pytest.raises(DataError, match=r"9\.png"):
        public.pixels[3:]


def test_files_memory_maps_and_their_array_are_one_data_set(folder, tmp_path):
    files = PrivateImages(find_images(folder), resolution=8)
    array = private(files.pixels[:], files.labels, classes=["cat", "dog"])
    assert files.fingerprint == array.fingerprint
    assert sketch_of(files.pixels, KEY) == sketch_of(array.pixels, KEY)
    assert files.fingerprint != PrivateImages(find_images(folder), resolution=7).fingerprint
    np.save(tmp_path / "x.npy", pixels())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert private(mapped).pixels is mapped
    assert private(mapped).fingerprint == private().fingerprint


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: private(pixels().astype(np.float32)), "float32"),
        (lambda: private(pixels()[0]), "3 dimensions"),
        (lambda: private(["a.png", "b.png"]), "resolution="),
        (lambda: private([np.zeros((2, 2, 3)), np.zeros((3, 3, 3))]), "one size"),
        (lambda: PrivateImages(pixels()), "classes="),
        (lambda: private(y=[0, 1, 0]), "lengths differ"),
        (lambda: PublicImages(pixels(), [0] * 4), "declared"),
    ],
)
def test_what_is_no_set_of_pictures_is_refused(make, match):
    with pytest.raises(DataError, match=match) as caught:
        make()
    if match == "lengths differ":
        assert not any(digit in str(caught.value) for digit in "34")


def test_public_pictures_stand_beside_private_ones_of_their_size_alone():
    public = PublicImages(pixels(), [0, 1, 0, 1], classes=["a", "b"], name="pool")
    public.require_match(private().facts)
    assert (public.record["name"], public.record["rows"]) == ("pool", 4)
    assert public.record["fingerprint"] == PublicImages(pixels()).fingerprint
    with pytest.raises(Incompatible, match="one size"):
        public.require_match(private(pixels()[:, :4]).facts)


def test_pictures_of_people_protect_persons(tmp_path):
    made = private(people=["b", "a", "b", None], person_bound=2.0)
    assert made.people.tolist() == [0, 1, 0, 2]
    assert (made.facts.unit, made.facts.bound.examples) == (Unit.PERSON, 2.0)
    assert made.fingerprint == private().fingerprint
    for name in ("cat/ann/1.png", "dog/ann/1.png", "dog/bob/1.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    found = PrivateImages(find_images(tmp_path, Columns(person="folder")), resolution=4)
    assert (found.people.tolist(), found.facts.unit) == ([0, 0, 1], Unit.PERSON)
    assert PrivateImages(find_images(tmp_path), resolution=4).facts.unit is Unit.ROW


def test_a_part_reads_its_own_pictures_when_they_are_asked_for(folder):
    files = PrivateImages(find_images(folder), resolution=4, people=list("abaaa"))
    chosen = np.array([2, 0])
    part = files.part(chosen, files.facts)
    assert (part.pixels[:] == files.pixels[chosen]).all()
    assert (part.pixels[[1]] == files.pixels[[0]]).all()
    assert part.pixels.shape == (2, 4, 4, 3)
    assert (part.labels == files.labels[chosen]).all()
    assert part.people.tolist() == [0, 0]
    assert part.fingerprint == files.part(chosen, files.facts).fingerprint != files.fingerprint
