"""What may still be written on the card of a release: test results, charged or not, a title, whom to ask.

The arrays, the steps and the guarantee stay as they are. The directory is replaced as a whole, with every
checksum new, so that a reader sees the release before or after and never a mixture.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dptransfer.errors import ReleaseError
from dptransfer.release.bundle import read_evaluation, read_release, write_release
from dptransfer.release.charged_evaluation import ChargedEvaluation
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import Evaluation


def amend_release(
    path: str | Path,
    *,
    evaluation: Evaluation | None = None,
    charged: ChargedEvaluation | None = None,
    title: str | None = None,
    contact: str | None = None,
) -> Path:
    """Write the release again with these words on its card; what is not given stays as it was.

    Args:
        path: the release directory.
        evaluation: test results of this very model. Test rows are not protected, and the rows that the model
            was fitted on must never be among them: the card would tell how they were classified.
        charged: test results of this very model on private rows, paid for, with noise that nobody can
            repeat unless the model's own came from a seed. A model that was fitted with a hold-out has its
            own already.
        title: what the model or its data are called in public.
        contact: whom to ask.
    """
    model = read_release(path)
    unsafe = model.seeded  # it was written as such before, and stays stamped
    if charged is not None:
        require_room_for_results(model)
        if charged.holdout is not None:
            raise ReleaseError(
                "The results of a hold-out belong to the model whose fit held it out; these are of another. "
                "Evaluate this one: PrivateEvaluation(model).evaluate(...)."
            )
        model = replace(model, charged=charged)
    return write_release(
        model,
        path,
        unsafe_for_publication=unsafe,
        evaluation=read_evaluation(path) if evaluation is None else evaluation,
        title=title,
        contact=contact,
        overwrite=True,
    )


def require_room_for_results(model: PrivateClassifier) -> None:
    """Raise for a model whose own charged results must stay: its guarantee covers their rows too."""
    if model.charged is not None and model.charged.holdout is not None:
        raise ReleaseError(
            "A model that was fitted with a hold-out has its charged results already; others were to be put "
            "in their place. In Python, PrivateEvaluation gives them beside the release."
        )
