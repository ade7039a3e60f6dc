import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def test_an_encoder_is_exported_and_encodes(cli_json, tmp_path):
    told = cli_json("encoder", "export", "small-cnn", "cnn.onnx", "--image-size", "8")
    assert told["output"] == "rows (1, 128)"
    assert "x8 bicubic bytes" in told["encoder"]
    for number in range(4):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (number * 50,) * 3).save(folder / f"{number}.png")
    rows = cli_json("encode", "photos", "--encoder", "cnn.onnx", "--out", "rows.emb")
    assert (rows["rows"], rows["dimension"]) == (4, 128)


def test_a_file_that_is_there_is_replaced_only_if_so_asked(cli, tmp_path):
    (tmp_path / "cnn.onnx").write_bytes(b"mine")
    words = ("encoder", "export", "small-cnn", "cnn.onnx", "--image-size", "8")
    assert "exists" in cli(*words, code=2).stderr
    assert (tmp_path / "cnn.onnx").read_bytes() == b"mine"
    cli(*words, "--overwrite")
    assert (tmp_path / "cnn.onnx").read_bytes() != b"mine"
