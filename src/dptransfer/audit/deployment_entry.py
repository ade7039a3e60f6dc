"""Papers around a release: an entry for the registry of deployments, and paragraphs for an assessment."""

from __future__ import annotations

import json
from typing import Any

from dptransfer.accounting import membership_advantage
from dptransfer.privacy import GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent, Unit, rounded_up
from dptransfer.release import PrivateClassifier
from dptransfer.release.card_privacy import percent_up

_MECHANISMS = {
    GaussianEvent: "discrete Gaussian",
    SampledGaussianEvent: "discrete Gaussian on Poisson samples",
    SelectionEvent: "exponential mechanism or permute-and-flip",
}
FOR_YOU = "TO BE FILLED IN"


def registry_entry(model: PrivateClassifier) -> dict[str, Any]:
    """The release as the OpenDP registry of deployments describes one (schema of 2026-07-15).

    What only the publisher knows says `FOR_YOU`: curators, intended use, region and sector.
    """
    told, promise = model.provenance, model.guarantee
    kinds = sorted({_MECHANISMS.get(type(one), one.kind) for one in model.events})
    unit = "person, with all their examples" if promise.unit is Unit.PERSON else "example"
    return {
        "deployment": {
            "name": told.title or FOR_YOU,
            "data_curators": [told.contact or FOR_YOU],
            "intended_use": FOR_YOU,
            "data_product_type": "Machine learning model",
            "data_product_region": FOR_YOU,
            "description": told.summary or told.method,
            "publication_date": told.created[:10],
            "data_product_sector": FOR_YOU,
        },
        "dp_variant": {
            "variant_name": f"{'Gaussian' if promise.mu else 'approximate'} differential privacy",
            "data_domain": f"labelled {model.facts.form}, {len(model.classes)} classes",
            "unprotected_quantities": "classes, settings, and what the card lists as declared public"
            + (", the number of units" if promise.relation is Relation.REPLACE_ONE else ""),
        },
        "privacy_loss": {
            "privacy_unit": unit,
            "privacy_unit_details": promise.relation.sentence(promise.unit),
            "privacy_parameters": {"epsilon": promise.epsilon, "delta": promise.delta, "rho": promise.rho},
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": "one curator, who holds the data and fits; anyone may have the release",
            "release_type": "Static",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "predictions, calibration on public rows and exports are of released values",
            "composition": "Gaussian steps exactly; privacy losses numerically otherwise",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "; ".join(told.notes)
            or "settings were fixed beforehand",
            "mechanisms": ", ".join(kinds) or "none: no private row was used",
            "justification": told.reference or "see the card",
        },
        "administrative": {
            "software": f"dptransfer {told.versions.get('dptransfer', '')}",
            "how_to_verify": "dptransfer verify MODEL; dptransfer audit MODEL",
            "ledger_head": told.ledger_head,
        },
    }


def registry_yaml(model: PrivateClassifier) -> str:
    """The entry as YAML: strings as JSON writes them, which YAML reads alike."""
    lines = []
    for section, fields in registry_entry(model).items():
        lines.append(f"{section}:")
        for name, value in fields.items():
            if isinstance(value, dict):
                lines.append(f"  {name}:")
                lines += [f"    {key}: {json.dumps(one, ensure_ascii=False)}" for key, one in value.items()]
            else:
                lines.append(f"  {name}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def assessment_paragraphs(model: PrivateClassifier) -> str:
    """Paragraphs to paste into a data protection impact assessment, in Markdown.

    They are ordered as the template of the European Data Protection Board is (version 1.0, March 2026), of
    which the list of sections was read, and not the text.
    """
    told, promise = model.provenance, model.guarantee
    right = percent_up((1 + membership_advantage(model.events)) / 2)
    name, delta = told.title or f"the model '{told.method}'", rounded_up(promise.delta)
    one = promise.unit.words
    return f"""# Paragraphs for a data protection impact assessment: {name}

Written by `dptransfer card --dpia` from the record of the release. Read and complete them; what is in
brackets is yours to say.

## Means of the processing

{name} was fitted with dptransfer {told.versions.get("dptransfer", "")}. {told.summary}
It classifies into {len(model.classes)} classes. What leaves the organisation is the released files alone; the
personal data stay where they are.

## Data protection by design

The released model is protected by differential privacy. {promise}
The guarantee holds against anyone who has the files, whatever else they know, and cannot be lost by further
processing. Budgets are set beforehand, every use is recorded in an append-only ledger before data are read,
and a request that the budget does not cover is refused. [Who set the budget, and why this much.]

## Security

Noise comes from exact samplers on integers with the operating system's generator. The release states its own
checksums; `dptransfer verify` and `dptransfer audit` recompute the guarantee from it. [Where the data, the
ledger and its key are kept, and who has access.]

## Inherent risk

A classifier that is fitted without protection can tell whether somebody's data were used, and sometimes what
they were. [Severity for the persons concerned.]

## Residual risk

Whoever wants to know whether one {one} was used, and takes that for as likely as not, is right at most
{right} of the time (a coin flip: 50%). This is a limit for any attack, at epsilon
{rounded_up(promise.epsilon)} and delta {delta}. It does not cover what holds of a group as a whole, what the
encoder was trained on, and other releases of the same data, whose losses add up in the ledger. [Whether that
is acceptable, for how long, and when it is reviewed.]
"""
