"""A report of a results folder: who won, what was run, figures, tables, claims, and how to run it again."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Literal

import pandas as pd

from dptransfer import __version__
from dptransfer.base.document import (
    Block,
    Bullets,
    Code,
    Document,
    Note,
    Paragraph,
    Section,
    Strong,
    Table,
    Words,
)
from dptransfer.base.types import JsonObject
from dptransfer.errors import DataError
from dptransfer_lab.catalogue import built_in
from dptransfer_lab.claims import Claim, Where, check, entries_of
from dptransfer_lab.figures.best import ablation, best_methods, optimal_k
from dptransfer_lab.figures.cost import cost
from dptransfer_lab.figures.curves import attack_trade, curves, performance_boost
from dptransfer_lab.figures.drawing import Drawing
from dptransfer_lab.figures.gallery import Pictures, gallery, pictures_of
from dptransfer_lab.figures.instance import loss_curves
from dptransfer_lab.figures.style import Style, styles_of
from dptransfer_lab.paper import write_tables
from dptransfer_lab.points import SIZE_WORDS, UNIT_WORDS, finished_cells, place_cells, slug, span_words
from dptransfer_lab.report_tables import (
    accuracy_tables,
    cost_table,
    excess_table,
    loss_section,
    other_metrics,
    printed_section,
    settings_table,
    unfinished_table,
)
from dptransfer_lab.results import read_results, read_study, studies_of
from dptransfer_lab.statistics import who_won
from dptransfer_lab.study import Part, parse_study

Kind = Literal["curves", "best", "ablation", "cost", "boost", "attack", "instance-loss", "best-k", "gallery"]


class FigureEntry(Part):
    """One `[[figure]]` of a study.

    Attributes:
        kind: which figure.
        metric: which number it shows, for curves, best, ablation and cost.
        over: a factor with one panel for each of its values, for curves.
        error: show 1 − the metric, for curves and ablation.
        where: which cells; default all.
    """

    kind: Kind
    metric: str = ""
    over: str | None = None
    error: bool = False
    where: Where = Where()

    def drawn(self, frame: pd.DataFrame, styles: Mapping[str, Style], pictures: Pictures) -> list[Drawing]:
        """The figures of this kind that these cells have."""
        cells, metric = self.where.of(frame), self.metric or "balanced_accuracy"
        kinds: dict[Kind, Callable[[], list[Drawing]]] = {
            "curves": lambda: curves(cells, styles, metric=metric, over=self.over, error=self.error),
            "best": lambda: best_methods(cells, styles, metric=metric),
            "ablation": lambda: ablation(cells, styles, metric=metric, error=self.error),
            "cost": lambda: cost(cells, styles, cost=self.metric or "fit_seconds"),
            "boost": lambda: performance_boost(cells, styles),
            "attack": lambda: attack_trade(cells, styles),
            "instance-loss": lambda: loss_curves(cells, styles),
            "best-k": lambda: optimal_k(cells, metric=metric),
            "gallery": lambda: gallery(cells, styles, pictures),
        }
        return kinds[self.kind]()


def drawings_of(
    frame: pd.DataFrame, styles: Mapping[str, Style], study: JsonObject, folders: Sequence[Path] = ()
) -> list[Drawing]:
    """The figures of a study, each name once.

    Args:
        frame: its finished cells, as `place_cells` gives them.
        styles: how its labels are drawn.
        study: the study, resolved.
        folders: where its files are looked for, for the pictures behind public rows.
    """
    pictures = pictures_of(study, folders)
    found: dict[str, Drawing] = {}
    for entry in entries_of(study, "figure", FigureEntry) or _fitting(frame):
        for drawing in entry.drawn(frame, styles, pictures):
            found.setdefault(drawing.name, drawing)
    return list(found.values())


def _fitting(frame: pd.DataFrame) -> list[FigureEntry]:
    """What the results may have: each drawing function gives nothing where there is nothing to show."""
    over = "imbalance" if frame["imbalance"].nunique() > 1 else None
    variants = frame.groupby("method")["label"].nunique().gt(1).any()
    return [
        FigureEntry(kind="curves", over=over),
        FigureEntry(kind="curves", over=over, metric="minority_accuracy"),
        FigureEntry(kind="best"),
        *([FigureEntry(kind="ablation")] if variants else []),
        FigureEntry(kind="cost"),
        FigureEntry(kind="cost", metric="peak_mib"),
        FigureEntry(kind="boost"),
        FigureEntry(kind="instance-loss"),
        FigureEntry(kind="best-k"),
        FigureEntry(kind="gallery"),
    ]


_SIZES = {**SIZE_WORDS, "imbalance": "ratios", "shots": "shots"}
_CLAIMS = (
    "Each claim is tested on the cells of this study, which are not the papers' own data and encoders "
    "unless the names say so. 'Confirmed' means that it holds here in the share of cells it asks for; it is "
    "no proof."
)
_MARKS = {
    "not_private": "NOT PRIVATE, no guarantee, run in the laboratory alone for comparison: {}.",
    "oracle_tuned": "ORACLE-TUNED, settings chosen by looking at test results, as no release could: {}.",
}


@dataclass(frozen=True)
class Results:
    """A study that was run.

    Attributes:
        name: the study's name.
        asked: what was asked for: the resolved study, its digest, and its cells.
        cells: every cell, as `place_cells` gives it.
        drawings: its figures.
        styles: how its labels are called and drawn.
    """

    name: str
    asked: JsonObject
    cells: pd.DataFrame
    drawings: Sequence[Drawing]
    styles: Mapping[str, Style]


def write_report(
    folder: str | Path,
    *,
    study: str | None = None,
    out: str | Path | None = None,
    data: Path | None = None,
    paper: bool = False,
) -> list[Path]:
    """Write `report.html`, `report.md` and the figures as SVG and PNG; returns the reports.

    Args:
        folder: a results folder.
        study: which of its studies; default all, one after the other.
        out: where to; default the folder itself.
        data: where data files are, for the pictures behind public rows.
        paper: write `paper/` too, with the figures as PDF and the tables as LaTeX.
    """
    home, target = Path(folder), Path(folder if out is None else out)
    names = studies_of(home) if study is None else [study]
    if not names:
        raise DataError(f"A report is about a study; '{folder}' holds none. Make one: dptransfer bench run")
    folders = [Path(), home, *([data] if data else [])]
    found = [results_of(home, name, folders, several=len(names) > 1) for name in names]
    page = document_of(found, home)
    written = [target / "report.html", target / "report.md"]
    target.mkdir(parents=True, exist_ok=True)
    for file, text in zip(written, (page.html(), page.markdown()), strict=True):
        file.write_text(text, encoding="utf-8")
    for drawing in (drawing for one in found for drawing in one.drawings):
        drawing.save(target / "figures")
        if paper:
            drawing.save(target / "paper", ["pdf"])
    if paper:
        write_tables(page, target / "paper")
    return [*written, *([target / "paper"] if paper else [])]


def results_of(home: Path, name: str, folders: Sequence[Path] = (), *, several: bool = False) -> Results:
    """A study of a results folder, with its figures; of several, their names begin with the study's."""
    asked, cells = read_study(home, name), place_cells(read_results(home, name))
    styles = styles_of(cells)
    drawings = drawings_of(finished_cells(cells), styles, asked["study"], folders)
    if several:
        drawings = [replace(drawing, name=slug(name, drawing.name)) for drawing in drawings]
    return Results(name, asked, cells, drawings, styles)


def document_of(found: Sequence[Results], home: Path) -> Document:
    """The report of some studies."""
    single = found[0] if len(found) == 1 else None
    title = (single.asked["study"].get("title") or single.name) if single else f"Results in {home.name}"
    won = [(one.name, who_won(finished_cells(one.cells), one.styles)) for one in found]
    sentence = " ".join(text if single else f"{name}: {text}" for name, text in won if text)
    cells = pd.concat([one.cells for one in found])
    return Document(
        title,
        sentence=sentence or "No two private methods have finished cells of one setting, so nobody won.",
        about=(
            (
                "Cells",
                f"{len(finished_cells(cells))} of {sum(len(one.asked['cells']) for one in found)} finished",
            ),
            ("Best", "the largest mean balanced accuracy over seeds, among private methods"),
            ("Noise", "seeded, so that runs repeat: no model of this report may be released"),
        ),
        sections=tuple(
            section if single else replace(section, title=f"{one.name}: {section.title}")
            for one in found
            for section in _sections(one, home)
        ),
        footer="Written by dptransfer bench report.",
    )


def _sections(one: Results, home: Path) -> list[Section]:
    study, cells, styles = one.asked["study"], finished_cells(one.cells), one.styles
    sections = [Section("What was run", tuple(_what_was_run(one)))]
    if claims := entries_of(study, "claim", Claim):
        verdicts = [check(claim, cells) for claim in claims]
        lines = (
            Words((f"{v.claim.text} ({v.claim.source}): ", Strong(v.outcome), f", because {v.because}."))
            for v in verdicts
        )
        sections.append(Section("Claims of the papers", (Paragraph(_CLAIMS), Bullets(tuple(lines)))))
    tables = [*accuracy_tables(cells, styles), *accuracy_tables(cells, styles, "minority_accuracy")]
    sections.append(Section("Results", tuple(tables) or (Paragraph("No cell has a result."),)))
    if one.drawings:
        sections.append(Section("Figures", tuple(drawing.block() for drawing in one.drawings)))
    if len(cells):
        excess = excess_table(cells, styles)
        more = (*other_metrics(cells, styles), *([excess] if excess else []), cost_table(cells, styles))
        sections.append(Section("Other measures and cost", more))
    sections += [part for part in (loss_section(cells, styles), printed_section(cells)) if part]
    unfinished = unfinished_table(one.cells, styles)
    nothing = Paragraph("Every cell has a result; none was refused and none failed.")
    sections.append(Section("Refused and failed cells", (unfinished or nothing,)))
    sections.append(Section("What was held fixed, and settings", (settings_table(one.cells, styles),)))
    sections.append(Section("How to run it again", tuple(_rerun(one, home))))
    return sections


def _what_was_run(one: Results) -> list[Block]:
    about, cells, expected = one.asked["study"].get("about"), one.cells, len(one.asked["cells"])
    blocks: list[Block] = [Paragraph(about)] if about else []
    counts = ", ".join(f"{number} {word}" for word, number in sorted(cells["status"].value_counts().items()))
    when = span_words(cells["date"].str[:10], digits="s")
    seeds = cells["seed"].nunique()
    blocks.append(Paragraph(f"{len(cells)} of {expected} cells ({counts}), {seeds} seeds, made {when}."))
    if len(cells) < expected:
        missing = f"The sweep is not finished: {expected - len(cells)} cells have no result yet."
        blocks.append(Note(missing, "bad"))
    if set(cells["unit"]) - {"row"}:
        by_unit = cells["unit"].value_counts()
        kinds = "; ".join(
            f"{by_unit[one]} one {words}" for one, words in UNIT_WORDS.items() if one in by_unit
        )
        blocks.append(
            Paragraph(f"What the cells' budgets protect: {kinds}. They are never averaged together.")
        )
    sizes = {**_SIZES, **({"people": "people"} if cells["people"].notna().any() else {})}
    rows = [
        (*key, *(_listed(some[name].dropna()) for name in sizes))
        for key, some in cells.fillna({"pool": "none"}).groupby(["data", "encoder", "pool"])
    ]
    header = ("data", "encoder", "pool", *sizes.values())
    caption = "Data sets; numbers from … to … where they vary."
    blocks.append(Table(header, tuple(rows), caption, "lll" + "r" * len(sizes)))
    for mark, words in _MARKS.items():
        labels = sorted(cells.loc[cells[mark], "label"].unique())
        blocks += [Note(words.format(", ".join(labels)), "bad")] if labels else []
    return blocks


def _listed(values: pd.Series) -> str:
    """A few numbers one by one, many as a range."""
    numbers = sorted(set(values))
    if 1 < len(numbers) < 5:
        return " · ".join(f"{number:,g}" for number in numbers)
    return span_words(numbers, digits=",g")


def _rerun(one: Results, home: Path) -> list[Block]:
    known, digest = built_in(), one.asked["digest"]
    own = one.name in known and parse_study(known[one.name]).digest == digest
    folder = quote(home.name or "results")
    versions = ", ".join(sorted(one.cells["version"].unique())) or __version__
    cores = ", ".join(map(str, sorted(one.cells["host_cores"].unique()))) or "?"
    hint = "" if own else f" The study in full is in {home.name}/studies/{one.name}.json."
    source = quote(one.name if own else f"{one.name}.toml")
    return [
        Code(f"dptransfer bench run {source} --out {folder}\ndptransfer bench report {folder}"),
        Paragraph(
            f"Results of dptransfer {versions} on {cores} usable cores; this report by dptransfer "
            f"{__version__}, Python {platform.python_version()}. Digest of the study: {digest}.{hint}"
        ),
        Table(("what", "SHA-256"), tuple(one.asked.get("fingerprints", {}).items()), "SHA-256 of the data."),
    ]
