"""A study: what several owners agree on before any of them reads a row.

The owner of the study plans it once, and everybody else reads the same file. Its digest covers all of it and
a random number, so two studies are two, even of one name and with the same settings. Whoever reads it plans
again: a file that states other steps than its method plans is refused.

**The promise by files.** Each owner adds the noise of a whole fit to its own sums, so its share alone is a
release with the planned events. All that others compute from it, with shares that do not depend on its rows,
is post-processing; later questions depend on released totals, as composition allows. So the promise of each
owner holds against everybody, all other owners included. `secure_sum` has the argument for the other mode.

The total of k shares has noise √k times as large by files, and √(k/(k − t)) times in a secure sum. A method
runs on totals as it runs on one data set, told that its noise is so much larger.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dptransfer._version import __version__
from dptransfer.accounting import warn_if_weak
from dptransfer.accounting.calibrate import weaknesses
from dptransfer.base import checks
from dptransfer.base.types import AnyArray, Integers, JsonObject
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.atomic_files import write_whole
from dptransfer.data.facts import EncoderIdentity, require_same_space
from dptransfer.data.labels import Labelled
from dptransfer.errors import ArgumentError, DataError, DPTransferError, Incompatible
from dptransfer.exact.feature_map import FittedFeatures, describe, read_features
from dptransfer.federation import secure_sum
from dptransfer.federation.owner_key import PUBLIC_KEY, OwnerKey
from dptransfer.mechanisms import GaussianMechanism, GaussianRounds, GaussianShares, JointRounds, Step
from dptransfer.mechanisms.mechanism import ROUND_UP, at_noise_of
from dptransfer.methods import METHODS
from dptransfer.methods.configuration import as_method, configure, method_from_configuration
from dptransfer.methods.fitting import FitPlan, gaussian_answers
from dptransfer.methods.method import EmbeddingMethod, Plan, PrivateMethod, configuration_of
from dptransfer.methods.replan import recorded_pool
from dptransfer.privacy import Budget, Relation, Unit, event_to_dict
from dptransfer.queries import RecentredSums, VoteCounts
from dptransfer.queries.query import BoundedQuery
from dptransfer.release.owners import FILES, SECURE_SUM, TRUST, noise_factor, record_bytes, record_digest

_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LARGEST = 2**30
_READ_AGAIN = "Fetch the study again from whoever planned it."


class PreparedData(NamedTuple):
    """What a method made of public data: the data as it takes them, and its maps."""

    public: PublicEmbeddings | None
    maps: Any

    @property
    def features(self) -> FittedFeatures:
        """The map in front of the head."""
        found: FittedFeatures = getattr(self.maps, "axes", self.maps)
        return found

    def with_features(self, features: FittedFeatures) -> PreparedData:
        """The same with a map that was fitted elsewhere: axes may differ in sign from machine to machine."""
        own, other = ({**describe(one), "identity": one.dimension} for one in (self.features, features))
        if own != other:
            raise Incompatible(
                "A study's feature map must be of its method's kind and width, fitted to its pool; this one "
                f"is not. {_READ_AGAIN}"
            )
        maps = self.maps._replace(axes=features) if hasattr(self.maps, "axes") else features
        return self._replace(maps=maps)


@dataclass(frozen=True, eq=False)
class Study:
    """A planned study.

    Attributes:
        record: all that was agreed on, JSON-ready; `plan_study` and `read_study` make it.
        features: the public map.
        names: rows of class names, where the method starts from them.
    """

    record: JsonObject
    features: FittedFeatures
    names: AnyArray | None = None

    @cached_property
    def digest(self) -> str:
        """Which study this is."""
        return record_digest(self.record)

    @property
    def name(self) -> str:
        """What its owners call it."""
        return str(self.record["name"])

    @property
    def owners(self) -> dict[str, str]:
        """Public keys by name, in order."""
        found: dict[str, str] = self.record["owners"]
        return found

    @property
    def is_masked(self) -> bool:
        """Whether shares are masked."""
        return bool(self.record["trust"] == SECURE_SUM)

    @cached_property
    def facts(self) -> Facts:
        """What is declared of the rows of all owners."""
        fields = dict(self.record["facts"])
        fields |= {"unit": Unit(fields["unit"]), "encoder": EncoderIdentity.from_dict(fields["encoder"])}
        return Facts(**{**fields, "classes": tuple(fields["classes"]), "shape": tuple(fields["shape"])})

    @cached_property
    def budget(self) -> Budget:
        """What each owner promises the people or examples in its rows."""
        relation = Relation(self.record["relation"])
        return Budget(epsilon=self.record["epsilon"], delta=self.record["delta"], relation=relation)

    @cached_property
    def plan(self) -> Plan:
        """The steps that each owner charges."""
        method = method_from_configuration(self.record["method"])
        return method.plan(self.facts, self.budget, recorded_pool(self.record["public"]))

    @cached_property
    def joint_plan(self) -> Plan:
        """The same steps with the noise that the totals have."""
        factor = noise_factor(self.record["trust"], len(self.owners), self.record["colluders"]) * ROUND_UP
        return replace(self.plan, mechanisms=tuple(_louder(one, factor) for one in self.plan.mechanisms))

    @property
    def noise_of_share(self) -> float:
        """Noise of a share, in that of the total: variances of k equal shares add up."""
        return 1 / math.sqrt(len(self.owners))

    @cached_property
    def answers(self) -> int | None:
        """How many answers there will be; None where the method decides it from answers."""
        steps, at_once = self.plan.mechanisms, self.answers_per_round
        if any(isinstance(one, GaussianShares) for one in steps):
            return at_once if at_once > 1 else None
        return gaussian_answers(steps)

    @property
    def answers_per_round(self) -> int:
        """How many answers a share has: all, where no question depends on an earlier answer."""
        return self.plan.method.questions_at_once

    def owner_of(self, key: OwnerKey) -> str:
        """The name of the owner with this key."""
        for name, public in self.owners.items():
            if public == key.public:
                return name
        raise ArgumentError(
            f"Only owners that a study lists take part; '{self.name}' does not list this key. "
            f"It lists {', '.join(self.owners)}: use the key of one of these, or plan a new study."
        )

    def prepare(self, public: PublicEmbeddings | None) -> PreparedData:
        """All public work, with the study's own map; the public rows must be those of the study."""
        recorded, method = self.record["public"], self.plan.method
        assert isinstance(method, EmbeddingMethod)
        if recorded is None:
            public = None
        elif public is None:
            raise ArgumentError(
                f"This study uses {recorded['rows']} public rows, and none were given. "
                "Pass the same pool that it was planned with (--public)."
            )
        elif self.names is not None:
            public = public.with_names(self.names)
        made = _prepared(method, self.facts, public)
        found = None if made.public is None else made.public.record
        if _without_names(found) != _without_names(recorded):
            raise Incompatible(
                f"Public data must be those that '{self.name}' was planned with; these have another digest. "
                "Use the same pool, shots and encoder labels."
            )
        return made.with_features(self.features)

    def own_rows(self, private: PrivateEmbeddings) -> PrivateEmbeddings:
        """An owner's rows with what the study declares of them; rows that it does not fit are refused."""
        declared, own = self.facts, private.facts
        require_same_space(declared, own, names=("The study", "the owner's rows"))
        for what in ("classes", "unit", "person_bound"):
            if getattr(declared, what) != getattr(own, what):
                raise Incompatible(
                    f"Rows must be declared as the study says; '{what}' differs. "
                    "Read them with the study's classes and, where it protects persons, with --person."
                )
        found = copy(private)
        found.facts = declared
        return found

    def no_rows(self) -> PrivateEmbeddings:
        """What somebody who only adds up shares has."""
        people = np.arange(0) if self.facts.unit is Unit.PERSON else None
        labels = Labelled(np.arange(0), self.facts.classes)
        found = PrivateEmbeddings(np.zeros((0, self.facts.dimension)), labels, people=people)
        found.facts = self.facts
        return found

    def write(self, path: Path) -> None:
        """Write it as one file."""
        from safetensors.numpy import save

        arrays = {f"map.{name}": array for name, array in self.features.arrays().items()}
        arrays |= {} if self.names is None else {"names": self.names}
        content = save(arrays, {"study": record_bytes(self.record).decode()})
        try:
            write_whole(path, content)
        except FileExistsError:
            raise DataError(f"A study is never replaced; '{path}' exists. Choose another name.") from None


def read_study(path: Path) -> Study:
    """Read a study; plan it again, and refuse it where it states other steps."""
    arrays, said = read_arrays(path, "study", _LARGEST)
    try:
        record = json.loads(said)
        if record["format"] != _FORMAT:
            raise ValueError(f"it has the format {record['format']!r}")
        of_map = {name.removeprefix("map."): one for name, one in arrays.items() if name.startswith("map.")}
        features, names = read_features(of_map, record["features"]), arrays.get("names")
        study = Study(record, features, names)
        _require_terms(record)
        _require_additive(study.plan)
        _require_private(study)
        shown = None if names is None else PublicEmbeddings(names).with_names(names).record["names"]
        same = (record["public"] or {}).get("names") == shown
        if not same or study.facts.to_dict() != record["facts"]:
            raise ValueError("its parts contradict each other")
        if [event_to_dict(one) for one in study.plan.events] != record["events"]:
            raise ValueError(
                f"its method plans other steps; it was planned by dptransfer {record['version']}"
            )
    except (DPTransferError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as problem:
        raise DataError(
            f"A study must be as it was planned; '{path}' is not ({problem}). {_READ_AGAIN}"
        ) from None
    return study


def plan_study(
    name: str,
    owners: Mapping[str, str],
    facts: Facts,
    budget: Budget,
    *,
    method: str | PrivateMethod = "auto",
    public: PublicEmbeddings | None = None,
    trust: str = FILES,
    colluders: int = 1,
) -> Study:
    """Plan a study, from public facts alone.

    Args:
        name: what it is called.
        owners: public keys by name (`OwnerKey.public`).
        facts: what is declared of the rows of all owners.
        budget: what each of them promises, as (ε, δ).
        method: what is fitted; its steps must be sums with Gaussian noise.
        public: the pool, which every owner must have too.
        trust: 'files', where nobody need be trusted, or 'secure-sum'.
        colluders: of a secure sum, how many owners may work together against another.
    """
    warn_if_weak(budget, facts.declared_units, stacklevel=2)
    asked = as_method(method)
    if public is not None:
        public.require_match(facts)
    plan = asked.plan(facts, budget, public)
    chosen = plan.method
    if not isinstance(chosen, EmbeddingMethod):
        raise ArgumentError(f"Studies are on rows of an encoder; '{chosen.name}' is not. Choose 'mean'.")
    chosen.require_public(facts, public)
    if getattr(chosen.with_words(public, facts), "names", None) is None and hasattr(chosen, "names"):
        chosen = configure(chosen, {"names": "off"})  # so that no owner's machine finds some
        assert isinstance(chosen, EmbeddingMethod)
        plan = chosen.plan(facts, budget, public)
    _require_additive(plan)
    made = _prepared(chosen, facts, public)
    record: JsonObject = {
        "format": _FORMAT,
        "name": name,
        "owners": dict(owners),
        "trust": trust,
        "colluders": colluders if trust == SECURE_SUM else 0,
        "facts": facts.to_dict(),
        "method": configuration_of(chosen),
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": budget.relation.value,
        "public": None if made.public is None else made.public.record,
        "features": describe(made.features),
        "events": [event_to_dict(event) for event in plan.events],
        "version": __version__,
        "nonce": secrets.token_hex(16),
    }
    _require_terms(record)
    study = Study(json.loads(record_bytes(record)), made.features, getattr(made.public, "names", None))
    _require_private(study)
    return study


def _prepared(method: EmbeddingMethod, facts: Facts, public: PublicEmbeddings | None) -> PreparedData:
    described = method.with_words(public, facts)
    return PreparedData(described, method.prepare(facts, described))


def _without_names(record: Mapping[str, Any] | None) -> JsonObject | None:
    """What is compared of public data: what a pool is called is everybody's own affair."""
    return None if record is None else {key: value for key, value in record.items() if key != "name"}


def _require_terms(record: Mapping[str, Any]) -> None:
    """Raise for owners, names and ways to trust that cannot be."""
    owners, trust, colluders = record["owners"], record["trust"], record["colluders"]
    for name in (record["name"], *owners):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ArgumentError(
                f"Names of studies and owners have letters, digits, '-' and '_'; got '{name}'. Rename it."
            )
    keys = list(owners.values())
    if not all(isinstance(key, str) and PUBLIC_KEY.fullmatch(key) for key in keys) or len(set(keys)) < len(
        keys
    ):
        raise ArgumentError(
            "Every owner has a public key of its own, 128 hexadecimal digits; one has not. "
            "Ask each for the line that 'dptransfer federate key' prints."
        )
    for name, key in owners.items():
        try:
            OwnerKey(bytes(32)).secret_shared_with(key)
        except ValueError:  # of a few keys everybody would know the masks
            raise ArgumentError(f"The key of '{name}' cannot make masks. Ask for another.") from None
    checks.whole("the number of owners", len(owners), at_least=2)
    checks.one_of("trust", trust, TRUST)
    if len(owners) > secure_sum.MOST_OWNERS or colluders not in range(len(owners)):
        raise ArgumentError(
            f"A study has at most {secure_sum.MOST_OWNERS} owners, of whom fewer than all collude; got "
            f"{len(owners)} and {colluders}. Lower the number of colluders, or split the study."
        )


def _require_private(study: Study) -> None:
    """Raise, as a fit would, for a budget, unit or noise that does not protect; and for no digest."""
    plan, budget, facts = study.plan, study.budget, study.facts
    weaknesses(budget, facts.declared_units)  # raises where a budget promises nothing
    plan.method.require_unit(facts)
    FitPlan(plan.method, facts, budget, plan).require_honest()
    share_steps = min(map(_steps, study.joint_plan.mechanisms)) * study.noise_of_share
    if study.digest and study.is_masked and share_steps < secure_sum.FEWEST_STEPS:
        raise ArgumentError("The noise of one share is too small for a secure sum. Lower epsilon.")


def _require_additive(plan: Plan) -> None:
    """Raise unless every step is a sum over units with Gaussian noise, which shares of owners add up to."""
    own = METHODS.package(plan.method.name) is None
    for step in plan.mechanisms:
        parts: Any = step.parts if isinstance(step, JointRounds) else (step,)
        for part in parts:
            gaussian = isinstance(part, GaussianMechanism | GaussianShares | GaussianRounds)
            sums = gaussian and isinstance(part.query, BoundedQuery | RecentredSums | VoteCounts)
            if not own or not sums or getattr(part, "is_sampled", False):
                raise ArgumentError(
                    f"Owners add up sums with Gaussian noise; '{plan.method.name}' takes other steps "
                    f"({step.event.label}). Choose 'mean', 'mean-estimation', 'least-squares', 'noisy-gd', "
                    "'public-prior' or 'transfer-pate'."
                )


def _louder(step: Step, factor: float) -> Step:
    event: Any = step.event
    return at_noise_of(replace(event, noise_multiplier=factor * event.noise_multiplier), step)


def _steps(step: Any) -> float:
    """Standard deviation of a step's noise, in steps of the grid."""
    if isinstance(step, JointRounds):
        return min(map(_steps, step.parts))
    if isinstance(step, GaussianShares):
        return step.noise_multiplier * step.fewest_steps
    return float(step.scale * step.query.grid)


def read_arrays(path: Path, what: str, largest: int) -> tuple[dict[str, Integers], str]:
    """Arrays of a safetensors file, and the words in its header under this name."""
    from safetensors import SafetensorError, safe_open

    try:
        if not path.is_file() or path.stat().st_size > largest:
            raise DataError(
                f"A {what} is a file of at most {largest} bytes; '{path}' is not. Fetch it again."
            )
        with safe_open(path, framework="numpy") as file:
            said = (file.metadata() or {}).get(what)
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError) as problem:
        raise DataError(f"A {what} must be whole; '{path}' is not ({problem}). Fetch it again.") from None
    if said is None:
        raise DataError(f"A {what} says what it is; '{path}' does not. It is another kind of file.")
    return arrays, said
