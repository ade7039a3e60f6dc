"""`dptransfer page`: a static page that runs a release in the visitor's browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

import dptransfer as dpt
from dptransfer.cli import options
from dptransfer.cli.screen import say, show_result


def page(
    model: options.Release,
    encoder: options.ModelEncoder,
    out: Annotated[Path, Option("--out", "-o", help="The folder to write.")],
    runtime: Annotated[Path | None, Option(help="onnxruntime-web: an archive or a folder.")] = None,
    self_test: Annotated[bool, Option("--self-test", help="Compare the page with Python.")] = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a static page that runs a release in the browser. What visitors enter stays on their computer.

    Upload the folder to any web server, or run serve.py in it. The release must verify. --self-test compares
    rows, probabilities, labels and sets with Python's; the exit code is 2 if they differ.

    Example: dptransfer page model/ --out site/ --self-test
    """
    from dptransfer.page import compare_with_python, read_runtime, write_page
    from dptransfer.page.ort_runtime import TESTED

    released, found = dpt.load(model), read_runtime(runtime)
    if found.version != TESTED:
        say(f"Note: pages were tested with onnxruntime-web {TESTED}; this is {found.version}.", err=True)
    needs_encoder = released.encoder is not None or encoder.encoder is not None
    loaded = encoder.load(released) if needs_encoder else None
    write_page(model, out, loaded, found, overwrite=overwrite)
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    facts = {"written": out, "megabytes": round(size, 1), "runtime": found.version}
    if self_test:
        same = compare_with_python(out, released, loaded)
        facts["self-test"] = (
            f"{same.inputs} inputs in {same.by}: rows differ by {same.rows:.2g}, probabilities by "
            f"{same.probabilities:.2g}; labels and sets agree"
        )
    facts["next"] = f"python {out}/serve.py"
    show_result(facts, as_json=as_json)
