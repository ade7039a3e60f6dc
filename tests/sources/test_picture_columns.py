import gc
import io
import tempfile

import numpy as np
import pytest
from PIL import Image

from dptransfer.data import Columns
from dptransfer.errors import DataError
from dptransfer.sources import find_images, find_texts, open_image
from dptransfer.sources.images import picture_column

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def place(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def picture(level):
    stream = io.BytesIO()
    Image.new("RGB", (2, 2), (level, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


def written(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_structs_of_bytes_and_path_are_pictures(tmp_path, place):
    cells = [{"bytes": picture(9), "path": "ann.PNG"}, {"bytes": None, "path": "x/b.jpg"}, None]
    path = written(tmp_path / "a.parquet", photo=cells, label=["b", "a", "b"], who=["p", "q", "p"])
    found = find_images(path, Columns(person="who"), classes=["a", "b"])
    assert found.sources() == ("00000000.png", "00000001.jpg", "00000002")
    assert (found.labels.tolist(), found.people.tolist()) == ([1, 0, 1], [0, 1, 0])
    assert np.asarray(open_image(found.paths[0])).max() == 9
    assert [file.stat().st_size for file in found.paths[1:]] == [0, 0]
    assert found.paths[0].stat().st_mtime_ns == path.stat().st_mtime_ns
    with pytest.raises(DataError, match="never inferred"):
        find_images(path)
    assert find_images(path, labelled=False).labelled is None
    del found
    gc.collect()
    assert list(place.iterdir()) == []


def test_bytes_under_a_usual_name_are_pictures_and_others_are_not(tmp_path):
    path = written(tmp_path / "a.parquet", image=[picture(1), picture(2)])
    assert len(find_images(path)) == 2
    assert picture_column(pa.schema({"code": pa.binary(), "n": pa.int64()})) is None
    with pytest.raises(DataError, match="found code, text"):
        find_images(written(tmp_path / "b.parquet", code=[b"1"], text=["a"]))


def test_a_hugging_face_data_set_brings_pictures_labels_and_class_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=["cat", "dog"]))
    levels = (10, 20, 30)
    made = datasets.Dataset.from_dict(
        {"image": [Image.new("RGB", (2, 2), (one, 0, 0)) for one in levels], "label": [1, 0, 1]},
        features=features,
    )
    made.save_to_disk(tmp_path / "one")
    made.to_parquet(tmp_path / "one.parquet")
    datasets.DatasetDict(train=made, test=made.select([2])).save_to_disk(tmp_path / "two")
    for name in ("one", "one.parquet", "two/train"):
        found = find_images(tmp_path / name)
        assert (found.classes, found.labels.tolist()) == (("cat", "dog"), [1, 0, 1])
        assert [np.asarray(open_image(path)).max() for path in found.paths] == list(levels)
    assert find_images(tmp_path / "one", classes=["dog", "cat", "eel"]).labels.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match=r"point at '.*two/train'"):
        find_images(tmp_path / "two")


def test_texts_of_a_hugging_face_data_set_likewise(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=["greet", "part"])
    )
    made = datasets.Dataset.from_dict({"text": ["hi", "bye"], "label": [0, 1]}, features=features)
    made.save_to_disk(tmp_path / "one")
    found = find_texts(tmp_path / "one")
    assert (found.texts, found.labels.tolist()) == (("hi", "bye"), [0, 1])
    assert found.classes == ("greet", "part")
    none = made.map(lambda one: {"label": -1})
    none.save_to_disk(tmp_path / "none")
    with pytest.raises(DataError, match="at least one is not"):
        find_texts(tmp_path / "none")
