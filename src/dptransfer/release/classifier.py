"""The fitted classifier, which is public: what `fit` returns, what a release holds, what predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from dptransfer.base.types import AnyArray, Floats, Integers, JsonObject
from dptransfer.data.facts import EncoderIdentity, Facts
from dptransfer.data.labels import Labelled, class_positions
from dptransfer.data.sharded_rows import ShardedRows
from dptransfer.errors import DataError, ReleaseError
from dptransfer.exact.cuda import map_slabs, use_cuda
from dptransfer.exact.feature_map import FittedFeatures, apply, apply_on_device, require_width
from dptransfer.privacy import Event, Guarantee, rounded_up
from dptransfer.release.heads import Head, head_arrays, scores_on_device

if TYPE_CHECKING:
    from dptransfer.encoders.encoder import EncoderDelta
    from dptransfer.privacy.witnesses import Witnesses
    from dptransfer.release.calibration import Calibration
    from dptransfer.release.charged_evaluation import ChargedEvaluation
    from dptransfer.release.prediction_sets import PredictionSets

CHUNK = 4096
"""Rows that are scored at a time on a CPU."""
_DEVICE_ELEMENTS = 2**24  # of a slab of rows on a GPU: 128 MiB in float64, of which it holds a few


@dataclass(frozen=True)
class Provenance:
    """How a classifier came to be, as far as it may be told.

    Attributes:
        method: the method's command-line name.
        configuration: its settings, JSON-ready.
        seeded: whether the noise came from a seed, so that anyone with the seed can remove it.
        notes: reasons for choices made from public facts, for the card.
        public: what is known of the public rows: their name, fingerprint, count and encoder; None if none
            were used.
        ledger_head: head of the ledger's hash chain after the charge.
        created: UTC time, ISO 8601.
        versions: versions of this library and of those the guarantee rests on.
        prototypes: for methods that select public rows: their row numbers and, where known, their sources.
        answers: for methods whose teachers vote: the public rows that were answered, likewise, by answer.
        title: what the model or its data are called in public, if their owner says so.
        contact: whom to ask about it.
        license: of the model, as the Hugging Face hub names it, such as 'apache-2.0'.
        summary: what was released and how, in the method's own words.
        reference: where the method comes from.
        owners: of a joint release, the study and the last share of each owner (`release.owners`).
    """

    method: str
    configuration: JsonObject
    seeded: bool
    notes: tuple[str, ...] = ()
    public: Mapping[str, Any] | None = None
    ledger_head: str | None = None
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    prototypes: Mapping[str, Any] | None = None
    answers: Mapping[str, Any] | None = None
    title: str = ""
    contact: str = ""
    license: str = ""
    summary: str = ""
    reference: str = ""
    owners: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class PrivateClassifier:
    """A differentially private classifier; holds released arrays and public facts, and no private row.

    Attributes:
        head: the released arrays and the rule that scores with them.
        features: the public map in front of it.
        facts: what the data owner declared.
        events: the noisy steps that ran.
        guarantee: what those steps promise together.
        provenance: how it was made.
        encoder_delta: what was changed in a public encoder, where the rows it takes come from a changed one.
        charged: how well it does on private rows, if that was asked for and paid for.
        simulated: a calibration from public rows, which stands in as long as there is no charged evaluation.
        witnesses: noise and public canaries drawn beside the answers of the fit, to check the noise by.
    """

    head: Head
    features: FittedFeatures
    facts: Facts
    events: tuple[Event, ...]
    guarantee: Guarantee
    provenance: Provenance
    encoder_delta: EncoderDelta | None = None
    charged: ChargedEvaluation | None = None
    simulated: Calibration | None = None
    witnesses: Witnesses | None = None

    def __repr__(self) -> str:
        promise = f"ε = {rounded_up(self.guarantee.epsilon)}"
        promise += f" at δ = {rounded_up(self.guarantee.delta)}" if self.guarantee.delta else ""
        kind = f"'{self.provenance.method}', {len(self.classes)} classes, dimension {self.dimension}"
        relation = self.guarantee.relation.words(self.guarantee.unit)
        seeded = ", NOT PRIVATE: seeded" * self.seeded
        return f"{type(self).__name__}({kind}, {promise}, {relation}{seeded})"

    def _repr_html_(self) -> str:
        from dptransfer.release.card import model_summary

        return model_summary(self).fragment()

    @property
    def classes(self) -> tuple[str | int, ...]:
        """The declared classes, in order."""
        return self.facts.classes

    @property
    def dimension(self) -> int:
        """Width of the rows that it takes."""
        return self.features.input_dimension

    @property
    def seeded(self) -> bool:
        """Whether noise in it, or in its charged test results, came from a seed: then it is not private."""
        return self.provenance.seeded or (self.charged is not None and self.charged.seeded)

    @cached_property
    def calibration(self) -> Calibration | None:
        """What makes probabilities of the scores: by the charged evaluation, else by public simulation."""
        if self.charged is None:
            return self.simulated
        from dptransfer.release.calibration import calibration_of

        return calibration_of(self.charged.counts)

    @property
    def encoder(self) -> EncoderIdentity | None:
        """The encoder whose rows it takes, if on record."""
        return self.facts.encoder if self.encoder_delta is None else self.encoder_delta.identity

    @property
    def row_facts(self) -> Facts:
        """The facts that new rows must match: where it was fitted on pictures, of its encoder's rows."""
        return replace(self.facts, shape=(self.dimension,), encoder=self.encoder)

    @cached_property
    def weights(self) -> dict[str, AnyArray]:
        """The released arrays by name; the public map's are 'features.…', the encoder delta's 'encoder.…'."""
        maps = {f"features.{name}": array for name, array in self.features.arrays().items()}
        changed = {} if self.encoder_delta is None else self.encoder_delta.arrays
        return {**head_arrays(self.head), **maps, **{f"encoder.{name}": changed[name] for name in changed}}

    def scores(self, x: object, *, device: str = "cpu") -> Floats:
        """One score per example and class, higher for likelier; rows are handled in chunks.

        The answer has a line for each example, so of one picture or text it has one line.

        Args:
            x: what `dptransfer.fit` takes. Rows as the model was fitted on: an array or a memory map of any
                length, `ShardedRows` in many files, of which a chunk is read at a time, or a torch tensor.
                A path to rows, pictures or texts; the content of a picture file, a PIL image, or a list of
                these and of `Path`s; pictures as bytes (uint8), (pictures, height, width, 3), or one of them;
                a list of texts. Pictures and texts become rows by the model's encoder, as the release changes
                it; it must be one that is found by its name.
            device: 'cpu' or 'cuda'; rows that are CUDA tensors are scored where they are. Both map rows to
                the same integers and score in float64, so that scores differ by rounding alone.
        """
        return self._over_rows(x, device, lambda scores: scores, len(self.classes), np.float64)

    def predict(self, x: object, *, device: str = "cpu") -> AnyArray:
        """The likeliest declared class of each row or picture, the first of equals; as for `scores`."""
        return Labelled(self._chosen(x, device), self.classes).names

    def predict_proba(self, x: object, *, device: str = "cpu") -> Floats:
        """A probability per row and class; `calibration` says whether, and from what, they are calibrated.

        Without a calibration they are the softmax of the scores at the head's public temperature: a ranking.
        The likeliest class is the one that `predict` gives, either way.
        """
        return self.probabilities_of(self.scores(x, device=device))

    def probabilities_of(self, scores: Floats) -> Floats:
        """Probabilities in the place of these scores, as `predict_proba` has them."""
        made = probabilities if self.calibration is None else self.calibration.probabilities
        for chunk in _chunks(len(scores)):
            scores[chunk] = made(scores[chunk], self.head.temperature)
        return scores

    def predict_sets(
        self, x: object, *, coverage: float = 0.9, confidence: float = 0.95, device: str = "cpu"
    ) -> PredictionSets:
        """For each row the classes that it may well have; needs a charged evaluation, and costs nothing more.

        Args:
            x: rows, as for `scores`.
            coverage: the least share of true classes that are in their sets, among examples like those of
                the charged evaluation; of persons, where they were protected, the mean of their shares.
            confidence: the probability, over the test rows and the noise, that the sets cover so much.
            device: as for `scores`.

        Raises:
            ReleaseError: nobody has paid for an evaluation of this model on private rows.
        """
        return self.sets_of_scores(self.scores(x, device=device), coverage, confidence)

    def sets_of_scores(
        self, scores: Floats, coverage: float = 0.9, confidence: float = 0.95
    ) -> PredictionSets:
        """Prediction sets for these scores; as `predict_sets`."""
        from dptransfer.release.prediction_sets import PredictionSets, sets_of, threshold_for

        if self.charged is None:
            raise ReleaseError(
                "Prediction sets rest on a charged evaluation of the model; it has none. Fit it with a "
                "hold-out, or evaluate it on private rows with dptransfer evaluate DIR TEST --private."
            )
        threshold = threshold_for(self.charged.counts, coverage, confidence)
        members = np.empty(scores.shape, dtype=np.bool_)
        for chunk in _chunks(len(scores)):
            # The head's own softmax, which the counts are of, and no calibration that came after them.
            members[chunk] = sets_of(probabilities(scores[chunk], self.head.temperature), threshold)
        return PredictionSets(members, self.classes, threshold, coverage, confidence)

    def score(self, x: object, y: ArrayLike | Labelled, *, device: str = "cpu") -> float:
        """Accuracy on labelled rows. Test rows are not protected by the guarantee."""
        truth, chosen = class_positions(y, self.classes), self._chosen(x, device)
        if len(truth) != len(chosen) or not len(truth):
            found = f"got {len(truth)} for {len(chosen)}"
            raise DataError(f"A score needs test rows, and a label for each; {found}. Pass the labels of x.")
        return float((chosen == truth).mean())

    def save(self, path: str | Path, *, unsafe_for_publication: bool = False, **extra: Any) -> Path:
        """Write a release directory; see `dptransfer.release.bundle.write_release`."""
        from dptransfer.release.bundle import write_release

        return write_release(self, path, unsafe_for_publication=unsafe_for_publication, **extra)

    def _chosen(self, x: object, device: str) -> Integers:
        """The position of each row's likeliest class; no more than a chunk of scores is kept."""
        best = self._over_rows(x, device, lambda scores: scores.argmax(axis=1, keepdims=True), 1, np.int64)
        return best[:, 0]

    def _rows(self, x: object, device: str) -> Any:
        """Rows as they are; files, pictures and texts as the model's encoder gives them."""
        is_array = isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype.kind in "fiu"
        if is_array or isinstance(x, ShardedRows):
            return x
        from dptransfer.encoders.model_inputs import rows_for

        return rows_for(self, x, device)

    def _over_rows(
        self, x: object, device: str, answer: Callable[[Any], Any], columns: int, kind: DTypeLike
    ) -> AnyArray:
        """(rows, columns) of what `answer` makes of the scores, a chunk of rows at a time."""
        rows = self._rows(x, device)
        require_width(self.features, tuple(rows.shape))
        if use_cuda(device, rows):
            mapped, scores = apply_on_device(self.features), scores_on_device(self.head)
            step = max(1, _DEVICE_ELEMENTS // self.features.input_dimension)
            return map_slabs(rows, lambda slab: answer(scores(mapped(slab))), columns, kind, step)
        result = np.empty((len(rows), columns), dtype=kind)
        for chunk in _chunks(len(rows)):
            result[chunk] = answer(self.head.scores(apply(self.features, rows[chunk])))
        return result


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def probabilities(scores: Floats, temperature: float) -> Floats:
    """Softmax of scores ÷ `temperature`.

    >>> probabilities(np.array([[0.0, 0.0]]), temperature=1.0)
    array([[0.5, 0.5]])
    """
    logits = scores / temperature
    logits -= logits.max(axis=1, keepdims=True)
    weights: Floats = np.exp(logits)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights
