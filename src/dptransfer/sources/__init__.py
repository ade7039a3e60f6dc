"""Sources of data: files, folders, archives and tables to rows, images and texts."""

from dptransfer.sources.decode import open_image
from dptransfer.sources.images import ImageList, find_images
from dptransfer.sources.load import STORED, read_private, read_public
from dptransfer.sources.pictures import PrivateImages, PublicImages
from dptransfer.sources.readers import read_table
from dptransfer.sources.texts import TextList, find_texts

__all__ = [
    "STORED",
    "ImageList",
    "PrivateImages",
    "PublicImages",
    "TextList",
    "find_images",
    "find_texts",
    "open_image",
    "read_private",
    "read_public",
    "read_table",
]
