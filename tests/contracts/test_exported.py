"""A release of every method is exported to ONNX, and scores there as it does in Python."""

import json

import numpy as np
import pytest

from dptransfer.data.vocabulary import Vocabulary
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.exact.vocabulary_map import VocabularyMap
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS, NoisyGD, PrivateTuning
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget
from dptransfer.release import export_onnx, read_release, release_digest
from dptransfer.testing.sample_data import POOL, ROWS, WIDTH, fit_sample
from methods import test_public_prior

from .test_method_suite import small

onnxruntime = pytest.importorskip("onnxruntime")
_RNG = np.random.default_rng(5)
_WORDS = Vocabulary(tuple("cdefgh"), 3 * _RNG.normal(size=(6, WIDTH)), _RNG.normal(size=6))
IN_WORDS = POOL.with_vocabulary(_WORDS)


def require_same(model, folder):
    """Scores, labels and probabilities of the exported file are those of the release, and it says whose."""
    path = model.save(folder / "release", unsafe_for_publication=True)
    loaded, digest = read_release(path), release_digest(path)
    file = export_onnx(loaded, folder / "model.onnx", digest=digest, unsafe_for_publication=True)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    rows = np.random.default_rng(9).normal(size=(200, loaded.dimension)).astype(np.float32)
    scores, labels, chances = session.run(["scores", "label_index", "probabilities"], {"rows": rows})
    expected = loaded.scores(rows)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(chances, loaded.predict_proba(rows), rtol=1e-5, atol=1e-5)
    assert ([loaded.classes[place] for place in labels] == loaded.predict(rows)).all()
    told = session.get_modelmeta().custom_metadata_map
    guarantee = loaded.guarantee
    assert (float(told["epsilon"]), float(told["delta"])) == (guarantee.epsilon, guarantee.delta)
    assert (told["relation"], told["unit"]) == (guarantee.relation.value, guarantee.unit.value)
    assert told["release_digest"] == json.loads((path / "release.json").read_text())["digest"]
    return loaded


@pytest.mark.parametrize("name", METHODS)
def test_every_methods_release_scores_in_onnx_as_in_python(name, tmp_path):
    require_same(fit_sample(small(name)), tmp_path)


def fitted_in_words(method, **options):
    """Of a pool whose encoder has words of its own."""
    budget, made = Budget(epsilon=1.0, delta=1e-5), {"ledger": Ledger.in_memory(), "noise": SeededNoise(1)}
    return method.fit(ROWS.private(), IN_WORDS, budget=budget, **made, **options)


@pytest.mark.parametrize("path", test_public_prior.PATHS)
def test_so_does_the_default_on_each_of_its_paths(path, tmp_path):
    data, public = test_public_prior.PATHS[path]
    require_same(test_public_prior.fit(test_public_prior.SMALL, data, public=public), tmp_path)


@pytest.mark.parametrize("features", [UnitNorm(pool=2), PublicMap(axes=4), VocabularyMap()], ids=repr)
def test_so_do_other_maps_and_releases_that_are_calibrated_on_a_holdout(features, tmp_path):
    model = fitted_in_words(METHODS["mean"](features=features), holdout=0.3)
    assert require_same(model, tmp_path).calibration is not None


def test_so_does_a_search_among_methods(tmp_path):
    require_same(fit_sample(PrivateTuning(candidates=(NoisyGD(steps=5), METHODS["mean"]()))), tmp_path)
