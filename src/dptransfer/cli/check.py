"""`dptransfer check`: what is wrong with data, for their owner's eyes, before anything is spent."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.base.progress import reported_to
from dptransfer.cli import options
from dptransfer.cli.inputs import require_new, require_other_than, require_there
from dptransfer.cli.options import SIZES, class_list, grey_ends, note_if_idle, settings_of, workers_from
from dptransfer.cli.screen import console, on_terminal, progress_bar, say, show_json
from dptransfer.encoders.encoding import NOBODY
from dptransfer.errors import ArgumentError, DPTransferError

if TYPE_CHECKING:
    from dptransfer.encoders import Encoder
    from dptransfer.sources.contents import Contents

_ABOUT = {
    **{name: kind for name, kind in SIZES.items() if name != "class_counts"},
    "split": str,
    "labels": Path,
}


def check(
    data: Annotated[Path, typer.Argument(help="Private data: pictures, texts or rows, as for 'fit'.")],
    public: Annotated[Path | None, options.data_option(help="The public pool.")] = None,
    test: Annotated[Path | None, options.data_option(help="Labelled test examples.")] = None,
    classes: options.Classes = None,
    person: options.Person = None,
    epsilon: Annotated[
        str, typer.Option("--epsilon", "-e", help="The ε for which to estimate accuracies.")
    ] = "1,4",
    delta: Annotated[float, typer.Option("--delta", "-d", help="The δ for these ε.")] = 1e-5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML page to write; only you can read it.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="data.FIELD=VALUE", help="Such as data.size=5000.")
    ] = None,
    label_column: options.LabelColumn = None,
    text_column: options.TextColumn = None,
    path_column: options.PathColumn = None,
    feature_columns: options.FeatureColumns = None,
    encoder: options.EncoderName = None,
    image_size: options.ImageSize = None,
    grey_range: options.GreyRange = None,
    device: options.Device = "cpu",
    runtime: options.Runtime = None,
    engine: options.EngineName = None,
    workers: options.WorkerCount = None,
    address: options.ClusterAddress = None,
    as_json: options.AsJson = False,
) -> None:
    """Look for problems in the data before you spend any budget (owner only).

    The report is as private as the data. The command charges nothing, releases nothing, opens no ledger and
    writes nothing but --out. The exit code is 0 whatever is found, because exit codes end up in logs. Only
    data that cannot be read at all are an error.

    Fields of --set data.FIELD=VALUE: size and rows_per_person (declared public, for the accuracies);
    person_bound; split and labels (of the private file).

    Example: dptransfer check photos/ --public pool/ --test test/ --out report.html
    """
    require_other_than(data, public, "--public", "All of it would be found twice.")
    require_other_than(data, test, "--test", "All of it would be found twice.")
    of_method, about = settings_of(settings, _ABOUT)
    if of_method:
        raise ArgumentError(
            f"--set takes data.FIELD=VALUE here; got '{next(iter(of_method))}'. Leave it out."
        )

    hands = workers_from(engine, workers, address)
    note_if_idle(hands, public_rows=public is not None)

    from dptransfer.api.check import check as checked
    from dptransfer.data import Columns
    from dptransfer.sources import STORED
    from dptransfer.sources.contents import contents_of

    greys = grey_ends(grey_range)
    kinds = {
        contents_of(path, Columns(path_column, text_column, features=feature_columns))
        for path in (data, public, test)
        if path is not None
    }
    for path in (data, public, test):
        require_there(path)
    if out is not None:  # after mistakes in options, and before minutes of work
        require_new(out)
    with progress_bar("Checking", count_is_private=True) as step, reported_to(step):
        found = checked(
            data,
            public,
            test,
            classes=None if classes is None else class_list(classes),
            people={None: STORED, NOBODY: None}.get(person, person),
            epsilons=_numbers(epsilon),
            delta=delta,
            text_column=text_column,
            path_column=path_column,
            features=feature_columns,
            label_column=label_column,
            grey_range=greys,
            encoder=_encoder(
                encoder, kinds, size=image_size, device=device, runtime=runtime, grey_range=greys
            ),
            workers=hands,
            **about,
        )
    document = found.document()
    if out is not None:
        _write(out, document.html())
    if as_json:
        return show_json(document.to_dict())
    typer.echo(document.text(min(console().width, 100), colour=on_terminal()), nl=False)
    if out is not None:
        say(f"Written: {out}")


def _numbers(text: str) -> list[float]:
    """The ε of a comma list; whether each is one is checked where it is used."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--epsilon takes a number or several; got '{text}'. Example: 1,4") from None


def _encoder(name: str | None, kinds: Collection[Contents], **how: Any) -> Encoder | None:
    """What would encode sets that are not rows yet: the one that is named, or the default if it is there."""
    from dptransfer.api.intake import DEFAULT_ENCODERS
    from dptransfer.encoders import get_encoder

    default = next((DEFAULT_ENCODERS[kind] for kind in ("images", "texts") if kind in kinds), None)
    if default is None:
        return None
    if name is not None:
        return get_encoder(name, **how)
    with suppress(DPTransferError):  # it is not installed, and nobody asked for it
        return get_encoder(default, **how)
    return None


def _write(out: Path, page: str) -> None:
    """A page that nobody else can read, from its first byte on."""
    from dptransfer.data.atomic_files import owner_only, write_whole

    write_whole(out, page.encode(), opener=owner_only)
