"""Files of a release that other programs read: README.md for a model hub, MLmodel for MLflow.

README.md is the card with front matter, as Hugging Face repositories have it; MLmodel is what MLflow loads a
model by. Both are functions of the classifier and its test results alone, so that `verify` can write them
again. JSON is YAML, so each value is written as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from dptransfer.base.types import JsonObject
from dptransfer.privacy import typeset
from dptransfer.release.card import best_results, card_of
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.evaluation import Evaluation


def text_files(model: PrivateClassifier, evaluation: Evaluation | None) -> dict[str, str]:
    """The content of every text file of a release but the manifest, by name."""
    evaluation = evaluation and evaluation.for_release()
    card = card_of(model, evaluation)
    return {
        "README.md": f"---\n{_yaml(hub_metadata(model, evaluation))}---\n\n{card.markdown()}",
        "card.html": card.html(),
        "MLmodel": _yaml(mlflow_metadata(model)),
    }


def hub_metadata(model: PrivateClassifier, evaluation: Evaluation | None) -> JsonObject:
    """Front matter of a model card on the Hugging Face hub."""
    about, encoder = model.provenance, model.encoder
    task = f"{input_kind(model)}-classification"
    base = None if encoder is None else re.match(r"hf:([\w.-]+/[\w.-]+)", encoder.name)
    found = {} if (best := best_results(model, evaluation)) is None else best.estimates
    metrics = [
        {"type": name.replace(" ", "_"), "name": f"{name} ({low:.1%} to {high:.1%})", "value": value}
        for name, (value, low, high) in found.items()
    ]
    result = {
        "task": {"type": task},
        "dataset": {"type": "private", "name": about.title or "private test examples"},
        "metrics": metrics,
    }
    metadata = {
        "library_name": "dptransfer",
        "pipeline_tag": task,
        "license": about.license or None,
        "base_model": None if base is None else base[1],
        "tags": ["differential-privacy", about.method, *["not-private"] * model.seeded],
        "model-index": [{"name": about.title or about.method, "results": [result]}] if metrics else None,
        **_promise(model),
    }
    return {name: value for name, value in metadata.items() if value is not None}


def mlflow_metadata(model: PrivateClassifier) -> JsonObject:
    """What MLflow reads before it loads the model by `dptransfer.mlflow`."""
    software = model.provenance.versions
    rows = {"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, model.dimension]}}
    labels = {"type": "string", "name": "label", "required": True}
    set_options = {"name": "coverage", "type": "double", "default": None, "shape": None}
    columns = {"inputs": [rows], "outputs": [labels], "params": [set_options]}
    return {
        "flavors": {
            "python_function": {
                "loader_module": "dptransfer.mlflow",
                "data": ".",
                "python_version": software.get("python", ""),
            },
            "dptransfer": {"dptransfer_version": software.get("dptransfer", "")},
        },
        "signature": {name: json.dumps(column) for name, column in columns.items()},
        "utc_time_created": model.provenance.created[:19].replace("T", " "),
        "metadata": _promise(model),
    }


def input_kind(model: PrivateClassifier) -> str:
    """'image' or 'text', by the model's encoder; 'tabular' for rows of none."""
    if model.encoder is None:
        return "tabular"
    return "text" if " tokens of vocabulary " in model.encoder.transform else "image"


def _promise(model: PrivateClassifier) -> JsonObject:
    promise = model.guarantee
    return {
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "relation": promise.relation.value,
        "unit": promise.unit.words,
        "guarantee": typeset(str(promise)),
    }


def _yaml(fields: Mapping[str, object]) -> str:
    """One line for each field; a field of fields has its own lines, indented."""
    lines = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            inner = _yaml(value).splitlines()
            lines += [f"{name}:", *(f"  {line}" for line in inner)]
        else:
            lines.append(f"{name}: {yaml_scalar(value)}")
    return "\n".join([*lines, ""])


def yaml_scalar(value: object) -> str:
    """A value as YAML 1.1 and 1.2 read it: as JSON writes it, but that 1e-05 would be a string.

    >>> yaml_scalar(1e-05), yaml_scalar("ε: 1")
    ('1.0e-05', '"ε: 1"')
    """
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("^([0-9]+)e", r"\1.0e", text) if isinstance(value, float) else text
