"""`dptransfer demo`: the whole story on data that everybody has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    data: Annotated[str, typer.Option(help="digits, or fashion-mnist where it is installed.")] = "digits",
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the files go.")] = Path("demo-output"),
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="ε of the demo's fit.")] = 1.0,
    delta: Annotated[
        float, typer.Option("--delta", "-d", help="δ; 1e-5 if not given.", show_default=False)
    ] = 1e-5,
) -> None:
    """Run the whole story on handwritten digits.

    Example: dptransfer demo --epsilon 2
    """
    from rich.console import Console

    from dptransfer_lab.demo.run import run_demo

    run_demo(data=data, out=out, epsilon=epsilon, delta=delta, console=Console())
