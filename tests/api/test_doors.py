"""What one way to ask for a fit refuses, the others refuse: function, request, command line, scikit-learn."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dptransfer as dpt
from dptransfer.cli.commands import app
from dptransfer.errors import ArgumentError, DPTransferError
from dptransfer.sklearn import PrivateClassifier, make_private_pipeline

CLASSES = ["cat", "dog"]


@dataclass
class Asked:
    """A fit that somebody asks for; the defaults are fine."""

    x: str = "private.npz"
    classes: Any = field(default_factory=lambda: list(CLASSES))
    epsilon: float = 1.0
    delta: float = 1e-5
    method: str = "mean"
    name: str = "pets"
    public: str | None = None
    people: str | None = None
    encoder: str | None = None
    holdout: float | None = None

    def given(self):
        return {name: value for name, value in vars(self).items() if name != "x" and value is not None}


def by_function(asked):
    dpt.fit(asked.x, **asked.given())


def by_request(asked):
    reading = dpt.encoders.Reading(asked.encoder)
    source = dpt.Source(asked.x, None, asked.classes, asked.people, asked.name, reading=reading)
    public = None if asked.public is None else dpt.Source(asked.public)
    budget = dpt.Budget(epsilon=asked.epsilon, delta=asked.delta)
    dpt.Fit(source, budget, asked.method, public, holdout=asked.holdout).run()


def by_command(asked):
    words = ["fit", asked.x, "--out", "model", "--epsilon", asked.epsilon, "--delta", asked.delta]
    words += ["--method", asked.method, "--name", asked.name]
    if asked.classes:
        words += ["--classes", ",".join(asked.classes)]
    for option, value in {"person": asked.people, "encoder": asked.encoder, "holdout": asked.holdout}.items():
        words += [] if value is None else [f"--{option}", value]
    words += [] if asked.public is None else ["--public", asked.public]
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exit_code:
        assert result.stderr.startswith("Error: "), result.output
        raise Refused(result.stderr.removeprefix("Error: ").strip())


def by_scikit_learn(asked):
    with np.load(asked.x) as file:
        x, y = file["x"], np.array(CLASSES)[file["y"]]
    public = None if asked.public is None else dpt.Source(asked.public).public()
    given = {key: getattr(asked, key) for key in ("method", "epsilon", "delta", "classes", "name")}
    make_private_pipeline(PrivateClassifier(**given, public=public)).fit(x, y)


def by_plan(asked):
    given = asked.given()
    given.pop("name")
    dpt.plan(asked.x, **given)


def charges():
    return sum(one.charges for one in dpt.Ledger.default().datasets())


class Refused(Exception):
    """What the command line said."""


BY_PATH = [by_function, by_request, by_command]
EVERY_WAY = [*BY_PATH, by_scikit_learn]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 6)).astype(np.float32)
    np.savez("private.npz", x=rows, y=np.arange(120) % 2)
    np.savez("other.npz", x=rng.normal(size=(120, 6)), y=np.arange(120) % 2)
    np.savez("pool.npz", x=rng.normal(size=(50, 6)))
    np.savez("wide.npz", x=rng.normal(size=(50, 9)))
    np.savez("tenth.npz", x=np.concatenate([rows[:5], rng.normal(size=(45, 6))]))
    np.savez("three.npz", x=rows, y=np.arange(120) % 3)
    return tmp_path


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_fit_that_is_fine_is_charged_once(way):
    way(Asked(public="pool.npz"))
    assert charges() == 1


@pytest.mark.parametrize(
    ("wrong", "ways"),
    [
        ({"epsilon": 0.0}, EVERY_WAY),
        ({"delta": 1.0}, EVERY_WAY),
        ({"method": "nonesuch"}, EVERY_WAY),
        ({"method": "film"}, EVERY_WAY),
        ({"method": "public"}, EVERY_WAY),
        ({"classes": None}, EVERY_WAY),
        ({"classes": ["cat", "cat"]}, EVERY_WAY),
        ({"public": "wide.npz"}, EVERY_WAY),
        ({"public": "tenth.npz"}, EVERY_WAY),
        ({"x": "three.npz"}, BY_PATH),
        ({"x": "nowhere.npz"}, BY_PATH),
        ({"public": "private.npz"}, BY_PATH),
        ({"public": "nowhere.npz"}, BY_PATH),
        ({"people": "nobody.npy"}, BY_PATH),
        ({"encoder": "minilm"}, BY_PATH),
        ({"holdout": 1.5}, BY_PATH),
    ],
    ids=lambda one: str(one) if isinstance(one, dict) else "",
)
def test_what_one_refuses_the_others_refuse_in_the_same_words_before_a_charge(wrong, ways):
    said, kinds = [], set()
    for way in ways:
        with pytest.raises((DPTransferError, Refused)) as refused:
            way(Asked(**wrong))
        said.append(str(refused.value).split(" Pass ")[0])  # what to do may be said for Python or for a shell
        kinds |= {type(refused.value)} - {Refused}
    assert len(kinds) == 1
    assert said[0] == said[1] == said[2]
    assert charges() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"method": "nonesuch"},
        {"method": "film"},
        {"method": "public"},
        {"classes": None},
        {"classes": ["cat", "cat"]},
        {"public": "wide.npz"},
        {"x": "nowhere.npz"},
        {"public": "private.npz"},
        {"public": "nowhere.npz"},
        {"people": "nobody.npy"},
        {"encoder": "minilm"},
        {"holdout": 1.5},
    ],
    ids=str,
)
def test_a_plan_refuses_what_a_fit_refuses(wrong):
    said = []
    for way in (by_function, by_plan):
        with pytest.raises(DPTransferError) as refused:
            way(Asked(**wrong))
        said.append((type(refused.value), str(refused.value)))
    assert said[0] == said[1]
    assert charges() == 0


def test_a_size_of_another_name_is_refused_when_it_is_declared():
    with pytest.raises(ArgumentError, match="person_bound"):
        dpt.Source("private.npz", classes=CLASSES, declared={"persons_bound": 2.0})


@pytest.mark.parametrize(
    "second",
    [Asked(), Asked(name="birds"), Asked(x="other.npz", name="birds", public="private.npz")],
    ids=["nothing is left", "another name", "private rows as a pool"],
)
def test_what_the_ledger_refuses_is_refused_everywhere(second):
    by_function(Asked())
    ledger = dpt.Ledger.default()
    ledger.set_budget("pets", dpt.Budget(epsilon=1.0, delta=1e-5))
    kinds = set()
    for way in EVERY_WAY:
        with pytest.raises((DPTransferError, Refused)) as refused:
            way(second)
        kinds |= {type(refused.value)} - {Refused}
    assert len(kinds) == 1
    assert charges() == 1
