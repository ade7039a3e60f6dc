"""DICOM files of many kinds, each made here with pydicom."""

import numpy as np
import pytest
from PIL import Image

from contracts.dicom_files import dicom, table
from contracts.opened_pictures import greys, refused
from dptransfer.data import Columns
from dptransfer.errors import DataError, MissingDependency
from dptransfer.sources import find_images
from dptransfer.sources.decode import open_image, problem_of, without_warnings
from dptransfer.sources.dicom import patient_of

pytest.importorskip("pydicom")

TWELVE = np.array([[0, 1024, 2048, 4095]], np.uint16)
HOUNSFIELD = np.array([[-1000, 0, 500, 1000]], np.int16)
FOUR = np.array([[0, 1, 2, 3]], np.uint8)


def test_bits_stored_tell_what_is_white_and_other_bits_are_ignored(tmp_path):
    assert greys(dicom(tmp_path / "a", TWELVE, BitsStored=12)) == [0, 63, 127, 255]
    assert greys(dicom(tmp_path / "b", TWELVE | 0xF000, BitsStored=12)) == [0, 63, 127, 255]
    assert greys(dicom(tmp_path / "c", TWELVE * 16)) == [0, 63, 127, 254]
    assert greys(dicom(tmp_path / "d", np.array([[0, 1, 128, 255]], np.uint8))) == [0, 1, 128, 255]
    bitmap = {"BitsAllocated": 1, "BitsStored": 1, "Columns": 4}
    assert greys(dicom(tmp_path / "e", np.array([[0b1010]], np.uint8), **bitmap)) == [0, 255, 0, 255]
    stored = (np.array([[-2048, 0, 1024, 2047]], np.int16) & 0xFFF).astype(np.int16)  # signed, in twelve bits
    assert greys(dicom(tmp_path / "f", stored, BitsStored=12), (-2048, 2047)) == [0, 127, 191, 255]


def test_monochrome_1_is_white_where_it_is_zero(tmp_path):
    inverted = {"PhotometricInterpretation": "MONOCHROME1"}
    assert greys(dicom(tmp_path / "a", TWELVE, BitsStored=12, **inverted)) == [255, 191, 127, 0]
    window = {"WindowCenter": 0, "WindowWidth": 2000}
    assert greys(dicom(tmp_path / "b", HOUNSFIELD, **window, **inverted)) == [255, 127, 63, 0]
    assert greys(dicom(tmp_path / "c", 65535 - TWELVE, **inverted)) == [0, 3, 7, 15]


@pytest.mark.parametrize("kind", [None, "LINEAR", "LINEAR_EXACT", "SIGMOID"])
def test_windows_are_what_pydicom_makes_of_them(tmp_path, kind):
    """By its own functions, which scale to the stored bits and share nothing with ours."""
    import pydicom
    from pydicom.pixels import apply_modality_lut, apply_voi_lut

    rng = np.random.default_rng(0)
    for trial in range(5):
        samples = rng.integers(-3000, 3000, (8, 8)).astype(np.int16)
        fields = {"RescaleSlope": rng.integers(1, 9) / 4, "RescaleIntercept": rng.integers(-500, 500)}
        fields |= {"WindowCenter": rng.integers(-500, 500), "WindowWidth": rng.integers(2, 4000)}
        file = dicom(tmp_path / str(trial), samples, **{k: float(v) for k, v in fields.items()})
        header = pydicom.dcmread(file)
        if kind is not None:
            header.VOILUTFunction = kind
            header.save_as(file)
        shown = apply_voi_lut(apply_modality_lut(samples, header), header)
        ends = np.array([-32768, 32767]) * fields["RescaleSlope"] + fields["RescaleIntercept"]
        expected = 255 * (shown - ends[0]) / (ends[1] - ends[0])
        found = np.asarray(open_image(file))[..., 0]
        assert np.abs(found + 0.5 - expected).max() < 0.51


def test_the_first_of_several_windows_is_taken(tmp_path):
    windows = {"WindowCenter": [0, 5], "WindowWidth": [2000, 6]}
    assert greys(dicom(tmp_path / "a", HOUNSFIELD, **windows)) == [0, 127, 191, 255]
    assert greys(dicom(tmp_path / "b", HOUNSFIELD, WindowCenter=0.5, WindowWidth=1)) == [0, 0, 255, 255]


def test_a_window_that_somebody_has_emptied_is_none(tmp_path):
    empty = {"WindowCenter": "", "WindowWidth": "", "VOILUTSequence": []}
    assert greys(dicom(tmp_path / "a", TWELVE, BitsStored=12, **empty)) == [0, 63, 127, 255]
    refused(dicom(tmp_path / "b", TWELVE, **empty), "--grey-range")


def test_slope_and_intercept_come_first_and_the_declared_range_is_in_their_units(tmp_path):
    ct = {"BitsStored": 12, "RescaleSlope": 1, "RescaleIntercept": -1024}
    window = {"WindowCenter": 0, "WindowWidth": 2048}
    assert greys(dicom(tmp_path / "a", TWELVE, **ct)) == [0, 63, 127, 255]
    assert greys(dicom(tmp_path / "b", TWELVE, **ct, **window)) == [0, 127, 255, 255]
    for file in ("a", "b"):  # whatever the file says itself
        assert greys(tmp_path / file, (-1024, 3071)) == [0, 63, 127, 255]
        assert greys(tmp_path / file, (0, 1024)) == [0, 0, 255, 255]
    down = {"BitsStored": 12, "RescaleSlope": -2, "RescaleIntercept": 0}
    assert greys(dicom(tmp_path / "c", TWELVE, **down)) == [255, 191, 127, 0]


def test_look_up_tables_of_screen_and_modality(tmp_path):
    shown = [0, 200, 100, 255]
    assert greys(dicom(tmp_path / "a", FOUR, VOILUTSequence=table(shown))) == shown
    twelve = table([0, 2048, 1024, 4095], bits=12)
    assert greys(dicom(tmp_path / "b", FOUR, VOILUTSequence=twelve)) == [0, 127, 63, 255]
    signed = FOUR.astype(np.int16) - 2
    assert greys(dicom(tmp_path / "c", signed, VOILUTSequence=table(shown, first=-2))) == shown
    modality = {"ModalityLUTSequence": table([0, 2048, 1024, 4095], bits=16)}
    window = {"WindowCenter": 2048, "WindowWidth": 4096}
    assert greys(dicom(tmp_path / "d", FOUR, **modality, **window)) == [0, 127, 63, 255]
    assert greys(tmp_path / "d", (0, 4095)) == [0, 127, 63, 255]


def test_bytes_need_no_declared_range(tmp_path):
    shades = np.array([[0, 1, 128, 255]], np.uint8)
    assert greys(dicom(tmp_path / "a", shades), (-150, 250)) == [0, 1, 128, 255]
    assert greys(dicom(tmp_path / "b", shades, RescaleSlope=16, RescaleIntercept=0), (0, 4080)) == [
        0,
        1,
        128,
        255,
    ]
    assert greys(tmp_path / "b", (0, 2040)) == [0, 2, 255, 255]


def test_colours(tmp_path):
    colours = np.array([[[10, 20, 30], [255, 0, 0], [0, 0, 255], [255, 255, 255]]], np.uint8)
    for name, samples, fields in (
        ("rgb", colours, {}),
        ("planar", colours.transpose(2, 0, 1).reshape(1, 4, 3), {"PlanarConfiguration": 1}),
        ("sixteen", colours.astype(np.uint16) * 257, {}),
    ):
        file = dicom(tmp_path / name, samples, **fields)
        assert problem_of(file) is None
        assert np.array_equal(np.asarray(open_image(file, (0, 7))), colours)
    coded = np.array([[[18, 135, 122], [76, 85, 255], [29, 255, 107], [255, 128, 128]]], np.uint8)
    file = dicom(tmp_path / "ybr", coded, PhotometricInterpretation="YBR_FULL")
    assert np.abs(np.asarray(open_image(file)).astype(int) - colours).max() <= 1


def test_what_cannot_be_interpreted_is_refused_in_one_line_with_a_remedy(tmp_path):
    refused(dicom(tmp_path / "signed", HOUNSFIELD), "--grey-range")
    refused(dicom(tmp_path / "deep", TWELVE), "--grey-range")  # sixteen bits, it says
    lut = {"ModalityLUTSequence": table([0, 1, 2, 3], bits=16)}
    refused(dicom(tmp_path / "converted", FOUR, **lut), "--grey-range")
    for name, fields in (("kind", {"VOILUTFunction": "ODD"}), ("width", {"WindowWidth": 0})):
        window = {"WindowCenter": 0, "WindowWidth": 9} | fields
        refused(dicom(tmp_path / name, HOUNSFIELD, **window), "--grey-range")
    refused(
        dicom(tmp_path / "frames", np.zeros((4, 4), np.uint8), NumberOfFrames=2, Rows=2), "file of its own"
    )
    refused(dicom(tmp_path / "none", FOUR, PhotometricInterpretation=None), "grey or colour")
    refused(dicom(tmp_path / "bomb", FOUR, Rows=20000, Columns=20000), "million pixels")
    refused(dicom(tmp_path / "high", TWELVE << 4, BitsStored=12, HighBit=15), "highest bit")


def test_frames_in_groups_and_deflated_files_are_refused(tmp_path):
    from pydicom.dataset import Dataset
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    groups = {"NumberOfFrames": 1, "SharedFunctionalGroupsSequence": [Dataset()]}
    refused(dicom(tmp_path / "enhanced", TWELVE, BitsStored=12, **groups), "enhanced")
    refused(dicom(tmp_path / "small", FOUR, syntax=DeflatedExplicitVRLittleEndian), "deflated")


def test_damaged_files_raise_and_nothing_is_said_about_them(tmp_path, caplog):
    whole = dicom(tmp_path / "whole", TWELVE, BitsStored=12, PatientID="Jane").read_bytes()
    (tmp_path / "header").write_bytes(whole[:300])
    (tmp_path / "pixels").write_bytes(whole[:-4])
    (tmp_path / "nothing").write_bytes(b"\0" * 128 + b"DICM")
    for name in ("header", "pixels", "nothing"):
        with without_warnings(), pytest.raises(Exception):  # noqa: B017, PT011 - pydicom raises many types
            open_image(tmp_path / name)
    assert caplog.records == []


def test_people_are_told_by_patient_id_and_whoever_has_none_is_alone(tmp_path):
    for place, (name, patient) in enumerate(
        [("a/1.dcm", "P1"), ("a/2.dcm", "P2 "), ("b/3.dcm", "P1"), ("b/4.dcm", ""), ("b/5.dcm", None)]
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        dicom(tmp_path / name, FOUR + place, **({} if patient is None else {"PatientID": patient}))
    (tmp_path / "b/6.dcm").write_bytes(b"no picture")
    Image.new("L", (2, 2)).save(tmp_path / "b/7.png")
    found = find_images(tmp_path, Columns(person="dicom"))
    assert found.classes == ("a", "b")
    assert found.people.tolist() == [0, 1, 0, 2, 3, 4, 5]
    assert patient_of(tmp_path / "a/1.dcm") == "P1"
    listed = tmp_path / "list.csv"
    listed.write_text("path\nb/3.dcm\na/1.dcm\n")
    assert find_images(listed, Columns(person="dicom")).people.tolist() == [0, 0]


def test_people_by_dicom_need_an_id_or_a_person_would_be_taken_for_several(tmp_path):
    for place, patient in enumerate([{}, {"PatientID": ""}, {"PatientID": " "}]):
        dicom(tmp_path / f"{place}.dcm", FOUR, **patient)
    with pytest.raises(DataError, match="Patient ID"):
        find_images(tmp_path, Columns(person="dicom"))


def test_without_pydicom_a_set_of_dicom_files_is_refused_and_not_black(tmp_path, monkeypatch):
    import sys

    from dptransfer.sources import PrivateImages

    file = dicom(tmp_path / "1.dcm", FOUR)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    for look in (
        lambda: find_images(tmp_path),
        lambda: PrivateImages([file], [0], classes=[0, 1], resolution=8),
    ):
        with pytest.raises(MissingDependency, match="medical"):
            look()


def test_a_declared_range_below_all_the_values_is_refused_in_the_slopes_units(tmp_path):
    bright = np.full((4, 4), 3000, np.uint16)
    dicom(tmp_path / "a", bright, BitsStored=12, RescaleSlope=1, RescaleIntercept=-1024)
    refused(tmp_path / "a", "declared grey range", (-150, 250))
    assert set(greys(tmp_path / "a", (-1024, 3071))) == {as_byte((3000, 4095))}
    dicom(tmp_path / "b", bright, BitsStored=12, RescaleSlope=1, RescaleIntercept=-2900)
    assert set(greys(tmp_path / "b", (-150, 250))) == {as_byte((250, 400))}


def as_byte(part):
    return 255 * part[0] // part[1]
