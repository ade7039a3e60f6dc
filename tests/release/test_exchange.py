import json

import pytest
import yaml
from huggingface_hub import ModelCard

from dptransfer.data.facts import EncoderIdentity
from dptransfer.release import amend_release, evaluate_model, read_evaluation, read_release, verify_files
from dptransfer.release.exchange import hub_metadata, input_kind, mlflow_metadata
from release.models import make_model, rows


@pytest.fixture
def release(tmp_path):
    model = make_model()
    tested = evaluate_model(model, rows(21), ["cat", "dog", "eel"] * 7)  # shares that are rounded
    return model.save(
        tmp_path / "model", evaluation=tested, title='Lesions: "2026" #1', contact="dpo@clinic.example"
    )


def test_the_hub_reads_the_front_matter_of_the_card_with_results_and_promise(release):
    amend_release(release, license="apache-2.0")
    card = ModelCard.load(release / "README.md")
    model = read_release(release)
    assert card.data.library_name == "dptransfer"
    assert card.data.license == "apache-2.0"
    assert "differential-privacy" in card.data.tags
    assert (card.data.epsilon, card.data.delta) == (model.guarantee.epsilon, model.guarantee.delta)
    assert (card.data.unit, card.data.relation) == ("example", "add/remove")
    results = {one.metric_type: one.metric_value for one in card.data.eval_results}
    tested = read_evaluation(release)
    assert results["accuracy"] == tested.estimates["accuracy"].value
    assert card.data.eval_results[0].dataset_name == 'Lesions: "2026" #1'
    assert card.text.strip().startswith("# Privacy and model card")


def test_results_that_are_rounded_for_a_release_are_rounded_everywhere(release):
    assert verify_files(release).failures == ()


def test_a_model_that_nobody_measured_states_no_results_and_no_licence(tmp_path):
    found = hub_metadata(make_model(), None)
    assert not {"model-index", "license", "base_model"} & set(found)


def test_a_seeded_model_is_tagged_as_not_private():
    assert "not-private" in hub_metadata(make_model(seeded=True), None)["tags"]
    assert "not-private" not in hub_metadata(make_model(), None)["tags"]


ENCODERS = {
    None: ("tabular", None),
    EncoderIdentity("efficientnet-lite0", "ab" * 32, "rgb 224"): ("image", None),
    EncoderIdentity("hf:org/bert", "ab" * 32, "128 tokens of vocabulary abc, mean"): ("text", "org/bert"),
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_task_and_the_base_model_follow_from_the_encoder(encoder):
    kind, base = ENCODERS[encoder]
    model = make_model(encoder=encoder)
    assert input_kind(model) == kind
    found = hub_metadata(model, None)
    assert (found["pipeline_tag"], found.get("base_model")) == (f"{kind}-classification", base)


def test_mlflow_reads_its_file_as_yaml_with_the_signature_as_json(release):
    model = read_release(release)
    written = yaml.safe_load((release / "MLmodel").read_text())
    assert written == mlflow_metadata(model)
    assert written["flavors"]["python_function"]["loader_module"] == "dptransfer.mlflow"
    (rows_,) = json.loads(written["signature"]["inputs"])
    assert rows_["tensor-spec"]["shape"] == [-1, model.dimension]
    assert written["metadata"]["epsilon"] == model.guarantee.epsilon
