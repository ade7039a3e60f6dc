"""Papers around a release: an entry for the registry of deployments, and paragraphs for an assessment.

The entry follows the schema of the OpenDP registry (2026-07-15); what only the publisher knows is left to be
filled in. The paragraphs are ordered as the template of the European Data Protection Board is (version 1.0,
March 2026), of which the list of sections was read, and not the text.
"""

from __future__ import annotations

import json
from importlib.resources import files

from dptransfer.accounting import membership_advantage
from dptransfer.privacy import Relation, rounded_up
from dptransfer.release import PrivateClassifier
from dptransfer.release.card_privacy import percent_up

FOR_YOU = "TO BE FILLED IN"


def registry_yaml(model: PrivateClassifier) -> str:
    """The release as the registry describes one: strings as JSON writes them, which YAML reads alike."""
    told, promise, facts = model.provenance, model.guarantee, model.facts
    kept = ", the number of units" if promise.relation is Relation.REPLACE_ONE else ""
    fields = {
        "name": told.title or FOR_YOU,
        "contact": told.contact or FOR_YOU,
        "summary": told.summary or told.method,
        "created": told.created[:10],
        "variant": f"{'Gaussian' if promise.mu else 'approximate'} differential privacy",
        "domain": f"labelled {facts.form}, {len(model.classes)} classes",
        "unprotected": f"classes, settings, what the card lists as declared public{kept}",
        "unit": promise.unit.words,
        "neighbours": promise.relation.sentence(promise.unit),
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "rho": promise.rho,
        "notes": "; ".join(told.notes) or "settings fixed beforehand",
        "mechanisms": ", ".join(sorted({event.kind for event in model.events}))
        or "none: no private row used",
        "reference": told.reference or "see the card",
        "software": f"dptransfer {told.versions.get('dptransfer', '')}",
        "ledger_head": told.ledger_head,
    }
    written = {name: json.dumps(value, ensure_ascii=False) for name, value in fields.items()}
    return _template("deployment.yaml").format_map(written)


def assessment_paragraphs(model: PrivateClassifier) -> str:
    """Paragraphs to paste into a data protection impact assessment, in Markdown."""
    told, promise = model.provenance, model.guarantee
    name, version = told.title or f"the model '{told.method}'", told.versions.get("dptransfer", "")
    right = percent_up((1 + membership_advantage(model.events)) / 2)
    numbers = {"classes": len(model.classes), "right": right}
    numbers |= {name: rounded_up(getattr(promise, name)) for name in ("epsilon", "delta")}
    return _template("dpia.md").format(model=model, name=name, version=version, **numbers)


def _template(name: str) -> str:
    return files("dptransfer.audit").joinpath(name).read_text(encoding="utf-8")
