"""Options that commands share: budget, data, workers and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.cli.screen import say
from dptransfer.errors import ArgumentError
from dptransfer.methods import METHODS
from dptransfer.privacy import Budget, Relation

if TYPE_CHECKING:
    from dptransfer.api.source import Declared, Reading
    from dptransfer.base.workers import Workers
    from dptransfer.data import Columns
    from dptransfer.data.grey_levels import GreyRange as GreyEnds


SIZES = {
    "size": int,
    "class_counts": tuple[int, ...],
    "person_bound": float,  # as how many examples a person counts, at most
    "rows_per_person": float,  # about how many examples a person has
}
"""What a plan may know about the data, declared public."""

ABOUT_DATA = {
    **SIZES,
    "split": str,  # the part of a file that has several
    "labels": Path,  # an `.npy` of labels, for rows without
    "new_data_set": bool,  # rows that the ledger has under another name are other people's
    "strict_names": bool,  # names alone tell data sets apart; rows are not compared
}
"""What a fit is told about the private data."""

ABOUT_TEST = {"test_is_public": bool}
"""What is declared about test data that are not protected."""


def settings_of(
    assignments: Sequence[str] | None, about: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """What `--set` says about the method, by field, and about the data, in the types that `about` lists.

    >>> settings_of(["k=5", "data.size=900"], SIZES)
    ({'k': '5'}, {'size': 900})
    """
    from dptransfer.methods.configuration import in_type

    method: dict[str, str] = {}
    data: dict[str, Any] = {}
    for text in assignments or ():
        field, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not field:
            raise ArgumentError(f"--set takes field=value; got '{text}'. Example: --set k=5")
        name = field.removeprefix("data.")
        if name == field:
            method[field] = value
        elif name in about:
            data[name] = in_type(about[name], name, value)
        else:
            known = f"one of {', '.join(about)} here; got '{name}'"
            raise ArgumentError(f"--set data.FIELD takes {known}. Example: --set data.size=5000")
    return method, data


def grey_ends(text: str | None) -> GreyEnds | None:
    """What `--grey-range` says: the values that are black and white.

    >>> grey_ends("-150,250")
    (-150.0, 250.0)
    """
    if text is None:
        return None

    from dptransfer.data.grey_levels import declared_range

    try:
        return declared_range(text.split(","))
    except ArgumentError:
        raise ArgumentError(
            f"--grey-range takes two numbers, black and then white, the lower first; got '{text}'. "
            "Example: --grey-range 0,4095"
        ) from None


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
            raise ArgumentError(
                f"--classes takes a file of text; '{text}' is not. Save it as UTF-8."
            ) from None
    else:
        raise ArgumentError(
            f"--classes takes a number, a comma list or a file of names; got '{text}'. Example: cat,dog"
        )
    if not all(names):  # to skip it would move the classes after it one place up, and labels may be places
        raise ArgumentError("--classes must name every class; one is empty. Remove a comma or a blank line.")
    if names and all(name.isascii() and name.isdigit() and str(int(name)) == name for name in names):
        return tuple(int(name) for name in names)
    return tuple(names)


def workers_from(
    engine: str | None, workers: int | None, address: str | None, device: str = "cpu"
) -> Workers:
    """Who works, ready to begin: a cluster that does not answer is found out here, before anything is spent.

    Of processes on GPUs there is one for each, unless another number is given.

    >>> workers_from(None, None, None), workers_from("processes", 2, None)
    (ThisProcess(), Processes(workers=2, patience=None))
    """
    from dptransfer.base.ray_workers import RayCluster
    from dptransfer.base.workers import Processes, ThisProcess

    if engine not in (None, "processes", "ray"):
        raise ArgumentError(f"--engine must be processes or ray; got '{engine}'. Choose one of them.")
    if workers is not None and workers < 1:
        raise ArgumentError(f"--workers must be 1 or more; got {workers}. Leave it out for one per core.")
    if address is not None and engine != "ray":
        raise ArgumentError(
            f"--address names a Ray cluster; the engine is {engine or 'this process'}. Add --engine ray."
        )
    if engine == "ray" and address is None:
        raise ArgumentError(
            "--engine ray takes the cluster that you name, and looks for none; no --address was given. "
            "Add --address host:6379, or --address local for one on this machine."
        )
    if engine == "processes" and workers is None and device == "cuda":
        from dptransfer.encoders.device import gpu_count

        workers = max(1, gpu_count())
    chosen: Workers
    if address is not None:
        chosen = RayCluster(address, workers)
    else:
        chosen = ThisProcess() if engine is None and workers is None else Processes(workers)
    chosen.ready()
    return chosen


def note_if_idle(workers: Workers, *, public_rows: bool) -> None:
    """Say it where workers were named and have nothing to do, which is no error: results are the same."""
    from dptransfer.base.workers import ThisProcess

    if not public_rows and not isinstance(workers, ThisProcess):
        say("Note: --engine shares out work on public rows. There are none; this process does all.", err=True)


Release = Annotated[Path, typer.Argument(help="The release directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Unsafe = Annotated[
    bool, typer.Option("--unsafe-for-publication", help="Allow a seeded model, which must stay unpublished.")
]

_account = partial(typer.Option, rich_help_panel="Ledger and card")
LedgerFile = Annotated[Path | None, _account(help="Ledger file; default yours, or $DPTRANSFER_LEDGER.")]
DataSetName = Annotated[str | None, _account(help="What the ledger calls this data set.")]
Title = Annotated[str | None, _account(help="What the card calls the data, in public.")]
Contact = Annotated[str | None, _account(help="Whom the card says to ask.")]

data_option = partial(typer.Option, rich_help_panel="Data")
PublicPool = Annotated[
    Path | None,
    data_option(help="Public rows, such as pool.emb; or images or texts, where the private ones are."),
]
LabelledShots = Annotated[Path | None, data_option(help="A few labelled public rows, such as shots.emb.")]
Person = Annotated[
    str | None,
    data_option(
        metavar="COLUMN|FILE|...",
        help="Protect persons: what tells whose each example is: a column or file; 'folder', 'dicom'. "
        "'none': single examples alone.",
    ),
]
Holdout = Annotated[
    float | None,
    data_option(
        metavar="CHANCE",
        help="Keep each example, or person, from the fit with this chance, such as 0.2, to check the result.",
    ),
]
FeatureColumns = Annotated[
    str | None,
    data_option(metavar="'f*,...'", help="Columns of a table that are features; default all of numbers."),
]
LabelColumn = Annotated[
    str | None, data_option(metavar="NAME", help="Column of the labels in a table; default label.")
]
TextColumn = Annotated[str | None, data_option(help="Column of the texts; default text.")]
PathColumn = Annotated[str | None, data_option(help="Column of the images' paths in a CSV; default path.")]
Classes = Annotated[
    str | None, data_option(help="A number, a,b,c, or a file with one name per line; they are published.")
]

DELTA = 1e-5
_budget = partial(typer.Option, rich_help_panel="Budget")
Epsilon = Annotated[
    float | None, _budget("--epsilon", "-e", help="ε of the budget, such as 1; or give --budget.")
]
Delta = Annotated[
    float | None,
    _budget("--delta", "-d", help="δ, below 0.1; default 1e-5. 0 is pure DP, which few methods have."),
]
OtherBudget = Annotated[
    str | None,
    _budget("--budget", metavar="rho=R|mu=M", help="ρ of zCDP or μ of Gaussian DP, in place of ε."),
]
Neighbours = Annotated[Relation, _budget(help="What is hidden: who is there, or what each one there is.")]

_method = partial(typer.Option, rich_help_panel="Method")
_METHODS = f"{', '.join(METHODS.names)}, or package.module:Class. In their own words: dptransfer methods"
_FIELDS = "A field of the method, such as k=5 or pace.reach=20; or of the data, such as data.size=5000."
_TUNING = (
    "Choose a setting on the private rows; the budget pays for it. "
    "With --set tune_on_public=true on the public rows, for nothing."
)
MethodName = Annotated[str, _method("--method", "-m", help=_METHODS)]
Settings = Annotated[list[str] | None, _method("--set", metavar="FIELD=VALUE", help=_FIELDS)]
Tune = Annotated[list[str] | None, _method(metavar="FIELD=A,B,...", help=_TUNING)]
MethodDevice = Annotated[
    str | None, _method(help="cpu or cuda: where the method computes if it can, and the encoder.")
]

_encoding = partial(typer.Option, rich_help_panel="Encoding")
EncoderName = Annotated[
    str | None,
    _encoding(help="Such as efficientnet-lite0, minilm, hf:ORG/NAME, a model folder or an .onnx file."),
]
ImageSize = Annotated[int | None, _encoding("--image-size", min=1, help="Side of the pictures, such as 128.")]
GreyRange = Annotated[
    str | None,
    _encoding("--grey-range", metavar="LOW,HIGH", help="Black and white, where files have more than bytes."),
]
Device = Annotated[str, _encoding(help="cpu, cuda, cuda:1 or mps.")]
Runtime = Annotated[
    str | None,
    _encoding(help="onnx or torch, for encoders that both can run; default onnx on the cpu if installed."),
]
Batch = Annotated[int, _encoding(min=1, help="Examples encoded at a time.")]
ShardRows = Annotated[
    int | None,
    typer.Option("--shard-rows", min=1, metavar="N", help="In shards: a file for every N rows."),
]

_engine = partial(typer.Option, rich_help_panel="Engine")
EngineName = Annotated[
    str | None,
    _engine("--engine", metavar="processes|ray", help="Who works through large data; default this process."),
]
WorkerCount = Annotated[
    int | None, _engine("--workers", metavar="N", help="How many side by side; default one per core.")
]
ClusterAddress = Annotated[
    str | None,
    _engine("--address", help="Your Ray cluster: host:port, ray://host:port, or local for one here."),
]


def budget_from(epsilon: float | None, delta: float | None, other: str | None, relation: Relation) -> Budget:
    """The budget the options name; δ is 1e-5 unless given, as in `dptransfer.fit` and in scikit-learn.

    Most methods have Gaussian noise, which no pure budget pays for, and those that choose public rows are far
    less accurate: a pure promise is for those who ask for it.

    >>> print(budget_from(1.0, None, None, Relation.ADD_REMOVE))
    epsilon = 1, delta = 1e-5, add/remove
    >>> print(budget_from(1.0, 0.0, None, Relation.ADD_REMOVE))
    epsilon = 1, add/remove
    >>> print(budget_from(None, None, "rho=0.5", Relation.ADD_REMOVE))
    rho = 0.5 zCDP, add/remove
    """
    amounts = {"epsilon": epsilon}
    if other is not None:
        currency, _, amount = (part.strip() for part in other.partition("="))
        try:
            amounts[currency] = float(amount)
        except ValueError:
            currency = ""
        if currency not in ("rho", "mu"):
            raise ArgumentError(
                f"--budget takes rho=NUMBER or mu=NUMBER; got '{other}'. Example: --budget rho=0.5"
            )
    return Budget(**amounts, delta=DELTA if delta is None else delta, relation=relation)


@dataclass(frozen=True)
class BudgetOptions:
    """What a fit or an evaluation may cost."""

    epsilon: Epsilon = None
    delta: Delta = None
    other_budget: OtherBudget = None
    relation: Neighbours = Relation.ADD_REMOVE

    @property
    def given(self) -> bool:
        """Whether an amount was given."""
        return any(one is not None for one in (self.epsilon, self.delta, self.other_budget))

    def budget(self, delta: float | None = None) -> Budget:
        """The budget; `delta` is taken where none was given."""
        own = delta if self.delta is None and self.epsilon is not None else self.delta
        return budget_from(self.epsilon, own, self.other_budget, self.relation)


@dataclass(frozen=True)
class ColumnOptions:
    """Which columns of a table hold what."""

    label_column: LabelColumn = None
    text_column: TextColumn = None
    path_column: PathColumn = None
    feature_columns: FeatureColumns = None

    def columns(self, **others: Any) -> Columns:
        """The columns; `others` are those without an option here."""
        from dptransfer.data import Columns

        return Columns(self.path_column, self.text_column, self.label_column, self.feature_columns, **others)


@dataclass(frozen=True)
class ReadingOptions:
    """How images and texts become rows."""

    encoder: EncoderName = None
    image_size: ImageSize = None
    grey_range: GreyRange = None

    def reading(self, device: str | None = None, runtime: str | None = None) -> Reading:
        """The same as an object."""
        from dptransfer.api.source import Reading

        return Reading(self.encoder, self.image_size, grey_ends(self.grey_range), device, runtime)


@dataclass(frozen=True)
class WorkerOptions:
    """What processes large public data."""

    engine: EngineName = None
    workers: WorkerCount = None
    address: ClusterAddress = None

    def start(self, device: str = "cpu") -> Workers:
        """The workers, ready to begin."""
        return workers_from(self.engine, self.workers, self.address, device)


@dataclass(frozen=True)
class MethodOptions:
    """The method and its settings."""

    method: MethodName = "auto"
    settings: Settings = None
    tune: Tune = None
    device: MethodDevice = None


def declared_from(about: dict[str, Any]) -> Declared:
    """What `--set data.FIELD` declares public; taken out of what it says."""
    from dptransfer.api.source import Declared

    return Declared(**{name: about.pop(name) for name in SIZES if name in about})
