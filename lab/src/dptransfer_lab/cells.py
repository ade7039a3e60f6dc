"""Cells: one fit each, addressed by everything that determines its result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product

from dptransfer import __version__
from dptransfer.base.types import JsonObject
from dptransfer.privacy import Budget
from dptransfer_lab.as_published import method_of, sees_pictures, settings_of
from dptransfer_lab.results import canonical
from dptransfer_lab.stored import Stored
from dptransfer_lab.study import NO_POOL, MethodEntry, Size, Study

FORMAT = 1
"""Part of every address: a change of what a record means makes new cells."""
Sources = Mapping[tuple[str, str, str], Stored]


@dataclass(frozen=True)
class TaskKey:
    """What determines a task's rows; cells with equal keys share them.

    Attributes:
        data: the data set's name.
        encoder: which of its sources.
        pool: the pool's name, or None.
        imbalance: ratio of the largest class to the smallest; 0 leaves the sizes alone.
        shots: labelled public examples per class.
        seed: decides what is drawn.
        rows: number of private rows, None for all; likewise the next three.
        classes: number of classes.
        pool_rows: number of public rows.
        dimension: number of features.
        data_fingerprint: of the stored data set.
        pool_fingerprint: of the stored pool.
    """

    data: str
    encoder: str
    pool: str | None
    imbalance: float
    shots: int
    seed: int
    rows: int | None
    classes: int | None
    pool_rows: int | None
    dimension: int | None
    data_fingerprint: str
    pool_fingerprint: str | None


@dataclass(frozen=True)
class Cell:
    """One fit.

    Attributes:
        task: the rows.
        budget: what it may cost, as `Budget.to_dict` writes it.
        method: the method's name.
        given: the settings as the study gives them.
        settings: all of its settings, defaults included.
        declare: what the owner declares public beyond the classes.
        unit: whom the budget protects: 'row', 'person' or 'group'.
        person_bound: as how many rows one person counts, at most.
        attack: whether members are attacked.
        instance_loss: whether each row's own privacy loss is measured.
        label: what tables call the method.
        oracle_tuned: whether the settings were chosen by looking at results.
        study: the study's name.
        study_digest: SHA-256 of the resolved study.
    """

    task: TaskKey
    budget: JsonObject
    method: str
    given: JsonObject
    settings: JsonObject
    declare: str
    unit: str
    person_bound: float
    attack: bool
    instance_loss: bool
    label: str
    oracle_tuned: bool
    study: str
    study_digest: str

    @property
    def address(self) -> str:
        """SHA-256 of what determines the result; names for people and the study do not."""
        whole = {
            "format": FORMAT,
            "version": __version__,
            "task": asdict(self.task),
            "budget": self.budget,
            "method": self.method,
            "settings": self.settings,
            "declare": self.declare,
            "attack": self.attack,
            # Only where they are asked for: cells from before there were such things keep their address.
            **({"unit": self.unit} if self.unit != "row" else {}),
            **({"person_bound": self.person_bound} if self.person_bound != 1 else {}),
            **({"instance_loss": True} if self.instance_loss else {}),
        }
        return hashlib.sha256(canonical(whole).encode()).hexdigest()

    @property
    def words(self) -> str:
        """The cell in a few words, for whoever watches."""
        own = {name: getattr(self, name) for name in ("budget", "unit", "person_bound", "label")}
        place = {**asdict(self.task), **own}
        return f"{in_words(place)}, seed {self.task.seed}"


def in_words(place: JsonObject) -> str:
    """Where cells stand in a study, in a few words."""
    signs = {"epsilon": "ε", "rho": "ρ", "mu": "μ"}
    budget = place["budget"]
    tail = f", ratio {place['imbalance']:g}" if place["imbalance"] else ""
    shots = f", {place['shots']} shots" if place["shots"] else ""
    amount = next(f"{sign} = {budget[name]:g}" for name, sign in signs.items() if budget[name])
    bound = f" (B = {place['person_bound']:g})" if place["person_bound"] != 1 else ""
    unit = "" if place["unit"] == "row" else f" per {place['unit']}{bound}"
    return f"{place['data']} ({place['encoder']}){tail}{shots}, {amount}{unit}, {place['label']}"


def cells_of(study: Study, stored: Sources) -> list[Cell]:
    """Every cell of the study, each once; seeds are the slowest axis, then tasks, so that rows are shared.

    Args:
        study: what is asked for.
        stored: the stored arrays, by role, name and encoder.
    """
    digest = study.digest
    read = {
        (data.name, name): (source.size, source.grey_range)
        for data in study.data
        for name, source in data.source.items()
    }
    entries = {
        (place, encoder, how): _as_given(entry, encoder, *how)
        for place, entry in enumerate(study.method)
        for (_, encoder), how in read.items()
    }
    budgets = [budget for grid in study.budget for budget in grid.budgets()]
    found: dict[str, Cell] = {}
    bounds = [(unit, bound) for unit in study.unit for bound in _bounds(study, unit)]
    axes = product(_task_keys(study, stored), enumerate(study.method), bounds, budgets)
    for key, (place, entry), (unit, bound), budget in axes:
        if _wanted(entry, key, unit, budget):
            given, settings = entries[place, key.encoder, read[key.data, key.encoder]]
            cell = Cell(
                task=key,
                budget=budget.to_dict(),
                method=entry.name,
                given=given,
                settings=settings,
                declare=entry.declare,
                unit=unit,
                person_bound=bound,
                attack=study.attack,
                instance_loss=study.instance_loss,
                label=entry.label or entry.name,
                oracle_tuned=entry.oracle_tuned,
                study=study.name,
                study_digest=digest,
            )
            found.setdefault(cell.address, cell)
    return list(found.values())


def _as_given(
    entry: MethodEntry, encoder: str, size: int | None, greys: tuple[float, float] | None
) -> tuple[JsonObject, JsonObject]:
    """Settings as the study gives them, and all of them; a method on pictures starts from their encoder."""
    given = dict(entry.settings)
    if size is not None and sees_pictures(method_of(entry.name, given)):
        own = {"encoder": encoder, "size": size, "grey_range": None if greys is None else list(greys)}
        given = {**{name: value for name, value in own.items() if value is not None}, **given}
    return given, settings_of(entry.name, given)


def _task_keys(study: Study, stored: Sources) -> Iterator[TaskKey]:
    axes = product(study.seed_list, study.data, study.imbalance, study.shots, _sizes(study.size))
    for seed, data, imbalance, shots, size in axes:
        for encoder, pool in product(data.source, data.pool):
            if ("data", data.name, encoder) not in stored:
                continue  # it is missing, and the caller knows
            known = None if pool == NO_POOL else stored["pool", pool, encoder]
            if known is None and size["pool_rows"] is not None:
                continue  # there is no pool to cut
            yield TaskKey(
                data=data.name,
                encoder=encoder,
                pool=None if known is None else pool,
                imbalance=imbalance,
                shots=shots,
                seed=seed,
                **size,
                data_fingerprint=stored["data", data.name, encoder].fingerprint,
                pool_fingerprint=None if known is None else known.fingerprint,
            )


def _sizes(sizes: tuple[Size, ...]) -> list[dict[str, int | None]]:
    """Each combination within each table of sizes, once."""
    tables = [[values or (None,) for _, values in size] for size in sizes]
    points = dict.fromkeys(point for axes in tables for point in product(*axes))
    return [dict(zip(Size.model_fields, point, strict=True)) for point in points]


def _bounds(study: Study, unit: str) -> tuple[float, ...]:
    """Rows count as one each, alone and in groups."""
    return study.person_bound if unit == "person" else (1.0,)


def _wanted(entry: MethodEntry, key: TaskKey, unit: str, budget: Budget) -> bool:
    place = {**asdict(key), "pool": key.pool or NO_POOL, "unit": unit, "flavour": budget.flavour}
    return all(not allowed or place[name] in allowed for name, allowed in entry.only)
