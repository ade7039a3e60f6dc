"""A report of a results folder: what was run, what came out, which claims hold, and how to run it again."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dptransfer import __version__
from dptransfer.errors import DataError
from dptransfer_lab.catalogue import built_in
from dptransfer_lab.claims import claims_of
from dptransfer_lab.exposure_table import exposure_section
from dptransfer_lab.figures.points import done, slug
from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.loss_table import loss_section
from dptransfer_lab.page import Block, Commands, Findings, Page, Paragraph, Picture, Section, Table
from dptransfer_lab.report_figures import drawings_of
from dptransfer_lab.report_html import render_html
from dptransfer_lab.report_markdown import render_markdown
from dptransfer_lab.report_tables import (
    accuracy_tables,
    cost_table,
    other_metrics,
    settings_table,
    unfinished_table,
)
from dptransfer_lab.results import Record, read_records, read_study, studies_of
from dptransfer_lab.verdicts import check

FIGURES = "figures"


def write_report(
    folder: str | Path, *, study: str | None = None, out: str | Path | None = None, data: Path | None = None
) -> list[Path]:
    """Write `report.html`, `report.md` and the figures as SVG and PNG; returns the two reports.

    Args:
        folder: a results folder.
        study: which of its studies; default all, one after the other.
        out: where to; default the folder itself.
        data: where data files are, for the pictures behind public rows; default $DPTRANSFER_DATA.
    """
    home, target = Path(folder), Path(folder if out is None else out)
    known = studies_of(home)
    if study is not None and study not in known:
        raise DataError(f"'{folder}' must hold the study '{study}'; it holds {', '.join(known) or 'none'}.")
    names = known if study is None else [study]
    if not names:
        raise DataError(f"A report is about a study; '{folder}' holds none. Make one: dptransfer bench run")
    folders = [Path(), home, *([data] if data else [])]
    if os.environ.get("DPTRANSFER_DATA"):
        folders.append(Path(os.environ["DPTRANSFER_DATA"]))
    page = page_of(
        [(name, read_study(home, name), read_records(home, name)) for name in names], home, folders
    )
    target.mkdir(parents=True, exist_ok=True)
    for section in page.sections:
        for block in section.blocks:
            if isinstance(block, Picture):
                block.drawing.save(target / FIGURES)
    html, markdown = target / "report.html", target / "report.md"
    html.write_text(render_html(page), encoding="utf-8")
    markdown.write_text(render_markdown(page, FIGURES), encoding="utf-8")
    return [html, markdown]


def page_of(
    studies: Sequence[tuple[str, dict[str, Any], list[Record]]], home: Path, folders: Sequence[Path] = ()
) -> Page:
    """The report of some studies: name, what was asked for, and records of each."""
    sections = [
        section for one in studies for section in _sections(*one, home, folders, several=len(studies) > 1)
    ]
    title = (
        studies[0][1]["study"].get("title") or studies[0][0]
        if len(studies) == 1
        else f"Results in {home.name}"
    )
    cells = sum(len(records) for _, _, records in studies)
    finished = sum(len(done(records)) for _, _, records in studies)
    seeded = "Every number is a measurement with seeded noise; none of the models may be released."
    lead = f"{finished} of {cells} cells finished. {seeded}"
    return Page(title, lead, sections)


def _sections(
    name: str,
    asked: dict[str, Any],
    records: list[Record],
    home: Path,
    folders: Sequence[Path],
    *,
    several: bool,
) -> list[Section]:
    styles = styles_of(records)
    study = asked["study"]
    prefix = f"{name}: " if several else ""
    sections = [Section(f"{prefix}What was run", _what_was_run(asked, records))]
    if claims := claims_of(study):
        verdicts = [check(claim, records) for claim in claims]
        lines = [(one.outcome, f"{one.claim.text} ({one.claim.source}):", one.because) for one in verdicts]
        sections.append(Section(f"{prefix}Claims of the papers", [_claims_note(study), Findings(lines)]))
    tables: list[Block] = [*accuracy_tables(records, styles)]
    tables += accuracy_tables(records, styles, "minority_accuracy")
    sections.append(Section(f"{prefix}Results", tables or [Paragraph("No cell has a result.")]))
    drawings = drawings_of(records, styles, study, folders)
    if several:  # two studies may draw the same figure of different cells
        drawings = [replace(drawing, name=slug(name, drawing.name)) for drawing in drawings]
    if drawings:
        sections.append(Section(f"{prefix}Figures", [Picture(drawing) for drawing in drawings]))
    costs = cost_table(records, styles)
    more: list[Block] = [*other_metrics(records, styles), *([costs] if costs else [])]
    if more:
        sections.append(Section(f"{prefix}Other measures and cost", more))
    for part in (loss_section(records, styles), exposure_section(records)):
        if part is not None:
            sections.append(Section(f"{prefix}{part.title}", part.blocks))
    unfinished = unfinished_table(records, styles)
    nothing = Paragraph("Every cell has a result; none was refused and none failed.")
    sections.append(Section(f"{prefix}Refused and failed cells", [unfinished or nothing]))
    sections.append(Section(f"{prefix}What was held fixed, and settings", [settings_table(records, styles)]))
    sections.append(Section(f"{prefix}How to run it again", _rerun(name, asked, records, home)))
    return sections


def _what_was_run(asked: dict[str, Any], records: list[Record]) -> list[Block]:
    study = asked["study"]
    status = Counter(record["status"] for record in records)
    expected = len(asked["cells"])
    blocks: list[Block] = [Paragraph(study["about"])] if study.get("about") else []
    counts = ", ".join(f"{number} {word}" for word, number in sorted(status.items()))
    seeds = sorted({record["seed"] for record in records})
    dates = sorted(record["made"]["date"][:10] for record in records)
    when = (
        f"between {dates[0]} and {dates[-1]}"
        if dates and dates[0] != dates[-1]
        else f"on {dates[0]}"
        if dates
        else ""
    )
    blocks.append(
        Paragraph(f"{len(records)} of {expected} cells ({counts}), {len(seeds)} seeds, made {when}.")
    )
    if len(records) < expected:
        blocks.append(
            Paragraph(
                f"The sweep is not finished: {expected - len(records)} cells have no result yet.", alarm=True
            )
        )
    lines = []
    for key in sorted({(r["data"], r["encoder"], r["pool"] or "none") for r in records}):
        some = [
            r
            for r in records
            if (r["data"], r["encoder"], r["pool"] or "none") == key and r["rows"] is not None
        ]
        lines.append(
            [
                *key,
                *(
                    _span(some, name)
                    for name in ("rows", "classes", "dimension", "pool_rows", "imbalance", "shots")
                ),
            ]
        )
    header = [
        "data",
        "encoder",
        "pool",
        "private rows",
        "classes",
        "dimensions",
        "public rows",
        "ratios",
        "shots",
    ]
    blocks.append(Table("Data sets; numbers from … to … where they vary.", header, lines, 3))
    blocks += _marks(records)
    return blocks


def _span(records: Sequence[Record], name: str) -> str:
    values = sorted({record[name] for record in records})
    if not values:
        return "–"
    words = [f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in values]
    return (
        words[0] if len(words) == 1 else ", ".join(words) if len(words) < 5 else f"{words[0]} to {words[-1]}"
    )


def _marks(records: Sequence[Record]) -> list[Block]:
    blocks: list[Block] = [
        Paragraph(
            "SEEDED: all noise here comes from a seed, so that runs repeat. No model of this report "
            "may be released."
        )
    ]
    for mark, words in (
        (
            "not_private",
            "NOT PRIVATE, no guarantee, run in the laboratory alone for comparison: {}.",
        ),
        (
            "oracle_tuned",
            "ORACLE-TUNED, settings chosen by looking at test results, which no private release could: {}.",
        ),
    ):
        labels = sorted({record["label"] for record in records if record["marks"][mark]})
        if labels:
            blocks.append(Paragraph(words.format(", ".join(labels)), alarm=True))
    return blocks


def _claims_note(study: dict[str, Any]) -> Paragraph:
    names = ", ".join(data["name"] for data in study.get("data", ()))
    where = f" ({names})" if names else ""
    return Paragraph(
        f"Each claim is tested on the cells of this study{where}, which are not the papers' own data and "
        "encoders unless the names say so. 'Confirmed' means that it holds here in the share of cells it "
        "asks for; it is no proof."
    )


def _rerun(name: str, asked: dict[str, Any], records: Sequence[Record], home: Path) -> list[Block]:
    from dptransfer_lab.study import parse_study

    known = built_in()
    own = name in known and parse_study(known[name]).digest == asked["digest"]
    source = name if own else f"{name}.toml"
    folder = home.name or "results"
    versions = ", ".join(sorted({record["made"]["version"] for record in records})) or __version__
    cores = ", ".join(map(str, sorted({record["made"]["host_cores"] for record in records}))) or "?"
    hint = "" if own else f" The study in full is in {home.name}/studies/{name}.json."
    lines = [[what, print_] for what, print_ in asked.get("fingerprints", {}).items()]
    return [
        Commands([f"dptransfer bench run {source} --out {folder}", f"dptransfer bench report {folder}"]),
        Paragraph(
            f"Results of dptransfer {versions} on {cores} usable cores; this report by dptransfer "
            f"{__version__}, Python "
            f"{platform.python_version()}. Digest of the study: {asked['digest']}.{hint}"
        ),
        Table("SHA-256 of the data.", ["what", "fingerprint"], lines, 2),
    ]
