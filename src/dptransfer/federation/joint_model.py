"""Join the shares of all owners into a classifier: post-processing, which anybody can do and repeat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dptransfer.data import PublicEmbeddings
from dptransfer.data.examples import public_record
from dptransfer.errors import DataError
from dptransfer.exact.chunks import plain_floats
from dptransfer.federation.owner_run import JointAnswers, run_jointly
from dptransfer.federation.share_files import ShareFolder
from dptransfer.federation.study import Study
from dptransfer.methods.method import Task, configuration_of
from dptransfer.noise import SecureNoise
from dptransfer.release.classifier import PrivateClassifier, Provenance
from dptransfer.release.manifest import current_versions


@plain_floats()
def join(
    study: Study, places: Sequence[Path], *, public: PublicEmbeddings | None = None
) -> PrivateClassifier:
    """Add up the shares and finish the method on their totals; no private row and no noise is needed.

    Args:
        study: the study.
        places: folders of shares, or the files.
        public: the study's pool.

    Raises:
        SharesMissing: not every owner has answered every round.
        DataError: a share was changed, forged, doubled, or is of another study or history.
    """
    prepared, folder = study.prepare(public), ShareFolder(study, places)
    joint = JointAnswers(study, folder, SecureNoise())
    task = Task(study.joint_plan, prepared.maps, study.no_rows(), joint, prepared.public)
    (outcome, drawn), plan = run_jointly(study, task), study.plan
    extra = [one.path for one in folder.shares() if one.fields["round"] > joint.rounds]
    if extra:
        raise DataError(f"The study has {joint.rounds} rounds; '{extra[0]}' is of a later one. Remove it.")
    shares = [{"header": one.header.text, "signature": one.header.signature} for one in joint.last.values()]
    return PrivateClassifier(
        head=outcome.head,
        features=prepared.features if outcome.features is None else outcome.features,
        facts=study.facts,
        events=plan.events,
        guarantee=plan.guarantee,
        provenance=Provenance(
            method=plan.method.name,
            configuration=configuration_of(plan.method),
            seeded=False,
            notes=(*plan.notes, *outcome.notes),
            public=study.record["public"],
            prototypes=public_record(outcome.prototypes, study.facts, prepared.public),
            answers=public_record(outcome.answers, study.facts, prepared.public),
            versions=current_versions(),
            summary=plan.method.about.card,
            reference=plan.method.about.reference,
            owners={"study": study.record, "digest": study.digest, "shares": shares},
        ),
        witnesses=drawn,
    )
