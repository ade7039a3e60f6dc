"""Tiny models of `transformers` with random weights, in folders as `save_pretrained` writes them."""

import pytest

from dptransfer.encoders.transformers import quiet

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
PICTURE = {"image_size": 32, "patch_size": 16}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"a b c d e f g".split()]


def tokenizer(folder):
    import transformers

    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=40).save_pretrained(folder)


def processor(folder, kind):
    import transformers

    with quiet():
        made = getattr(transformers, kind)
        sides = {"height": 32, "width": 32}
        settings = {"size": {"shortest_edge": 40}, "crop_size": sides} if "CLIP" in kind else {"size": sides}
        made(**settings).save_pretrained(folder)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    torch, transformers = map(pytest.importorskip, ("torch", "transformers"))
    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    with quiet():
        transformers.ViTModel(transformers.ViTConfig(**SMALL, **PICTURE)).save_pretrained(root / "vit")
        bert = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=64, **SMALL)
        transformers.BertModel(bert).save_pretrained(root / "bert")
        text = {**SMALL, "vocab_size": len(WORDS), "eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0}
        clip = transformers.CLIPConfig(
            text_config={**text, "max_position_embeddings": 64},
            vision_config={**SMALL, **PICTURE},
            projection_dim=6,
        )
        transformers.CLIPModel(clip).save_pretrained(root / "clip")
    processor(root / "vit", "ViTImageProcessor")
    processor(root / "clip", "CLIPImageProcessor")
    tokenizer(root / "bert")
    tokenizer(root / "clip")
    return root
