"""The document of an audit, for whoever must decide whether a model may leave: one page without scripts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from dptransfer.audit.evidence import FALSE_ALARM
from dptransfer.audit.release_audit import Audit
from dptransfer.base import document as doc
from dptransfer.base.types import JsonObject
from dptransfer.privacy import rounded_up, typeset
from dptransfer.release.card import best_results, weakest_class
from dptransfer.release.card_privacy import attack_curve, attack_points, percent_up
from dptransfer.release.evaluation import Evaluation

_TONES: dict[str, Any] = {"green": "good", "amber": "plain", "red": "bad"}
_LEFT_OUT = (
    "NIST SP 800-226 and EDPB Opinion 28/2024 ask for the same things. They are not mapped line by line "
    "here, because their texts were not at hand when this was written."
)
_SIGN = (
    "Prepared by",
    "Checked by",
    "Decision (release, with conditions, refuse)",
    "Conditions",
    "Next review",
)


def audit_document(audit: Audit, evaluation: Evaluation | None = None) -> doc.Document:
    """The document of an audit.

    Args:
        audit: the outcome.
        evaluation: test results on the card, beside the charged ones.
    """
    told, model = audit.to_dict(), audit.model
    promise, spent = model.guarantee, audit.spent
    right = told["attacker"]["guesses"][0]["right"]
    least = "–" if spent is None else f"{spent.epsilon:.3g}"
    return doc.Document(
        title=f"Privacy audit: {model.provenance.title or model.provenance.method}",
        sentence=typeset(audit.sentence),
        warning=typeset(audit.sentence) if audit.light == "red" else None,
        highlights=(
            doc.Highlight(
                "result", audit.light.upper(), f"{len(audit.findings)} tests", "light", audit.light
            ),
            doc.Highlight("ε promised", rounded_up(promise.epsilon), promise.relation.value),
            doc.Highlight(
                "ε found spent", least, "from below" if spent and spent.proven else "by the accountant"
            ),
            doc.Highlight("a right guess", percent_up(right), "at most, where a coin flip is right in 50%"),
        ),
        about=(
            ("Release", f"{audit.path.name}, digest {told['release']['digest'][:16]}…"),
            ("Method", model.provenance.method),
            ("Audited", f"{audit.created[:10]}, dptransfer {told['software']['dptransfer']}"),
            ("Contact", model.provenance.contact or "none given"),
        ),
        sections=(
            doc.Section("Result", (doc.Note(typeset(audit.sentence), _TONES[audit.light]),)),
            doc.Section("What was promised", tuple(_promise(audit))),
            doc.Section("The promise computed again", tuple(_again(audit, told))),
            doc.Section("What an attacker gains at most", tuple(_attacker(audit, told))),
            doc.Section("Ladder of evidence", tuple(_ladder(audit))),
            doc.Section("Planted faults", tuple(_planted(audit))),
            doc.Section("What was spent before", tuple(_ledger(audit.book))),
            doc.Section("Utility", tuple(_utility(audit, evaluation))),
            doc.Section("Crosswalks", tuple(_crosswalks())),
            doc.Section("What this does not show", tuple(_not_shown(told))),
            doc.Section("Sign-off", tuple(_sign_off(audit, told))),
        ),
        footer="Written by dptransfer audit. No private row was read for it.",
    )


def _promise(audit: Audit) -> Iterator[doc.Block]:
    promise, classes = audit.model.guarantee, len(audit.model.classes)
    yield doc.Paragraph(typeset(str(promise)))
    answers = {
        "Whom does it protect?": f"every single {promise.unit.words}",
        "Against whom?": "anyone who has the files and knows everything else",
        "For how long?": "for ever, whatever is computed from the model",
        "What is public?": f"classes ({classes}), shape of an example, settings, the public pool",
        "Who must be trusted?": "the owner for what is declared; whoever ran the fit, for the rest",
    }
    yield doc.Table(("Question", "Answer"), tuple(answers.items()))


def _again(audit: Audit, told: JsonObject) -> Iterator[doc.Block]:
    again, promise = told["computed_again"], audit.model.guarantee
    rows = [
        ("ε on record", f"{promise.epsilon:.6g}", f"at δ = {rounded_up(promise.delta)}"),
        (
            "computed again from the steps",
            _number(again["epsilon"]),
            f"verification: {again['verification']}",
        ),
    ]
    if again["second"] is not None:
        rows.append(("by other code", _number(again["second"]["epsilon"]), again["second"]["by"]))
    rows += [(f"ε at δ = {one['delta']:g}", _number(one["epsilon"]), "the same steps") for one in again["at"]]
    many = "people" if promise.unit.value == "person" else "examples"
    rows += [
        (f"{one['size']} {many} together", _number(one["epsilon"]), f"at δ = {rounded_up(promise.delta)}")
        for one in again["groups"]
    ]
    if again["mu"] is not None:
        rows.append(
            ("μ of Gaussian differential privacy", _number(again["mu"]), "what Gaussian steps add up to")
        )
    yield doc.Table(("Quantity", "Value", "How"), tuple(rows))


def _attacker(audit: Audit, told: JsonObject) -> Iterator[doc.Block]:
    limits = told["attacker"]
    yield doc.Paragraph(
        "The attacker knows everybody's data but one person's or example's, has the files, and wants to know "
        "whether that one was used. No attack does better than this, however it is done:"
    )
    yield doc.Table(
        (
            "The attacker thinks it is likely by",
            "right without the model",
            "right with it, at most",
            "'yes' is right",
        ),
        tuple(
            (
                f"{one['prior']:.0%}",
                f"{one['blind']:.1%}",
                percent_up(one["right"]),
                f"≤ {percent_up(one['surest'])}",
            )
            for one in limits["guesses"]
        ),
        "Last column: of answers 'it was used', if one in a thousand others is accused.",
        "rrrr",
    )
    yield doc.Table(
        ("Falsely accused", "Members found, at most"),
        tuple((f"{one['false_positive']:.2%}", percent_up(one["true_positive"])) for one in limits["rates"]),
        align="rr",
    )
    yield attack_curve(attack_points(audit.model.events))


def _ladder(audit: Audit) -> Iterator[doc.Block]:
    yield doc.Paragraph(
        "From the proof down to the run. A replay runs the recorded method with the recorded settings and "
        "noise on made-up rows, among them canaries that try to move the answers as far as they can; "
        "witnesses are noise that was drawn in the run itself and released for this purpose."
    )
    rows: list[tuple[doc.Text, ...]] = [
        (
            "Proof",
            "by the authors",
            "docstrings and docs/reference of this version",
            "mathematics",
            "exact",
            "–",
        ),
        (
            "Files, record and steps",
            _outcome(audit),
            "verify",
            "–",
            "exact",
            str(len(audit.verification.checks)),
        ),
    ]
    rows += [
        (
            one.name,
            _loud(one.verdict),
            typeset(one.found),
            one.assumes or "–",
            "exact" if one.p_value is None else f"p\u00a0=\u00a0{one.p_value:.2g}",
            f"{one.runs:,}" if one.runs else "–",
        )
        for one in audit.findings
    ]
    header = ("Test", "Verdict", "Found", "Assumes", "Chance", "Runs")
    yield doc.Table(header, tuple(rows), align="lllllr")
    if audit.not_replayed:
        yield doc.Note(f"The method was not run again: {audit.not_replayed}")
    if audit.note:
        yield doc.Paragraph(f"The replay was {audit.note}.")
    if audit.model.witnesses is None and audit.model.events:
        yield doc.Paragraph(
            "The release has no witnesses: its fit left them out, or its steps have none (choices, trials "
            "whose number must stay unknown)."
        )
    yield doc.Paragraph(
        f"{audit.tests} of these tests rest on chance. Each is failed by a sound release with probability "
        f"{FALSE_ALARM / max(1, audit.tests):.1g} at most, and the whole document wrongly turns red with "
        f"probability {FALSE_ALARM:g} at most. Noise follows from the audit's seed, {audit.seed}."
    )
    if audit.spent is not None:
        amount = f"{audit.spent.epsilon:.4g}, {audit.spent.share:.1%} of the promise"
        yield doc.Paragraph(f"ε spent, by {audit.spent.by}: {amount}.")


def _loud(verdict: str) -> doc.Text:
    """A verdict; one that is bad stands out."""
    return (
        doc.Words((doc.Strong(verdict.upper()),)) if verdict in ("refuted", "failed", "nothing") else verdict
    )


def _outcome(audit: Audit) -> doc.Text:
    words = {"verified": "holds", "failed": "failed", "not all checked": "not all tried"}
    return _loud(words[audit.verification.outcome])


def _planted(audit: Audit) -> Iterator[doc.Block]:
    if not audit.planted:
        yield doc.Paragraph("None: no answer about private rows was replayed.")
        return
    yield doc.Paragraph("The same tests, on copies of these steps that were broken on purpose:")
    found = ((one.fault, ", ".join(one.caught_by).replace(", planted", "")) for one in audit.planted)
    rows = tuple((fault, by or _loud("nothing")) for fault, by in found)
    yield doc.Table(("What was broken", "Found by"), rows)


def _ledger(book: JsonObject | None) -> Iterator[doc.Block]:
    if book is None:
        yield doc.Paragraph(
            "No ledger was given. With --ledger FILE this section has what was spent, and by whom."
        )
        return
    yield doc.Paragraph(
        f"The chain of entries holds, and the release's charge is entry {book['entry']}. On this data set "
        f"{typeset(book['account'])}. Charges: {book['charges']}, without an outcome: {book['unfinished']}."
    )
    yield doc.Table(
        ("Entry", "Time (UTC)", "User", "What", "ε", "Outcome or note"),
        tuple(
            (
                str(one["number"]),
                one["time"][:16].replace("T", " "),
                one["user"],
                one["what"],
                _number((one.get("cost") or {}).get("epsilon")),
                str(one.get("outcome", one.get("note", ""))),
            )
            for one in book["entries"]
        ),
        f"Head of the chain: {book['head'][:16]}…",
    )
    if not book["rows_on_record"]:
        yield doc.Note("Rows are not on record: the same ones under another name would not be recognised.")


def _utility(audit: Audit, evaluation: Evaluation | None) -> Iterator[doc.Block]:
    best = best_results(audit.model, evaluation)
    if best is not None:
        yield doc.Table(
            ("Measure", "Value", "95% interval"),
            tuple(
                (name, f"{v:.1%}", f"{low:.1%} to {high:.1%}")
                for name, (v, low, high) in best.estimates.items()
            ),
            align="lrr",
        )
        yield doc.Paragraph(typeset(best.statement))
    yield doc.Paragraph(weakest_class(best))


def _crosswalks() -> Iterator[doc.Block]:
    text = files("dptransfer.audit").joinpath("crosswalks.toml").read_text(encoding="utf-8")
    for one in tomllib.loads(text)["standard"]:
        rows = tuple(tuple(line) for line in one["lines"])
        yield doc.Table((one["name"], "By", "How"), rows, f"What was read: {one['read']}.")
    yield doc.Paragraph(_LEFT_OUT)


def _not_shown(told: JsonObject) -> Iterator[doc.Block]:
    yield doc.Bullets(
        (
            "What the encoder was trained on, and that public data are public.",
            "That the publisher is honest: noise and canaries bind the code of a run, and no liar.",
            "How long a fit took, and what else was read of the machine that ran it.",
            "Other releases from the same data outside this ledger.",
            "That the model is fair, or fit for its purpose.",
        )
    )
    yield doc.Paragraph(told["not_shown"])
    yield doc.Paragraph(f"The publisher's word: {'; '.join(told['publishers_word'])}.")


def _sign_off(audit: Audit, told: JsonObject) -> Iterator[doc.Block]:
    blank = "\u00a0" * 60
    yield doc.Table(("", "Name, date, signature"), tuple((one, blank) for one in _SIGN))
    yield doc.Table(("File", "SHA-256"), tuple(told["release"]["files"].items()))
    versions = ", ".join(f"{name} {one}" for name, one in told["software"].items())
    yield doc.Paragraph(f"Software: {versions}. Run it again:")
    quick = " --quick" * audit.quick
    yield doc.Code(f"dptransfer audit {audit.path.name}/ --seed {audit.seed}{quick}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"
