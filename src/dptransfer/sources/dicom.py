"""DICOM pictures as a radiologist's screen shows them, and whose they are; read by pydicom."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import Floats, PixelArray
from dptransfer.data import grey_levels
from dptransfer.data.grey_levels import GreyRange, Shade
from dptransfer.errors import DataError

if TYPE_CHECKING:
    import pydicom

DICOM_ENDINGS = frozenset((".dcm", ".dicom"))
DICOM_STARTS = 132  # bytes that tell
_GREYS = ("MONOCHROME1", "MONOCHROME2")
_COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT", "PALETTE COLOR")


def is_dicom(path: str | Path) -> bool:
    """Whether the file says that it is DICOM, after the 128 bytes that it leaves to others."""
    size_of_file(path)
    with open(path, "rb") as stream:
        return starts_as_dicom(stream.read(DICOM_STARTS))


def starts_as_dicom(first: bytes) -> bool:
    """Whether a file with these first bytes says that it is DICOM."""
    return first[128:DICOM_STARTS] == b"DICM"


def size_of_file(path: str | Path) -> int:
    """The file's bytes.

    Every picture comes by here first, so what is no file is refused here: a pipe would be waited for, for
    ever, and a device never ends.
    """
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise DataError("A picture must be a file; this is a folder, a pipe or a device. Remove it.")
    return found.st_size


def require_reader(paths: Iterable[Path]) -> None:
    """Raise if files are named as DICOM's are and pydicom is not there: they would all be black."""
    if any(path.suffix.lower() in DICOM_ENDINGS for path in paths):
        checks.import_optional("pydicom", "medical", "Reading DICOM files")


def patient_of(path: Path) -> str | None:
    """The file's Patient ID; None if it has none, or is no DICOM file."""
    pydicom = checks.import_optional("pydicom", "medical", "Telling patients by their DICOM files")
    try:
        if not is_dicom(path):
            return None
        found = pydicom.dcmread(path, specific_tags=["PatientID"], stop_before_pixels=True).get("PatientID")
    except Exception:  # what is wrong with one private file is nobody's business
        return None
    return None if found is None else str(found)


def require_readable(path: Path, grey_range: GreyRange | None) -> None:
    """Raise for a file that `read_dicom` would refuse; its pixels are read only where they decide."""
    header = _opened(path, stop_before_pixels=True)
    _shade(header, grey_range)
    if _depth_unstated(header, grey_range) or _is_declared(header, grey_range):
        read_dicom(path, grey_range)


def read_dicom(path: Path, grey_range: GreyRange | None) -> PixelArray:
    """The picture as bytes, (height, width) or (height, width, 3).

    Greys go through the modality's table or slope, and then through the declared range, which is in the
    units behind the slope (Hounsfield's in a CT), or else what the file has for a screen: its table (VOI
    LUT), its first window, or, of unsigned values, all that its bits can store. MONOCHROME1 is inverted.
    Bytes that no slope makes into something else need no declared range, as in other formats.
    """
    header = _opened(path)
    shade = _shade(header, grey_range)
    from pydicom.pixels import apply_color_lut, apply_modality_lut, pixel_array

    samples = pixel_array(header)  # of the bits that are stored; others may hold an overlay
    if shade is None:
        if header.PhotometricInterpretation == "PALETTE COLOR":
            samples = apply_color_lut(samples, header)
            bits = 8 * samples.dtype.itemsize
        else:
            bits = header.BitsStored
        return grey_levels.as_bytes(samples, grey_levels.between(0, 2**bits - 1))
    if grey_range is not None and _is_declared(header, grey_range):
        grey_levels.require_in_range(apply_modality_lut(samples, header), grey_range)
    found = grey_levels.as_bytes(samples, shade)
    if _depth_unstated(header, grey_range):
        inverted = header.PhotometricInterpretation == "MONOCHROME1"
        grey_levels.require_not_dark(255 - found if inverted else found)
    return found


def _opened(path: Path, *, stop_before_pixels: bool = False) -> pydicom.Dataset:
    from PIL import Image

    pydicom = checks.import_optional("pydicom", "medical", "Reading DICOM files")
    if pydicom.filereader.read_file_meta_info(path).TransferSyntaxUID.is_deflated:
        raise DataError("A DICOM file must not be deflated, as it may be of any size then. Inflate it.")
    header = pydicom.dcmread(path, stop_before_pixels=stop_before_pixels)
    kind = header.get("PhotometricInterpretation")
    if kind not in _GREYS + _COLOURS:
        why = f"A DICOM file must hold a grey or colour picture; this one is {kind or 'none'}."
        raise DataError(f"{why} Convert it.")
    if int(header.get("NumberOfFrames") or 1) > 1 or "SharedFunctionalGroupsSequence" in header:
        rule = "A DICOM file must hold one picture; this one is made for several frames."
        raise DataError(f"{rule} Save those that matter each in a file of its own, not an enhanced one.")
    if "HighBit" in header and header.HighBit != header.BitsStored - 1:
        raise DataError("A DICOM file's highest bit must be the last that is stored; it is not. Convert it.")
    if header.Rows * header.Columns > 2 * (Image.MAX_IMAGE_PIXELS or np.inf):  # as Pillow does
        raise DataError("A picture must have less than 179 million pixels; this one has more. Shrink it.")
    return header


def _has(header: pydicom.Dataset, name: str) -> bool:
    """Whether an element is there and says something; whoever removes names may leave others empty."""
    return name in header and not header[name].is_empty


def _depth_unstated(header: pydicom.Dataset, grey_range: GreyRange | None) -> bool:
    """Whether nothing but the size of a number tells what is white."""
    windowed = grey_range is not None or _has(header, "VOILUTSequence") or _has(header, "WindowCenter")
    return header.get("BitsStored") == 16 and header.PhotometricInterpretation in _GREYS and not windowed


def _is_declared(header: pydicom.Dataset, grey_range: GreyRange | None) -> bool:
    """Whether the declared range says what is black and white in this file."""
    slope, intercept = header.get("RescaleSlope") or 1, header.get("RescaleIntercept") or 0
    plain = (slope, intercept) == (1, 0) and "ModalityLUTSequence" not in header
    # Of bytes values are brightness from 0 to 255 at most, and nothing else.
    are_bytes = plain and header.get("PixelRepresentation") == 0 and header.BitsStored <= 8
    return grey_range is not None and header.PhotometricInterpretation in _GREYS and not are_bytes


def _shade(header: pydicom.Dataset, grey_range: GreyRange | None) -> Shade | None:
    """How stored greys are shown; None for colours."""
    kind = header.PhotometricInterpretation
    if kind in _COLOURS:
        return None
    from pydicom.pixels import apply_modality_lut, apply_voi

    if grey_range is not None and _is_declared(header, grey_range):
        shown = grey_levels.between(*grey_range)
    elif _has(header, "VOILUTSequence"):
        white = 2.0 ** int(header.VOILUTSequence[0].LUTDescriptor[2]) - 1

        def shown(values: Floats) -> Floats:
            found: Floats = apply_voi(np.rint(values).astype(np.int64), header).astype(np.float64)
            return 255 * found / white

    elif _has(header, "WindowCenter"):
        shown = _window(header)
    elif header.get("PixelRepresentation") == 0 and "ModalityLUTSequence" not in header:
        ends = np.array([0.0, 2.0 ** int(header.BitsStored) - 1])
        shown = grey_levels.between(*sorted(apply_modality_lut(ends, header).tolist()))
    else:
        rule = "Greys in a DICOM file that are not plain need a window; these have none."
        raise DataError(f"{rule} {grey_levels.DECLARE}")

    def shade(values: Floats) -> Floats:
        if "ModalityLUTSequence" in header:
            values = values.astype(np.int64)
        levels = shown(np.asarray(apply_modality_lut(values, header), dtype=np.float64))
        return 255 - np.clip(levels, 0, 255) if kind == "MONOCHROME1" else levels

    return shade


def _window(header: pydicom.Dataset) -> Shade:
    """The first window of the file, by the three functions of the standard (PS3.3, C.11.2.1.2 and 3).

    LINEAR goes from black at c − 1/2 − (w − 1)/2 to white at c − 1/2 + (w − 1)/2.
    """
    centre, width = (float(np.ravel(header[tag].value)[0]) for tag in ("WindowCenter", "WindowWidth"))
    kind = header.get("VOILUTFunction") or "LINEAR"
    if kind == "SIGMOID" and width > 0:
        return lambda values: 255 / (1 + np.exp(-4 * (values - centre) / width))
    if kind == "LINEAR_EXACT" and width > 0:
        return grey_levels.between(centre - width / 2, centre + width / 2)
    if kind == "LINEAR" and width > 1:
        return grey_levels.between(centre - width / 2, centre + width / 2 - 1)
    if kind == "LINEAR" and width == 1:
        return lambda values: np.where(values > centre - 0.5, 255.0, 0.0)
    rule = "A DICOM window must be at least 1 wide, of a known kind; this one is not."
    raise DataError(f"{rule} {grey_levels.DECLARE}")
