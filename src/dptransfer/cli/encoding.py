"""Images and texts on the command line: what is encoded with what, and the bar that shows how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dptransfer.cli.screen import console, on_terminal
from dptransfer.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from dptransfer.data import ImageList, TextList
    from dptransfer.encoders import Encoder

DEFAULT_ENCODER = "efficientnet-lite0"
_NAMED = 5
_TEXT_ENDINGS = (".txt",)


def is_table(path: Path) -> bool:
    """Whether the path holds rows of numbers, rather than images or texts."""
    from dptransfer.data.columns import is_dataset_folder

    if path.is_dir():
        return path.suffix == ".emb" or (path / "manifest.json").is_file() or is_dataset_folder(path)
    return path.suffix.lower() in {".emb", ".npy", ".npz", ".safetensors", ".pt", ".pth", ".parquet"}


def examples_in(
    path: Path,
    encoder: Encoder,
    classes: Sequence[str | int] | None,
    *,
    labelled: bool = True,
    text_column: str | None = None,
) -> ImageList | TextList:
    """The images or texts at `path`, as the encoder takes them; without `labelled` no label is looked at."""
    from dptransfer.data import find_images, find_texts

    if encoder.kind == "text":
        return find_texts(path, classes=classes, labelled=labelled, column=text_column or "text")
    if text_column is not None:
        raise ArgumentError(
            f"--text-column needs an encoder for texts; '{encoder.identity.name}' is for images. "
            "Example: --encoder minilm"
        )
    if path.suffix.lower() in _TEXT_ENDINGS:
        raise ArgumentError(
            f"Texts need an encoder for texts; '{encoder.identity.name}' is for images. "
            "Example: --encoder minilm"
        )
    return find_images(path, classes=classes, labelled=labelled)


def unrecognised(paths: Sequence[Path]) -> list[str]:
    """Images that cannot even be recognised; a look at the first bytes of each, before the work."""
    from PIL import Image

    from dptransfer.data.decode import without_warnings

    bad = []
    with without_warnings():
        for path in paths:
            try:
                with Image.open(path):
                    pass
            except Exception:  # Pillow's readers raise many types on damaged files
                bad.append(str(path))
    return bad


def refuse_unreadable(names: Sequence[str], *, remedy: str) -> None:
    """Raise if there are any, and name them: for images that somebody asks about, not for private ones."""
    if names:
        rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        listed = ", ".join(f"'{name}'" for name in names[:_NAMED])
        raise DataError(f"Images must be readable; {len(names)} cannot be read: {listed}{rest}. {remedy}")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with rate and time left on standard error; silent in a pipe."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Examples a second."""

        def render(self, task: object) -> Text:
            speed = getattr(task, "finished_speed", None) or getattr(task, "speed", None)
            return Text(f"{speed:.0f}/s" if speed else "")

    screen = console(err=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, disable=not on_terminal(err=True)) as bar:
        task = None

        def step(done: int, total: int) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task(what, total=total, completed=done)
            bar.update(task, completed=done)

        yield step
