import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import ArgumentError, Incompatible
from dptransfer.ledger import Ledger
from dptransfer.methods import AdaMix, FromNames, LanguageInit, NoisyGD, Pace
from dptransfer.methods.heads import start
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

from .samples import BUDGET, REPLACE, WIDTH, clusters, fit, private, shots

NAMED = FromNames(tower="toy", scale=20.0)


@pytest.fixture
def aligned(monkeypatch):
    """A tower that puts the names where the rows of their classes are."""
    monkeypatch.setattr(start, "encoded_names", lambda made, classes, width: np.eye(len(classes), width))


def test_zero_shot_costs_nothing_and_does_not_depend_on_private_rows(aligned):
    x, y = clusters(seed=9)
    for budget in (BUDGET, REPLACE):
        one = fit(LanguageInit(start=NAMED), budget=budget)
        other = fit(LanguageInit(start=NAMED), private(-x[:3], y[:3]), budget=budget, noise=SeededNoise(9))
        assert (one.weights["weights"] == other.weights["weights"]).all()
        assert (one.events, one.guarantee.epsilon, one.guarantee.delta) == ((), 0.0, 0.0)
        assert one.guarantee.relation is budget.relation
        assert one.score(x, y) > 0.95


def test_names_start_the_other_heads(aligned):
    x, y = clusters(seed=9)
    few, tiny, pace = private(*clusters(6)), Budget(epsilon=0.02, delta=1e-5), Pace(reach=1.0)
    led = fit(NoisyGD(start=NAMED, pace=pace), few, budget=tiny).score(x, y)
    mixed = fit(AdaMix(start=NAMED, pace=pace), few, public=shots(), budget=tiny).score(x, y)
    alone = fit(NoisyGD(pace=pace), few, budget=tiny).score(x, y)
    assert min(led, mixed) > 0.9 > alone


def test_a_tower_must_be_named_before_anything_is_charged():
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match="tower"):
        LanguageInit().fit(private(), budget=BUDGET, ledger=ledger)
    assert ledger.history() == []


@pytest.mark.slow
def test_the_text_side_of_a_clip_model_is_a_tower(tmp_path):
    """A small CLIP with random weights: its text features, scaled, are the head."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from dptransfer.encoders import get_encoder
    from dptransfer.encoders.transformers import quiet

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "photo", "of", "ant", "bee", "cat", "."]
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    text = {**small, "vocab_size": len(words), "eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0}
    torch.manual_seed(0)
    with quiet():
        transformers.CLIPModel(
            transformers.CLIPConfig(
                text_config={**text, "max_position_embeddings": 64},
                vision_config={**small, "image_size": 32, "patch_size": 16},
                projection_dim=WIDTH,
            )
        ).save_pretrained(tmp_path)
        (tmp_path / "vocab.txt").write_text("\n".join(words))
        transformers.BertTokenizer(str(tmp_path / "vocab.txt"), model_max_length=40).save_pretrained(tmp_path)
    model = fit(LanguageInit(start=FromNames(tower=str(tmp_path), scale=7.0)))
    rows = get_encoder(str(tmp_path), kind="text").encode(
        ["a photo of a ant.", "a photo of a bee.", "a photo of a cat."]
    )
    wanted = 7.0 * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.allclose(model.weights["weights"], wanted, atol=1e-4)
    assert np.linalg.norm(wanted[0] - wanted[1]) > 1e-3
    narrow = PrivateEmbeddings(np.ones((2, 3)), [0, 1], classes=["ant", "bee"], name="narrow")
    with pytest.raises(Incompatible, match="8 dimensions"):
        fit(LanguageInit(start=FromNames(tower=str(tmp_path))), narrow)
