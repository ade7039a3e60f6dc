"""Console text of the demo: short, one idea per step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from dptransfer.ledger import Charge, Ledger
from dptransfer.privacy import GaussianEvent, Guarantee, rounded_up
from dptransfer_lab.demo.embed import PARTS
from dptransfer_lab.demo.sets import DemoSets, Result

if TYPE_CHECKING:
    from rich.console import Console

    from dptransfer.methods import Plan
    from dptransfer.release import Card, Verification

_BAR = 16
_QUIET = "bright_black"
_GOOD = "green"
_HERE = "cyan"
_CARD_LINES = 14


class Story:
    """The demo's steps, told on one console; nothing is read as markup."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._step = 0

    def opening(self, sets: DemoSets) -> None:
        """What there is to work with."""
        self._heading("The pictures")
        table = _table("", "pictures", "what they are", numbers=(1,))
        for part, about in zip(PARTS, sets.about, strict=True):
            table.add_row(Text(part, style="bold"), f"{len(getattr(sets, part)):,}", about)
        self._show(table)
        self._say("The classes are declared, never read off private labels: " + ", ".join(sets.classes) + ".")

    @contextmanager
    def encoding(self, encoder: str, size: int) -> Iterator[Callable[[str, int, int], None]]:
        """A bar for each set while the block runs."""
        self._heading(f"Encode with {encoder} at {size} pixels, a public model, frozen")
        columns = (
            TextColumn("  {task.description:8}"), BarColumn(40), MofNCompleteColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=self._console) as bars:
            tasks = {part: bars.add_task(part, total=None) for part in PARTS}
            yield lambda part, done, total: bars.update(tasks[part], completed=done, total=total)

    def encoded(self, reused: Sequence[str]) -> None:
        """Which rows were there already."""
        if reused:
            self._say(f"Used again from an earlier run: {', '.join(reused)}.")

    def plan(self, plan: Plan, name: str) -> None:
        """What is about to be spent."""
        self._heading(f"Fit '{plan.method.name}': plan, charge the ledger, only then read a private row")
        for event in plan.events:
            step = (
                f"Gaussian noise, {event.noise_multiplier:.4g} times the sensitivity"
                if isinstance(event, GaussianEvent)
                else f"{event.kind}, {event.words(4)}"
            )
            self._say(f"Cost, charged to '{name}' first: {step}.")

    def guarantee(self, guarantee: Guarantee) -> None:
        """The promise."""
        self._console.print(Padding(Panel(Text(str(guarantee), style="bold"), border_style=_GOOD), (0, 2)))

    def results(self, results: Sequence[Result], sets: DemoSets) -> None:
        """Accuracies, and bars by class."""
        self._heading("What privacy costs")
        table = _table("classifier", "promise", "balanced accuracy", "rarest classes", numbers=(2, 3))
        for place, one in enumerate(results):
            style = "bold" if place == 0 else ""
            shares = (f"{one.tested.balanced_accuracy:.1%}", f"{one.tested.minority_accuracy:.1%}")
            table.add_row(one.name, one.promise, *shares, style=style)
        self._show(table)
        private, reference = results[:2]
        bars = _table("class", "pictures", f"recall, {private.promise}", reference.promise, numbers=(1,))
        for place in np.argsort(-np.asarray(sets.sizes), kind="stable"):
            bars.add_row(
                sets.classes[place],
                str(sets.sizes[place]),
                _bar(private.tested.recall[place] or 0.0, _HERE),
                _bar(reference.tested.recall[place] or 0.0, _QUIET),
            )
        self._show(bars)
        self._say(
            "Test pictures are not protected, nor is the reference: on secret data you would not make it."
        )

    def prototypes(self, captions: Mapping[str, str], balanced: float, guarantee: Guarantee) -> None:
        """Which public pictures stand for the classes."""
        self._heading("Prototypes one can look at")
        self._say(
            f"A second fit, charged as ε = {rounded_up(guarantee.epsilon, 3)} again, picks a public picture "
            f"per class: {balanced:.1%} balanced accuracy, less than above, but the whole model can be shown."
        )
        if captions:
            self._say("   ".join(f"{name}→{caption}" for name, caption in captions.items()), style=_HERE)
        self._say("figures/prototypes.png shows them.")

    def ledger(self, ledger: Ledger, name: str, refusal: str) -> None:
        """What was spent, and what happens when nothing is left."""
        self._heading("The ledger adds up, and refuses")
        table = _table("entry", "for", "status", numbers=(0,))
        for entry in ledger.history(name):
            if isinstance(entry, Charge):
                table.add_row(str(entry.number), entry.label, entry.status)
        self._show(table)
        account = next(one for one in ledger.datasets() if one.dataset.name == name)
        self._say(f"'{name}': {account.sentence}.")
        self._say(
            "It is no plain sum. Gaussian releases cost less together; a selection after one costs more, "
            "since it may have been asked for in the light of the first answer."
        )
        self._say("Asked for one fit more, it answered before a row was read:")
        self._say(refusal, style="red")

    def card(self, card: Card, verification: Verification) -> None:
        """The beginning of the card, and whether the release holds."""
        self._heading("The release: card and verification")
        width = min(96, self._console.width - 8)
        excerpt = "\n".join(card.text(width).splitlines()[:_CARD_LINES])
        self._console.print(Padding(Panel(Text(excerpt + "\n…"), border_style=_QUIET), (0, 2)))
        required = [check for check in verification.checks if check.required]
        passed, epsilon = sum(check.passed for check in required), verification.recomputed_epsilon
        self._say(
            f"verify: {passed} of {len(required)} checks passed; ε computed again from the recorded steps: "
            f"{'none' if epsilon is None else rounded_up(epsilon)}.",
            style=_GOOD if verification.ok else "bold red",
        )
        self._say(verification.not_shown, style=_QUIET)

    def closing(self, out: Path, data: str, sets: DemoSets, seconds: float) -> None:
        """Where the files are, what to try, and what not to believe."""
        self._heading(f"Done in {seconds:.0f} s. What there is now")
        self._say(f"In {out}:")
        files = Table.grid(padding=(0, 2))
        for path, what in (
            ("model/card.html", "the card: open it in a browser"),
            ("figures/recall.png", "recall by class, private against not"),
            ("figures/epsilon.png", "accuracy against ε"),
            ("figures/prototypes.png", "the public pictures chosen for the classes"),
            ("model/, prototypes/", "the two releases, made to be published"),
            ("ledger.sqlite, images/, *.emb", "the owner's: never published"),
            ("results.json", "the numbers above"),
        ):
            files.add_row(Text(f"  {path}", style=_HERE), what)
        self._show(files)
        self._say("Try next:")
        for command in (
            f"dptransfer predict {out}/model {out}/images/test/{sets.classes[0]}/*.png",
            f"dptransfer demo --data {data} --epsilon 4 --out {out}",
            f"dptransfer ledger history --ledger {out}/ledger.sqlite",
        ):
            self._console.print(Text(f"    {command}", style=_HERE), soft_wrap=True)
        self._say(
            "Read the promise closely: it is about one picture. Whoever made many of them is protected less. "
            "And these pictures were public all along; yours are not."
        )
        self._say(
            "The size of the pictures and the drawing of the pool were picked by trying them on the digits. "
            "On secret data that would break the promise's assumption, or have to be paid for."
        )

    def _heading(self, text: str) -> None:
        self._step += 1
        self._console.print()
        self._console.rule(Text(f"{self._step}. {text}", style="bold"), align="left", style=_QUIET)

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Padding(Text(text, style=style), (0, 2)))

    def _show(self, table: Table) -> None:
        self._console.print(Padding(table, (0, 2)))


def _table(*header: str, numbers: Sequence[int] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style=_QUIET)
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place in numbers else "left")
    return table


def _bar(share: float, style: str) -> Text:
    return Text.assemble(("█" * round(_BAR * share)).ljust(_BAR, "·"), f" {share:4.0%}", style=style)
