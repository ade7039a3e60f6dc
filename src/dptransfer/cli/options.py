"""The options that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptransfer.methods import METHODS

_METHOD, _DECLARED, _ENCODING = "Method", "Declared public", "Encoding"

_of_other_packages = "".join(f", {name}" for name in METHODS.names if name not in METHODS.own)

LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="Ledger file; default yours, or $DPTRANSFER_LEDGER.", show_default=False),
]
MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="From sums: mean, mean-estimation, coinpress, public-prior. From public rows: public, top-k. "
        "Linear heads: noisy-gd, fully-private, dpsgd, global-adapt, least-squares, newton, "
        "feature-covariance; with --shots adamix, ngd, ppgd. Without private rows: only-public, language. "
        f"Or auto{_of_other_packages}, or package.module:Class. In words: dptransfer methods.",
        rich_help_panel=_METHOD,
    ),
]
Axes = Annotated[
    int | None, typer.Option("--axes", help="Public axes that are kept.", rich_help_panel=_METHOD)
]
Pool = Annotated[
    int | None, typer.Option("--pool", help="Neighbouring features averaged.", rich_help_panel=_METHOD)
]
Prototypes = Annotated[int | None, typer.Option("--k", help="Prototypes per class.", rich_help_panel=_METHOD)]
Mechanism = Annotated[
    str | None, typer.Option("--mechanism", help="How public rows are chosen.", rich_help_panel=_METHOD)
]
Lowest = Annotated[
    float | None, typer.Option("--lowest", help="Smallest similarity counted.", rich_help_panel=_METHOD)
]
Highest = Annotated[
    float | None, typer.Option("--highest", help="Largest similarity counted.", rich_help_panel=_METHOD)
]
NoiseMultiplier = Annotated[
    float | None,
    typer.Option("--noise-multiplier", help="Noise of a step ÷ clip.", rich_help_panel=_METHOD),
]
Steps = Annotated[int | None, typer.Option("--steps", help="Noisy steps.", rich_help_panel=_METHOD)]
Clip = Annotated[
    float | None, typer.Option("--clip", help="Longest gradient of one example.", rich_help_panel=_METHOD)
]
SamplingRate = Annotated[
    float | None,
    typer.Option("--sampling-rate", help="Chance of an example to be in a step.", rich_help_panel=_METHOD),
]
Start = Annotated[
    str | None,
    typer.Option("--start", help="Where a head starts: zero, shots or names.", rich_help_panel=_METHOD),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Any other field of the method, such as pace.reach=20.",
        rich_help_panel=_METHOD,
    ),
]
Tune = Annotated[
    list[str] | None,
    typer.Option(
        "--tune",
        metavar="FIELD=A,B,...",
        help="Choose a setting on the private rows; the budget pays for it.",
        rich_help_panel=_METHOD,
    ),
]
TuneOnPublic = Annotated[
    bool,
    typer.Option(
        "--tune-on-public", help="Choose it on the public rows instead, for nothing.", rich_help_panel=_METHOD
    ),
]
MeanTrials = Annotated[
    float | None,
    typer.Option("--mean-trials", help="How often to try, on average; default 10.", rich_help_panel=_METHOD),
]
MethodDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="Where the method computes: cpu or cuda.",
        rich_help_panel=_METHOD,
        show_default=False,
    ),
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
    typer.Option("--class-counts", metavar="A,B,...", help="Exact class sizes.", rich_help_panel=_DECLARED),
]
EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Such as efficientnet-lite0, a model folder, an .onnx file or package.module:Class.",
        rich_help_panel=_ENCODING,
        show_default=False,
    ),
]
ImageSize = Annotated[
    int | None,
    typer.Option("--image-size", help="Side of the pictures, such as 128.", rich_help_panel=_ENCODING),
]
AllowUnreadable = Annotated[
    bool,
    typer.Option(
        "--allow-unreadable", help="Unreadable images become rows of zeros.", rich_help_panel=_ENCODING
    ),
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 or mps.", rich_help_panel=_ENCODING)]
FitDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="cpu, cuda, cuda:1 or mps: for the encoder, and the method where it can.",
        rich_help_panel=_METHOD,
        show_default=False,
    ),
]
ScoringDevice = Annotated[str, typer.Option("--device", help="Where rows are scored: cpu or cuda.")]
Batch = Annotated[
    int, typer.Option("--batch", min=1, help="Examples encoded at a time.", rich_help_panel=_ENCODING)
]
DataSetName = Annotated[
    str | None, typer.Option("--name", help="What the ledger calls this data set.", show_default=False)
]
NewDataSet = Annotated[
    bool, typer.Option("--new-data-set", help="Rows the ledger has under another name are other people's.")
]
StrictNames = Annotated[
    bool, typer.Option("--strict-names", help="Names alone tell data sets apart; rows are not compared.")
]
Split = Annotated[
    str | None, typer.Option("--split", help="Part of a file that has several.", show_default=False)
]
LabelFile = Annotated[
    Path | None, typer.Option("--labels", help="An .npy of labels, for rows without.", show_default=False)
]
Title = Annotated[
    str | None,
    typer.Option("--title", help="What the card calls the data, in public.", show_default=False),
]
Contact = Annotated[
    str | None, typer.Option("--contact", help="Whom the card says to ask.", show_default=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe-for-publication", help="Allow a seeded model, which must stay unpublished."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
