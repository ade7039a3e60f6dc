"""The documents of an audit: one for whoever must decide whether a model may leave, and one of attacks.

Both are one page without scripts. The page of attacks is as private as the rows that it is about.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from dptransfer.audit.evidence import FALSE_ALARM
from dptransfer.audit.membership import CONFIDENCE, UNFAIR_CONFIDENCE, MembershipResult
from dptransfer.audit.release_audit import Audit
from dptransfer.base import document as doc
from dptransfer.base.types import JsonObject
from dptransfer.privacy import rounded_up, typeset
from dptransfer.release.card import best_results, weakest_class
from dptransfer.release.card_privacy import MANY, attack_curve, attack_points, percent_up
from dptransfer.release.evaluation import Evaluation

_TONES: dict[str, Any] = {"green": "good", "amber": "plain", "red": "bad"}
_LEFT_OUT = (
    "NIST SP 800-226 and EDPB Opinion 28/2024 ask for the same things. They are not mapped line by line "
    "here, because their texts were not at hand when this was written."
)
_SIGN = "Prepared by|Checked by|Decision (release, with conditions, refuse)|Conditions|Next review".split("|")


def audit_document(audit: Audit, evaluation: Evaluation | None = None) -> doc.Document:
    """The document of an audit.

    Args:
        audit: the outcome.
        evaluation: test results on the card, beside the charged ones.
    """
    told, model, spent = audit.to_dict(), audit.model, audit.spent
    promise, sentence = model.guarantee, typeset(audit.sentence)
    right = percent_up(told["attacker"]["guesses"][0]["right"])
    least = "–" if spent is None else f"{spent.epsilon:.3g}"
    how = "from below" if spent and spent.proven else "by the accountant"
    sections = {
        "Result": [doc.Note(sentence, _TONES[audit.light])],
        "What was promised": _promise(audit),
        "The promise computed again": [_again(audit, told["computed_again"])],
        "What an attacker gains at most": _attacker(audit, told["attacker"]),
        "Ladder of evidence": _ladder(audit),
        "Planted faults": _planted(audit),
        "What was spent before": _ledger(audit.book),
        "Utility": _utility(audit, evaluation),
        "Crosswalks": _crosswalks(),
        "What this does not show": _not_shown(told),
        "Sign-off": _sign_off(audit, told),
    }
    return doc.Document(
        title=f"Privacy audit: {model.provenance.title or model.provenance.method}",
        sentence=sentence,
        warning=sentence if audit.light == "red" else None,
        highlights=(
            doc.Highlight(
                "result", audit.light.upper(), f"{len(audit.findings)} tests", "light", audit.light
            ),
            doc.Highlight("ε promised", rounded_up(promise.epsilon), promise.relation.value),
            doc.Highlight("ε found spent", least, how),
            doc.Highlight("a right guess", right, "at most, where a coin flip is right in 50%"),
        ),
        about=(
            ("Release", f"{audit.path.name}, digest {told['release']['digest'][:16]}…"),
            ("Method", model.provenance.method),
            ("Audited", f"{audit.created[:10]}, dptransfer {told['software']['dptransfer']}"),
            ("Contact", model.provenance.contact or "none given"),
        ),
        sections=tuple(doc.Section(title, tuple(blocks)) for title, blocks in sections.items()),
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
    yield doc.Table.of("Question | Answer", answers.items())


def _again(audit: Audit, again: JsonObject) -> doc.Table:
    promise, second = audit.model.guarantee, again["second"]
    at = f"at δ = {rounded_up(promise.delta)}"
    rows = [
        ("ε on record", promise.epsilon, at),
        ("computed again from the steps", again["epsilon"], f"verification: {again['verification']}"),
        *([("by other code", second["epsilon"], second["by"])] if second else []),
        *((f"ε at δ = {one['delta']:g}", one["epsilon"], "the same steps") for one in again["at"]),
        *((f"{one['size']} {MANY[promise.unit]} together", one["epsilon"], at) for one in again["groups"]),
    ]
    if again["mu"] is not None:
        rows.append(("μ of Gaussian differential privacy", again["mu"], "what Gaussian steps add up to"))
    return doc.Table.of("Quantity | Value | How", ((name, _number(own), by) for name, own, by in rows))


def _attacker(audit: Audit, limits: JsonObject) -> Iterator[doc.Block]:
    yield doc.Paragraph(
        "The attacker knows everybody's data but one person's or example's, has the files, and wants to know "
        "whether that one was used. No attack does better than this, however it is done:"
    )
    guesses = [
        (f"{one['prior']:.0%}", f"{one['blind']:.1%}", *map(percent_up, (one["right"], one["surest"])))
        for one in limits["guesses"]
    ]
    header = "The attacker thinks it is likely by | right without the model | right with it, at most"
    caption = "Last column: of answers 'it was used', if one in a thousand others is accused."
    rows = ((*guess, f"≤ {surest}") for *guess, surest in guesses)
    yield doc.Table.of(f"{header} | 'yes' is right", rows, "rrrr", caption)
    rates = ((f"{one['false_positive']:.2%}", percent_up(one["true_positive"])) for one in limits["rates"])
    yield doc.Table.of("Falsely accused | Members found, at most", rates, "rr")
    yield attack_curve(attack_points(audit.model.events))


def _ladder(audit: Audit) -> Iterator[doc.Block]:
    yield doc.Paragraph(
        "From the proof down to the run. A replay runs the recorded method with the recorded settings and "
        "noise on made-up rows, among them canaries that try to move the answers as far as they can; "
        "witnesses are noise that was drawn in the run itself and released for this purpose."
    )
    outcome = {"verified": "holds", "failed": "failed", "not all checked": "not all tried"}
    checked, checks = _loud(outcome[audit.verification.outcome]), str(len(audit.verification.checks))
    docstrings = "docstrings and docs/reference of this version"
    rows: list[tuple[doc.Text, ...]] = [
        ("Proof", "by the authors", docstrings, "mathematics", "exact", "–"),
        ("Files, record and steps", checked, "verify", "–", "exact", checks),
    ]
    for one in audit.findings:
        chance = "exact" if one.p_value is None else f"p\u00a0=\u00a0{one.p_value:.2g}"
        said, runs = (typeset(one.found), one.assumes or "–"), f"{one.runs:,}" if one.runs else "–"
        rows.append((one.name, _loud(one.verdict), *said, chance, runs))
    yield doc.Table.of("Test | Verdict | Found | Assumes | Chance | Runs", rows, "lllllr")
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
    bad = verdict in ("refuted", "failed", "nothing")
    return doc.Words((doc.Strong(verdict.upper()),)) if bad else verdict


def _planted(audit: Audit) -> Iterator[doc.Block]:
    if not audit.planted:
        yield doc.Paragraph("None: no answer about private rows was replayed.")
        return
    yield doc.Paragraph("The same tests, on copies of these steps that were broken on purpose:")
    found = ((one.fault, ", ".join(one.caught_by).replace(", planted", "")) for one in audit.planted)
    yield doc.Table.of("What was broken | Found by", ((fault, by or _loud("nothing")) for fault, by in found))


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
    rows = []
    for one in book["entries"]:
        when, outcome = one["time"][:16].replace("T", " "), str(one.get("outcome", one.get("note", "")))
        epsilon = _number((one.get("cost") or {}).get("epsilon"))
        rows.append((str(one["number"]), when, one["user"], one["what"], epsilon, outcome))
    header, head = "Entry | Time (UTC) | User | What | ε | Outcome or note", book["head"][:16]
    yield doc.Table.of(header, rows, caption=f"Head of the chain: {head}…")
    if not book["rows_on_record"]:
        yield doc.Note("Rows are not on record: the same ones under another name would not be recognised.")


def _utility(audit: Audit, evaluation: Evaluation | None) -> Iterator[doc.Block]:
    best = best_results(audit.model, evaluation)
    if best is not None:
        shares = best.estimates.items()
        rows = ((name, f"{value:.1%}", f"{low:.1%} to {high:.1%}") for name, (value, low, high) in shares)
        yield doc.Table.of("Measure | Value | 95% interval", rows, "lrr")
        yield doc.Paragraph(typeset(best.statement))
    yield doc.Paragraph(weakest_class(best))


def _crosswalks() -> Iterator[doc.Block]:
    text = files("dptransfer.audit").joinpath("crosswalks.toml").read_text(encoding="utf-8")
    for one in tomllib.loads(text)["standard"]:
        yield doc.Table.of(
            f"{one['name']} | By | How", one["lines"], caption=f"What was read: {one['read']}."
        )
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
    yield doc.Table(("", "Name, date, signature"), tuple((one, "\u00a0" * 60) for one in _SIGN))
    yield doc.Table.of("File | SHA-256", told["release"]["files"].items())
    versions = ", ".join(f"{name} {one}" for name, one in told["software"].items())
    yield doc.Paragraph(f"Software: {versions}. Run it again:")
    yield doc.Code(f"dptransfer audit {audit.path.name}/ --seed {audit.seed}{' --quick' * audit.quick}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def attack_document(attacks: Mapping[str, MembershipResult]) -> doc.Document:
    """The owner's page of these attacks, by name."""
    first = next(iter(attacks.values()))
    return doc.Document(
        title="Membership attacks: for the data owner alone",
        sentence=typeset(first.verdict),
        warning=first.statement,
        sections=tuple(doc.Section(name, tuple(_attack(found))) for name, found in attacks.items()),
        footer=f"{first.guarantee} Do not publish.",
    )


def _attack(found: MembershipResult) -> Iterator[doc.Block]:
    low, high = found.interval
    yield doc.Paragraph(
        f"Area under the curve {found.auc:.1%} (interval {low:.1%} to {high:.1%}); guessing has 50%, and "
        f"the guarantee allows {found.auc_ceiling:.1%}. There are {found.members} members, and "
        f"{found.others} other {found.many}."
    )
    rows = []
    for one in found.points:
        (low, high), limit = one.interval, f"{one.false_positive_limit:.2%}"
        hits = f"{one.true_positive_rate:.2%}", f"{low:.2%} to {high:.2%}"
        rows.append((f"{one.false_positive_rate:.1%}", limit, *hits, f"{one.ceiling_at_limit:.2%}"))
    header = "False alarms | True rate at most | Members found | Interval | Guarantee allows there"
    together = f"All intervals hold together with {CONFIDENCE:.0%} confidence."
    yield doc.Table.of(header, rows, "rrrrr", together)
    if found.without_model is not None:
        auc, (low, high) = found.without_model.auc, found.without_model.interval
        yield doc.Paragraph(
            f"A classifier that never sees the model tells the sets apart {auc:.1%} of the time "
            f"(interval {low:.1%} to {high:.1%} at {UNFAIR_CONFIDENCE:.0%})."
        )
    yield doc.Note(typeset(found.verdict), "good" if found.within_ceiling and found.fair else "bad")
