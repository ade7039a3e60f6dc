"""A disk on which files cannot grow."""

import contextlib
import resource


@contextlib.contextmanager
def full_disk(limit: int):
    """Files may not grow beyond `limit` bytes: writes fail as they do on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
