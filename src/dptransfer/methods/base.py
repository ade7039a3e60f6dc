"""Plan, charge, run, wrap: written once, for every method.

A method is a frozen dataclass of hyper-parameters with two functions of its own:

- `plan(facts, budget, public)` picks mechanisms and noise. It sees no private row, so it can be printed,
  costed and tested before anyone's record is touched.
- `run(plan, features, private, noise, public)` executes the plan. It is the only reader of private rows.

`fit` joins them in the one order that keeps the promise: whatever can fail on public grounds fails first, the
ledger is charged before a row is read for an answer (a data set without a name is hashed to find its
account), and what comes out is checked to have cost what was charged.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, final

from dptransfer.accounting import fits, guarantee_of, heed, noise_multiplier_for
from dptransfer.compute.plain_floats import plain_floats
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError, DPTransferError, LedgerError
from dptransfer.features import Features, FittedFeatures, UnitNorm
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import Step
from dptransfer.methods.about import About
from dptransfer.noise import NoiseSource, SecureNoise
from dptransfer.privacy import Budget, Event, Guarantee, Relation
from dptransfer.release.classifier import PrivateClassifier, Provenance
from dptransfer.release.heads import Head
from dptransfer.release.manifest import current_versions


@dataclass(frozen=True, eq=False)
class Plan:
    """What a fit would do and cost; made without data.

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

    @property
    def events(self) -> tuple[Event, ...]:
        """What the steps cost, as events."""
        return tuple(mechanism.event for mechanism in self.mechanisms)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run hands back: released values only.

    Attributes:
        head: the classifier's last layer.
        events: the events of the mechanisms that really ran.
        prototypes: row numbers of public rows that were selected, by class, where the method selects some.
        notes: what the run decided from released values, for the card.
        features: the map in front of the head, where the run narrowed the one it was given.
    """

    head: Head
    events: tuple[Event, ...]
    prototypes: Sequence[Sequence[int]] | None = None
    notes: tuple[str, ...] = ()
    features: FittedFeatures | None = None


@dataclass(frozen=True)
class Outline:
    """Stands in for a feature map that is not fitted yet: a plan needs its width alone."""

    dimension: int
    input_dimension: int = 0
    kind: ClassVar[str] = "outline"

    def lattice(self, rows: Any, norm: int) -> Any:
        """A plan has no rows."""
        raise AssertionError("a plan must not read rows")

    def arrays(self) -> dict[str, Any]:
        """It has none."""
        return {}

    def settings(self) -> dict[str, Any]:
        """It has none."""
        return {}


@dataclass(frozen=True)
class PrivateMethod(ABC):
    """Base of every method: hyper-parameters, `plan` and `run`; `fit` is final.

    Attributes:
        features: the public feature map in front of the method.
    """

    features: Features = field(default_factory=UnitNorm)

    name: ClassVar[str]
    about: ClassVar[About]
    needs_public: ClassVar[bool] = False
    plans_by_facts: ClassVar[bool] = False
    """Whether classes, width or sizes change what a plan costs, beyond the arithmetic of its grid."""
    assumptions: ClassVar[tuple[str, ...]] = (
        "classes, bounds and settings were fixed without looking at the data",
    )

    def __init_subclass__(cls, **keywords: Any) -> None:
        """A class with a name of its own has a description of its own, complete as soon as it is defined."""
        super().__init_subclass__(**keywords)
        if {"name", "about"} & vars(cls).keys():
            cls.about = vars(cls).get("about", About()).completed(cls.name, cls.__doc__)

    @abstractmethod
    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """Pick mechanisms and noise for this budget; sees public facts only."""

    @abstractmethod
    def run(
        self,
        plan: Plan,
        features: FittedFeatures,
        private: PrivateEmbeddings,
        noise: NoiseSource,
        public: PublicEmbeddings | None,
    ) -> Outcome:
        """Execute the plan; the only reader of private rows."""

    @final
    @plain_floats()  # no flag and no filter of the caller's changes what is computed, or makes rows tell
    def fit(
        self,
        private: PrivateEmbeddings,
        public: PublicEmbeddings | None = None,
        *,
        budget: Budget,
        ledger: Ledger | None = None,
        noise: NoiseSource | None = None,
        new_data_set: bool = False,
    ) -> PrivateClassifier:
        """Plan, charge the ledger, run, and wrap the result.

        Args:
            private: the sensitive rows.
            public: the public rows, for methods that use some.
            budget: what this fit may cost.
            ledger: where it is charged; the user's default ledger file if not given.
            noise: `SecureNoise()` if not given.
            new_data_set: the owner's word that rows on record under another name are other people's here.

        Raises:
            BudgetExceeded: the data set's budget in the ledger does not cover this fit; no row was read.
            RowsOnRecord: the ledger knows these rows under another name. For the owner's eyes only.
            BudgetError: the budget cannot pay for this method, or promises nothing (`accounting.heed`).

        Warns:
            PrivacyWarning: the budget promises little, by its numbers and the declared size alone.
        """
        noise = SecureNoise() if noise is None else noise
        ledger = Ledger.default() if ledger is None else ledger
        _require_kinds(budget, ledger, noise)
        if not isinstance(private, PrivateEmbeddings):
            raise ArgumentError(
                f"private must be PrivateEmbeddings; got {type(private).__name__}. "
                "Example: PrivateEmbeddings(x, y, classes=['a', 'b'])."
            )
        if public is not None:
            if not isinstance(public, PublicEmbeddings):
                raise ArgumentError(
                    f"public must be PublicEmbeddings; got {type(public).__name__}. "
                    "Give rows that are nobody's secret, as PublicEmbeddings(x)."
                )
            public.require_match(private.facts)
        heed(budget, private.facts.declared_size, stacklevel=3)  # past `plain_floats`
        plan = self.plan(private.facts, budget, public)
        _require_honest(plan, budget)
        method = plan.method
        method.require_public(private.facts, public)
        features = method.features.fit(private.facts.dimension, public)
        receipt = ledger.charge(private, plan.events, label=method.name, new_data_set=new_data_set)
        try:
            outcome = method.run(plan, features, private, noise, public)
            if outcome.events != plan.events:
                raise DPTransferError(
                    f"A run must cost what was charged; '{method.name}' ran other steps than it planned. "
                    "The charge stands and nothing is released; please report this."
                )
        except BaseException as problem:
            with suppress(LedgerError):  # the charge stands either way; the first error is the one to show
                ledger.complete(receipt, outcome="failed", detail=type(problem).__name__)
            raise
        with suppress(LedgerError):  # the model is paid for: a note that cannot be written must not lose it
            ledger.complete(receipt, outcome="released")
        return PrivateClassifier(
            head=outcome.head,
            features=outcome.features or features,
            facts=private.facts,
            events=outcome.events,
            guarantee=plan.guarantee,
            provenance=Provenance(
                method=method.name,
                configuration=configuration_of(method),
                seeded=noise.seeded,
                notes=(*plan.notes, *outcome.notes),
                public=None if public is None else _public_record(public),
                ledger_head=receipt.head,
                created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                versions=current_versions(),
                prototypes=_prototype_record(outcome, private.facts, public),
            ),
        )

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Raise, before anything is charged, if the public rows a run needs are not there."""
        if self.needs_public and public is None:
            raise ArgumentError(
                f"The method '{self.name}' needs public rows; none were given. "
                "Pass public=PublicEmbeddings(...), or on the command line --public pool.emb, labelled ones "
                "--shots shots.emb."
            )

    def make_plan(self, mechanisms: Sequence[Step], budget: Budget) -> Plan:
        """A plan of these steps, with the guarantee computed from their own events; none cost nothing."""
        events = [mechanism.event for mechanism in mechanisms]
        guarantee = guarantee_of(events, budget.delta, self.assumptions, relation=budget.relation)
        return Plan(self, tuple(mechanisms), guarantee)

    def calibrated_plan(self, steps: Callable[[float], Sequence[Step]], budget: Budget) -> Plan:
        """The plan of `steps(z)` at the smallest noise multiplier z whose events fit the budget."""
        multiplier = noise_multiplier_for(budget, lambda z: [step.event for step in steps(z)])
        return self.make_plan(steps(multiplier), budget)

    def outline(self, facts: Facts, public: PublicEmbeddings | None) -> Outline:
        """The feature map's width, for planning."""
        return Outline(self.features.output_dimension(facts.dimension, public), facts.dimension)


def _require_kinds(budget: Budget, ledger: Ledger, noise: NoiseSource) -> None:
    """Raise for a mix-up of arguments, which would otherwise show after the charge or in the middle of it."""
    if not isinstance(budget, Budget):
        raise ArgumentError(f"budget must be a Budget, such as Budget(epsilon=1.0); got {budget!r}.")
    if not isinstance(ledger, Ledger):
        raise ArgumentError(f"ledger must be a Ledger; got {ledger!r}. Open a file with Ledger(path).")
    if not hasattr(noise, "seeded"):
        raise ArgumentError(f"noise must be a noise source; got {noise!r}. Leave it out for SecureNoise().")


def _require_honest(plan: Plan, budget: Budget) -> None:
    """Recompute a plan's promise from its steps, before anything is charged."""
    promise = guarantee_of(plan.events, budget.delta, plan.guarantee.assumptions, relation=budget.relation)
    if not fits(plan.events, budget) or plan.guarantee != promise:
        raise DPTransferError(
            "A plan must stay within its budget and promise what its steps give; that of "
            f"'{plan.method.name}' "
            "does not. Nothing was read or charged; please report this."
        )


def with_query(mechanism: Step, **changes: Any) -> Any:
    """The same mechanism with its query sharpened by public or released values; noise and event stay.

    A changed event is an error of the method, so it is checked here, before any row is read.
    """
    assert is_dataclass(mechanism)
    changed = replace(mechanism, query=replace(mechanism.query, **changes))
    if changed.event != mechanism.event:
        raise DPTransferError("A run may sharpen a query, but not change what it costs.")
    return changed


def configuration_of(value: Any) -> Any:
    """A method's settings as JSON-ready data; nested settings carry their type's name."""
    if is_dataclass(value) and not isinstance(value, type):
        own = {item.name: configuration_of(getattr(value, item.name)) for item in fields(value)}
        return {"type": type(value).__name__, **own}
    if isinstance(value, Relation):
        return value.value
    if isinstance(value, tuple | list):
        return [configuration_of(item) for item in value]
    return value


def _public_record(public: PublicEmbeddings) -> Mapping[str, Any]:
    shots = None if public.shots is public else public.shots
    beside = {} if shots is None else {"shots": _public_record(shots)}
    return {
        "name": public.name,
        "rows": len(public),
        "fingerprint": public.fingerprint,
        "encoder": None if public.encoder is None else public.encoder.to_dict(),
        **beside,
    }


def _prototype_record(
    outcome: Outcome, facts: Facts, public: PublicEmbeddings | None
) -> Mapping[str, Any] | None:
    if outcome.prototypes is None or public is None:
        return None
    rows = [[int(row) for row in chosen] for chosen in outcome.prototypes]
    record: dict[str, Any] = {
        "rows": {str(name): chosen for name, chosen in zip(facts.classes, rows, strict=True)}
    }
    if public.sources is not None:
        sources = public.sources
        record["sources"] = {
            str(name): [sources[row] for row in chosen]
            for name, chosen in zip(facts.classes, rows, strict=True)
        }
    return record
