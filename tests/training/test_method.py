from __future__ import annotations

import pytest
from pydantic import ValidationError

from nextword.training.method import Method, Stage


@pytest.mark.parametrize(
    ("text", "head", "objective"),
    [
        ("softmax", "softmax", "mle"),
        ("cache/mle:labels", "cache", "mle:labels"),
        ("mos:3 / histalign", "mos:3", "histalign"),
    ],
)
def test_short_form(text, head, objective):
    method = Method.model_validate(text)
    assert (method.head, method.objective) == (head, objective)


def test_methods_with_the_same_training_share_its_folder():
    late = Method(head="cache", trained_as="softmax", label="cache (test time only)")
    assert late.stages == Method(head="softmax").stages == ("softmax-mle",)
    assert late.slug != Method(head="softmax").slug
    assert Method(head="cache").stages != Method(head="cache", objective="mle:labels").stages
    assert Method(head="softmax", generation={"num_return_sequences": 1}, label="x").stages == ("softmax-mle",)


def test_rates_that_differ_only_in_the_point_are_two_trainings():
    always, seldom = (Method(head="softmax", objective=f"mle+seq:{rate}", label=rate) for rate in ("1", ".1"))
    assert always.stages == ("softmax-mle-seq-1",)
    assert seldom.stages == Method(head="softmax", objective="mle+seq:0.1").stages == ("softmax-mle-seq-0-1",)


def test_a_second_stage_has_a_folder_of_its_own_after_the_shared_one():
    plain = Method(head="cache")
    more = [
        Method(head="cache", then=Stage(objective="histalign")),
        Method(head="cache", then=Stage(objective="mle")),
        Method(head="cache", then=Stage(objective="mle", training={"learning_rate": 1e-5})),
    ]
    assert {method.stages[0] for method in more} == {plain.stages[0]}
    assert len({method.stages[1] for method in more}) == 3
    assert more[0].stages[1].startswith("cache-mle--then-histalign-")
    assert more[0].title == "cache, then histalign"
    assert more[0].objective_spec == "mle, then histalign"


def test_random_weights_are_another_training():
    assert Method(head="softmax", from_scratch=True).stages == ("softmax-mle-scratch",)
    assert Method(head="softmax", from_scratch=True).title == "softmax (from scratch)"


def test_a_head_may_be_a_table():
    table = Method(head={"head": "mos", "components": 4})
    assert table.spec == "mos:4"
    assert table.title == "mos:4"
    assert table.stages != Method(head="mos:4").stages
    assert hash(table) == hash(Method(head={"head": "mos", "components": 4}))


def test_what_the_decodings_say_is_not_the_method_s():
    with pytest.raises(ValidationError, match=r"generation\.top_k is said by the task's decodings"):
        Method(head="softmax", generation={"top_k": 3})


def test_an_empty_head_is_refused():
    with pytest.raises(ValidationError):
        Method.model_validate("")
