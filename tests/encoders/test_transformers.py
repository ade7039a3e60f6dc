import shutil

import numpy as np
import pytest

from dptransfer.encoders import (
    encoder_of,
    get_encoder,
    rows_depend_on_neighbours,
    transformers_encoder,
    vocabulary,
)
from dptransfer.encoders.transformers import quiet
from dptransfer.errors import ArgumentError, DataError
from dptransfer.methods.deep.network import network_of

from .conftest import PICTURE, SMALL, processor
from .toys import random_images

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def test_a_vision_model_gives_its_pooled_output(models, capfd):
    encoder = get_encoder(str(models / "vit"))
    image = random_images(1)[0]
    assert (encoder.kind, encoder.dimension, encoder.identity.name) == ("image", 16, "vit")
    assert encoder.identity.transform.endswith("pooler output")
    small = np.asarray(image.resize((32, 32), 2), dtype=np.float32)
    pixels = torch.tensor((small / 255 - 0.5) / 0.5).permute(2, 0, 1)[None]
    with quiet():
        model = transformers.ViTModel.from_pretrained(models / "vit").eval()
    with torch.inference_mode():
        expected = model(pixels).pooler_output.numpy()
    assert np.allclose(encoder.encode([image]), expected, atol=1e-4)
    assert capfd.readouterr() == ("", "")


def test_a_pooling_layer_that_is_not_in_the_files_is_not_used(models, tmp_path):
    with quiet():
        whole = transformers.ViTModel.from_pretrained(models / "vit", add_pooling_layer=False)
        whole.save_pretrained(tmp_path / "bare")
    shutil.copy(models / "vit" / "preprocessor_config.json", tmp_path / "bare")
    first, second = (get_encoder(str(tmp_path / "bare")) for _ in range(2))
    images = random_images(2)
    assert first.identity == second.identity
    assert first.identity.transform.endswith("class token")
    assert np.array_equal(first.encode(images), second.encode(images))


def test_a_model_without_all_its_other_weights_is_refused(models, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(models / "vit", tmp_path / "holed")
    state = load_file(tmp_path / "holed" / "model.safetensors")
    state.pop(next(name for name in state if "pooler" not in name))
    save_file(state, tmp_path / "holed" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match="all its weights"):
        get_encoder(str(tmp_path / "holed"))


def test_a_clip_like_model_gives_features_for_images_and_texts(models):
    images = get_encoder(str(models / "clip"))
    texts = get_encoder(str(models / "clip"), kind="text")
    assert (images.kind, texts.kind) == ("image", "text")
    assert images.encode(random_images(2)).shape == texts.encode(["a b", "c"]).shape == (2, 6)
    assert images.identity.weights == texts.identity.weights
    assert images.identity.transform != texts.identity.transform


def test_a_text_model_averages_over_the_tokens_alone(models):
    encoder = get_encoder(str(models / "bert"))
    with quiet():
        model = transformers.BertModel.from_pretrained(models / "bert").eval()
    ids = torch.tensor([[2, 5, 6, 7, 3]])
    with torch.inference_mode():
        expected = model(ids).last_hidden_state.mean(1).numpy()
    assert encoder.kind == "text"
    assert np.allclose(encoder.encode(["a b c"]), expected, atol=1e-5)
    assert encoder.encode([]).shape == (0, 16)


def test_rows_do_not_depend_on_companions(models):
    texts = ["a", "b c d e", "a b c d e f g " * 3, "g " * 100, "", "f", "e f", "a b c d e f g " * 2]
    assert not rows_depend_on_neighbours(get_encoder(str(models / "bert")), texts)
    assert not rows_depend_on_neighbours(get_encoder(str(models / "clip"), kind="text"), texts)
    assert not rows_depend_on_neighbours(get_encoder(str(models / "vit")), random_images(8))


def test_an_encoder_is_found_again_by_its_folder(models):
    identity = get_encoder(str(models / "vit")).identity
    assert encoder_of(identity, spec=str(models / "vit")).identity == identity
    with pytest.raises(DataError, match="where it is"):
        encoder_of(identity)


def test_folders_that_lack_a_part_say_which(models, tmp_path):
    shutil.copytree(models / "bert", tmp_path / "bert")
    with pytest.raises(DataError, match="image processor"):
        transformers_encoder(str(tmp_path / "bert"), kind="image")
    (tmp_path / "bert" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(DataError, match="does not"):
        transformers_encoder(str(tmp_path / "bert"))
    (tmp_path / "bert" / "model.safetensors").unlink()
    with pytest.raises(DataError, match="safetensors weights"):
        transformers_encoder(str(tmp_path / "bert"))
    for file in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bert" / file).unlink(missing_ok=True)
    with pytest.raises(ArgumentError, match="size"):
        get_encoder(str(models / "vit"), size=64)


def test_without_a_network_there_is_one_clear_line(monkeypatch, capfd):
    monkeypatch.setattr("dptransfer.encoders.transformers.reachable", lambda endpoint: False)
    with pytest.raises(DataError, match="cannot be reached") as caught:
        get_encoder("hf:nobody/nothing-of-that-name")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_what_a_processor_does_to_pixels_is_told_where_it_is_plain(models):
    vit, clip = get_encoder(str(models / "vit")), get_encoder(str(models / "clip"))
    assert vit.pixel_map.side == 32
    assert np.allclose([*vit.pixel_map.mean, *vit.pixel_map.scale], 127.5)
    assert clip.pixel_map is None  # it cuts the middle out
    picture = random_images(1)[0].resize((32, 32), 3)
    by_hand = (np.asarray(picture, dtype=np.float32).transpose(2, 0, 1) - 127.5) / 127.5
    assert np.allclose(vit.prepare(picture), by_hand, atol=1e-5)


def test_a_vision_model_is_changed_in_a_copy_whose_pictures_are_squeezed_as_in_training(models):
    from dptransfer.encoders import EncoderDelta, apply_delta

    plain, images = get_encoder(str(models / "vit")), random_images(2)
    before = plain.encode(images)
    delta = EncoderDelta(plain.identity, "state", {"model.layernorm.bias": np.ones(16, dtype=np.float32)})
    moved = apply_delta(plain, delta)
    assert moved.identity == delta.identity
    assert not np.allclose(moved.encode(images), before, atol=1e-3)
    assert np.array_equal(plain.encode(images), before)
    small = [image.resize((32, 32), 3) for image in images]
    assert np.array_equal(moved.encode(images), moved.encode(small))
    assert not np.array_equal(plain.encode(images), plain.encode(small))


CLASSIFIERS = {
    "vit": lambda: transformers.ViTForImageClassification(
        transformers.ViTConfig(**SMALL, **PICTURE, num_labels=5)
    ),
    "resnet": lambda: transformers.ResNetForImageClassification(
        transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5
        )
    ),
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_the_classifier_that_a_model_was_saved_with_is_its_source_head_and_brings_words(kind, tmp_path):
    torch.manual_seed(0)
    names = ("cat", "dog", "eel", "fox", "gnu")
    with quiet():
        whole = CLASSIFIERS[kind]().eval()
        whole.config.id2label = dict(enumerate(names))
        whole.save_pretrained(tmp_path)
    processor(tmp_path, "ViTImageProcessor")
    network, words = network_of(str(tmp_path)), vocabulary(str(tmp_path))
    inputs = network.inputs(np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8))
    with torch.no_grad():
        rows, logits = network.rows(inputs), whole(pixel_values=inputs).logits
        assert torch.allclose(network.classify(rows), logits, atol=1e-4)
    assert (network.source_classes, words.names) == (5, names)
    assert network.encoder.vocabulary.identity == words.identity
    assert np.allclose(rows.numpy() @ words.weights.T + words.offset, logits.numpy(), atol=1e-3)


def test_a_model_saved_without_a_classifier_or_with_one_of_other_rows_has_no_source_head(models, tmp_path):
    vit = get_encoder(str(models / "vit"))
    assert vit.source_head is vit.vocabulary is None
    with pytest.raises(ArgumentError, match="has none"):
        vocabulary(str(models / "clip"))
    with quiet():
        whole = CLASSIFIERS["vit"]()
        whole.vit.layernorm.weight.data.mul_(3)
        whole.save_pretrained(tmp_path)
    processor(tmp_path, "ViTImageProcessor")
    encoder = get_encoder(str(tmp_path))
    rows = encoder.module.forward
    encoder.module.forward = lambda pixels: rows(pixels) + 1  # as if it pooled otherwise
    assert encoder.source_head is None
