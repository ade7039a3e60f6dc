from dptransfer import MeanPrototypes
from dptransfer_lab.demo.curve import accuracy_curve
from dptransfer_lab.demo.embed import claim_folder, embed
from tests.demo.conftest import PixelEncoder, tiny_sets


def test_more_epsilon_is_more_accuracy_and_the_same_seeds_give_the_same_dots(tmp_path):
    claim_folder(tmp_path)
    rows = embed(tiny_sets(), PixelEncoder(), tmp_path, progress=lambda *_: None)
    dots = accuracy_curve(MeanPrototypes, rows, [0.01, 20.0], 1e-5)
    assert dots == accuracy_curve(MeanPrototypes, rows, [0.01, 20.0], 1e-5)
    assert dots[1].balanced > dots[0].balanced + 0.2
    assert [dot.epsilon for dot in accuracy_curve(MeanPrototypes, rows, [1.0, 701.0], 1e-5)] == [1.0]
    assert all(dot.lowest <= dot.balanced <= dot.highest for dot in dots)
