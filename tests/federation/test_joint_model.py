import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.errors import DPTransferError
from dptransfer.methods import METHODS, NoisyGD, PublicPriorPrototypes, TransferPATE
from dptransfer.methods.method import Task
from dptransfer.release.heads import head_arrays
from federation.owners import CLASSES, Owners, ZeroNoise, pool, rows_of

ALL = [
    ("mean", "files", False),
    ("mean-estimation", "secure-sum", False),
    ("least-squares", "files", False),
    ("least-squares", "secure-sum", True),
    (NoisyGD(steps=3), "secure-sum", False),
    (PublicPriorPrototypes(steps=3), "files", True),
    (PublicPriorPrototypes(form="sums"), "files", True),
    (PublicPriorPrototypes(form="sums"), "secure-sum", False),
]


def central(owners):
    """The method on all rows in one place, with the noise of the total, which is zero here."""
    study, rows = owners.study, owners.all_rows()
    rows.facts, made = study.facts, study.prepare(owners.public)
    return study.plan.method.run(Task(study.joint_plan, made.maps, rows, ZeroNoise(), made.public))


def study_is_one_round(method):
    return isinstance(method, str) or getattr(method, "form", "") == "sums"


@pytest.mark.parametrize(("method", "trust", "people"), ALL)
def test_without_noise_the_joint_model_is_the_central_one_bit_for_bit(tmp_path, method, trust, people):
    public = pool() if isinstance(method, PublicPriorPrototypes) else None
    owners = Owners(tmp_path, method=method, trust=trust, people=people, public=public)
    owners.rounds(ZeroNoise())
    one_round = study_is_one_round(method)
    assert (len(list(owners.folder.iterdir())) == 3) == one_round
    joint, whole = head_arrays(owners.join().head), head_arrays(central(owners).head)
    assert joint.keys() == whole.keys()
    assert all(np.array_equal(joint[name], whole[name]) for name in whole)


def test_with_one_row_less_the_joint_model_is_another(tmp_path):
    owners = Owners(tmp_path)
    owners.rounds(ZeroNoise())
    owners.rows["owner-1"] = rows_of(1, count=19)
    assert not np.array_equal(owners.join().head.form[0], central(owners).head.form[0])


def test_the_joint_model_is_a_release_that_verifies_and_names_its_owners(tmp_path):
    owners = Owners(tmp_path, method=NoisyGD(steps=2), trust="secure-sum")
    owners.rounds()
    owners.join().save(tmp_path / "model")
    found = dpt.verify(tmp_path / "model")
    assert found.outcome == "verified"
    card = (tmp_path / "model" / "card.html").read_text()
    assert all(name in card for name in owners.names)
    assert "one other owner" in card


def test_anybody_who_joins_gets_the_same_numbers(tmp_path):
    owners = Owners(tmp_path)
    owners.rounds()
    for name in ("one", "two"):
        owners.join().save(tmp_path / name)
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert first == second


@pytest.mark.parametrize("people", [False, True])
def test_owners_without_rows_with_one_class_or_one_person_take_part(tmp_path, people):
    nothing = rows_of(0, count=0, people=people)
    one_class = dpt.PrivateEmbeddings(
        rows_of(1).rows, np.zeros(20, int), classes=list(CLASSES), people=np.arange(20) if people else None
    )
    one_person = dpt.PrivateEmbeddings(
        rows_of(2).rows[:1], [2], classes=list(CLASSES), people=["p"] if people else None
    )
    rows = {"owner-0": nothing, "owner-1": one_class, "owner-2": one_person}
    public = pool()
    owners = Owners(tmp_path, method=PublicPriorPrototypes(steps=2), public=public, people=people, rows=rows)
    owners.rounds()
    assert owners.join().classes == CLASSES


@pytest.mark.parametrize("trust", ["files", "secure-sum"])
def test_the_noise_of_the_total_is_as_planned(tmp_path, trust):
    """Sums of nothing are noise; √k of one fit by files, √(k/(k − t)) in a secure sum."""
    from scipy import stats

    from dptransfer.federation.share_files import ShareFolder, totals

    nothing = {f"owner-{n}": rows_of(0, count=0, width=2000) for n in range(3)}
    owners = Owners(tmp_path, trust=trust, rows=nothing, width=2000)
    owners.rounds()
    (total,) = totals(ShareFolder(owners.study, [owners.folder]).collect(1, owners.study.digest))
    step, size = owners.study.joint_plan.mechanisms[0], 3 * 2000
    squares = float(np.square(total[:size] / (step.scale * step.query.grid)).sum())
    assert stats.chi2.cdf(squares, size) > 1e-6
    assert stats.chi2.sf(squares, size) > 1e-6
    assert stats.chi2.cdf(squares * 0.9**2, size) < 1e-6  # noise a tenth too small is found out


class HalfNoise(dpt.SecureNoise):
    """Of an owner that adds less than it was charged for."""

    def discrete_gaussian(self, scale, shape):
        return super().discrete_gaussian(scale / 2, shape)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "method",
    [
        "mean",
        pytest.param("least-squares", marks=SLOW),
        pytest.param(NoisyGD(steps=3), marks=SLOW),
        pytest.param(PublicPriorPrototypes(steps=2), marks=SLOW),
    ],
)
@pytest.mark.parametrize("noise", [dpt.SecureNoise, HalfNoise])
def test_whoever_has_the_release_checks_the_noise_of_the_totals(tmp_path, method, noise):
    owners = Owners(tmp_path, method=method, trust="secure-sum", public=pool())
    owners.rounds(noise())
    owners.join().save(tmp_path / "model")
    found = {check.name: check.passed for check in dpt.verify(tmp_path / "model").checks}
    assert found["witnesses"] == (noise is dpt.SecureNoise)


@pytest.mark.parametrize("people", [False, True])
def test_teachers_of_each_owner_vote_together(tmp_path, people):
    """With one teacher each, votes without noise are those of three teachers with a third of the rows."""
    from dptransfer.federation.share_files import ShareFolder, totals

    method = TransferPATE(teachers=1, queries=30)
    owners = Owners(tmp_path, method=method, public=pool(), people=people)
    owners.rounds(ZeroNoise())
    (votes,) = totals(ShareFolder(owners.study, [owners.folder]).collect(1, owners.study.digest))
    step = owners.study.plan.mechanisms[0].query.grid
    assert (votes[:90].reshape(30, 3).sum(axis=1) == 3 * step).all()
    joint = owners.join()
    assert joint.classes == CLASSES
    joint.save(tmp_path / "model")
    assert dpt.verify(tmp_path / "model").failures == ("witnesses",)  # there was no noise


def test_who_is_whose_teacher_is_drawn_once_and_not_sent(tmp_path):
    import shutil

    owners = Owners(tmp_path, method=TransferPATE(teachers=4, queries=20), public=pool())
    owners.rounds()
    before = {path.name: path.read_bytes() for path in owners.folder.iterdir()}
    assert all(content.count(b"teacher of each") == 0 for content in before.values())
    shutil.rmtree(owners.folder)
    owners.rounds()
    assert {path.name: path.read_bytes() for path in owners.folder.iterdir()} == before


def test_canaries_are_in_the_total_once_however_many_owners_there_are(tmp_path):
    from dptransfer.federation.share_files import ShareFolder, totals
    from dptransfer.privacy.witnesses import coin_digest, coins_of

    owners = Owners(tmp_path)
    owners.rounds(ZeroNoise())
    (total,) = totals(ShareFolder(owners.study, [owners.folder]).collect(1, owners.study.digest))
    step, size = owners.study.plan.mechanisms[0], 3 * 8
    coins = coins_of(owners.study.digest, 0, total.size - size)
    assert np.array_equal(total[size:], int(step.event.sensitivity * step.query.grid) * coins)
    (charge, *_) = owners.ledgers["owner-0"].history()
    assert charge.coins == coin_digest(owners.study.digest)


SUMS = "auto public-prior mean mean-estimation least-squares noisy-gd newton feature-covariance fully-private"
VOTES = "transfer-pate private-knn"


@pytest.mark.slow
@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_is_refused_before_a_charge_or_ends_in_a_release_that_verifies(tmp_path, method):
    try:
        owners = Owners(tmp_path, method=method, public=pool(200), count=2)
    except DPTransferError:
        assert method not in f"{SUMS} {VOTES}".split()
        return
    owners.rounds()
    owners.join().save(tmp_path / "model")
    assert dpt.verify(tmp_path / "model").outcome == "verified"
