"""Sources of data: files, folders, archives and tables to rows, images and texts."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
