"""Load a release as an MLflow model: `mlflow.pyfunc.load_model("model/")`.

The file MLmodel of a release names this module. It needs nothing of MLflow itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dptransfer.base.types import AnyArray
from dptransfer.release.bundle import read_release
from dptransfer.release.classifier import PrivateClassifier


class PythonModel:
    """A release behind MLflow's interface.

    Attributes:
        model: the classifier.
    """

    def __init__(self, model: PrivateClassifier) -> None:
        self.model = model

    def predict(
        self, model_input: Any, params: Mapping[str, Any] | None = None
    ) -> AnyArray | list[dict[str, object]]:
        """The label of each input; with `coverage` among the parameters, its prediction set as well.

        Args:
            model_input: rows as an array or a DataFrame, or what `PrivateClassifier.predict` takes: texts,
                paths or pictures, where the model's encoder is on this machine.
            params: `coverage` and `confidence` of prediction sets.
        """
        inputs = model_input.to_numpy() if hasattr(model_input, "to_numpy") else model_input
        asked = {name: value for name, value in (params or {}).items() if value is not None}
        if "coverage" not in asked:
            return self.model.predict(inputs)
        scores = self.model.scores(inputs)
        sets = self.model.sets_of_scores(scores, **asked).labels
        labels = [self.model.classes[place] for place in scores.argmax(axis=1)]
        chances = self.model.probabilities_of(scores).max(axis=1).tolist()
        return [
            {"label": label, "score": score, "set": list(members)}
            for label, score, members in zip(labels, chances, sets, strict=True)
        ]


def _load_pyfunc(path: str) -> PythonModel:
    """What MLflow calls with the release's folder."""
    return PythonModel(read_release(Path(path)))
