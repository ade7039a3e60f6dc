"""A study: the grid of one TOML file, checked before anything runs."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from dptransfer.base.types import JsonObject
from dptransfer.data import declared_range
from dptransfer.errors import DataError, DPTransferError
from dptransfer.privacy import Bound, Budget, Relation, Unit
from dptransfer_lab.as_published import method_of
from dptransfer_lab.results import canonical

NO_POOL = "none"
Flavour = Literal["approximate", "pure", "zcdp", "gdp"]
Protected = Literal["row", "person", "group"]
"""Whom a cell's budget protects: a row; a person with all their rows; as many rows as anybody has."""


def _listed(value: object) -> object:
    """One value stands for a list of one."""
    return value if isinstance(value, list | tuple) else [value]


Numbers = Annotated[tuple[float, ...], BeforeValidator(_listed)]
Counts = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_listed)]
Wholes = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_listed)]
Words = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Units = Annotated[tuple[Protected, ...], BeforeValidator(_listed)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]*$")]


class Part(BaseModel):
    """A table of a study: it has known keys only."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Part):
    """Where the rows of one encoder are.

    Attributes:
        train: a file with labelled rows; for a file that has splits, its split 'train' is meant.
        test: a file with test rows; default the split 'test' of `train`, or a share held out of it.
        more: of a pool, further files whose rows join those of `train`.
        size: given, the files are pictures (`dptransfer_lab.pictures` says which kinds), squeezed to this
            side. The encoder, which the source is named after, makes rows of them for methods on rows;
            methods on pictures see them as they are, and start from its network.
        grey_range: of pictures whose greys have more than bytes, the stored values that are black and white.
    """

    train: str
    test: str | None = None
    more: tuple[str, ...] = ()
    size: Annotated[int, Field(ge=1)] | None = None
    grey_range: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _reads_pictures(self) -> Source:
        if self.grey_range is not None and self.size is None:
            raise ValueError("grey_range is how pictures are read; without a size these are rows")
        declared_range(self.grey_range)
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, dumped: SerializerFunctionWrapHandler) -> JsonObject:
        """Without a range as it was when there was none, so that a study's digest is the same."""
        whole: JsonObject = dumped(self)
        return {name: value for name, value in whole.items() if (name, value) != ("grey_range", None)}


def _source(value: object) -> object:
    """A file, or a list of them, stands for a table."""
    if isinstance(value, list) and value:
        return {"train": value[0], "more": value[1:]}
    return {"train": value} if isinstance(value, str) else value


class DataSet(Part):
    """A private data set, by encoder.

    Attributes:
        name: what tables call it.
        source: its rows by encoder: a file, 'demo', 'hub:ORG/NAME', or a table with `train` and `test`.
        pool: names of the pools it is tried with; 'none' is no pool.
        people: the column or array of its files that tells whose each row is ('g' stands for g_train and
            g_test in an archive with parts); an `.emb` folder tells it without.
        test_share: share of each class held out for testing where the file has no test rows; where people
            are known, whole persons with that share of the rows.
        balanced_test: cut the test set to the same number of rows per class.
    """

    name: Name
    source: dict[str, Annotated[Source, BeforeValidator(_source)]] = Field(min_length=1)
    pool: Words = (NO_POOL,)
    people: str | None = None
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.25
    balanced_test: bool = False


class Pool(Part):
    """Public rows, by encoder: `source` is as for a data set, or a list of files; labels are not used."""

    name: Name
    source: dict[str, Annotated[Source, BeforeValidator(_source)]] = Field(min_length=1)


class BudgetGrid(Part):
    """Budgets of one currency: exactly one of `epsilon` (with `delta`), `pure`, `rho` and `mu`."""

    epsilon: Numbers = ()
    pure: Numbers = ()
    rho: Numbers = ()
    mu: Numbers = ()
    delta: float | None = None
    relation: Literal["add/remove", "replace-one"] = "add/remove"

    def budgets(self) -> list[Budget]:
        """The budgets, in order."""
        relation = Relation(self.relation)
        delta = 1e-5 if self.delta is None else self.delta
        return [
            *(Budget(epsilon=value, delta=delta, relation=relation) for value in self.epsilon),
            *(Budget.pure(value, relation=relation) for value in self.pure),
            *(Budget.zcdp(value, delta=delta, relation=relation) for value in self.rho),
            *(Budget.gdp(value, delta=delta, relation=relation) for value in self.mu),
        ]

    @model_validator(mode="after")
    def _is_one_currency(self) -> BudgetGrid:
        given = [name for name in ("epsilon", "pure", "rho", "mu") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"a budget needs exactly one of epsilon, pure, rho and mu; got {given or 'none'}"
            )
        if given == ["epsilon"] and not self.delta:
            raise ValueError("a budget with epsilon needs delta above 0; for pure DP write pure = [...]")
        if given == ["pure"] and self.delta:
            raise ValueError("a pure budget has no delta; leave it out, or write epsilon = [...]")
        self.budgets()  # its own checks
        return self


class Only(Part):
    """Where a method is tried; an empty list means everywhere."""

    data: Words = ()
    encoder: Words = ()
    pool: Words = ()
    flavour: Annotated[tuple[Flavour, ...], BeforeValidator(_listed)] = ()
    imbalance: Numbers = ()
    shots: Counts = ()
    unit: Units = ()


class MethodEntry(Part):
    """A method with its settings.

    Attributes:
        name: its command-line name, or that of a printed mechanism ('as-published-mean', ...).
        label: what tables and figures call it; default the name.
        settings: its fields, as `--set` takes them.
        oracle_tuned: the settings were chosen by looking at test results; tables say so.
        declare: what the owner declares public beyond the classes; with it, of people, about how many rows
            they have each.
        only: where it is tried.
    """

    name: str
    label: str = ""
    settings: JsonObject = {}
    oracle_tuned: bool = False
    declare: Literal["nothing", "size", "class_counts"] = "nothing"
    only: Only = Only()

    @model_validator(mode="after")
    def _exists(self) -> MethodEntry:
        try:
            method_of(self.name, self.settings)
        except DPTransferError as problem:
            raise ValueError(str(problem)) from None
        return self


class Size(Part):
    """Smaller versions of a task, for studies of cost: each list is an axis; empty means all there is."""

    rows: Wholes = ()
    classes: Wholes = ()
    pool_rows: Wholes = ()
    dimension: Wholes = ()


class Study(Part):
    """One study: every combination of what is listed is a cell.

    Attributes:
        name: what results are filed under.
        title: a line for people.
        about: what it is for, in a paragraph.
        seeds: how many, or which. A seed decides classes' places in the tail, the rows drawn, and the noise.
        imbalance: ratios of the largest class to the smallest; 0 leaves the class sizes as they are.
        shots: labelled public examples per class, taken out of the training rows.
        unit: whom a budget protects: 'row'; 'person', with all their rows; 'group', which is rows again, with
            noise for as many at once as the person with most has, as one would without people.
        person_bound: as how many rows one person counts, at most, where persons are protected.
        attack: whether to measure how well members are told from non-members.
        instance_loss: whether to measure each private row's own privacy loss, by a second fit.
        data: the data sets.
        pool: the public pools they name.
        budget: the budgets.
        method: the methods.
        size: smaller versions of each task.
        claim: what a paper claims and the report checks; it changes no result.
        figure: which figures the report draws; it changes no result.
    """

    name: Name
    title: str = ""
    about: str = ""
    seeds: int | tuple[int, ...] = 3
    imbalance: Numbers = (0.0,)
    shots: Counts = (0,)
    unit: Units = ("row",)
    person_bound: Numbers = (1.0,)
    attack: bool = True
    instance_loss: bool = False
    data: Annotated[tuple[DataSet, ...], Field(min_length=1)]
    pool: tuple[Pool, ...] = ()
    budget: Annotated[tuple[BudgetGrid, ...], Field(min_length=1)]
    method: Annotated[tuple[MethodEntry, ...], Field(min_length=1)]
    size: tuple[Size, ...] = (Size(),)
    claim: tuple[JsonObject, ...] = ()
    figure: tuple[JsonObject, ...] = ()

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds, one by one."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    @property
    def digest(self) -> str:
        """SHA-256 of the resolved study."""
        return hashlib.sha256(canonical(self.resolved()).encode()).hexdigest()

    def resolved(self) -> JsonObject:
        """JSON-ready form with every default filled in."""
        return {**self.model_dump(mode="json"), "seeds": list(self.seed_list)}

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        seeds = self.seed_list
        if not seeds or min(seeds) < 0 or _repeated(seeds):
            raise ValueError("seeds must be a number of at least 1, or distinct whole numbers from 0 up")
        if not self.imbalance or any(ratio != 0 and not ratio >= 1 for ratio in self.imbalance):
            raise ValueError("imbalance must list ratios of at least 1, or 0 for class sizes as they are")
        if not self.unit or _repeated(self.unit):
            raise ValueError("unit must list 'row', 'person' or 'group', each once at most")
        if not self.person_bound or _repeated(self.person_bound):
            raise ValueError("person_bound must list different numbers")
        for bound in self.person_bound:
            Bound(Unit.PERSON, bound)  # its own checks
        for kind, named in (("data", self.data), ("pool", self.pool)):
            if _repeated([one.name for one in named]):
                raise ValueError(f"each {kind} must have a name of its own")
        if torn := [one.name for one in self.data if any(source.more for source in one.source.values())]:
            raise ValueError(f"a data set is one file, or two with test rows; '{torn[0]}' lists several")
        pools = {pool.name: pool for pool in self.pool}
        for one, name in [(data, name) for data in self.data for name in data.pool if name != NO_POOL]:
            if name not in pools:
                raise ValueError(f"data '{one.name}' names the pool '{name}', which has no [[pool]] table")
            if missing := [encoder for encoder in one.source if encoder not in pools[name].source]:
                raise ValueError(f"the pool '{name}' has no rows of the encoder '{missing[0]}'")
        if labels := _repeated([entry.label or entry.name for entry in self.method]):
            raise ValueError(f"two methods are called '{labels[0]}'; give each a label of its own")
        return self


def _repeated(values: Sequence[object]) -> list[object]:
    return [value for place, value in enumerate(values) if value in values[:place]]


def parse_study(text: str, *, where: str = "the study") -> Study:
    """A study from TOML text."""
    try:
        return Study.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as problem:
        raise DataError(f"A study must be TOML; {where} is not: {problem}.") from None
    except ValidationError as problem:
        raise DataError(_explained(problem, where)) from None


def read_study_file(path: str | Path) -> Study:
    """A study from a TOML file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"A study must be TOML in UTF-8; '{path}' is not. Save it so.") from None
    return parse_study(text, where=f"'{path}'")


_TABLES: dict[str, type[Part]] = {
    "data": DataSet,
    "source": Source,
    "pool": Pool,
    "budget": BudgetGrid,
    "method": MethodEntry,
    "only": Only,
    "size": Size,
}


def _explained(problem: ValidationError, where: str) -> str:
    """The first complaint: where it is, what is wrong, and the nearest thing that would be right."""
    first = problem.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        tables = [part for part in place[:-1] if part in _TABLES]
        known = list((_TABLES[tables[-1]] if tables else Study).model_fields)
        close = difflib.get_close_matches(place[-1], known, n=1)
        remedy = f"Did you mean '{close[0]}'?" if close else f"Known here: {', '.join(known)}."
        inside = f" in [{'.'.join(tables)}]" if tables else ""
        return f"A study has known keys only; {where} has '{place[-1]}'{inside}. {remedy}"
    at = f" at {'.'.join(place)}" if place else ""
    said = first["msg"].removeprefix("Value error, ")
    said += "" if said.endswith((".", "?")) else "."
    return f"A study must be complete and consistent; {where}{at}: {said} `dptransfer bench new` shows one."
