from __future__ import annotations

import pytest

import nextword as nw
from nextword.conditioning import parse_conditioner
from nextword.experiments.comparison.comparison_settings import built_in, configured, read, stage_settings
from nextword.experiments.tasks import registry
from nextword.heads import parse_head
from nextword.heads.cache import CacheConfig
from nextword.objectives import parse_objective
from nextword.objectives.histalign import HistAlignConfig
from nextword.settings.config import validated
from nextword.settings.overrides import overridden, read_value
from tests.helpers.families import tiny

RECIPE = {
    "task": {"name": "lm", "train": "a.txt"},
    "seeds": [0],
    "methods": ["softmax", {"head": "cache", "label": "TRIME"}],
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3e-4", 3e-4),
        ("true", True),
        ('"3"', "3"),
        ("gpt2", "gpt2"),
        ("../shared/x.txt", "../shared/x.txt"),
        ("[1, 2]", [1, 2]),
        ("1\nother=2", "1\nother=2"),
    ],
)
def test_values_are_toml_or_text(text, value):
    assert read_value(text) == value


def test_overrides_reach_tables_and_lists_and_leave_the_recipe_alone():
    config = configured(RECIPE, ["task.train=b.txt", "methods.1.label=cache", "seeds=[3, 4]", "start.model=gpt2"])
    assert config.task == "lm"
    assert config.task_settings == {"train": "b.txt"}
    assert [method.title for method in config.methods] == ["softmax", "cache"]
    assert config.seeds == [3, 4]
    assert config.start.model == "gpt2"
    assert RECIPE["task"]["train"] == "a.txt"


OVERRIDDEN = {
    "spec": (["cache/histalign:alpha=0.5"], []),
    "table": ([{"head": "cache", "objective": {"objective": "histalign", "alpha": 0.5}}], []),
    "override of a short form": (["cache/histalign"], ["methods.0.objective.alpha=0.5"]),
    "override of a spec": ([{"head": "cache", "objective": "histalign:alpha=1"}], ["methods.0.objective.alpha=0.5"]),
    "override of a table": (
        [{"head": "cache", "objective": {"objective": "histalign"}}],
        ["methods.0.objective.alpha=0.5"],
    ),
    "whole objective": (["cache"], ["methods.0.objective=histalign:alpha=0.5"]),
}


@pytest.mark.parametrize("way", OVERRIDDEN)
def test_every_way_to_set_a_setting_of_an_objective(way):
    methods, overrides = OVERRIDDEN[way]
    (method,) = configured({**RECIPE, "methods": methods}, overrides).methods
    method.expect_known_names()
    built = nw.attach(tiny("gpt2"), method.head, method.objective)
    assert built.objective.config == HistAlignConfig(alpha=0.5)
    assert built.next_word_head.config.mode == CacheConfig().mode


def test_overrides_reach_into_every_part_of_a_short_form():
    recipe = {**RECIPE, "methods": ["mos:3+mi/mle+seq:0.25/bergpt:2"]}
    (method,) = configured(
        recipe,
        [
            "methods.0.head.components=5",
            "methods.0.head.mi.window=2",
            "methods.0.objective.seq.n=3",
            "methods.0.conditioner.tied=true",
        ],
    ).methods
    assert parse_head(method.head) == parse_head("mos:5+mi:window=2")
    assert parse_objective(method.objective) == parse_objective("mle+seq:0.25,n=3")
    assert parse_conditioner(method.conditioner) == parse_conditioner("bergpt:2,tied=true")


def test_a_part_of_a_second_stage_is_reached_too():
    recipe = {**RECIPE, "methods": [{"head": "cache", "then": {"objective": "histalign"}}]}
    (method,) = configured(recipe, ["methods.0.then.objective.alpha=0.5"]).methods
    assert method.then is not None
    assert parse_objective(method.then.objective) == HistAlignConfig(alpha=0.5)


def test_a_value_may_hold_an_equals_sign():
    assert overridden({}, ["a.b=x=y"]) == {"a": {"b": "x=y"}}


def test_a_task_given_as_text_takes_overrides_too():
    assert configured({**RECIPE, "task": "lm"}, ["task.train=b.txt"]).task_settings == {"train": "b.txt"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.steps", "an override is written key.path=value"),
        ("=3", "an override is written key.path=value"),
        ("seeds.5=1", "seeds is a list; its entries are seeds.0 to seeds.0"),
        ("task.name.x=1", r"task\.name is a value \('lm'\), not a table"),
        ("sedes=[1]", r"sedes: unknown key\. Did you mean 'seeds'\?"),
        ("start.modle=gpt2", r"start\.modle: unknown key\. Did you mean 'model'\?"),
        ("methods.1.lable=x", r"methods\.1\.lable: unknown key\. Did you mean 'label'\?"),
        ("seeds=3", r"seeds: must be a list \(3 given"),
        ("seeds=[1, 1]", "seeds: 1 is given twice"),
        ("methods.1.label=softmax", "would share the folder 'softmax'; give them different labels"),
    ],
)
def test_a_wrong_override_says_where_and_what_to_do(override, message):
    with pytest.raises(ValueError, match=message):
        configured(RECIPE, [override])


def test_a_file_comes_before_a_built_in_recipe_and_a_broken_one_is_named(tmp_path):
    good, bad = tmp_path / "mine.toml", tmp_path / "bad.toml"
    good.write_text('task = "lm"\nmethods = ["softmax/face:opr"]\n')
    bad.write_text("task = \n")
    assert configured(read(str(good))).methods[0].objective == "face:opr"
    with pytest.raises(ValueError, match=r"bad\.toml is not a recipe"):
        read(str(bad))


def test_an_unknown_recipe_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'quickstart'"):
        read("quickstrat")


@pytest.mark.parametrize("name", sorted(built_in()))
def test_every_built_in_recipe_is_a_comparison(name):
    assert configured(read(name)).methods
    assert built_in()[name]


@pytest.mark.parametrize("name", sorted(built_in()))
def test_settings_of_the_recipes_are_right(name):
    config = configured(read(name))
    task = registry.get(config.task)
    data = {"data": "some text"} if "data" in task.Config.model_fields else {}
    settings = validated(task.Config, {**data, **config.task_settings}, "task")
    written = getattr(getattr(settings, "generation", None), "texts", lambda: None)()
    assert written is None or written.decodings
    trained = [method for method in config.methods if method.trained]
    assert all(len(stage_settings(method, config)) == len(method.objectives) for method in trained)


@pytest.mark.parametrize("name", ["quickstart", "ambiguous-paper", "ambiguous-llama", "histalign-or-trime"])
def test_recipes_of_the_ambiguous_task_make_their_data(name):
    config = configured(read(name))
    small = {**config.task_settings, "train_prompts": 6, "validation_prompts": 4, "test_prompts": 4}
    task = registry.get("ambiguous")(validated(registry.get("ambiguous").Config, small, "task"))
    assert {part: len(prompts) for part, prompts in task.data.prompts.items()} == {
        "train": 6, "validation": 4, "test": 4,
    }  # fmt: skip
    for method in config.methods:
        method.expect_known_names()
    # the row of the paper whose cache is only there in the test: eq. 3 as it is, nothing is tuned
    untrained = [method for method in config.methods if method.trained_as or not method.trained]
    assert not any(method.is_tuned for method in untrained)


def test_the_report_s_recipe_trains_no_pretrained_weight():
    methods = configured(read("expand-cnn-paper")).methods
    conditioners = [parse_conditioner(method.conditioner) for method in methods if method.trained]
    assert [config.conditioner for config in conditioners] == ["dau", "dau", "lmh", "lmh", "bergpt"]
    assert all(config.is_published and config.trains == "new" for config in conditioners)


@pytest.mark.parametrize("name", ["f2-wikitext2", "f2-korean"])
def test_small_recipes_give_every_method_the_same_number_of_updates(name):
    config = configured(read(name))
    assert {len(method.objectives) for method in config.methods} == {2}
    assert not any(method.then.training for method in config.methods)
    # F2-Softmax with and without decoupled decoding is one training
    assert len({method.stages for method in config.methods}) == len(config.methods) - 1
