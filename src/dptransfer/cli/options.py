"""The options that several commands share, each written once, and the budget that some of them name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.errors import ArgumentError
from dptransfer.privacy import Budget, Relation

_BUDGET, _METHOD, _ENCODING = "Budget", "Method", "Encoding"

Release = Annotated[Path, typer.Argument(help="The release directory.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe-for-publication", help="Allow a seeded model, which must stay unpublished."),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="Ledger file; default yours, or $DPTRANSFER_LEDGER.", show_default=False),
]
DataSetName = Annotated[
    str | None, typer.Option("--name", help="What the ledger calls this data set.", show_default=False)
]
Title = Annotated[
    str | None,
    typer.Option("--title", help="What the card calls the data, in public.", show_default=False),
]
Contact = Annotated[
    str | None, typer.Option("--contact", help="Whom the card says to ask.", show_default=False)
]
PublicPool = Annotated[
    Path | None, typer.Option("--public", help="Public rows, such as pool.emb.", show_default=False)
]
LabelledShots = Annotated[
    Path | None,
    typer.Option("--shots", help="A few labelled public rows, such as shots.emb.", show_default=False),
]
Classes = Annotated[
    str | None,
    typer.Option("--classes", help="A number, a,b,c, or a file with one name per line.", show_default=False),
]

Epsilon = Annotated[
    float | None, typer.Option("--epsilon", "-e", help="ε; alone it is pure DP.", rich_help_panel=_BUDGET)
]
Delta = Annotated[
    float | None,
    typer.Option("--delta", "-d", help="δ, below 0.1; usual is 1e-5.", rich_help_panel=_BUDGET),
]
OtherBudget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="rho=R|mu=M",
        help="ρ of zCDP or μ of Gaussian DP, in place of ε.",
        rich_help_panel=_BUDGET,
    ),
]
Neighbours = Annotated[
    Relation, typer.Option("--relation", help="What a neighbour is.", rich_help_panel=_BUDGET)
]

MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="From sums: mean, mean-estimation, coinpress, public-prior. From public rows: public, top-k. "
        "Linear heads: noisy-gd, fully-private, dpsgd, global-adapt, least-squares, newton, "
        "feature-covariance; with --shots adamix, ngd, ppgd. Without private rows: only-public, language. "
        "Or auto.",
        rich_help_panel=_METHOD,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="A field of the method, such as k=5 or pace.reach=20; or of the data, such as data.size=5000.",
        rich_help_panel=_METHOD,
    ),
]
Tune = Annotated[
    list[str] | None,
    typer.Option(
        "--tune",
        metavar="FIELD=A,B,...",
        help="Choose a setting on the private rows; the budget pays for it. "
        "With --set tune_on_public=true on the public rows, for nothing.",
        rich_help_panel=_METHOD,
    ),
]
MethodDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="cpu or cuda: where the method computes if it can, and the encoder.",
        rich_help_panel=_METHOD,
        show_default=False,
    ),
]

EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Such as efficientnet-lite0, minilm, hf:ORG/NAME, a model folder or an .onnx file.",
        rich_help_panel=_ENCODING,
        show_default=False,
    ),
]
ImageSize = Annotated[
    int | None,
    typer.Option("--image-size", help="Side of the pictures, such as 128.", rich_help_panel=_ENCODING),
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 or mps.", rich_help_panel=_ENCODING)]
Batch = Annotated[
    int, typer.Option("--batch", min=1, help="Examples encoded at a time.", rich_help_panel=_ENCODING)
]


def budget_from(epsilon: float | None, delta: float | None, other: str | None, relation: Relation) -> Budget:
    """The budget the options name; δ is 0 for ε alone and 1e-5 for ρ and μ, unless given.

    >>> print(budget_from(1.0, None, None, Relation.ADD_REMOVE))
    epsilon = 1, add/remove
    >>> print(budget_from(None, None, "rho=0.5", Relation.ADD_REMOVE))
    rho = 0.5, delta = 1e-05, add/remove
    """
    amounts = {"epsilon": epsilon, "rho": None, "mu": None}
    if other is not None:
        currency, _, amount = other.partition("=")
        try:
            amounts[{"rho": "rho", "mu": "mu"}[currency.strip()]] = float(amount)
        except (KeyError, ValueError):
            raise ArgumentError(
                f"--budget takes rho=NUMBER or mu=NUMBER; got '{other}'. Example: --budget rho=0.5"
            ) from None
    if delta is None:
        delta = 1e-5 if epsilon is None and other is not None else 0.0
    return Budget(**amounts, delta=delta, relation=relation)
