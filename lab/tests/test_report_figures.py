import numpy as np
import pytest
from PIL import Image

from dptransfer.data.store import write_embeddings
from dptransfer.errors import DataError
from dptransfer_lab.demo_data import demo_glyphs
from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.report_figures import drawings_of, pictures_of

from .synthetic import grid, measured_losses, record


def names(records, study=None):
    return [drawing.name for drawing in drawings_of(records, styles_of(records), study or {})]


def test_what_the_results_have_is_drawn():
    found = names(grid(imbalance=[1.0, 10.0]))
    assert [name.split("-")[0] for name in found] == ["balanced", "minority", "best"]
    assert len(set(found)) == len(found)
    sizes = [record(rows=n, seed=s) for n in (100, 200) for s in range(2)]
    assert [name.split("-")[0] for name in names(sizes)] == ["cost", "cost"]


def test_losses_of_rows_are_drawn_where_they_were_measured():
    records = measured_losses()
    assert [name for name in names(records) if name.startswith("instance-loss")]
    (name,) = names(records, {"figure": [{"kind": "instance-loss"}]})
    assert name.startswith("instance-loss")
    assert names(grid(), {"figure": [{"kind": "instance-loss"}]}) == []


def test_a_study_says_which_figures_it_wants():
    records = grid(imbalance=[1.0, 10.0])
    asked = {"figure": [{"kind": "curves", "metric": "accuracy", "where": {"imbalance": 10}}]}
    (name,) = names(records, asked)
    assert name.startswith("accuracy")
    everything = {"figure": [{"kind": "curves", "metric": "accuracy"}]}
    assert name in names(records, everything)
    assert len(names(records, everything)) == 2
    twice = {"figure": asked["figure"] * 2}
    assert names(records, twice) == [name]


@pytest.mark.parametrize("wrong", [{"kind": "pie"}, {"kind": "curves", "colour": 1}])
def test_a_figure_nobody_knows_is_refused(wrong):
    with pytest.raises(DataError, match="Figure 1"):
        names(grid(), {"figure": [wrong]})


def test_variants_of_a_method_are_an_ablation():
    records = [
        record("adamix", label=f"v{v}", epsilon=e, seed=s) for v in (1, 2) for e in (1.0, 2.0) for s in (0, 1)
    ]
    assert any(name.startswith("ablation") for name in names(records))
    assert not any(name.startswith("ablation") for name in names(grid()))


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
    write_embeddings(tmp_path / "pool.emb", np.eye(3), sources=files)
    look = pictures_of({"pool": [{"name": "p", "source": {"e": {"train": "pool.emb"}}}]}, [tmp_path])
    assert look("p", "e", 3, 2)[0, 0].tolist() == [2, 0, 0]
    nowhere = pictures_of({"pool": [{"name": "p", "source": {"e": {"train": "none.emb"}}}]}, [tmp_path])
    assert nowhere("p", "e", 3, 2) is None
