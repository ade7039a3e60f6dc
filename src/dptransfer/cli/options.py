"""Options that commands share: budget, data, workers and settings."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypedDict, cast, get_type_hints

from typer import Argument, Option

import dptransfer as dpt
from dptransfer.cli import lib
from dptransfer.cli.screen import say
from dptransfer.errors import ArgumentError, UnsafeRelease
from dptransfer.privacy import Budget, Relation


class DataSettings(TypedDict, total=False):
    """What `--set data.FIELD=VALUE` says about private data; each command takes some of it."""

    size: int
    class_counts: tuple[int, ...]
    person_bound: float  # as how many examples a person counts, at most
    rows_per_person: float  # about how many examples a person has
    split: str  # the part of a file that has several
    labels: Path  # an `.npy` of labels, for rows without
    new_data_set: bool  # rows that the ledger has under another name are other people's
    strict_names: bool  # names alone tell data sets apart; rows are not compared
    vocabulary: str  # labels of the public rows' encoder
    witnesses: bool  # false: no noise is drawn beside the answers, to check it by
    test_is_public: bool  # the sizes of test data that are not protected may be told


_ALL_SETTINGS = tuple(DataSettings.__annotations__)
SIZES = _ALL_SETTINGS[:4]
"""What a plan may know about the data, declared public."""
ABOUT_DATA = _ALL_SETTINGS[:8]
"""What a fit is told about the private data."""
ABOUT_FIT = _ALL_SETTINGS
"""What a fit is told about all data."""
ABOUT_TEST = ("new_data_set", "test_is_public")
"""What is declared about test data that are not protected."""


def settings_of(assignments: list[str] | None, about: Collection[str]) -> tuple[dict[str, str], DataSettings]:
    """What `--set` says about the method, by field, and about the data: of that, what `about` lists.

    >>> settings_of(["k=5", "data.size=900"], SIZES)
    ({'k': '5'}, {'size': 900})
    """
    method: dict[str, str] = {}
    data: dict[str, object] = {}
    for text in assignments or ():
        field, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not field:
            raise ArgumentError(f"--set takes field=value; got '{text}'. Example: --set k=5")
        name = field.removeprefix("data.")
        if name == field:
            method[field] = value
        elif name in about:
            data[name] = lib.in_type(get_type_hints(DataSettings)[name], name, value)
        else:
            known = f"one of {', '.join(about)} here; got '{name}'"
            raise ArgumentError(f"--set data.FIELD takes {known}. Example: --set data.size=5000")
    return method, cast(DataSettings, data)


def data_settings(assignments: list[str] | None, about: Collection[str]) -> DataSettings:
    """What `--set` says in a command without a method, about data alone."""
    of_method, found = settings_of(assignments, about)
    if of_method:
        odd = next(iter(of_method))
        raise ArgumentError(f"--set takes data.FIELD=VALUE here; got '{odd}'. Leave it out.")
    return found


def declared_from(about: DataSettings) -> lib.DeclaredSizes:
    """What `--set data.FIELD` declares public."""
    return cast("lib.DeclaredSizes", {name: value for name, value in about.items() if name in SIZES})


def class_list(text: str) -> tuple[str | int, ...]:
    """The classes that `--classes` names: a number n (0 to n − 1), a comma list, or a file of names.

    >>> class_list("3"), class_list("cat, dog")
    ((0, 1, 2), ('cat', 'dog'))
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        if not 2 <= int(text) <= 10**6:
            raise ArgumentError(f"--classes takes 2 to a million classes; got {text}. Give their names.")
        return tuple(range(int(text)))
    if "," in text:
        names = [name.strip() for name in text.split(",")]
    elif Path(text).is_file():
        try:  # an editor may leave a mark at the beginning, and blank lines at the end
            names = [line.strip() for line in Path(text).read_text("utf-8-sig").rstrip().splitlines()]
        except UnicodeDecodeError:
            raise ArgumentError(f"--classes takes a text file; '{text}' is none. Save it as UTF-8.") from None
    else:
        raise ArgumentError(f"--classes takes a number, names or a file of names; got '{text}'. Example: a,b")
    if not all(names):  # to skip it would move the classes after it one place up, and labels may be places
        raise ArgumentError("--classes must name every class; one is empty. Remove a comma or a blank line.")
    if names and all(name.isascii() and name.isdigit() and str(int(name)) == name for name in names):
        return tuple(int(name) for name in names)
    return tuple(names)


def require_new(out: Path) -> None:
    """Raise for a file that is there already, be it a broken link."""
    if os.path.lexists(out):
        raise ArgumentError(f"--out must name a new file; '{out}' exists. Choose another name.")


def note_open_folder(path: Path) -> None:
    """Say it, once and in fixed words, where other users of the machine may read a private `.emb` folder."""
    if path.suffix == ".emb" and path.is_dir() and lib.others_may_look(path):
        say(f"Note: other users of this machine can read '{path}'. Run: chmod -R go= {path}", err=True)


def note_if_idle(workers: lib.Workers | None, *, public_rows: bool) -> None:
    """Say it where workers were named and have nothing to do, which is no error: results are the same."""
    if not public_rows and not isinstance(workers, lib.ThisProcess | None):
        say("Note: --engine is for public rows, and there are none; this process does the work.", err=True)


Release = Annotated[Path, Argument(help="The release directory.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace what is there.")]
Unsafe = Annotated[bool, Option("--unsafe-for-publication", help="Allow a seeded model; never publish it.")]

_account = partial(Option, rich_help_panel="Ledger and card")
LedgerFile = Annotated[Path | None, _account(help="Ledger file; default yours, or $DPTRANSFER_LEDGER.")]
DataSetName = Annotated[str | None, _account(help="What the ledger calls this data set.")]
Title = Annotated[str | None, _account(help="Name of the data on the card; it is published.")]
License = Annotated[str | None, _account(help="Licence of the model, such as apache-2.0.")]
Contact = Annotated[str | None, _account(help="Contact on the card.")]

data = partial(Option, rich_help_panel="Data")
PublicPool = Annotated[Path | None, data(help="Public rows, or images or texts, as the private data.")]
Person = Annotated[
    str | None,
    data(metavar="COLUMN|FILE|...", help="Protect persons: a column, a file, 'folder', 'dicom'; or 'none'."),
]
Classes = Annotated[str | None, data(help="A number, a,b,c, or a file with a name per line; published.")]

DataAssignments = Annotated[list[str] | None, Option("--set", metavar="data.FIELD=VALUE", help="Repeatable.")]

DELTA = 1e-5
_budget = partial(Option, rich_help_panel="Budget")
Epsilon = Annotated[float | None, _budget("--epsilon", "-e", help="ε of the budget, such as 1; or --budget.")]
Neighbours = Annotated[Relation, _budget(help="Hide an example (add/remove) or what it is (replace-one).")]

_method = partial(Option, rich_help_panel="Method")
_METHODS = "A name that `dptransfer methods` lists, such as mean; or package.module:Class."
_FIELDS = "A field of the method, such as k=5 or pace.reach=20; or of the data, such as data.size=5000."
_TUNING = "Choose a setting on private rows, paid by the budget; or with --set tune_on_public=true."

_encoding = partial(Option, rich_help_panel="Encoding")
EncoderName = Annotated[str | None, _encoding(help="A name, hf:ORG/NAME, a model folder or an .onnx file.")]
ImageSize = Annotated[int | None, _encoding("--image-size", min=1, help="Side of the pictures, such as 128.")]
Device = Annotated[str, _encoding(help="cpu, cuda, cuda:1 or mps.")]
Batch = Annotated[int, _encoding(min=1, help="Examples encoded at a time.")]
ShardRows = Annotated[int | None, Option(min=1, metavar="N", help="Write shards of N rows.")]
_engine = partial(Option, rich_help_panel="Engine")


@dataclass(frozen=True)
class BudgetOptions:
    """What a fit or an evaluation may cost.

    >>> print(BudgetOptions(1.0).budget())
    epsilon = 1, delta = 1e-5, add/remove
    >>> print(BudgetOptions(1.0, 0.0).budget())
    epsilon = 1, add/remove
    >>> print(BudgetOptions(other_budget="rho=0.5").budget())
    rho = 0.5 zCDP, add/remove
    """

    epsilon: Epsilon = None
    delta: Annotated[float | None, _budget("--delta", "-d", help="δ; default 1e-5; 0 for pure DP.")] = None
    other_budget: Annotated[
        str | None,
        _budget("--budget", metavar="rho=R|mu=M", help="ρ of zCDP or μ of Gaussian DP, in place of ε."),
    ] = None
    relation: Neighbours = Relation.ADD_REMOVE

    @property
    def has_amount(self) -> bool:
        """Whether an amount was given."""
        return any(one is not None for one in (self.epsilon, self.delta, self.other_budget))

    def budget(self, delta: float = DELTA) -> Budget:
        """The budget; beside an ε, `delta` is taken where none was given.

        It is 1e-5 as in `dptransfer.fit` and in scikit-learn: most methods have Gaussian noise, which no pure
        budget pays for, and those that choose public rows are far less accurate. A pure promise is for those
        who ask for it.
        """
        amounts = {"epsilon": self.epsilon}
        if self.other_budget is not None:
            currency, _, amount = (part.strip() for part in self.other_budget.partition("="))
            try:
                amounts[currency] = float(amount)
            except ValueError:
                currency = ""
            if currency not in ("rho", "mu"):
                found = f"got '{self.other_budget}'. Example: --budget rho=0.5"
                raise ArgumentError(f"--budget takes rho=NUMBER or mu=NUMBER; {found}")
        usual = DELTA if self.epsilon is None else delta
        return Budget(**amounts, delta=usual if self.delta is None else self.delta, relation=self.relation)


@dataclass(frozen=True)
class ExampleColumns:
    """Which columns of a table hold images or texts, and their labels."""

    label_column: Annotated[str | None, data(metavar="NAME", help="Column of labels; default label.")] = None
    text_column: Annotated[str | None, data(help="Column of texts; default text.")] = None
    path_column: Annotated[str | None, data(help="Column of image paths in a CSV; default path.")] = None

    def columns(self, *, split: str | None = None) -> lib.Columns:
        """The columns, and which part is read of a file that has several."""
        features = getattr(self, "feature_columns", None)
        return lib.Columns(self.path_column, self.text_column, self.label_column, features, split=split)


@dataclass(frozen=True)
class ColumnOptions(ExampleColumns):
    """Which columns of a table hold what."""

    feature_columns: Annotated[str | None, data(metavar="'f*,...'", help="Default: all numeric ones.")] = None


@dataclass(frozen=True)
class ReadingOptions:
    """How images and texts become rows."""

    encoder: EncoderName = None
    image_size: ImageSize = None
    grey_range: Annotated[str | None, _encoding(metavar="LOW,HIGH", help="Greys beyond eight bits.")] = None

    def reading(self, device: str | None = None, runtime: str | None = None) -> dpt.encoders.Reading:
        """The same as an object."""
        greys = lib.declared_range(None if self.grey_range is None else self.grey_range.split(","))
        return dpt.encoders.Reading(self.encoder, self.image_size, greys, device, runtime)


@dataclass(frozen=True)
class RuntimeOptions:
    """Where an encoder runs, and by what."""

    device: Device = "cpu"
    runtime: Annotated[str | None, _encoding(help="onnx or torch, if both can; default onnx on cpu.")] = None


@dataclass(frozen=True)
class ModelEncoder:
    """The encoder behind a release."""

    encoder: EncoderName = None
    device: Device = "cpu"

    def load(self, released: dpt.PrivateClassifier) -> dpt.encoders.Encoder:
        """The encoder that the release names, or the one that is named here."""
        return lib.encoder_behind(released, self.encoder, self.device)

    @property
    def scoring_device(self) -> str:
        """Where rows are scored, on which fewer devices are known than an encoder may run on."""
        return self.device if self.device in lib.DEVICES else "cpu"


@dataclass(frozen=True)
class PrivateOptions:
    """What the classes of private examples are, and whom to protect."""

    classes: Classes = None
    person: Person = None

    @property
    def class_list(self) -> tuple[str | int, ...] | None:
        """The declared classes."""
        return None if self.classes is None else lib.declared_classes(class_list(self.classes))


@dataclass(frozen=True)
class PrivateExamples:
    """How private examples are read, and what is declared about them."""

    columns: ColumnOptions
    declared: PrivateOptions
    reading: ReadingOptions

    def source(self, path: Path, about: DataSettings, *reading: str | None, name: str | None) -> dpt.Source:
        """The examples at this path; `reading` is the device and the runtime of their encoder."""
        classes, people = self.declared.class_list, self.declared.person
        columns, read = self.columns.columns(split=about.get("split")), self.reading.reading(*reading)
        declared = declared_from(about)
        return dpt.Source(path, about.get("labels"), classes, people, name, columns, read, declared)


@dataclass(frozen=True)
class WorkerOptions:
    """What processes large public data."""

    engine: Annotated[str | None, _engine(metavar="processes|ray", help="What processes large data.")] = None
    workers: Annotated[int | None, _engine(min=1, metavar="N", help="Workers; default one per core.")] = None
    address: Annotated[str | None, _engine(help="Ray cluster: host:port, ray://host:port, or local.")] = None

    def start(self, device: str = "cpu") -> lib.Workers:
        """The workers, ready to begin: a cluster that does not answer is found out before anything is spent.

        Of processes on GPUs there is one for each, unless another number is given.

        >>> WorkerOptions().start(), WorkerOptions("processes", 2).start()
        (ThisProcess(), Processes(workers=2, patience=None))
        """
        engine, workers, address = self.engine, self.workers, self.address
        if engine not in (None, "processes", "ray"):
            raise ArgumentError(f"--engine must be processes or ray; got '{engine}'. Choose one of them.")
        if (engine == "ray") is (address is None):
            raise ArgumentError(
                "--engine ray takes the cluster that --address names, and looks for none; got --engine "
                f"{engine or 'none'}, --address {address or 'none'}. Example: --engine ray --address "
                "host:6379, or --address local for one on this machine."
            )
        if engine == "processes" and workers is None and device == "cuda":
            workers = max(1, lib.gpu_count())
        idle = engine is None and workers is None
        chosen: lib.Workers = lib.ThisProcess() if idle else lib.Processes(workers)
        if address is not None:
            chosen = lib.RayCluster(address, workers)
        chosen.ready()
        return chosen


@dataclass(frozen=True)
class PublicOptions:
    """Public data of a fit, the part of the private data that checks it, and who works through a pool."""

    workers: WorkerOptions
    public: PublicPool = None
    shots: Annotated[Path | None, data(help="A few labelled public rows, such as shots.emb.")] = None
    holdout: Annotated[float | None, data(help="Chance to be kept out as a test, such as 0.2.")] = None


@dataclass(frozen=True)
class MethodOptions:
    """The method and its settings."""

    method: Annotated[str, _method("--method", "-m", help=_METHODS)] = "auto"
    settings: Annotated[list[str] | None, _method("--set", metavar="FIELD=VALUE", help=_FIELDS)] = None
    tune: Annotated[list[str] | None, _method(metavar="FIELD=A,B,...", help=_TUNING)] = None
    device: Annotated[str | None, _method(help="cpu or cuda: for the encoder, and a method that can.")] = None


@dataclass(frozen=True)
class NoiseOptions:
    """Noise that nobody can repeat, or that a test can."""

    seed: Annotated[int | None, Option(help="Repeatable noise, for tests only.")] = None
    unsafe: Unsafe = False

    def noise(self) -> lib.NoiseSource:
        """Secure noise, unless a test asks for a seed and says so twice."""
        if self.seed is not None and not self.unsafe:
            raise UnsafeRelease("A seed makes noise repeatable. Omit it, or add --unsafe-for-publication.")

        return dpt.SecureNoise() if self.seed is None else dpt.SeededNoise(self.seed)
