from dataclasses import replace

import dptransfer as dpt
from dptransfer.data import Facts

FACTS, BUDGET = Facts(("a", "b"), (4,)), dpt.Budget(epsilon=1.0, delta=1e-5)


def test_a_plan_shows_its_promise_its_steps_and_its_notes():
    plan = replace(dpt.methods.MeanPrototypes().plan(FACTS, BUDGET), notes=("<why>",))
    assert repr(plan) == "Plan('mean', noisy steps: 1, Guarantee(ε = 1, δ = 1e-5, add/remove))"
    shown = plan._repr_html_()
    for part in ("Plan of &#x27;mean&#x27;", "class sums", "&lt;why&gt;", "nothing is charged"):
        assert part in shown
    assert str(replace(plan.guarantee, assumptions=())) in shown


def test_a_plan_without_a_step_and_one_with_many_are_short():
    plan = dpt.methods.MeanPrototypes().plan(FACTS, BUDGET)
    assert "there is no noisy step" in replace(plan, mechanisms=())._repr_html_()
    many = replace(plan, mechanisms=plan.mechanisms * 30)
    assert "and 20 more" in many._repr_html_()
    assert many._repr_html_().count("<tr>") == 12
