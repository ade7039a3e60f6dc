"""The options that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.privacy import Budget, Relation

_BUDGET, _METHOD, _DECLARED, _ENCODING = "Budget", "Method", "Declared public", "Encoding"

Epsilon = Annotated[
    float | None, typer.Option("--epsilon", "-e", help="ε; alone it is pure DP.", rich_help_panel=_BUDGET)
]
Delta = Annotated[
    float | None, typer.Option("--delta", "-d", help="δ, below 1.", rich_help_panel=_BUDGET)
]
Rho = Annotated[
    float | None, typer.Option("--rho", help="ρ of zCDP, in place of ε.", rich_help_panel=_BUDGET)
]
Mu = Annotated[
    float | None, typer.Option("--mu", help="μ of Gaussian DP, in place of ε.", rich_help_panel=_BUDGET)
]
Neighbours = Annotated[
    Relation, typer.Option("--relation", help="What a neighbour is.", rich_help_panel=_BUDGET)
]
LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="Ledger file; default yours, or $DPTRANSFER_LEDGER.", show_default=False),
]
MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="mean, mean-estimation, coinpress, public, top-k, public-prior or auto.",
        rich_help_panel=_METHOD,
    ),
]
Axes = Annotated[
    int | None, typer.Option("--axes", help="Public axes that are kept.", rich_help_panel=_METHOD)
]
Pool = Annotated[
    int | None, typer.Option("--pool", help="Neighbouring features averaged.", rich_help_panel=_METHOD)
]
Prototypes = Annotated[
    int | None, typer.Option("--k", help="Prototypes per class.", rich_help_panel=_METHOD)
]
Mechanism = Annotated[
    str | None, typer.Option("--mechanism", help="How public rows are chosen.", rich_help_panel=_METHOD)
]
Lowest = Annotated[
    float | None, typer.Option("--lowest", help="Smallest similarity counted.", rich_help_panel=_METHOD)
]
Highest = Annotated[
    float | None, typer.Option("--highest", help="Largest similarity counted.", rich_help_panel=_METHOD)
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Any other field of the method.", rich_help_panel=_METHOD
    ),
]
PublicPool = Annotated[
    Path | None, typer.Option("--public", help="Public rows, such as pool.emb.", show_default=False)
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="A number, a,b,c, or a file with one name per line.",
        rich_help_panel=_DECLARED,
        show_default=False,
    ),
]
DeclaredSize = Annotated[
    int | None, typer.Option("--size", help="About how many examples.", rich_help_panel=_DECLARED)
]
ClassCounts = Annotated[
    str | None,
    typer.Option(
        "--class-counts", metavar="A,B,...", help="Exact class sizes.", rich_help_panel=_DECLARED
    ),
]
EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Such as efficientnet-lite0, a model folder or an .onnx file.",
        rich_help_panel=_ENCODING,
        show_default=False,
    ),
]
Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, cuda:1 or mps.", rich_help_panel=_ENCODING)
]
Batch = Annotated[
    int, typer.Option("--batch", min=1, help="Examples encoded at a time.", rich_help_panel=_ENCODING)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def budget_from(
    epsilon: float | None, delta: float | None, rho: float | None, mu: float | None, relation: Relation
) -> Budget:
    """The budget the options name; δ is 0 for ε alone and 1e-5 for ρ and μ, unless given.

    >>> print(budget_from(1.0, None, None, None, Relation.ADD_REMOVE))
    epsilon = 1, add/remove
    """
    if delta is None:
        delta = 0.0 if epsilon is not None or (rho is None and mu is None) else 1e-5
    return Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu, relation=relation)
