"""What a fit is given: private, public and test data, each read and checked before anything is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.inputs import labelled_rows, note_open_folder, require_there, with_shots, with_words
from dptransfer.cli.model_encoder import labelled_examples
from dptransfer.cli.pictures import private_pictures, public_pictures, require_pictures, tested_pictures
from dptransfer.cli.spending import room_for
from dptransfer.encoders.encoding import is_table
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.data import PrivateData, PublicData
    from dptransfer.data.grey_levels import GreyRange
    from dptransfer.methods import ImageMethod, PrivateMethod
    from dptransfer.release import Evaluation, PrivateClassifier

_OF_ROWS = {
    "text_column": "--text-column",
    "features": "--feature-columns",
    "vocabulary": "--set data.vocabulary",
}
Test = Callable[["PrivateClassifier"], "Evaluation"]


@dataclass(frozen=True)
class Given:
    """The data of a fit.

    Attributes:
        private: the private examples.
        public: the public ones, if any.
        test: tests a model on unprotected examples, if there are some.
        tested: those examples; none of them may be private.
        room: bytes that the release may take.
        forget: removes the rows that were encoded for the fit, so that none outlives a release: a process
            that is killed later leaves none behind.
    """

    private: PrivateData
    public: PublicData | None
    test: Test | None
    tested: PublicData | None
    room: int
    forget: Callable[[], None] = lambda: None


@contextmanager
def given_rows(
    method: PrivateMethod,
    private: Path,
    public: Path | None,
    shots: Path | None,
    test: Path | None,
    *,
    classes: Sequence[str | int] | None,
    person: str | None,
    encoder: str | None,
    image_size: int | None,
    grey_range: GreyRange | None,
    device: str | None,
    out: Path,
    text_column: str | None = None,
    path_column: str | None = None,
    features: str | None = None,
    label_column: str | None = None,
    vocabulary: str | None = None,
    ask: Callable[..., None] | None = None,
    ready: Callable[[Any], None] = lambda digests: None,
    **about: Any,
) -> Iterator[Given]:
    """Rows for a method on rows; images and texts are encoded, without a name by the default encoder.

    Rows of private and public ones lie beside them until the release is there, so that a killed run goes on;
    those of tests are in memory alone. `ask` is given what is public about rows that are still to be encoded,
    and the pool or an outline of it, and raises where the ledger would refuse the fit. `ready` is called
    with digests of the private files or texts before minutes of encoding, after mistakes in options and data
    have been found.
    """
    from dptransfer.api.intake import Intake
    from dptransfer.release.evaluation import evaluate_model

    of_examples: dict[str, Any] = {"text_column": text_column, "path_column": path_column}
    with ExitStack() as kept:
        intake = Intake(
            private,
            classes=classes,
            people=person,
            encoder=encoder,
            **of_examples,
            features=features,
            label_column=label_column,
            purpose=out,
            kept=kept,
            size=image_size,
            device=device or "cpu",
            grey_range=grey_range,
        )
        loaded = intake.encoder
        if loaded is None:
            note_open_folder(private)
        else:
            for path in (public, shots, test):
                require_there(path)
                if path is not None:
                    is_table(path, **of_examples, features=features)  # a type that nothing reads
            ready(intake.source_digests)
        early = None if ask is None else intake.facts(**about)
        plain = shots is None and vocabulary is None
        outline = None if early is None or public is None or not plain else intake.outline(public)
        if ask is not None and outline is not None:
            ask(early, outline)
        pool = with_words(None if public is None else intake.public(public), vocabulary)
        beside = with_shots(pool, shots, classes, features, label_column)
        if ask is not None and early is not None:
            ask(early, beside)
        rows = intake.private(**about)
        facts, tested = rows.facts, None
        if test is not None and loaded is not None and not is_table(test, features=features, **of_examples):
            of_examples["label_column"] = label_column
            tested = labelled_examples(test, loaded, facts.classes, **of_examples)
        elif test is not None:
            tested = labelled_rows(test, facts, features=features, label_column=label_column)
        yield Given(
            rows,
            with_shots(pool, shots, facts.classes, features, label_column),
            None if tested is None else lambda model: evaluate_model(model, *tested[:2], name=tested[2]),
            None if tested is None else tested[0],
            room_for(facts, method),
            kept.close,
        )


@contextmanager
def given_pictures(
    method: ImageMethod,
    private: Path,
    public: Path | None,
    shots: Path | None,
    test: Path | None,
    label_column: str | None = None,
    path_column: str | None = None,
    ready: Callable[[Any], None] = lambda digests: None,
    **about: Any,
) -> Iterator[Given]:
    """Pictures for a method on pictures, at the size that its network takes."""
    from dptransfer.encoders import encode_pixels
    from dptransfer.release.evaluation import evaluate_model

    if odd := [name for name in _OF_ROWS if about.pop(name, None) is not None]:
        raise ArgumentError(
            f"{_OF_ROWS[odd[0]]} is for methods on rows; '{method.name}' takes pictures. Leave it out."
        )
    require_pictures(method, private, public, test, path_column=path_column)
    if shots is not None:
        raise ArgumentError(
            f"--shots are labelled public rows; the method '{method.name}' takes pictures. Leave them out."
        )
    for path in (private, public, test):
        require_there(path)
    ready(None)
    network, greys = method.network(), method.grey_range
    pool = None if public is None else public_pictures(public, network.side, greys, path_column)
    columns = {"label_column": label_column, "path_column": path_column}
    pictures = private_pictures(private, network.side, grey_range=greys, **columns, **about)
    run_test = tested = None
    if test is not None:
        tested, labels, name = tested_pictures(test, network.side, pictures.facts, greys, **columns)

        def run_test(model: PrivateClassifier) -> Evaluation:
            encoder = method.encoder_after(model.facts.encoder, model.encoder_delta)
            return evaluate_model(model, encode_pixels(pixels, encoder), labels, name=name)

        pixels = tested.pixels

    yield Given(pictures, pool, run_test, tested, room_for(pictures.facts, method, network))
