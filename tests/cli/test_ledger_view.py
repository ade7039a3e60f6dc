import numpy as np

from dptransfer.cli.ledger_view import entry_json, entry_words
from dptransfer.data import PrivateEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.privacy import BestOfManyEvent, GaussianEvent, Relation, SampledGaussianEvent

ADD = Relation.ADD_REMOVE


def charged(*events):
    ledger = Ledger.in_memory()
    ledger.charge("clinic-a", events, label="fit")
    return ledger.history()[0]


def test_charges_say_what_was_paid_for():
    noise = GaussianEvent(20.0, ADD, times=28)
    assert entry_words(charged(noise))[0] == "fit: noise multiplier 20, 28 times"
    sampled = SampledGaussianEvent(1.1, 0.02, 300, ADD)
    tuned = BestOfManyEvent(((noise,),), 10, 1.0)
    assert entry_words(charged(sampled, tuned))[0] == (
        "fit: noise multiplier 1.1, 300 samples at rate 0.02; "
        "best of about 10 trials (geometric) of 1 candidate"
    )
    assert entry_json(charged(tuned))["events"][0]["candidates"][0][0]["times"] == 28


def test_the_owners_word_about_rows_is_told():
    ledger, x = Ledger.in_memory(), np.random.default_rng(0).normal(size=(20, 20))
    for name in ("clinic-a", "clinic-b"):
        rows = PrivateEmbeddings(x, [0, 1] * 10, classes=[0, 1], name=name)
        ledger.charge(rows, [GaussianEvent(20.0, ADD)], label="fit", new_data_set=True)
    first, second = ledger.history()
    assert entry_words(second)[0] == (
        f"fit: noise multiplier 20; said to be other people than {first.dataset.short}"
    )
    assert (entry_json(first)["apart_from"], entry_json(second)["apart_from"]) == ([], [first.dataset.id])


def test_a_charge_of_nothing_says_so():
    assert entry_words(charged())[0] == "fit: no private row used, nothing spent"
    assert entry_json(charged())["events"] == []
