"""The JSON schemas in docs/reference/schemas are those of the code, and real files keep them.

`python tests/test_formats.py` writes the schemas of releases and `.emb` folders again.
"""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator, ValidationError

import dptransfer as dpt
from dptransfer.data import RowMetadata, write_embeddings
from dptransfer.data.emb_folder import _schema as emb_schema
from dptransfer.release.manifest import Manifest

SCHEMAS = Path(__file__).parents[1] / "docs" / "reference" / "schemas"


def of_the_code() -> dict[str, dict]:
    return {
        "release": {"title": "release.json", **Manifest.model_json_schema()},
        "emb": {**emb_schema().json_schema(), "title": "manifest.json of an .emb folder"},
    }


def written(name: str) -> dict:
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text())


def check(name: str, document: object) -> None:
    Draft202012Validator(written(name)).validate(document)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release with a hold-out, the ledger that paid for it, and an `.emb` folder."""
    folder, rng = tmp_path_factory.mktemp("formats"), np.random.default_rng(0)
    y = rng.integers(0, 3, 900)
    x = (np.eye(8)[y] + 0.3 * rng.normal(size=(900, 8))).astype("float32")
    ledger = dpt.Ledger(folder / "ledger.sqlite")
    ledger.set_budget("ward", dpt.Budget(epsilon=3, delta=1e-5), note="agreed")
    model = dpt.fit(x, y, epsilon=1, classes=3, name="ward", holdout=0.2, method="mean", ledger=ledger)
    model.save(folder / "model")
    write_embeddings(folder / "rows.emb", x, RowMetadata(public=True))
    return folder


def test_the_schemas_are_those_of_the_code():
    assert {name: written(name) for name in of_the_code()} == of_the_code(), (
        "write them again with: python tests/test_formats.py"
    )


def test_a_real_release_keeps_its_schema_and_a_changed_one_does_not(made):
    release = json.loads((made / "model" / "release.json").read_text())
    check("release", release)
    for change in ({"guarantee": {}}, {"seeded": "no"}, {"unknown": 1}):
        with pytest.raises(ValidationError):
            check("release", {**copy.deepcopy(release), **change})


def test_a_real_embeddings_manifest_keeps_its_schema_and_a_changed_one_does_not(made):
    manifest = json.loads((made / "rows.emb" / "manifest.json").read_text())
    check("emb", manifest)
    with pytest.raises(ValidationError):
        check("emb", {**manifest, "shards": "one"})


def test_the_lines_of_an_exported_ledger_keep_their_schema_and_a_changed_one_does_not(made, monkeypatch):
    from typer.testing import CliRunner

    from dptransfer.cli.commands import app

    out = made / "record.jsonl"
    ran = CliRunner().invoke(
        app, ["ledger", "export", "--ledger", str(made / "ledger.sqlite"), "--out", str(out)]
    )
    assert ran.exit_code == 0, ran.output
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["budget", "charge", "closing"]
    for line in lines:
        check("ledger-entry", line)
        for change in ({"hash": "short"}, {"kind": "gift"}, {"number": 0}):
            with pytest.raises(ValidationError):
                check("ledger-entry", {**line, **change})


if __name__ == "__main__":
    for name, schema in of_the_code().items():
        (SCHEMAS / f"{name}.schema.json").write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n")
