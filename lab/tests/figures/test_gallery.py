import numpy as np
from PIL import Image

from dptransfer.data.emb_folder import RowMetadata, write_embeddings
from dptransfer_lab.demo.digits import demo_glyphs
from dptransfer_lab.figures.gallery import gallery, pictures_of
from dptransfer_lab.figures.style import styles_of

from ..synthetic import cells, record


def chosen(**more):
    rows = {"cat": [3], "dog": [7, 9]}
    return [
        record("public", epsilon=epsilon, seed=seed, classes=2, extra={"prototypes": rows}, **more)
        for epsilon in (0.5, 2.0)
        for seed in (1, 0)
    ]


def drawn(records, pictures):
    frame = cells(records)
    return gallery(frame, styles_of(frame), pictures)


def test_each_class_shows_the_picture_of_the_row_that_was_chosen():
    asked = []

    def pictures(pool, encoder, size, row):
        asked.append((pool, encoder, size, row))
        return np.full((4, 4), 10 * row, dtype=np.uint8)

    (made,) = drawn(chosen(), pictures)
    assert set(asked) == {("glyphs", "lite0", 2000, 3), ("glyphs", "lite0", 2000, 7)}
    shown = [int(axes.images[0].get_array()[0, 0]) for axes in made.figure.axes]
    assert shown == [30, 70, 30, 70]
    assert [axes.get_title() for axes in made.figure.axes[:2]] == ["cat", "dog"]
    assert "seed 0" in made.caption
    assert "No private picture" in made.caption


def test_a_pool_without_pictures_has_no_gallery():
    assert drawn(chosen(), lambda *_: None) == []
    assert drawn([record("mean")], lambda *_: np.zeros((2, 2))) == []


def test_glyphs_of_the_demo_are_pictures():
    study = {"pool": [{"name": "glyphs", "source": {"pixels": {"train": "demo"}}}]}
    look = pictures_of(study, [])
    rows = demo_glyphs("pixels").rows
    assert (look("glyphs", "pixels", len(rows), 5) == (255 * rows[5]).astype(np.uint8).reshape(8, 8)).all()
    assert look("glyphs", "pixels", 7, 5) is None  # a part of the pool has rows of its own
    assert look("other", "pixels", len(rows), 5) is None


def test_a_pool_that_names_its_pictures_shows_them(tmp_path):
    files = [tmp_path / f"{place}.png" for place in range(3)]
    for place, file in enumerate(files):
        Image.new("RGB", (8, 8), (place, 0, 0)).save(file)
    write_embeddings(tmp_path / "pool.emb", np.eye(3), RowMetadata(sources=files, public=True))
    look = pictures_of({"pool": [{"name": "p", "source": {"e": {"train": "pool.emb"}}}]}, [tmp_path])
    assert look("p", "e", 3, 2)[0, 0].tolist() == [2, 0, 0]
    nowhere = pictures_of({"pool": [{"name": "p", "source": {"e": {"train": "none.emb"}}}]}, [tmp_path])
    assert nowhere("p", "e", 3, 2) is None
