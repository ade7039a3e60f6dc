"""What is seen of a picture file once it is opened, or why it is refused."""

import numpy as np
import pytest

from dptransfer.errors import DataError
from dptransfer.sources.decode import open_image, problem_of


def seen(file, grey_range=None):
    """The pixels of a picture that can be read; what a look at its header says must not differ."""
    assert problem_of(file, grey_range) is None
    image = open_image(file, grey_range)
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


def greys(file, grey_range=None):
    """The first line of a picture that must be grey."""
    pixels = seen(file, grey_range)
    assert (pixels == pixels[..., :1]).all()
    return pixels[0, :, 0].tolist()


def refused(file, match, grey_range=None):
    """In one line, the same as a look at it says."""
    with pytest.raises(DataError, match=match) as problem:
        open_image(file, grey_range)
    assert "\n" not in str(problem.value)
    assert problem_of(file, grey_range) == str(problem.value)
