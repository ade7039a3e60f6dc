"""Owners with made-up rows, a study of theirs, and noise that is zero."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dptransfer import Budget, Ledger, PrivateEmbeddings, PublicEmbeddings, SecureNoise
from dptransfer.data import Facts
from dptransfer.federation import OwnerKey, join, plan_study, read_study, share
from dptransfer.privacy import Unit

CLASSES, WIDTH = ("a", "b", "c"), 8
BUDGET = Budget(epsilon=2.0, delta=1e-5)


class ZeroNoise(SecureNoise):
    """Shows exact answers."""

    def discrete_gaussian(self, scale, shape):
        return np.zeros(shape, dtype=np.int64)


def pool(rows=60):
    return PublicEmbeddings(np.random.default_rng(7).normal(size=(rows, WIDTH)))


def rows_of(owner, count=20, people=False, width=WIDTH):
    rng = np.random.default_rng([owner, 1])
    labels = rng.integers(len(CLASSES), size=count)
    x = rng.normal(size=(count, width)) + 2 * np.eye(width)[labels]
    ids = np.arange(count) // 2 if people else None
    return PrivateEmbeddings(x, labels, classes=list(CLASSES), people=ids)


@dataclass
class Owners:
    """Several owners in one folder."""

    tmp: Path
    method: object = "mean"
    count: int = 3
    trust: str = "files"
    colluders: int = 1
    public: object = None
    people: bool = False
    budget: Budget = BUDGET
    width: int = WIDTH
    rows: dict = field(default_factory=dict)

    def __post_init__(self):
        self.names = [f"owner-{number}" for number in range(self.count)]
        self.keys = {name: OwnerKey.create(self.tmp / f"{name}.key") for name in self.names}
        self.ledgers = {name: Ledger.in_memory() for name in self.names}
        for number, name in enumerate(self.names):
            self.rows.setdefault(name, rows_of(number, people=self.people))
        self.folder = self.tmp / "shares"
        self.study = self.plan("s")

    def plan(self, file):
        unit = Unit.PERSON if self.people else Unit.ROW
        study = plan_study(
            "trial",
            {name: key.public for name, key in self.keys.items()},
            Facts(CLASSES, (self.width,), unit=unit),
            self.budget,
            method=self.method,
            public=self.public,
            trust=self.trust,
            colluders=self.colluders,
        )
        study.write(self.tmp / f"{file}.study")
        return read_study(self.tmp / f"{file}.study")

    def share(self, name, noise=None, study=None, folder=None, **more):
        return share(
            study or self.study,
            self.rows[name],
            self.keys[name],
            [folder or self.folder],
            public=self.public,
            ledger=self.ledgers[name],
            noise=noise,
            **more,
        )

    def rounds(self, noise=None):
        """Everybody answers in turn until the study is over."""
        done = set()
        while len(done) < len(self.names):
            for name in self.names:
                if self.share(name, noise).is_finished:
                    done.add(name)

    def join(self):
        return join(self.study, [self.folder], public=self.public)

    def all_rows(self):
        """The rows of all owners in one place."""
        data = [self.rows[name] for name in self.names]
        people, shift = None, 0
        if self.people:
            people = []
            for one in data:
                people.append(one.people + shift)
                shift += int(one.people.max(initial=-1)) + 1
            people = np.concatenate(people)
        x = np.concatenate([one.rows for one in data])
        return PrivateEmbeddings(
            x, np.concatenate([one.labels for one in data]), classes=list(CLASSES), people=people
        )
