"""Choices of a session: as fields of forms, as a line, and as the commands that do the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from dptransfer.data.tables import DICOM, FOLDER, NOBODY

Screen: TypeAlias = Literal["data", "who", "accuracy", "charge", "model"]

# The fields of each screen, in order; what follows from one may depend on those before it.
FIELDS: Mapping[Screen, tuple[str, ...]] = {
    "data": ("data", "public", "name", "classes", "label_column", "text_column", "path_column"),
    "who": ("unit", "whose", "whose_name", "size"),
    "accuracy": ("epsilon", "delta", "holdout", "method"),
    "charge": ("out", "title"),
    "model": (),
}

# For which accuracies are forecast.
EPSILONS = (0.5, 1.0, 2.0, 4.0)

# What is said of a field that must be filled in and is not.
MISSING = {
    "data": "Private data must be named; nothing is. Choose a folder or a file.",
    "name": "A data set needs a name in the ledger; it has none. Type one.",
    "unit": "Persons are protected, or single examples; neither is chosen. Choose one.",
    "whose": "To protect persons, the library must know whose each example is. Choose how it can tell.",
    "confirm": "A charge must be confirmed; the name is another. Type:",
    "epsilon": "A fit needs a budget; none is chosen. Choose a line, or type ε.",
}

_WORDS = {"folder": FOLDER, "dicom": DICOM}


@dataclass(frozen=True)
class Choices:
    """What was chosen, by the names of the options; a field that is empty was not.

    Attributes:
        unit: 'person' or 'example'; there is no default.
        whose: how persons are told: 'folder', 'dicom', 'column', 'file' or 'stored'.
        whose_name: the column or the file.
        size: about how many examples there are, declared public.
    """

    data: str = ""
    public: str = ""
    name: str = ""
    classes: str = ""
    label_column: str = ""
    text_column: str = ""
    path_column: str = ""
    unit: str = ""
    whose: str = ""
    whose_name: str = ""
    size: str = ""
    epsilon: str = ""
    delta: str = "1e-5"
    holdout: str = "0.2"
    method: str = "auto"
    out: str = ""
    title: str = ""
    ledger: str = ""

    def with_form(self, screen: Screen, form: Mapping[str, str]) -> Choices:
        """The same with the fields of a screen as they were filled in; a field that did not come is empty."""
        if form.get("epsilon") == "own":
            form = {**form, "epsilon": form.get("own", "")}
        return replace(self, **{name: form.get(name, "").strip()[:4000] for name in FIELDS[screen]})

    def first_missing(self, screen: Screen) -> str:
        """The first field of a screen that must be filled in and is not; '' where there is none."""
        given = {name: bool(getattr(self, name)) for name in ("data", "name", "epsilon")}
        given |= {"unit": self.unit in ("person", "example"), "whose": self.person != ""}
        return next((name for name in FIELDS[screen] if not given.get(name, True)), "")

    @property
    def person(self) -> str | None:
        """What `--person` takes; '' while it is open, None where nothing is to be said."""
        if self.unit != "person" or self.whose == "stored":
            return NOBODY if self.unit == "example" else None
        return _WORDS.get(self.whose, self.whose_name if self.whose in ("column", "file") else "")

    def check_words(self, *, forecast: bool = False) -> list[str]:
        """`dptransfer check` of these data; with `forecast`, as it forecasts accuracies."""
        epsilons = ",".join(f"{one:g}" for one in EPSILONS)
        more = ["--forecast", "--epsilon", epsilons, *self._given("delta")] if forecast else []
        return ["check", *self._data_words(), *more]

    def fit_words(self) -> list[str]:
        """`dptransfer fit` as chosen."""
        method = () if self.method == "auto" else ("method",)
        rest = self._given("epsilon", "delta", "holdout", *method, "name", "title", "out", "ledger")
        return ["fit", *self._data_words(), *rest]

    def _data_words(self) -> list[str]:
        own = [name for name in FIELDS["data"] if name not in ("data", "name")]
        size = ["--set", f"data.size={self.size}"] if self.size else []
        return [self.data, *self._given(*own, "person"), *size]

    def _given(self, *names: str) -> Iterator[str]:
        """Options with their values, one of which may look like an option itself."""
        for name in names:
            option, value = option_of(name), getattr(self, name)
            if value:
                yield from [f"{option}={value}"] if value.startswith("-") else [option, value]


def shown_command(words: Sequence[str]) -> str:
    """A command as it is typed into a shell."""
    return shlex.join(["dptransfer", *words])


def suggested_name(data: str) -> str:
    """A name for the account of a data set at this path."""
    return re.sub(r"[^\w.-]+", "-", Path(data).stem).strip("-")[:60]


def option_of(field: str) -> str:
    """The option of the commands that a field is."""
    return "--person" if field == "whose" else f"--{field.replace('_', '-')}"


def field_of(message: str, screen: Screen) -> str:
    """The field of a screen that an error is about, by the option that it names; '' for none."""
    named = (name for name in FIELDS[screen] if re.search(rf"{option_of(name)}\b", message))
    return next(named, "data" if screen == "data" else "")
