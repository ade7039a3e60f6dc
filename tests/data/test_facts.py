import json

import pytest
from pydantic import TypeAdapter

from dptransfer.data import EncoderIdentity, Facts, require_same_encoder
from dptransfer.errors import ArgumentError, Incompatible

SIZED = EncoderIdentity("net", "ab" * 32, "rgb 96 bicubic (x-127)/128, mean pool", 96)
OLDER = EncoderIdentity("net", "ab" * 32, "rgb 96 bicubic (x-127)/128, mean pool")


def test_an_identity_from_before_sizes_were_on_record_is_the_same_identity():
    require_same_encoder(SIZED, OLDER, names=("New rows", "old rows"))
    assert SIZED == OLDER
    assert SIZED != EncoderIdentity("net", "ab" * 32, "rgb 128 bicubic (x-127)/128, mean pool", 96)


def test_how_greys_are_read_is_part_of_the_identity_and_comes_back_out_of_it():
    plain, declared = SIZED, SIZED.reading((-150, 250.5))
    assert (plain.grey_range, declared.grey_range) == (None, (-150.0, 250.5))
    assert declared.transform == "rgb 96 bicubic (x-127)/128, mean pool, greys -150.0 to 250.5"
    assert SIZED.reading((0, 1e-9)).grey_range == (0.0, 1e-9)
    require_same_encoder(declared, SIZED.reading((-150.0, 250.5)), names=("a", "b"))
    for other in (plain, SIZED.reading((-150, 251))):
        with pytest.raises(Incompatible, match=r"greys -150\.0 to 250\.5"):
            require_same_encoder(declared, other, names=("Private rows", "public rows"))


@pytest.mark.parametrize("end", ["", ", greys 0 to nan", ", greys 0 to 1 to 2 or so"])
def test_a_transform_that_somebody_else_wrote_is_no_range_by_chance(end):
    assert EncoderIdentity("net", "ab" * 32, f"rgb 8{end}").grey_range is None


def test_a_runtime_is_compared_and_is_written_only_where_it_is_known():
    by_onnx = EncoderIdentity("net", "ab" * 32, SIZED.transform, 96, runtime="onnx")
    assert by_onnx != SIZED
    assert "runtime" not in SIZED.to_dict()
    assert EncoderIdentity.from_dict(by_onnx.to_dict()) == by_onnx
    assert str(by_onnx).endswith("mean pool; by onnx]")
    with pytest.raises(Incompatible, match="--runtime torch"):
        require_same_encoder(SIZED, by_onnx, names=("Old rows", "new rows"))
    other = EncoderIdentity("net", "cd" * 32, SIZED.transform, 96)
    with pytest.raises(Incompatible, match="same transform"):
        require_same_encoder(other, by_onnx, names=("Old rows", "new rows"))


def test_facts_survive_json_and_refuse_nonsense():
    facts = Facts(("a", "b"), 3, size=10, class_counts=(4, 6), encoder=EncoderIdentity("e", "0", "t"))
    assert TypeAdapter(Facts).validate_json(json.dumps(facts.to_dict())) == facts
    for bad in (
        {"classes": ("a",)},
        {"classes": ("a", "a")},
        {"classes": ("a", 1)},
        {"shape": (8, 8, 4)},
        {"class_counts": (1,)},
    ):
        with pytest.raises(ArgumentError):
            Facts(**({"classes": ("a", "b"), "shape": 3} | bad))
