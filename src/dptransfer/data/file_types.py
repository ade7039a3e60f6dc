"""File types that the library reads, by the ending of a name."""

from __future__ import annotations

from pathlib import Path

from dptransfer.data.archives import ENDINGS as ARCHIVE_ENDINGS
from dptransfer.data.archives import archive_in
from dptransfer.data.dicom import DICOM_ENDINGS
from dptransfer.errors import DataError

ROW_ENDINGS = (".emb", ".npy", ".npz", ".safetensors", ".pt", ".pth")
IMAGE_ENDINGS = frozenset(
    ".jpg .jpeg .jfif .png .webp .bmp .gif .tif .tiff .ppm .pgm .pbm .jp2 .avif".split()  # what Pillow reads
).union(DICOM_ENDINGS)
_TABLES = (".csv", ".parquet")
_KNOWN = frozenset((*ROW_ENDINGS, *_TABLES, ".txt")) | IMAGE_ENDINGS


def require_known_type(path: Path) -> None:
    """Raise for a file whose name has an ending that nothing here reads; a folder may be called anything."""
    if path.is_file() and path.suffix.lower() not in _KNOWN and archive_in(path) is None:
        raise _unknown_type(path)


def _unknown_type(path: Path) -> DataError:
    listed = (
        f"rows {' '.join((*ROW_ENDINGS, *_TABLES))}; images {' '.join(sorted(IMAGE_ENDINGS))}, an archive "
        f"({' '.join(ARCHIVE_ENDINGS)}), a folder, {' '.join(_TABLES)}; texts .txt {' '.join(_TABLES)}"
    )
    kind = (
        f"Unknown file type '{path.suffix}'" if path.suffix else "A file needs an ending that tells its type"
    )
    return DataError(f"'{path}': {kind}. Supported: {listed}.")
