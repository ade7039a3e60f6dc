from dptransfer.methods import MeanPrototypes
from dptransfer_lab.demo.embed import claim_folder, embed
from dptransfer_lab.demo.run import accuracy_curve

from .conftest import PixelEncoder, tiny_sets


def test_more_epsilon_is_more_accuracy_and_the_same_seeds_give_the_same_dots(tmp_path):
    claim_folder(tmp_path)
    rows = embed(tiny_sets(), PixelEncoder(), tmp_path, progress=lambda *_: None)
    dots = accuracy_curve(MeanPrototypes, rows, [0.01, 20.0], 1e-5)
    assert dots == accuracy_curve(MeanPrototypes, rows, [0.01, 20.0], 1e-5)
    assert min(dots[20.0]) > max(dots[0.01]) + 0.2
    assert list(accuracy_curve(MeanPrototypes, rows, [1.0, 701.0], 1e-5)) == [1.0]
