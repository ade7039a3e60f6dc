import re
from dataclasses import replace
from html import escape

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer import evaluate
from dptransfer.privacy import LABEL_KEPT
from dptransfer.release.notebook import evaluation_summary, model_summary

CLASSES = ["<b>cat</b>", "dog"]


@pytest.fixture(scope="module")
def model():
    y = np.arange(400) % 2
    x = np.eye(4)[y] + 0.1 * np.random.default_rng(0).normal(size=(400, 4))
    given = {"classes": CLASSES, "name": "p", "method": "mean", "ledger": dpt.Ledger.in_memory()}
    return dpt.fit(x, y, epsilon=2, holdout=0.3, **given)


def test_a_model_shows_its_promise_and_what_it_is_in_a_few_lines(model):
    shown = model._repr_html_()
    assert "(ε = 2, δ = 1e-5)-differentially private" in shown
    assert "Accuracy on private rows" in shown
    assert "&lt;b&gt;cat" in shown
    assert "<b>" not in shown
    assert len(shown) < 2000
    assert not re.search(r"<(style|script|html|h\d)", shown)


def test_what_makes_it_another_promise_is_never_left_out(model):
    assert "Assuming" not in model._repr_html_()
    kept = replace(model, guarantee=replace(model.guarantee, assumptions=("settings are fixed", LABEL_KEPT)))
    assert LABEL_KEPT in kept._repr_html_()
    assert "settings are fixed" not in kept._repr_html_()


def test_a_model_that_is_not_private_says_so_first(model):
    seeded = replace(model, provenance=replace(model.provenance, seeded=True, title="<i>"))
    assert seeded._repr_html_().startswith("<div>\n<p><strong>NOT PRIVATE")
    assert "&lt;i&gt;" in seeded._repr_html_()
    assert model_summary(model).warning is None


def test_test_results_show_the_sentence_that_belongs_to_them(model):
    found = evaluate(model, np.eye(4)[:2], [0, 1], name="<volunteers>")
    assert repr(found).startswith("Evaluation(balanced accuracy 100.0% (")
    assert "not protected" in repr(found)
    assert escape(found.statement) in found._repr_html_()
    assert "&lt;volunteers&gt;" in found._repr_html_()
    assert "Test on 2 test rows (&lt;" in found._repr_html_()
    assert (
        "<strong>Test on 2 test rows (not named)</strong>"
        in evaluate(model, np.eye(4)[:2], [0, 1])._repr_html_()
    )
    protected = model.charged._repr_html_()
    assert "The test rows are protected" in protected
    assert "a hold-out" in protected


def test_many_classes_are_counted_and_a_few_are_named(model):
    names = tuple(f"class {number}" for number in range(100))
    many = replace(model, facts=replace(model.facts, classes=names))
    assert ("Classes", f"100: {', '.join(names[:8])} and 92 more") in model_summary(many).about
    found = evaluate(model, np.eye(4)[:2], [0, 1], name="t")
    wide = replace(
        found, classes=names, support=(1,) * 100, recall=(None,) * 100, recall_intervals=(None,) * 100
    )
    (section,) = evaluation_summary(wide).sections
    assert len(section.blocks[0].rows) == 8
    assert section.blocks[0].caption == "The first 8 of 100 classes."
