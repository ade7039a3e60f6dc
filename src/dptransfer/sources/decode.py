"""Open an image the way a person sees it: upright, in colour, eight bits; in a sandbox if need be."""

from __future__ import annotations

import ctypes
import logging
import signal
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dptransfer.base.types import AnyArray, PixelArray
from dptransfer.base.worker_env import start_process
from dptransfer.data import grey_levels
from dptransfer.data.grey_levels import GreyRange, declared_range
from dptransfer.errors import DataError, DPTransferError
from dptransfer.sources import dicom

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from PIL import Image

_SCALED = frozenset(("PPM", "JPEG2000"))  # Pillow brings their values to sixteen bits itself
_AT_ONCE = 2**24  # bytes of a file that is read at once; larger ones come in parts
_ORIENTATION = 274  # tag of EXIF
_PHOTOMETRIC, _BITS, _FORMAT, _LOWEST, _HIGHEST = 262, 258, 339, 340, 341  # tags of TIFF
_UNSIGNED, _SIGNED = 1, 2  # of TIFF's formats of samples


def open_image(path: str | Path, grey_range: GreyRange | None = None) -> Image.Image:
    """Read an image file as RGB; raises whatever Pillow and pydicom raise when they cannot.

    Damaged files reach readers of many formats, which raise far more than OSError (struct, index, value and
    decompression-bomb errors). One bad file must not stop an encoding of private data; so callers catch all.
    What can be read but not interpreted, greys of an unknown range or a file of several pages, is a
    `DataError` that says what to do.

    The orientation tag of a camera is applied, and transparency is laid over white. Greys of more than eight
    bits become bytes by `grey_range`, the stored values that are black and white, or else by what the file
    says itself. DICOM files are read as `read_dicom` describes.

    Many threads do this at a time, and each call of the system, as each of Pillow's that works on pixels,
    lets go of the interpreter and waits to have it back. A small picture is a millisecond's work, and waiting
    took longer than that on sixteen cores. So a file is read at once, and nothing is copied to be the same.
    """
    from PIL import Image

    declared = declared_range(grey_range)
    size = dicom.size_of_file(path)
    # By a stream: a file that Pillow has the name of it maps into memory, and garbles a turned TIFF then.
    with open(path, "rb", buffering=min(max(size, dicom.DICOM_STARTS), _AT_ONCE)) as file:
        stream = BytesIO(file.read(size)) if size <= _AT_ONCE else file
        if dicom.starts_as_dicom(stream.read(dicom.DICOM_STARTS)):
            return Image.fromarray(dicom.read_dicom(Path(path), declared)).convert("RGB")
        return _as_seen(stream, declared)


def _as_seen(stream: IO[bytes], declared: GreyRange | None) -> Image.Image:
    """A picture that Pillow reads; it goes back to the beginning itself."""
    from PIL import Image

    with Image.open(stream) as opened:
        _require_one_page(opened)
        greys, deep_colour = _greys(opened, declared), _is_deep_colour(opened)
        opened.load()
        image = _upright(opened)
        if greys is not None:
            return Image.fromarray(greys.levels(np.asarray(image), image.info)).convert("RGB")
        if deep_colour:
            grey_levels.require_not_dark(np.asarray(image)[..., : len(image.mode.rstrip("A"))])
        return _on_paper(image)


def picture_of(given: Any, grey_range: GreyRange | None = None) -> Image.Image:
    """RGB of a picture in memory: the content of a file, as `open_image` reads it, bytes, or a PIL image.

    Raises whatever Pillow does on a damaged file. A PIL image of more than bytes has forgotten what its file
    said of black and white, and so needs the file.
    """
    if isinstance(given, bytes | bytearray | memoryview):
        content = bytes(given)
        if dicom.starts_as_dicom(content[: dicom.DICOM_STARTS]):
            raise DataError("A DICOM file is read from a path; this is its content. Pass the path.")
        return _as_seen(BytesIO(content), declared_range(grey_range))
    from PIL import Image

    if isinstance(given, np.ndarray):
        return Image.fromarray(given)
    if given.mode == "F" or given.mode.startswith("I"):
        rule = f"A PIL image must have bytes for greys and colours; this one has the mode '{given.mode}'."
        raise DataError(f"{rule} Pass the path of its file, or the file's content.")
    return _on_paper(_upright(given))


def _upright(opened: Image.Image) -> Image.Image:
    """The picture, turned as the camera's tag says."""
    from PIL import ImageOps

    try:
        if opened.getexif().get(_ORIENTATION, 1) != 1:
            return ImageOps.exif_transpose(opened)
    except Exception:  # a damaged tag is no reason to lose the picture; Pillow raises many types here
        return opened
    return opened


def _on_paper(image: Image.Image) -> Image.Image:
    """The picture as RGB, what is transparent over white."""
    from PIL import Image

    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layered = image.convert("RGBA")
        paper = Image.new("RGBA", layered.size, (255, 255, 255, 255))
        return Image.alpha_composite(paper, layered).convert("RGB")
    return in_colour(image)


def in_colour(image: Image.Image) -> Image.Image:
    """The picture as RGB; itself if it is, where Pillow would copy it."""
    return image if image.mode == "RGB" else image.convert("RGB")


def problem_of(path: str | Path, grey_range: GreyRange | None = None) -> str | None:
    """Why a file would be refused, as far as its first bytes tell; None if they tell nothing.

    A picture of sixteen bits whose values decide is read whole: that a set is of such ones must not show at
    the end of its encoding.
    """
    from PIL import Image

    declared = declared_range(grey_range)
    try:
        if dicom.is_dicom(path):
            dicom.require_readable(Path(path), declared)
            return None
        with Image.open(path) as opened:
            _require_one_page(opened)
            greys = _greys(opened, declared)
            values_decide = _is_deep_colour(opened) if greys is None else not greys.stated or greys.declared
        if values_decide:
            open_image(path, declared)
    except DPTransferError as problem:
        return str(problem)
    except Exception as problem:  # readers raise many types on damaged files
        return f"It cannot be read ({type(problem).__name__})."
    return None


class _Greys(NamedTuple):
    """How a file's greys are stored, where they are more than bytes.

    Attributes:
        low: the value that is black.
        high: the value that is white.
        inverted: whether it is the other way round.
        stated: whether the file or the owner says so, rather than the format alone.
        dtype: what the values are, where Pillow hands out others of the same bits.
        declared: whether the owner says so, for a whole set: then the values must fit what is said.
    """

    low: float
    high: float
    inverted: bool = False
    stated: bool = True
    dtype: str | None = None
    declared: bool = False

    def levels(self, samples: AnyArray, info: Mapping[str | tuple[int, int], object]) -> PixelArray:
        """Bytes of the picture's values; a value that PNG has for transparent is white, as the paper is."""
        values = samples if self.dtype is None else samples.view(self.dtype)
        if self.declared:
            grey_levels.require_in_range(values, (self.low, self.high))
        found = grey_levels.as_bytes(values, grey_levels.between(self.low, self.high, inverted=self.inverted))
        if not self.stated:
            grey_levels.require_not_dark(255 - found if self.inverted else found)
        if isinstance(info.get("transparency"), int):
            found[values == info["transparency"]] = 255
        return found


def _greys(opened: Image.Image, declared: GreyRange | None) -> _Greys | None:
    """What an opened file says of its greys, or the owner does; None where they are bytes."""
    mode, tags = opened.mode, getattr(opened, "tag_v2", {})
    bits, form = _first(tags.get(_BITS, 8)), _first(tags.get(_FORMAT, _UNSIGNED))
    signed_bytes = mode == "L" and form == _SIGNED
    if not (mode.startswith("I") or mode == "F" or signed_bytes):
        return None
    if opened.format in _SCALED and mode != "F":
        return _Greys(0, 65535)
    dtype = "i1" if signed_bytes else "u4" if mode == "I" and (bits, form) == (32, _UNSIGNED) else None
    inverted = tags.get(_PHOTOMETRIC) == 0  # Pillow inverts those of eight bits and fewer itself
    by_owner = declared is not None
    if declared is None and _HIGHEST in tags:
        lowest, highest = float(_first(tags.get(_LOWEST, 0))), float(_first(tags[_HIGHEST]))
        declared = (lowest, highest) if lowest < highest else None
    if declared is not None:
        return _Greys(*declared, inverted, dtype=dtype, declared=by_owner)
    if opened.format == "TIFF" and form == _UNSIGNED and bits < 16:
        return _Greys(0, 2**bits - 1, inverted)
    if mode.startswith("I;16") or opened.format == "PNG":  # earlier versions of Pillow have "I" there
        return _Greys(0, 65535, inverted, stated=False)
    kind = "of floating point" if mode == "F" else "that are signed, or of 32 bits,"
    raise DataError(f"Greys {kind} need a range; the file does not say which. {grey_levels.DECLARE}")


def _is_deep_colour(opened: Image.Image) -> bool:
    """Whether colours are of sixteen bits in the file; Pillow hands out the upper eight of them."""
    return opened.mode in ("RGB", "RGBA", "LA") and ";16" in str(getattr(opened, "tile", ""))


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


def _require_one_page(opened: Image.Image) -> None:
    """Raise for a TIFF of several pages; of an animation, which is one picture, the first frame is taken."""
    if opened.format == "TIFF" and getattr(opened, "is_animated", False):
        raise DataError("This TIFF file has several pages. Save those that matter each in a file of its own.")


@contextmanager
def without_warnings() -> Iterator[None]:
    """While pictures are opened, nothing is said about any of them: warnings tell sizes, tags and names.

    Nor by the logs of Pillow and pydicom, or by libtiff, which writes to the terminal past Python. Filters
    are the whole process's, so this covers the threads that open pictures, and is entered by one.
    """
    talkers = [logging.getLogger(name) for name in ("PIL", "pydicom")]
    passed_on = [talker.propagate for talker in talkers]
    nobody = logging.NullHandler()
    for talker in talkers:
        talker.propagate = False
        talker.addHandler(nobody)
    libtiff = _libtiff()
    printer = None if libtiff is None else libtiff.TIFFSetErrorHandler(None)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        if libtiff is not None:
            libtiff.TIFFSetErrorHandler(printer)
        for talker, before in zip(talkers, passed_on, strict=True):
            talker.propagate = before
            talker.removeHandler(nobody)


@cache
def _libtiff() -> ctypes.CDLL | None:
    """The library that Pillow reads TIFF with, if it is one of its own and can be asked to be silent."""
    from PIL import _imaging

    try:
        library = ctypes.CDLL(_imaging.__file__)
        library.TIFFSetErrorHandler.argtypes = [ctypes.c_void_p]
        library.TIFFSetErrorHandler.restype = ctypes.c_void_p
    except (OSError, AttributeError):  # linked otherwise, or built without it
        return None
    return library


SECONDS = 60
"""For one picture; Pillow refuses those of over 179 megapixels, which take seconds."""


class SandboxedDecoder:
    """Opens pictures in a subprocess with a timeout, one at a time, from any thread; close it at the end.

    It is for a second attempt, after whoever tried before has died: a reader of pictures that crashes takes
    its process along, and one that hangs inside C code can be ended in no other way. A picture that does
    either cannot be read, as any other damaged one.

    Args:
        grey_range: as `open_image` takes it.
        seconds: the longest that a picture may take.
    """

    def __init__(self, grey_range: GreyRange | None = None, *, seconds: float = SECONDS) -> None:
        self._grey_range, self._seconds = grey_range, seconds
        self._turn = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._line: Connection[Any, Any]

    def __call__(self, path: Path) -> Image.Image:
        """The picture, as `open_image` gives it; raises for one that cannot be read."""
        with self._turn:
            found = self._answer(path)
        if found is None:
            rule = "A picture must be opened within a minute, without a crash; this one was not."
            raise DataError(f"{rule} Repair or remove it.")
        return found

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._line.close()
            self._child = None

    def _answer(self, path: Path) -> Image.Image | None:
        if self._child is None:
            self._start()
        with suppress(EOFError, OSError):  # it died
            self._line.send((path, self._grey_range))
            if self._line.poll(self._seconds):
                found: Image.Image | None = self._line.recv()
                return found
        self.close()
        return None

    def _start(self) -> None:
        from multiprocessing import Pipe

        self._line, theirs = Pipe()
        with theirs:
            self._child = start_process(__name__, theirs.fileno())
        self._line.recv()  # it is up: its start is not the picture's time


def serve(descriptor: int) -> None:
    """Answer each path with its picture, or None, until nobody asks any more."""
    from multiprocessing.connection import Connection

    asked: Connection[Any, Any] = Connection(descriptor)
    asked.send(None)
    with without_warnings(), suppress(EOFError, OSError):
        while True:
            path, grey_range = asked.recv()
            alarm(2 * SECONDS)  # whoever asked lives or not
            try:
                found = open_image(path, grey_range)
                found.load()
            except Exception:  # readers raise many types on damaged files
                found = None
            alarm(0)  # it may be long until the next one
            asked.send(found)


def alarm(seconds: int) -> None:
    """End this process after so many seconds, in the middle of C code if need be; 0: do not."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
