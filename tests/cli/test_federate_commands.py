"""`dptransfer federate`: key, plan, share and join."""

import numpy as np
import pytest

from dptransfer.data import Labelled, RowMetadata, write_embeddings
from dptransfer.federation import read_study

NAMES = ("a", "b", "c")


@pytest.fixture
def study(cli, cli_json, tmp_path):
    """Three owners with rows, keys and a planned study."""
    lines = []
    for place, name in enumerate(NAMES):
        rng, y = np.random.default_rng(place), np.arange(60) % 3
        np.savez(f"{name}.npz", x=rng.normal(size=(60, 8)) + 3 * np.eye(3, 8)[y], y=y)
        lines.append(cli("federate", "key", f"{name}.key").stdout)
    terms = "name = 'demo'\nclasses = [0, 1, 2]\nmethod = 'mean'\nepsilon = 2.0\ndelta = 1e-5\n"
    (tmp_path / "study.toml").write_text(f"{terms}dimension = 8\n[owners]\n{''.join(lines)}")
    cli("federate", "plan", "study.toml", "--out", "demo.study")
    return tmp_path / "demo.study"


def share(cli, name, *more, code=0):
    words = ("demo.study", f"{name}.npz", "--key", f"{name}.key", "--to", "shares", "--ledger", f"{name}.db")
    return cli("federate", "share", *words, *more, code=code)


def test_three_owners_make_one_release_that_verifies(cli, study):
    for name in NAMES:
        share(cli, name)
    cli("federate", "join", "demo.study", "shares", "--out", "model", "--title", "Three clinics")
    assert "3 owners signed" in cli("verify", "model").stdout
    assert "against everyone" in cli("card", "model").stdout


def test_the_plan_says_what_each_owner_is_charged_and_against_whom(cli, study):
    found = cli("federate", "plan", "study.toml", "--out", "again.study").stdout
    assert "owner is charged" in found.lower()
    assert "everyone" in found
    assert read_study(study).digest not in found  # planned again it is another study


def test_an_owner_is_told_what_it_waits_for(cli, cli_json, study):
    found = share(cli_json, "a")
    assert (found["rounds"], found["finished"]) == (1, False)
    assert "b, c" in found["note"]
    assert found["study"] == read_study(study).digest
    assert found["account"]["charges"] == 1


def test_json_has_the_promise_and_the_digest(cli_json, study):
    for name in NAMES:
        share(cli_json, name)
    found = cli_json("federate", "join", "demo.study", "shares", "--out", "model")
    assert (round(found["epsilon"], 6), found["owners"]) == (2.0, list(NAMES))
    planned = cli_json("federate", "plan", "study.toml", "--out", "again.study")
    assert planned["study"]["name"] == "demo"
    assert len(cli_json("federate", "key", "d.key")["public"]) == 128


def test_a_study_names_a_pool_and_every_owner_brings_it(cli, study, tmp_path):
    np.savez("pool.npz", x=np.random.default_rng(9).normal(size=(40, 8)))
    terms = (tmp_path / "study.toml").read_text().replace("'mean'", "'mean'\nsettings = {axes = 4}")
    (tmp_path / "study.toml").write_text(f"public = 'pool.npz'\n{terms.replace('dimension = 8', '')}")
    study.unlink()
    cli("federate", "plan", "study.toml", "--out", "demo.study")
    assert "--public" in share(cli, "a", code=2).stderr
    for name in NAMES:
        share(cli, name, "--public", "pool.npz")
    cli("federate", "join", "demo.study", "shares", "--out", "model", "--public", "pool.npz")


def test_an_encoder_is_part_of_a_study(cli, study, tmp_path):
    terms = (tmp_path / "study.toml").read_text().replace("dimension = 8", "encoder = 'small-cnn'")
    (tmp_path / "study.toml").write_text(terms)
    study.unlink()
    cli("federate", "plan", "study.toml", "--out", "demo.study")
    facts = read_study(study).facts
    assert (facts.encoder.name, facts.dimension) == ("small-cnn", 128)


@pytest.mark.parametrize(
    "words",
    [
        "plan study.toml --out demo.study",  # exists
        "plan nowhere.toml --out other.study",
        "join demo.study nowhere --out model",
        "join demo.study shares --out model",  # no share is there
        "join study.toml shares --out model",
        "share demo.study a.npz --key nowhere.key --to shares",
        "share demo.study a.npz --key study.toml --to shares",
        "key a.key",
    ],
)
def test_mistakes_are_one_line(cli, study, words, tmp_path):
    (tmp_path / "shares").mkdir()
    (tmp_path / "study.toml").chmod(0o600)
    cli("federate", *words.split(), code=2)


def test_rows_of_another_width_or_class_are_refused(cli, study):
    y = np.arange(6) % 3
    np.savez("a.npz", x=np.ones((6, 9)), y=y)
    share(cli, "a", code=2)
    np.savez("a.npz", x=np.ones((6, 8)), y=y + 1)
    share(cli, "a", code=2)


def test_rows_in_a_folder_take_part(cli, study):
    labelled = RowMetadata(Labelled(np.arange(6) % 3, (0, 1, 2)))
    write_embeddings("rows.emb", np.ones((6, 8), "f4"), labelled)
    words = ("demo.study", "rows.emb", "--key", "a.key", "--to", "shares", "--ledger", "a.db")
    cli("federate", "share", *words)


def test_encoded_rows_are_kept_beside_the_key_and_never_where_others_read(cli, study, monkeypatch):
    from dptransfer.api.source import EncodedBeside

    places, usual = [], EncodedBeside.__init__
    monkeypatch.setattr(EncodedBeside, "__init__", lambda self, out: places.append(out) or usual(self, out))
    share(cli, "a")
    assert [place.name for place in places] == ["a.rows"]
    assert sorted(path.name for path in study.parent.glob("shares/*")) == ["a.round-1.share"]
