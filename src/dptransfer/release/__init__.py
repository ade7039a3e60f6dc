"""The fitted classifier, and the same thing as files: release directory, card, verification, ONNX.

Only the classifier and its heads are imported here; the rest is imported when it is first asked for, so that
`import dptransfer` stays fast.
"""

from typing import TYPE_CHECKING, Any

from dptransfer.base.plugins import imported
from dptransfer.release.classifier import PrivateClassifier, Provenance
from dptransfer.release.heads import (
    AverageHead,
    CosineHead,
    EuclideanHead,
    Head,
    LinearHead,
    MeanCosineHead,
    QuadraticHead,
)

if TYPE_CHECKING:
    from dptransfer.release.bundle import (
        amend_release,
        read_evaluation,
        read_release,
        release_digest,
        write_release,
    )
    from dptransfer.release.calibration import Calibration
    from dptransfer.release.card import Card, card_of
    from dptransfer.release.charged_evaluation import ChargedEvaluation
    from dptransfer.release.evaluation import Evaluation, evaluate, evaluate_scores
    from dptransfer.release.files import require_target
    from dptransfer.release.manifest import Manifest, current_versions
    from dptransfer.release.noisy_counts import Estimate, NoisyCounts
    from dptransfer.release.onnx_export import export_onnx
    from dptransfer.release.prediction_sets import PredictionSets
    from dptransfer.release.verify import Check, Verification, verify_files

__all__ = [
    "AverageHead",
    "Calibration",
    "Card",
    "ChargedEvaluation",
    "Check",
    "CosineHead",
    "Estimate",
    "EuclideanHead",
    "Evaluation",
    "Head",
    "LinearHead",
    "Manifest",
    "MeanCosineHead",
    "NoisyCounts",
    "PredictionSets",
    "PrivateClassifier",
    "Provenance",
    "QuadraticHead",
    "Verification",
    "amend_release",
    "card_of",
    "current_versions",
    "evaluate",
    "evaluate_scores",
    "export_onnx",
    "read_evaluation",
    "read_release",
    "release_digest",
    "require_target",
    "verify_files",
    "verify_release",
    "write_release",
]

_HOMES = {
    "bundle": ("amend_release", "read_evaluation", "read_release", "release_digest", "write_release"),
    "calibration": ("Calibration",),
    "card": ("Card", "card_of"),
    "charged_evaluation": ("ChargedEvaluation",),
    "evaluation": ("Evaluation", "evaluate", "evaluate_scores"),
    "files": ("require_target",),
    "manifest": ("Manifest", "current_versions"),
    "noisy_counts": ("Estimate", "NoisyCounts"),
    "onnx_export": ("export_onnx",),
    "prediction_sets": ("PredictionSets",),
    "verify": ("Check", "Verification", "verify_files"),
}
_PLACES = {name: f"{__name__}.{home}:{name}" for home, names in _HOMES.items() for name in names}
_PLACES["verify_release"] = "dptransfer.methods.replan:verify_release"  # it plans, which is above this layer


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return imported(_PLACES[name])


def __dir__() -> list[str]:
    return sorted(__all__)
