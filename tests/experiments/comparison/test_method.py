from __future__ import annotations

import pytest
from pydantic import ValidationError

from nextword.experiments.comparison.method import Method, Stage


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


@pytest.mark.parametrize(
    ("given", "title", "stages"),
    [
        (
            {"head": {"head": "mos:4", "bias": False, "mi": {"expansion": 2}}},
            "mos:4+mi", ("mos-4-mi-f78d31-mle",),
        ),
        (
            {"head": "cache", "objective": {"objective": "histalign:paper", "alpha": 0.5}},
            "cache/histalign:paper", ("cache-histalign-paper-70d332",),
        ),
        (
            {"head": "softmax", "objective": {"objective": "unlikelihood", "seq": {"rate": 0.25, "n": 3}}},
            "softmax/unlikelihood+seq:0.25", ("softmax-unlikelihood-seq-0-25-c5a7d1",),
        ),
        (
            {"head": "softmax", "conditioner": {"conditioner": "bergpt:2", "tied": True}},
            "softmax with bergpt:2", ("softmax-mle-with-bergpt-2-53d79e",),
        ),
        (
            {"head": "cache", "then": {"objective": {"objective": "histalign", "alpha": 0.5}}},
            "cache, then histalign", ("cache-mle", "cache-mle--then-histalign-0387a8"),
        ),
    ],
)  # fmt: skip
def test_tables_are_called_as_in_folders_that_earlier_versions_began(given, title, stages):
    """Names as the versions wrote them whose specs could not name these settings."""
    method = Method.model_validate(given)
    assert (method.title, method.stages) == (title, stages)


def test_settings_by_name_tell_trainings_apart():
    specs = ["pg:gate_bias=1", "pg:gate_bias=-1", "pg", "f2:counts=a.npz", "f2:counts=A.npz"]
    assert len({Method(head=spec).stages for spec in specs}) == len(specs)
    assert Method(head="cache", objective="histalign:alpha=0.5").title == "cache/histalign:alpha=0.5"
    later = [Method(head="cache", conditioner=spec).stages for spec in ("bergpt:layers=[1]", "bergpt:layers=[-1]")]
    assert later[0] != later[1]


def test_a_path_in_a_short_form_stands_in_quotes():
    method = Method.model_validate('f2:counts="runs/a.npz"/face')
    assert (method.head, method.objective) == ('f2:counts="runs/a.npz"', "face")


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
    assert more[0].all_objectives == "mle, then histalign"


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
    with pytest.raises(ValidationError, match=r"generation\.top_k"):
        Method(head="softmax", generation={"top_k": 3})


def test_an_empty_head_is_refused():
    with pytest.raises(ValidationError):
        Method.model_validate("")


def test_the_short_form_may_name_a_conditioner():
    method = Method.model_validate("softmax+ce/histalign/bergpt:2")
    assert (method.head, method.objective, method.conditioner) == ("softmax+ce", "histalign", "bergpt:2")
    assert method.title == "softmax+ce/histalign with bergpt:2"
    assert method.slug == "softmax-ce-histalign-with-bergpt-2"
    assert Method.model_validate("softmax/mle/dau").title == "softmax with dau"
    with pytest.raises(ValidationError, match="head/objective/conditioner"):
        Method.model_validate("softmax/mle/dau/0")


def test_a_conditioner_is_another_training_unless_it_is_the_same():
    plain, mean, greatest = (Method(head="softmax", conditioner=given) for given in (None, "lmh", "lmh:max"))
    table = Method(head="softmax", conditioner={"conditioner": "lmh", "start": "random"})
    assert len({method.stages for method in (plain, mean, greatest, table)}) == 4
    assert table.title == "softmax with lmh:published"
    late = Method(head="cache", trained_as="softmax", conditioner="lmh")
    assert late.stages == mean.stages
    assert late.title == "cache with lmh (trained as softmax)"
    unknown = Method(head="softmax", conditioner={"conditioner": "lhm"})
    assert unknown.title == "softmax with lhm"
    for wrong in ("lhm", {"conditioner": "lhm"}):
        with pytest.raises(ValueError, match="'softmax with lhm'"):
            Method(head="softmax", conditioner=wrong).expect_known_names()


def test_a_method_that_is_not_trained():
    method = Method(head="cache", trained=False)
    assert method.title == "cache (not trained)"
    assert method.stages == ("cache-mle-untrained",)
    assert method.is_tuned
    assert not Method(head="cache", trained=False, tune=False).is_tuned
    for given in ({"trained_as": "softmax"}, {"then": {"objective": "mle"}}, {"training": {"steps": 3}}):
        with pytest.raises(ValidationError, match="must be left out if trained"):
            Method.model_validate({"head": "cache", "trained": False, **given})


def test_training_settings_of_its_own_make_a_training_of_its_own():
    one, two = (Method(head="softmax", training={"steps": steps}, label=str(steps)) for steps in (1, 2))
    assert len({one.stages, two.stages, Method(head="softmax").stages}) == 3
    assert one.stages == Method(head="softmax", training={"steps": 1}, label="again").stages


def test_a_search_makes_methods_that_differ_in_these_settings_only():
    grid = {"training.learning_rate": [1e-5, 3e-5], "objective.alpha": [0.5, 1.0]}
    method = Method.model_validate({"head": "cache", "objective": "histalign", "search": grid, "search_seed": 3})
    assert len(method.candidates) == len({one.stages for one in method.candidates}) == 4
    last = method.candidates[-1]
    assert last.title == "cache/histalign (training.learning_rate = 3e-05, objective.alpha = 1.0)"
    assert (last.search, last.search_seed) == ({}, None)
    assert last.objective == {"objective": "histalign", "alpha": 1.0}
    same = Method(head="cache", objective={"objective": "histalign", "alpha": 1.0}, training={"learning_rate": 3e-5})
    assert last.stages == same.stages
    assert method.with_settings(method.combinations[-1]).title == method.title == "cache/histalign"
    assert Method(head="cache").candidates == [Method(head="cache")]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"search": {"label": ["a"]}}, r"must name settings that a training has \(label given\); write head.KEY"),
        ({"search": {"training": [{}]}}, r"must name settings that a training has \(training given\)"),
        ({"search": {"training.steps": []}}, r"at least 1 item"),
        ({"search": {"conditioner.layers": [1]}}, r"search: 'conditioner.layers=1': conditioner is a value"),
        ({"search": {"training.steps": [1]}, "trained": False}, "search: must be left out if trained is false"),
    ],
)
def test_a_search_of_anything_else_is_refused(method, message):
    with pytest.raises(ValidationError, match=message):
        Method.model_validate({"head": "cache", **method})


def test_a_wrong_value_of_a_search_is_named_before_anything_is_trained():
    method = Method(head="cache", objective="histalign", search={"objective.alfa": [0.5]})
    with pytest.raises(ValueError, match="'cache/histalign'"):
        method.expect_known_names()
