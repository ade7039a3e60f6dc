import json

import numpy as np

from dptransfer.release.predictions import Question, answers_as_csv, format_answers

from .models import DIMENSION, make_model, rows
from .test_prediction_sets import simulated

NAMES = [f"row {number}" for number in range(20)]


def test_an_answer_has_the_likeliest_class_and_its_probability():
    model, x = make_model(), rows()
    found, sets = Question().answers(model, NAMES, x)
    chances = model.predict_proba(x)
    assert sets is None
    assert [one["label"] for one in found] == model.predict(x).tolist()
    assert [one["score"] for one in found] == chances.max(axis=1).tolist()
    assert list(found[0]) == ["input", "label", "score"]


def test_rows_within_are_answered_as_among_all():
    model, x = make_model(), rows()
    question = Question(top=2)
    every = question.answers(model, NAMES, x).found
    some = question.answers(model, NAMES[5:9], x, slice(5, 9)).found
    assert some == every[10:18]
    assert [one["rank"] for one in some[:2]] == [1, 2]


def test_sets_stand_beside_the_labels_and_silence_those_that_are_too_large():
    model, x, _ = simulated(2000)
    question = Question(coverage=0.8, abstain_above=1)
    found, sets = question.answers(model, NAMES, x[:20])
    assert [tuple(one["set"]) for one in found] == sets.labels
    assert [one["label"] is None for one in found] == sets.abstains(1).tolist()
    assert 0 < sets.abstains(1).sum() < 20
    within = question.answers(model, NAMES[5:9], x[:20], slice(5, 9))
    assert (within.found, len(within.sets)) == (found[5:9], 4)


def test_forms_say_the_same():
    found = Question(top=2).answers(make_model(), NAMES, rows()).found
    assert json.loads(format_answers(found, ".json")) == found
    assert [json.loads(line) for line in format_answers(found, ".jsonl").splitlines()] == found
    assert format_answers(found, ".csv") == answers_as_csv(found)
    assert answers_as_csv(found).splitlines()[0] == "input,rank,label,score"
    assert answers_as_csv([]) == "input,label,score\n"
    assert Question().answers(make_model(), [], np.zeros((0, DIMENSION))).found == []
