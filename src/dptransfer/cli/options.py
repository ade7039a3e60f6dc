"""The options that several commands share, each written once, and the budget that some of them name."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dptransfer.errors import ArgumentError
from dptransfer.methods import METHODS
from dptransfer.privacy import Budget, Relation

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
