"""What may still be written on the card of a release: test results, a title, whom to ask.

The arrays, the steps and the guarantee stay as they are. The directory is replaced as a whole, with every
checksum new, so that a reader sees the release before or after and never a mixture.
"""

from __future__ import annotations

from pathlib import Path

from dptransfer.release.bundle import read_evaluation, read_release, write_release
from dptransfer.release.evaluation import Evaluation


def amend_release(
    path: str | Path,
    *,
    evaluation: Evaluation | None = None,
    title: str | None = None,
    contact: str | None = None,
) -> Path:
    """Write the release again with these words on its card; what is not given stays as it was.

    Args:
        path: the release directory.
        evaluation: test results of this very model. Test rows are not protected, and the rows that the model
            was fitted on must never be among them: the card would tell how they were classified.
        title: what the model or its data are called in public.
        contact: whom to ask.
    """
    model = read_release(path)
    return write_release(
        model,
        path,
        unsafe_for_publication=model.provenance.seeded,  # it was written as such before, and stays stamped
        evaluation=read_evaluation(path) if evaluation is None else evaluation,
        title=title,
        contact=contact,
        overwrite=True,
    )
