import sys

import numpy as np
import pytest

from dptransfer.errors import DataError, MissingDependency
from dptransfer_lab.hub import hub_source, keep_splits
from dptransfer_lab.sources import data_set
from dptransfer_lab.study import DataSet

datasets = pytest.importorskip("datasets")


@pytest.mark.parametrize("source", ["hub:somebody/embeddings", "hub:somebody/embeddings/vit.npz"])
def test_what_cannot_be_fetched_is_named_in_one_line(monkeypatch, source):
    with pytest.raises(DataError, match="hub:ORG/NAME"):
        hub_source("hub:embeddings", "vit")
    monkeypatch.setattr("dptransfer_lab.hub.reachable", lambda endpoint: False)
    with pytest.raises(DataError, match=r"dataset somebody/embeddings") as problem:
        hub_source(source, "vit")
    assert source in str(problem.value)
    assert "\n" not in str(problem.value)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependency, match="readers"):
        hub_source(source, "vit")


def splits(**columns):
    label = datasets.ClassLabel(names=["ant", "bee"])
    made = {}
    for name, count in (("train", 6), ("validation", 4)):
        table = {key: make(count) for key, make in columns.items()}
        table["label"] = [place % 2 for place in range(count)]
        made[name] = datasets.Dataset.from_dict(table).cast_column("label", label)
    return datasets.DatasetDict(made)


def test_a_column_of_embeddings_is_taken_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    loaded = splits(embedding=lambda count: rng.normal(size=(count, 3)).tolist())
    keep_splits(loaded, tmp_path / "rows.npz", "vit")
    stored = data_set(DataSet(name="x", source={"vit": "rows.npz"}), "vit", [tmp_path])
    assert stored.classes == ("ant", "bee")
    arrays = stored.open()
    assert np.allclose(arrays["rows"], np.asarray(loaded["train"]["embedding"][:]))
    assert len(arrays["test_rows"]) == 4


def test_texts_are_encoded_in_calls_of_one_size(tmp_path, monkeypatch):
    sizes = []

    class Lengths:
        kind, dimension = "text", 2

        def encode(self, batch):
            sizes.append(len(batch))
            return np.array([[len(text), 1.0] for text in batch], dtype=np.float32)

    monkeypatch.setattr("dptransfer_lab.hub.get_encoder", lambda name, kind: Lengths())
    loaded = splits(text=lambda count: ["x" * place for place in range(count)])
    file = keep_splits(loaded, tmp_path / "rows.npz", "lengths")
    assert np.load(file)["x_train"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert len(set(sizes)) == 1


def test_a_data_set_of_something_else_is_refused(tmp_path):
    with pytest.raises(DataError, match="this has sound"):
        keep_splits(splits(sound=lambda count: [1.0] * count), tmp_path / "rows.npz", "vit")
    with pytest.raises(DataError, match="split 'train'"):
        keep_splits({"all": None}, tmp_path / "rows.npz", "vit")
