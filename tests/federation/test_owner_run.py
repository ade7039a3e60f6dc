import math
import os
import shutil

import numpy as np
import pytest
from scipy import stats

from dptransfer import Budget, SecureNoise
from dptransfer.accounting import epsilon_of
from dptransfer.errors import (
    ArgumentError,
    BudgetExceeded,
    DPTransferError,
    Incompatible,
    PrivateOverlap,
    WorkspaceError,
)
from dptransfer.federation import OwnerKey
from dptransfer.federation import owner_run as module
from dptransfer.ledger import Charge
from dptransfer.privacy import GaussianEvent, Relation
from federation.owners import Owners, ZeroNoise, pool, rows_of


def short_descent():
    from dptransfer.methods import NoisyGD

    return NoisyGD(steps=3)


def charges(owners, name):
    return [one for one in owners.ledgers[name].history() if isinstance(one, Charge)]


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_an_owner_is_charged_once_before_noise_is_drawn(tmp_path):
    owners, seen = Owners(tmp_path), []

    class Looking(SecureNoise):
        def discrete_gaussian(self, scale, shape):
            seen.append(len(charges(owners, "owner-0")))
            return super().discrete_gaussian(scale, shape)

    done = owners.share("owner-0", Looking())
    (charge,) = charges(owners, "owner-0")
    assert seen == [1]
    assert charge.events == owners.study.plan.events
    assert owners.study.digest[:32] in charge.label
    assert (done.rounds, done.is_finished, done.ledger_head) == (1, False, charge.hash)


def test_what_is_drawn_is_on_disk_for_its_owner_alone(tmp_path):
    owners = Owners(tmp_path)
    owners.share("owner-0")
    (folder,) = (tmp_path / "owner-0.studies").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("trust", ["files", "secure-sum"])
def test_a_share_that_is_lost_is_sent_again_byte_for_byte_at_no_charge(tmp_path, trust):
    owners = Owners(tmp_path, method=short_descent(), trust=trust)
    owners.rounds()
    before = bytes_of(owners.folder)
    shutil.rmtree(owners.folder)
    owners.rounds()
    assert bytes_of(owners.folder) == before
    assert [len(charges(owners, name)) for name in owners.names] == [1, 1, 1]


@pytest.mark.parametrize("step", ["charge", "draw", "sign", "write"])
def test_a_run_that_breaks_off_anywhere_goes_on_with_one_charge_and_one_draw(tmp_path, step, monkeypatch):
    owners, drawn = Owners(tmp_path), []

    class Counted(SecureNoise):
        def discrete_gaussian(self, scale, shape):
            drawn.append(super().discrete_gaussian(scale, shape))
            return drawn[-1]

    def fail(*_, **__):
        raise OSError("the power failed")

    with monkeypatch.context() as patch:
        place = {
            "charge": (module.JointAnswers, "begin"),
            "draw": (module.JointAnswers, "_send"),
            "sign": (OwnerKey, "sign"),
            "write": (module.ShareFolder, "put"),
        }[step]
        patch.setattr(*place, fail)
        with pytest.raises(OSError, match="power"):
            owners.share("owner-0", Counted())
    owners.share("owner-0", Counted())
    assert len(charges(owners, "owner-0")) == len(drawn) == 1


def test_a_study_that_is_over_draws_nothing_more(tmp_path):
    owners = Owners(tmp_path)
    owners.rounds()
    again = owners.share("owner-0", noise_that_fails())
    assert again.is_finished


def noise_that_fails():
    class Never(SecureNoise):
        def discrete_gaussian(self, scale, shape):
            raise AssertionError("nothing may be drawn")

    return Never()


def test_a_second_folder_for_one_study_is_refused_before_a_charge(tmp_path):
    owners = Owners(tmp_path)
    owners.share("owner-0")
    with pytest.raises(WorkspaceError, match="draws once"):
        owners.share("owner-0", noise_that_fails(), workspace=tmp_path / "other")
    assert len(charges(owners, "owner-0")) == 1


def test_other_rows_do_not_go_on_with_a_study(tmp_path):
    owners = Owners(tmp_path)
    owners.share("owner-0")
    owners.rows["owner-0"] = rows_of(5)
    with pytest.raises(WorkspaceError):
        owners.share("owner-0")


def test_another_history_is_refused(tmp_path):
    """Shown two histories, an owner would answer along two paths for the price of one."""
    owners = Owners(tmp_path, method=short_descent())
    for _ in range(2):
        for name in owners.names:
            owners.share(name)
    rivals = Owners.__new__(Owners)  # the other owners, in league, draw once more elsewhere
    rivals.__dict__.update(owners.__dict__, ledgers={}, folder=tmp_path / "false")
    from dptransfer import Ledger

    for name in owners.names[1:]:
        rivals.ledgers[name] = Ledger.in_memory()
        rivals.share(name, workspace=tmp_path / f"second-{name}")
    own = owners.folder / "owner-0.round-1.share"
    shutil.copy(own, rivals.folder / own.name)
    with pytest.raises(WorkspaceError, match="history"):
        owners.share("owner-0", noise_that_fails(), folder=rivals.folder)


def test_a_folder_of_false_shares_gets_no_second_answer_to_a_round(tmp_path):
    """The share of a round that is there already, and is another, is not replaced."""
    owners = Owners(tmp_path)
    owners.share("owner-0")
    path = owners.folder / "owner-0.round-1.share"
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    with pytest.raises(DPTransferError, match="another one"):
        owners.share("owner-0")


def test_a_budget_that_does_not_cover_the_study_leaves_rows_unread(tmp_path):
    owners = Owners(tmp_path)
    owners.rows["owner-0"].name = "clinic"
    owners.ledgers["owner-0"].set_budget("clinic", Budget(epsilon=0.5, delta=1e-5))
    with pytest.raises(BudgetExceeded):
        owners.share("owner-0", noise_that_fails())
    assert not owners.folder.exists()


def test_a_weak_budget_is_warned_of_and_an_empty_one_refused_before_the_charge(tmp_path):
    """Whoever planned the study, and however it came here."""
    from dptransfer.errors import BudgetError, PrivacyWarning
    from dptransfer.federation.study import Study

    with pytest.warns(PrivacyWarning, match="at most 10"):
        owners = Owners(tmp_path, budget=Budget(epsilon=12.0, delta=1e-5))
    with pytest.warns(PrivacyWarning, match="at most 10"):
        owners.share("owner-0")
    false = Study(owners.study.record | {"delta": 0.4}, owners.study.features)
    with pytest.raises(BudgetError):
        owners.share("owner-1", study=false)
    assert charges(owners, "owner-1") == []


def test_private_rows_in_the_pool_are_refused(tmp_path):
    from dptransfer import PublicEmbeddings

    shared = np.concatenate([pool().rows, rows_of(0).rows])
    owners = Owners(tmp_path, method="public-prior", public=PublicEmbeddings(shared))
    with pytest.raises(PrivateOverlap):
        owners.share("owner-0", noise_that_fails())


def test_who_is_not_an_owner_does_not_take_part(tmp_path):
    owners = Owners(tmp_path)
    owners.keys["owner-0"] = OwnerKey.create(tmp_path / "new.key")
    with pytest.raises(ArgumentError, match="list"):
        owners.share("owner-0")


def test_a_key_in_memory_needs_a_place_for_the_study(tmp_path):
    owners = Owners(tmp_path)
    owners.keys["owner-0"] = OwnerKey(owners.keys["owner-0"].secret)
    with pytest.raises(ArgumentError, match="workspace"):
        owners.share("owner-0")


def test_rows_of_another_declaration_are_refused(tmp_path):
    owners = Owners(tmp_path)
    owners.rows["owner-0"] = rows_of(0, people=True)
    with pytest.raises(Incompatible):
        owners.share("owner-0")


def test_seeded_noise_is_refused(tmp_path):
    from dptransfer import SeededNoise

    with pytest.raises(ArgumentError):
        Owners(tmp_path).share("owner-0", SeededNoise(1))


def test_an_owner_that_waits_gets_the_shares_of_others_as_they_come(tmp_path):
    from threading import Thread

    owners = Owners(tmp_path, method=short_descent())
    found = {}

    def run(name):
        found[name] = owners.share(name, wait=60)

    threads = [Thread(target=run, args=(name,)) for name in owners.names]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert {(one.rounds, one.is_finished) for one in found.values()} == {(3, True)}


@pytest.mark.parametrize(("trust", "colluders"), [("files", 0), ("secure-sum", 1), ("secure-sum", 3)])
def test_honest_owners_add_noise_as_charged_whatever_the_coalition_knows(tmp_path, trust, colluders):
    """By files the noise of one owner is all that is charged for; else that of all who do not collude."""
    from dptransfer.privacy import event_from_dict

    owners = Owners(tmp_path, count=4 if colluders < 3 else 5, trust=trust, colluders=colluders)
    study, draws = owners.study, []

    class Watched(ZeroNoise):
        def discrete_gaussian(self, scale, shape):
            draws.append(scale)
            return super().discrete_gaussian(scale, shape)

    owners.share("owner-0", Watched())
    (event,) = map(event_from_dict, study.record["events"])
    (own,) = draws
    step = study.plan.mechanisms[0].query.grid
    honest = 1 if trust == "files" else len(study.owners) - colluders
    variance = honest * (own / step / event.sensitivity) ** 2
    assert variance >= event.noise_multiplier**2
    assert variance <= event.noise_multiplier**2 * (1 + 1e-9)


@pytest.mark.parametrize("fault", [1.0, 0.7])
def test_a_coalition_that_takes_its_noise_off_finds_no_more_than_was_promised(tmp_path, fault):
    """Exact test of the honest total at t colluders; noise that is too small is found out."""
    owners, count, colluders, trials = 4, 4, 1, 400
    honest = count - colluders
    study = Owners(tmp_path, count=owners, trust="secure-sum", colluders=colluders).study
    mechanism = study.joint_plan.mechanisms[0]
    scale = mechanism.scale * mechanism.query.grid * study.noise_of_share * fault
    size = math.prod(mechanism.query.shape)
    left = sum(SecureNoise().discrete_gaussian(scale, (trials, size)) for _ in range(honest))
    promised = study.plan.mechanisms[0].scale * mechanism.query.grid
    chance = stats.chi2.cdf(float(np.square(left / promised).sum()), trials * size)
    assert (chance > 1e-6) == (fault == 1.0)
    spread = float(np.sqrt(np.mean(np.square(left / promised)))) * study.plan.events[0].noise_multiplier
    seen = epsilon_of([GaussianEvent(spread, Relation.ADD_REMOVE, 1.0, "seen")], study.budget.delta)
    assert (seen <= study.budget.epsilon * 1.1) == (fault == 1.0)


def test_the_owner_s_files_have_no_private_number_in_their_names(tmp_path):
    owners = Owners(tmp_path)
    owners.share("owner-0")
    assert os.listdir(owners.folder) == ["owner-0.round-1.share"]


@pytest.mark.parametrize(
    "false", [2**63 - 1, *(pytest.param(one, marks=pytest.mark.slow) for one in (2**62, -(2**62)))]
)
def test_totals_that_somebody_chose_move_an_answer_no_further_than_was_paid_for(tmp_path, false, monkeypatch):
    """Sensitivity holds for every question, so also for one that follows from totals of a liar."""
    from dptransfer.federation.share_files import totals
    from dptransfer.mechanisms.row_shares import Watcher, watch
    from dptransfer.methods import PublicPriorPrototypes

    seen = []

    class Norms(Watcher):
        def step(self, step, query, rows, labels, people):
            seen.append((query.l2_sensitivity(Relation.ADD_REMOVE) * query.grid, []))

        def answer(self, exact):
            seen[-1][1].append(float(np.linalg.norm(exact.astype(float))))

    rng = np.random.default_rng(0)
    monkeypatch.setattr(
        module, "totals", lambda found: [rng.choice([false, -false, 0], one.shape) for one in totals(found)]
    )
    one_row = {f"owner-{n}": rows_of(n, count=1) for n in range(3)}
    for method in (short_descent(), PublicPriorPrototypes(steps=2)):
        (tmp_path / method.name).mkdir()
        owners = Owners(tmp_path / method.name, method=method, public=pool(), rows=one_row)
        with watch(Norms()):
            owners.rounds()
    assert len(seen) > 12
    shares = [norm / largest for largest, norms in seen for norm in norms]
    assert 0.9 < max(shares) <= 1
