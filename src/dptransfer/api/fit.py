"""The request for a fit: what is private and public, the method, the budget; planned, checked and run.

The command line, `dptransfer.fit`, the scikit-learn classifier and the laboratory all build a `Fit`, so
that one refuses what the others refuse. `Fit.open` reads and checks everything that can fail before a charge;
then `OpenFit.run` charges the ledger and fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from numpy.typing import ArrayLike

from dptransfer.api.image_source import private_images, public_images, require_images, test_images
from dptransfer.api.source import EncodedBeside, Given, Source
from dptransfer.data import Facts, Labelled, PrivateData, PublicData, PublicEmbeddings
from dptransfer.data.embeddings import PoolOutline, RowsNeeded
from dptransfer.data.labels import Classes
from dptransfer.encoders.registry import Reading
from dptransfer.errors import ArgumentError, DataError
from dptransfer.ledger import Ledger
from dptransfer.methods import Auto, ImageMethod, PrivateMethod
from dptransfer.methods.auto import MEASURED_WITH, AutoOnPictures, calibrate_on_public, pixels_pay
from dptransfer.methods.configuration import as_method
from dptransfer.methods.fitting import FitPlan
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, Unit

if TYPE_CHECKING:
    from dptransfer.api.checkup import Checkup
    from dptransfer.base.workers import Workers
    from dptransfer.encoders import Encoder
    from dptransfer.methods.deep.network import Network
    from dptransfer.release import Evaluation, PrivateClassifier
    from dptransfer.sources import PublicImages


Pool: TypeAlias = PublicEmbeddings | None
Step: TypeAlias = Callable[[], None]
_OF_A_RUN = ("budget", "holdout", "new_data_set", "workspace", "witnesses")
"""What of a request its method is told."""


@dataclass(frozen=True, eq=False)
class OpenFit:
    """A fit whose data were read and checked; nothing is charged yet.

    Attributes:
        request: what was asked for.
        method: the method that will run.
        private: the private examples.
        public: the public ones, if any.
        ledger: what will be charged.
        plan: what the fit costs, where it could be planned before the rows were there.
        network: of a method on pixels, the one that it may change.
        evaluate: tests a model on the unprotected test set, if there is one.
        remove_rows: removes rows that were encoded for the fit, so that none outlives a release.
    """

    request: Fit
    method: PrivateMethod
    private: PrivateData
    public: PublicData | None
    ledger: Ledger
    plan: FitPlan | None = None
    network: Network | None = None
    evaluate: Callable[[PrivateClassifier], Evaluation] | None = None
    remove_rows: Step = lambda: None

    def run(self, noise: NoiseSource | None = None) -> PrivateClassifier:
        """Charge the ledger, fit, and calibrate where public rows allow for it."""
        request = self.request
        asked = {name: getattr(request, name) for name in _OF_A_RUN}
        rows = self.private, self.public
        model = self.method.fit(*rows, ledger=self.ledger, noise=noise, plan=self.plan, **asked)
        if request.calibrate:
            with suppress(KeyboardInterrupt):  # the model is paid for: an interruption here must not lose it
                model = calibrate_on_public(model, self.public, budget=request.budget)
        return model

    def with_test(self, tested: PublicEmbeddings | PublicImages, labels: Labelled, name: str) -> OpenFit:
        """The same fit with a test set; private examples in it are refused.

        After the charge nothing may depend on private examples, so this is asked now.
        """
        from dptransfer.encoders import encode_pixels
        from dptransfer.release.evaluation import evaluate_model

        new, method = self.request.new_data_set, self.method
        self.ledger.require_unrelated(tested, private=self.private, new_data_set=new)

        def evaluate(model: PrivateClassifier) -> Evaluation:
            if isinstance(tested, PublicEmbeddings) or not isinstance(method, ImageMethod):
                return evaluate_model(model, tested, labels, name=name)
            encoder = method.encoder_after(model.facts.encoder, model.encoder_delta)
            return evaluate_model(model, encode_pixels(tested.pixels, encoder), labels, name=name)

        return replace(self, evaluate=evaluate)


@dataclass(frozen=True, eq=False)
class Fit:
    """A request: `plan` says what it would cost, `open` reads and checks, `run` charges and fits.

    Attributes:
        private: the private examples.
        budget: what the fit may cost.
        method: a method, or its command-line name.
        public: the public pool.
        shots: a few labelled public rows beside it.
        test: labelled examples for an evaluation that does not protect them.
        vocabulary: labels of the encoder for the public rows, as a file or the name of an encoder.
        holdout: the chance with which an example, or a person, is kept from the fit to check it.
        workers: what processes public rows; this process if None.
        new_data_set: the owner's word that examples on record under another name are other people's here.
        workspace: a folder from which a killed fit goes on.
        calibrate: whether probabilities are calibrated on public rows, where these allow for it.
        witnesses: whether noise is drawn beside the answers, to check it by (`privacy.witnesses`).
    """

    private: Source
    budget: Budget
    method: str | PrivateMethod = "auto"
    public: Source | None = None
    shots: Source | None = field(default=None, kw_only=True)
    test: Source | None = field(default=None, kw_only=True)
    vocabulary: str | None = field(default=None, kw_only=True)
    holdout: float | None = field(default=None, kw_only=True)
    workers: Workers | None = field(default=None, kw_only=True)
    new_data_set: bool = field(default=False, kw_only=True)
    workspace: Path | None = field(default=None, kw_only=True)
    calibrate: bool = field(default=True, kw_only=True)
    witnesses: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        others = {"public (--public)": self.public, "shots (--shots)": self.shots, "test (--test)": self.test}
        for option, source in others.items():
            if source is not None:
                source.require_other_than(self.private, option)

    def run(self, ledger: Ledger | None = None, noise: NoiseSource | None = None) -> PrivateClassifier:
        """Read, check, charge the ledger once, and fit."""
        with self.open(ledger) as ready:
            return ready.run(noise)

    def check(self) -> Checkup:
        """What is wrong with the data, for their owner's eyes alone; nothing is charged."""
        from dptransfer.api.checkup import check

        sets, budget = (self.private, self.public, self.test), self.budget
        epsilons = (1.0, 4.0) if budget.epsilon is None else budget.epsilon
        return check(*sets, epsilons=epsilons, delta=budget.delta, workers=self.workers)

    def plan(self) -> FitPlan:
        """What the fit would do and cost; nothing is charged.

        Of the private examples their public facts alone go in. Images and texts are not encoded where the
        plan does not need public rows.
        """
        method = self._method_for_sources()
        if isinstance(method, ImageMethod):
            side, greys = method.network().side, method.grey_range
            images = private_images(self.private, side, greys)
            public = None if self.public is None else public_images(self.public, side, greys)
            method.require_public(images.facts, public)
            return method.plan_fit(images.facts, self.budget, public, holdout=self.holdout)
        facts = self.private.facts()
        with EncodedBeside(self._out()) as beside:
            outline = None if facts is None else self._outline()
            if facts is not None and outline is not None:
                with suppress(RowsNeeded):
                    return method.plan_fit(facts, self.budget, outline, holdout=self.holdout)
            pool = self._pool(beside)
            facts = self.private.private(beside).facts if facts is None else facts
            rows = with_shots(pool, self.shots, facts.classes)
            method.require_public(facts, rows)
            if rows is not None:
                rows.require_match(facts)
            return method.plan_fit(facts, self.budget, rows, holdout=self.holdout)

    @contextmanager
    def open(
        self, ledger: Ledger | None = None, *, out: Path | None = None, before_encoding: Step = lambda: None
    ) -> Iterator[OpenFit]:
        """Read and check everything that can fail before a charge.

        Args:
            ledger: what will be charged; the user's default ledger file if None.
            out: what the fit is for; rows that are encoded meanwhile are called by it.
            before_encoding: called when mistakes in options and files would have been found, before minutes
                of encoding; it may raise.
        """
        if self.workers is not None:
            self.workers.ready()
        method = self._method_for_sources()
        ledger = Ledger.default() if ledger is None else ledger
        with EncodedBeside(out or self._out()) as beside:
            if isinstance(method, ImageMethod):
                before_encoding()
                yield self._on_images(method, ledger)
            else:
                yield self._on_rows(method, ledger, beside, before_encoding)

    def _on_rows(
        self, method: PrivateMethod, ledger: Ledger, beside: EncodedBeside, before_encoding: Step
    ) -> OpenFit:
        private = self.private
        encoder = private.encoder  # before rows, so that options that do not fit them are refused
        if encoder is not None:
            before_encoding()
            ledger.require_new_sources(private.source_digests, private.name, new_data_set=self.new_data_set)
        # A run that goes on in a workspace may have its charge already.
        early = None if private.name is None or self.workspace is not None else private.facts()
        plan = None
        if early is not None and (outline := self._outline()) is not None:
            plan = self._affordable_plan(method, early, outline, ledger)
        pool = self._pool(beside)
        known = private.classes if early is None else early.classes
        public = with_shots(pool, self.shots, known)
        if early is not None and plan is None:
            plan = self._affordable_plan(method, early, public, ledger)
        rows = private.private(beside)
        if known != rows.facts.classes:
            public = with_shots(pool, self.shots, rows.facts.classes)
        if public is not None and self.workers is not None:
            public = public.with_workers(self.workers)
        if plan is not None and plan.facts != rows.facts:  # a file may tell more than its name
            plan = None
        ready = OpenFit(self, method, rows, public, ledger, plan, remove_rows=beside.close)
        return ready if self.test is None else ready.with_test(*self.test.test(rows.facts, encoder))

    def _on_images(self, method: ImageMethod, ledger: Ledger) -> OpenFit:
        network, greys = method.network(), method.grey_range
        public = None if self.public is None else public_images(self.public, network.side, greys)
        private = private_images(self.private, network.side, greys)
        ready = OpenFit(self, method, private, public, ledger, network=network)
        return ready if self.test is None else ready.with_test(*test_images(self.test, method, private.facts))

    def _method_for_sources(self) -> PrivateMethod:
        """The method, once all sources are there and of a form that it takes."""
        sources = [one for one in (self.private, self.public, self.test, self.shots) if one is not None]
        for source in sources:
            source.require_there()
        method = self.resolved_method()
        if isinstance(method, ImageMethod):
            if self.shots is not None or self.vocabulary is not None:
                odd = "--shots and --set data.vocabulary are for methods on rows"
                raise ArgumentError(f"{odd}; '{method.name}' takes images. Leave them out.")
            for source in sources:
                require_images(source, method)
        return method

    def resolved_method(self) -> PrivateMethod:
        """The method, with what the source says about reading where it works on pixels."""
        method, reading = as_method(self.method), self.private.reading
        if isinstance(method, Auto) and self._is_for_pixels(method):
            method = AutoOnPictures(
                size=reading.size, device=str(reading.device), grey_range=reading.grey_range
            )
        if isinstance(method, ImageMethod):
            method = with_reading(method, reading)
        return method

    def _is_for_pixels(self, method: Auto) -> bool:
        """Whether `film` on pixels is expected to do better than any method on rows.

        Training a network takes hours without a GPU, so it is not begun there unless asked for by name.
        """
        reading, source = self.private.reading, self.private
        measured = reading.encoder in (None, MEASURED_WITH)
        if method.candidates or not measured or reading.device in (None, "cpu"):
            return False
        sources = (source, self.public, self.shots, self.test)
        if source.path is None or any(one is not None and one.form != "images" for one in sources):
            return False
        classes = source.class_list or source.find("image", labelled=True).classes
        if classes is None:
            return False
        unit = Unit.ROW if source.told_people is None else Unit.PERSON
        size, counts = source.declared.get("size"), source.declared.get("class_counts")
        return pixels_pay(Facts(classes, (1, 1, 3), size, counts, unit=unit), self.budget)[0]

    def _outline(self) -> PoolOutline | None:
        if self.public is None or self.shots is not None or self.vocabulary is not None:
            return None
        return self.public.outline(self.private)

    def _pool(self, beside: EncodedBeside) -> Pool:
        """The public rows, with the labels of their encoder where some are named."""
        from dptransfer.encoders import vocabulary

        pool = None if self.public is None else self.public.public(self.private.encoder, beside)
        if self.vocabulary is None:
            return pool
        if pool is None:
            raise ArgumentError("data.vocabulary labels public rows; there are none. Pass --public too.")
        return pool.with_vocabulary(vocabulary(self.vocabulary))

    def _affordable_plan(
        self, method: PrivateMethod, facts: Facts, public: Pool, ledger: Ledger
    ) -> FitPlan | None:
        """The plan, or None where it needs public rows; raises where the ledger would refuse the charge.

        The charge asks again: this only spares minutes of encoding.
        """
        try:
            plan = method.plan_fit(facts, self.budget, public, holdout=self.holdout)
        except RowsNeeded:
            return None
        ledger.require_room(str(self.private.name), plan.events)
        return plan

    def _out(self) -> Path:
        return Path("fit-" + re.sub(r"\W+", "-", self.private.name or "unnamed"))


def with_shots(pool: Pool, shots: Source | None, classes: Classes | None) -> Pool:
    """The pool with labelled public rows beside it; without a pool these are the public rows.

    Args:
        pool: the public pool, if there is one.
        shots: the labelled public rows, if there are some.
        classes: the list that their labels refer to, if known.
    """
    if shots is None:
        return pool
    shots.require_rows()
    try:
        rows = shots.public(classes=classes)
    except DataError as problem:
        raise DataError(f"--shots: {problem}") from problem
    if rows.labels is None:
        raise DataError(f"--shots needs labelled rows; {shots!r} has no labels. Pass them as --public.")
    return rows if pool is None else pool.with_shots(rows)


def with_reading(method: ImageMethod, reading: Reading) -> ImageMethod:
    """The method, or each of its candidates, with what was said about reading."""
    names = ("encoder", "size", "device", "grey_range")
    given = {name: value for name in names if (value := getattr(reading, name)) is not None}
    changed: Any = method
    if candidates := getattr(method, "candidates", ()):
        given = {"candidates": tuple(replace(one, **given) for one in candidates)}
    return cast(ImageMethod, replace(changed, **given))


def fit(
    x: Given | Source,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    delta: float = 1e-5,
    classes: Classes | None = None,
    name: str | None = None,
    public: Given | Source | None = None,
    people: str | Path | ArrayLike | None = None,
    method: str | PrivateMethod = "auto",
    encoder: str | Encoder | None = None,
    holdout: float | None = None,
    ledger: Ledger | None = None,
    workers: Workers | None = None,
    new_data_set: bool = False,
) -> PrivateClassifier:
    """Fit a classifier on private examples, whatever their form, and charge the ledger once.

    It does what `dptransfer fit` does: it reads or encodes the examples, fits, and calibrates where public
    rows allow for it. Nothing is written but the ledger; `model.save("model")` makes the release. Columns of
    a table, image sizes and declared sizes go into a `Source`.

    >>> import numpy as np
    >>> from dptransfer import Ledger, fit
    >>> x, y = np.eye(4)[[0, 1] * 500], ["cat", "dog"] * 500
    >>> model = fit(x, y, epsilon=1, classes=["cat", "dog"], name="pets", ledger=Ledger.in_memory())
    >>> model.predict(np.eye(4)[:2]).tolist()
    ['cat', 'dog']

    Args:
        x: the private examples, as `Source` takes them, or a `Source`.
        y: class of each example, where `x` does not tell.
        epsilon: ε of the budget.
        delta: δ of the budget; 0 for pure ε, which needs a public pool.
        classes: the full public list of classes, or a number n for 0 to n − 1; it is never inferred from
            labels. Class folders and files that declare one need none.
        name: what the ledger files the data set under; the same for every version of it.
        public: public examples of any of these forms. Labels of class folders and of public files are used
            where a method can.
        people: whose each example is. Then persons are protected, each with all their examples.
        method: its command-line name, or a method object.
        encoder: the name of one, or one that is loaded, for images and texts; by default
            'efficientnet-lite0' and 'minilm'.
        holdout: the chance with which an example, or a person, is kept from the fit to check it.
        ledger: where the fit is charged; the user's default ledger file if None.
        workers: what processes public rows, such as `Processes(4)`; this process if None.
        new_data_set: the owner's word that examples on record under another name are other people's here.

    Raises:
        BudgetExceeded: the data set's budget in the ledger does not cover this fit; no row was read.
        DataError: the examples cannot be used as they are; nothing was charged.
    """
    private = source_of(x, y, classes=classes, people=people, name=name, encoder=encoder)
    pool, budget = None if public is None else Source.of(public), Budget(epsilon=epsilon, delta=delta)
    request = Fit(private, budget, method, pool, holdout=holdout, workers=workers, new_data_set=new_data_set)
    return request.run(ledger)


def plan(
    x: Given | Source,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    delta: float = 1e-5,
    classes: Classes | None = None,
    public: Given | Source | None = None,
    people: str | Path | ArrayLike | None = None,
    method: str | PrivateMethod = "auto",
    encoder: str | Encoder | None = None,
    holdout: float | None = None,
) -> FitPlan:
    """What `fit` would do and cost with these arguments; nothing is charged.

    >>> import numpy as np
    >>> plan(np.eye(4), ["a", "b"] * 2, epsilon=1, classes=["a", "b"], method="mean").method.name
    'mean'

    Args:
        x: as for `fit`.
        y: as for `fit`.
        epsilon: as for `fit`.
        delta: as for `fit`.
        classes: as for `fit`.
        public: as for `fit`.
        people: as for `fit`.
        method: as for `fit`.
        encoder: as for `fit`.
        holdout: as for `fit`.
    """
    private = source_of(x, y, classes=classes, people=people, encoder=encoder)
    pool = None if public is None else Source.of(public)
    return Fit(private, Budget(epsilon=epsilon, delta=delta), method, pool, holdout=holdout).plan()


def source_of(
    x: Given | Source,
    y: ArrayLike | None = None,
    *,
    classes: Classes | None = None,
    people: str | Path | ArrayLike | None = None,
    name: str | None = None,
    encoder: str | Encoder | None = None,
) -> Source:
    """The private source of a call; what a `Source` says itself is not said again beside it."""
    if not isinstance(x, Source):
        return Source(x, y, classes, people, name, reading=Reading(encoder))
    if any(value is not None for value in (y, classes, people, name, encoder)):
        raise ArgumentError("A Source says its labels, classes, people, name and encoder. Leave them out.")
    return x
