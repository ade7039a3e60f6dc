"""Base classes of methods: `plan`, `prepare` and `run`; `fit` joins them, once for all methods.

A method is a frozen dataclass of hyper-parameters with three functions of its own:

- `plan(facts, budget, public)` picks mechanisms and noise. It sees no private example, so it can be printed,
  costed and tested before anyone's record is touched.
- `prepare(facts, public)` does what needs public data alone, such as fitting a feature map.
- `run(task)` executes the plan of a `Task`. It is the only reader of private examples.

`fit` joins them in the one order that keeps the promise: whatever can fail on public grounds fails first, the
ledger is charged before an example is read for an answer (a data set without a name is hashed to find its
account), and what comes out is checked to have cost what was charged.

Methods on the rows of an encoder derive from `EmbeddingMethod`, those that must see pixels from
`ImageMethod`. The joining itself is `methods.fitting`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar, final

import numpy as np

from dptransfer import encoders
from dptransfer.accounting import guarantee_of, noise_multiplier_for, warn_if_weak
from dptransfer.base.types import AnyArray, Integers, Labels, People
from dptransfer.data import Facts, PrivateData, PrivateEmbeddings, PublicData, PublicEmbeddings, grey_levels
from dptransfer.errors import ArgumentError, DPTransferError, Incompatible
from dptransfer.exact import chunks, vocabulary_map
from dptransfer.exact.feature_map import Arrays, Features, FittedFeatures, UnitNorm
from dptransfer.exact.lattice import LARGEST_DIMENSION
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import Step
from dptransfer.methods.about import About, Whole, check_settings
from dptransfer.methods.charging import with_defaults
from dptransfer.methods.deep.network import Network, network_of
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, Event, Guarantee, Relation, Unit
from dptransfer.release import classifier, heads
from dptransfer.sources import PrivateImages, PublicImages

if TYPE_CHECKING:
    from dptransfer.data.facts import EncoderIdentity
    from dptransfer.encoders import Encoder, EncoderDelta
    from dptransfer.methods.fitting import FitPlan


OneStep = TypeVar("OneStep")
_MOST_LISTED = 10  # steps of a plan; the rest is counted


@dataclass(frozen=True, eq=False)
class Plan:
    """Noisy steps of a fit and what they guarantee; made without data.

    Attributes:
        method: the method that will run (for `Auto`, the one it chose).
        mechanisms: the noisy steps, in order; `run` may sharpen their queries with public or released values.
        guarantee: what they promise together.
        notes: reasons for choices, for the user and the card.
    """

    method: PrivateMethod
    mechanisms: tuple[Step, ...]
    guarantee: Guarantee
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Plan('{self.method.name}', noisy steps: {len(self.mechanisms)}, {self.guarantee!r})"

    def _repr_html_(self) -> str:
        """The promise, the noisy steps and the reasons for choices, as notebooks show them."""
        from dptransfer.base.document import Block, Bullets, Document, Paragraph, Section, Table

        steps = [(event.label, *event.table_row()) for event in self.events[:_MOST_LISTED]]
        if len(self.events) > _MOST_LISTED:
            steps.append((f"and {len(self.events) - _MOST_LISTED} more", "", ""))
        none = Paragraph("No private row is used: there is no noisy step.")
        blocks: list[Block] = [Table(("Releases", "Noise", "Detail"), tuple(steps)) if steps else none]
        if self.notes:
            blocks.append(Bullets(self.notes))
        section = Section("What would run", tuple(blocks))
        footer = "No private row was read, and nothing is charged."
        title = f"Plan of '{self.method.name}'"
        return Document(title, self.guarantee.in_short, sections=(section,), footer=footer).fragment()

    @property
    def events(self) -> tuple[Event, ...]:
        """What the steps cost, as events."""
        return tuple(mechanism.event for mechanism in self.mechanisms)

    def single_step(self, kind: type[OneStep]) -> OneStep:
        """The plan's one step, which must be of this kind."""
        (found,) = self.mechanisms
        if not isinstance(found, kind):
            raise TypeError(f"the step is a {type(found).__name__}, and not a {kind.__name__}")
        return found


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a run: released values only.

    Attributes:
        head: the classifier's last layer.
        events: the events of the mechanisms that really ran.
        prototypes: row numbers of public rows that were selected, by class, where the method selects some.
        notes: what the run decided from released values, for the card.
        features: the map in front of the head, where it is another than `prepare` gave.
        encoder_delta: what the run changed in a public encoder, whose rows the map then takes.
        encoder: of a run on pictures, the unchanged public encoder whose rows the map takes.
        answers: positions of public examples that teachers answered for, by the class of the answer.
    """

    head: heads.Head
    events: tuple[Event, ...]
    prototypes: Sequence[Sequence[int]] | None = None
    notes: tuple[str, ...] = ()
    features: FittedFeatures | None = None
    encoder_delta: EncoderDelta | None = None
    encoder: EncoderIdentity | None = None
    answers: Sequence[Sequence[int]] | None = None


Prepared = TypeVar("Prepared")
Private = TypeVar("Private", bound=PrivateData)
Public = TypeVar("Public")


@dataclass(frozen=True, eq=False)
class Task(Generic[Prepared, Private, Public]):
    """Arguments of a run.

    Attributes:
        plan: what was charged.
        prepared: what `prepare` returned; of an `EmbeddingMethod` the fitted feature map.
        private: the private examples.
        noise: the source of all noise, by way of the plan's mechanisms.
        public: the public examples.
    """

    plan: Plan
    prepared: Prepared
    private: Private
    noise: NoiseSource
    public: Public

    @property
    def facts(self) -> Facts:
        """What is declared of the private examples."""
        return self.private.facts

    @property
    def examples(self) -> tuple[AnyArray, Labels, People | None]:
        """Rows, their labels and whose they are, in the order in which mechanisms take them."""
        private: Any = self.private
        return private.rows, private.labels, private.people


RowsTask: TypeAlias = Task[FittedFeatures, PrivateEmbeddings, PublicEmbeddings | None]
"""Of most methods on rows."""


@dataclass(frozen=True)
class Outline:
    """Stands in for a feature map that is not fitted yet: a plan needs its width alone."""

    dimension: int
    input_dimension: int = 0
    kind: ClassVar[str] = "outline"

    def lattice(self, rows: AnyArray, norm: int) -> Integers:
        """A plan has no rows."""
        raise AssertionError("a plan must not read rows")

    def arrays(self) -> Arrays:
        """It has none."""
        return {}

    settings = arrays


@dataclass(frozen=True)
class PrivateMethod(ABC):
    """Base of every method: hyper-parameters, `plan`, `prepare` and `run`; `fit` is final."""

    name: ClassVar[str]
    about: ClassVar[About]
    takes: ClassVar[type[PrivateData]]
    """The kind of private data it fits on."""
    takes_public: ClassVar[type[PublicData]]
    """The kind of public data that goes with them."""
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW,)
    """What it protects: queries bound what one such unit contributes."""
    rows_only: ClassVar[str] = ""
    """Why it protects no person, in words, where it does not."""
    needs_public: ClassVar[bool] = False
    plans_by_facts: ClassVar[bool] = False
    """Whether classes, shape or sizes change what a plan costs, beyond the arithmetic of its grid."""
    assumptions: ClassVar[tuple[str, ...]] = (
        "classes, bounds and settings were fixed without looking at the data",
    )

    @property
    def questions_at_once(self) -> int:
        """How many questions it has in all, if none depends on an earlier answer; else 1."""
        return 1

    def __post_init__(self) -> None:
        """Refuse bad settings before anything is charged; NumPy's numbers become Python's."""
        for item in fields(self):
            object.__setattr__(self, item.name, _plain(getattr(self, item.name)))
        check_settings(self)

    def __init_subclass__(cls, **keywords: object) -> None:
        """A class with a name of its own has a description of its own, complete as soon as it is defined."""
        super().__init_subclass__(**keywords)
        if {"name", "about"} & vars(cls).keys():
            cls.about = vars(cls).get("about", About()).complete(cls.name, cls.__doc__)

    @abstractmethod
    def plan(self, facts: Facts, budget: Budget, public: Any = None) -> Plan:
        """Pick mechanisms and noise for this budget; sees public facts only."""

    def with_words(self, public: Any, facts: Facts) -> Any:
        """Add to public data what the method takes from their encoder; `run` gets the result."""
        return public

    def prepare(self, facts: Facts, public: Any) -> Any:
        """All public work, done before anything is charged; what it returns is handed to `run`."""
        return None

    @abstractmethod
    def run(self, task: Task[Any, Any, Any], /) -> Outcome:
        """Execute the plan; the only reader of private examples."""

    def rows_for_head(self, private: Any, outcome: Outcome) -> AnyArray:
        """Rows of private examples as a run's head takes them, each a function of its example alone."""
        rows: AnyArray = private.rows
        return rows

    @final
    def plan_fit(
        self, facts: Facts, budget: Budget, public: PublicData | None = None, *, holdout: float | None = None
    ) -> FitPlan:
        """What `fit` would charge for, with the check of a hold-out; from public facts alone."""
        from dptransfer.methods.fitting import FitPlan

        return FitPlan.make(self, facts, budget, public, holdout)

    @final
    @chunks.plain_floats()  # no flag or filter of the caller's changes what is computed, or makes rows tell
    def fit(
        self,
        private: PrivateData,
        public: PublicData | None = None,
        *,
        budget: Budget,
        ledger: Ledger | None = None,
        noise: NoiseSource | None = None,
        new_data_set: bool = False,
        workspace: str | os.PathLike[str] | None = None,
        holdout: float | None = None,
        plan: FitPlan | None = None,
        witnesses: bool = True,
    ) -> classifier.PrivateClassifier:
        """Plan, prepare, charge the ledger, run, and wrap the result.

        Args:
            private: the sensitive examples, of the kind that the method takes.
            public: the public ones, for methods that use some.
            budget: what this fit may cost.
            ledger: where it is charged; the user's default ledger file if not given.
            noise: `SecureNoise()` if not given.
            new_data_set: the owner's word that rows on record under another name, private or public ones of
                this fit, are other people's here.
            workspace: a folder for a run of hours. Killed, it goes on when `fit` is called again with the
                same arguments: one charge, no answer drawn twice (see `methods.checkpoint`). It is private;
                delete it once the model is saved.
            holdout: keep each unit, an example or a person, from the fit with this chance and check the
                result on those kept, inside the one charge (see `methods.fitting`); the model then carries
                how well it does, as `charged`. Under add/remove that costs nothing more.
            plan: what `plan_fit` returned for the same facts, budget, public data and hold-out; then nothing
                is planned twice.
            witnesses: draw some more noise beside each Gaussian answer, by which whoever has the release
                checks that it was drawn (`privacy.witnesses`): no privacy, no accuracy, 33 kB.

        Raises:
            BudgetExceeded: the data set's budget in the ledger does not cover this fit; no row was read.
            RowsOnRecord: the ledger knows these rows under another name. For the owner's eyes only.
            PrivateOverlap: public examples are private ones of this fit, or of a set on record. For the
                owner's eyes only.
            BudgetError: the budget cannot pay for this method, or promises nothing.
            WorkspaceError: the run cannot go on from this workspace. For the owner's eyes only.

        Warns:
            PrivacyWarning: the budget promises little, by its numbers and the declared size alone.
        """
        from dptransfer.methods.fitting import fit_planned

        ledger, noise = with_defaults(budget, ledger, noise)
        self.require_data(private, public)
        warn_if_weak(budget, private.facts.declared_units, stacklevel=3)  # past `plain_floats`
        if plan is None:
            plan = self.plan_fit(private.facts, budget, public, holdout=holdout)
        else:
            plan.require_made_for(self, private.facts, budget, public, holdout)
        plan.require_honest()
        return fit_planned(plan, private, public, ledger, noise, new_data_set, workspace, witnesses)

    def require_public(self, facts: Facts, public: Any) -> None:
        """Raise, before anything is charged, if the public data a run needs are not there."""
        if self.needs_public and public is None:
            rows = "rows", "--public pool.emb, labelled ones --shots shots.emb"
            what, how = ("pictures", "--public pictures/") if self.takes_public is PublicImages else rows
            raise ArgumentError(
                f"The method '{self.name}' needs public {what}; none were given. "
                f"Pass public={self.takes_public.__name__}(...), or on the command line {how}."
            )

    def make_plan(self, mechanisms: Sequence[Step], budget: Budget, unit: Unit | None = None) -> Plan:
        """A plan of these steps, with the guarantee computed from their own events; none cost nothing.

        Without a step there is no event to tell the unit, so it is given.
        """
        events = [mechanism.event for mechanism in mechanisms]
        guarantee = guarantee_of(events, budget.delta, self.assumptions, relation=budget.relation, unit=unit)
        return Plan(self, tuple(mechanisms), guarantee)

    def calibrated_plan(self, steps: Callable[[float], Sequence[Step]], budget: Budget) -> Plan:
        """The plan of `steps(z)` at the smallest noise multiplier z whose events fit the budget."""
        multiplier = noise_multiplier_for(budget, lambda z: [step.event for step in steps(z)])
        return self.make_plan(steps(multiplier), budget)

    def require_unit(self, facts: Facts) -> None:
        """Raise if the data are to protect a unit whose contribution the method does not bound."""
        if facts.unit not in self.units:
            bounded = " or ".join(f"one {unit.words}" for unit in self.units)
            why = f" ({self.rows_only})" if self.rows_only else ""
            raise ArgumentError(
                f"The method '{self.name}' bounds what {bounded} contributes{why}; the data are to protect "
                f"one {facts.unit.words}. Declare a unit that it bounds, or choose another method."
            )

    def require_data(self, private: PrivateData, public: PublicData | None) -> None:
        """Raise for data of a kind, or with a unit, that the method is not made for."""
        if not isinstance(private, self.takes):
            remedy = f"Example: {self.takes.__name__}(x, y, classes=['a', 'b'])."
            if isinstance(private, PrivateImages):
                remedy = "Encode the pictures first, or choose a method for pictures."
            raise ArgumentError(
                f"private must be {self.takes.__name__} for the method '{self.name}'; got "
                f"{type(private).__name__}. {remedy}"
            )
        self.require_unit(private.facts)
        if public is None:
            return
        if not isinstance(public, self.takes_public):
            wanted, found = self.takes_public.__name__, type(public).__name__
            raise ArgumentError(
                f"public must be {wanted} for the method '{self.name}'; got {found}. Give data that are "
                f"nobody's secret, as {wanted}(x)."
            )
        public.require_match(private.facts)


def _plain(setting: object) -> object:
    """The setting, or the part with settings of its own, without NumPy's numbers: JSON knows none of them.

    And those of few bits would lose what is computed from them.
    """
    if isinstance(setting, np.generic):
        return setting.item()
    if isinstance(setting, tuple) and any(isinstance(one, np.generic) for one in setting):
        return tuple(map(_plain, setting))
    if not is_dataclass(setting) or isinstance(setting, type | PrivateMethod):
        return setting
    own = {item.name: getattr(setting, item.name) for item in fields(setting) if item.init}
    changed = {name: plain for name, value in own.items() if (plain := _plain(value)) is not value}
    return replace(setting, **changed) if changed else setting


def _feature_map(name: str, value: object) -> object:
    if isinstance(value, type) or not hasattr(value, "output_dimension"):
        raise ArgumentError(f"{name} must be a feature map, such as PublicMap(axes=64); got {value!r}.")
    return value


@dataclass(frozen=True)
class EmbeddingMethod(PrivateMethod):
    """Base of the methods that learn from the rows of a frozen encoder.

    Attributes:
        features: the public feature map in front of the method.
    """

    features: Annotated[Features, _feature_map] = field(default_factory=UnitNorm)

    takes: ClassVar[type[PrivateData]] = PrivateEmbeddings
    takes_public: ClassVar[type[PublicData]] = PublicEmbeddings
    reads_words: ClassVar[bool] = False
    """Whether it uses the words of the rows' encoder where it has some, whatever its feature map."""

    @property
    def takes_words(self) -> bool:
        """Whether the method, or its feature map, reads the words of an encoder."""
        return self.reads_words or isinstance(self.features, vocabulary_map.VocabularyMap)

    def with_words(self, public: PublicEmbeddings | None, facts: Facts) -> PublicEmbeddings | None:
        """Add the words of the encoder on record, for methods that read them."""
        if public is None or not self.takes_words:
            return public
        found = encoders.with_known_vocabulary(public)
        # Beside axes, rows in more words would be too wide for exact norms; that must not show in a run.
        wide = found.vocabulary is not None and len(found.vocabulary) > LARGEST_DIMENSION // 2
        return found.with_vocabulary(None) if self.reads_words and wide else found

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Raise, besides, if those who are to work on public rows cannot begin."""
        super().require_public(facts, public)
        if public is not None:
            public.workers.ready()

    def prepare(self, facts: Facts, public: PublicEmbeddings | None) -> Any:
        """Fit the feature map."""
        return self.features.fit(facts.dimension, self.with_words(public, facts))

    def outline(self, facts: Facts, public: PublicEmbeddings | None) -> Outline:
        """The feature map's width, for planning."""
        width = self.features.output_dimension(facts.dimension, self.with_words(public, facts))
        return Outline(width, facts.dimension)


@dataclass(frozen=True)
class ImageMethod(PrivateMethod):
    """Base of the methods that must see pixels; their outcome brings its own feature map.

    Attributes:
        encoder: the public encoder whose network it works with, as `get_encoder` takes it.
        size: side of the pictures, for encoders that leave it open.
        device: where it computes: 'cpu', 'cuda', ...
        grey_range: how the pictures were read, as `PrivateImages` takes it; a release reads others so.
    """

    encoder: str = "efficientnet-lite0"
    size: Whole | None = None
    device: str = "cpu"
    grey_range: Annotated[
        grey_levels.GreyRange | None, lambda _, value: grey_levels.declared_range(value)
    ] = field(default=None, kw_only=True)

    takes: ClassVar[type[PrivateData]] = PrivateImages
    takes_public: ClassVar[type[PublicData]] = PublicImages

    def network(self) -> Network:
        """The public network, loaded; its `side` is that of the pictures."""
        return network_of(self.encoder, size=self.size, device=self.device, grey_range=self.grey_range)

    def require_data(self, private: PrivateData, public: PublicData | None) -> None:
        """Raise, besides, for pictures that were read in another range of greys."""
        super().require_data(private, public)
        if {getattr(one, "grey_range", self.grey_range) for one in (private, public)} != {self.grey_range}:
            raise Incompatible(
                f"Pictures must be read as the method says, with grey_range={self.grey_range}; some are not. "
                "Say the same to the method, the private and the public pictures."
            )

    def rows_for_head(self, private: PrivateImages, outcome: Outcome) -> AnyArray:
        """Rows of private pictures by the encoder as the run has left it."""
        encoder = self.encoder_after(outcome.encoder, outcome.encoder_delta)
        return encoders.encode_pixels(private.pixels, encoder)

    def encoder_after(self, base: EncoderIdentity | None, delta: EncoderDelta | None) -> Encoder:
        """The encoder whose rows a run's result takes: this one, as the run has left it."""
        base = base if delta is None else delta.base
        own: Encoder = self.network().encoder  # first, as it may be one that is found by its place alone
        if base is not None and base != own.identity:
            return encoders.encoder_of(base, device=self.device, delta=delta)
        return own if delta is None else encoders.apply_delta(own, delta)


def require_as_planned(plan: Plan, outcome: Outcome) -> None:
    """Raise, so that nothing is released, if a run took other steps than were charged."""
    if outcome.events != plan.events:
        raise DPTransferError(
            f"A run must cost what was charged; '{plan.method.name}' ran other steps than it planned. "
            "The charge stands and nothing is released; please report this."
        )


def with_query(mechanism: Any, **changes: Any) -> Any:
    """The same mechanism with its query sharpened by public or released values; noise and event stay.

    A changed event is an error of the method, so it is checked here, before any row is read.
    """
    changed = replace(mechanism, query=replace(mechanism.query, **changes))
    if changed.event != mechanism.event:
        raise DPTransferError("A run may sharpen a query, but not change what it costs.")
    return changed


def configuration_of(value: object) -> Any:
    """A method's settings as JSON-ready data; nested settings carry their type's name."""
    if is_dataclass(value) and not isinstance(value, type):
        own = {item.name: configuration_of(getattr(value, item.name)) for item in fields(value)}
        return {"type": type(value).__name__, **own}
    if isinstance(value, Relation):
        return value.value
    if isinstance(value, tuple | list):
        return [configuration_of(item) for item in value]
    return value
