"""The public functions say what can be set: each setting is a parameter, with the default that the settings have."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import nextword as nw
from nextword.evaluation import EvaluateConfig
from nextword.experiments.comparison import comparison_settings
from nextword.experiments.comparison.all_methods import compare_methods
from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.training import train_config
from nextword.experiments.training.train_config import TrainConfig
from nextword.experiments.training.train_model import train_model
from nextword.inference.generation.generation_passes import GenerationSettings
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.settings.config import SettingsError
from tests.helpers.word_models import word_model, word_tokenizer

SETTINGS: dict[Callable[..., Any], type[BaseModel]] = {
    nw.score: ScoreSettings,
    nw.generate: GenerationSettings,
    nw.evaluate: EvaluateConfig,
    nw.train: TrainConfig,
    nw.compare: CompareConfig,
}
OTHER_NAMES = {"methods": "heads", "task_settings": "task"}
"""Parameters whose name is not that of the field."""

FIELDS = [(function, name) for function, settings in SETTINGS.items() for name in settings.model_fields]


def function_name(value: object) -> str:
    return getattr(value, "__name__", str(value))


def types_of(annotation: str) -> set[str]:
    """The types that a parameter or field may have, as they are written, without the ways to write collections."""
    for ours, plain in {"list[": "Sequence[", "dict[": "Mapping[", "JsonValue": "Any", "Seed": "int"}.items():
        annotation = annotation.replace(ours, plain)
    annotation = re.sub(r"\[(Decoding|Method)\]", "[str | Mapping[str, Any]]", annotation)
    annotation = re.sub(r"\b(StartConfig|FineTuning)\b", "Mapping[str, Any]", annotation)
    return set(re.split(r" \| (?![^\[]*\])", annotation))


def written(settings: type[BaseModel], name: str) -> str:
    """The annotation of a field as its class writes it."""
    return next(vars(one)["__annotations__"][name] for one in settings.__mro__ if name in one.__annotations__)


@pytest.mark.parametrize(("function", "name"), FIELDS, ids=function_name)
def test_a_setting_is_a_parameter_with_its_default_and_its_types(function: Callable[..., Any], name: str) -> None:
    field = SETTINGS[function].model_fields[name]
    parameter = inspect.signature(function).parameters[OTHER_NAMES.get(name, name)]
    if name not in OTHER_NAMES:
        missing = types_of(written(SETTINGS[function], name)) - types_of(str(parameter.annotation))
        assert not {one for one in missing if one != "None" and not one.startswith("Mapping[str, Sequence")}
    default = field.get_default(call_default_factory=True, validated_data={})
    if parameter.default is inspect.Parameter.empty:
        assert field.is_required()
    elif field.is_required() or isinstance(default, dict | BaseModel):
        assert not parameter.default  # nothing given: asked for, or what the settings have
    else:
        assert parameter.default == (tuple(default) if isinstance(default, list) else default)


@pytest.mark.parametrize(
    "function", [*SETTINGS, nw.calibrate, nw.check, nw.trace, nw.attach, nw.load, nw.count_tokens], ids=function_name
)
def test_every_parameter_is_in_the_docstring_and_an_example_runs(function: Callable[..., Any]) -> None:
    text = inspect.getdoc(function) or ""
    arguments = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^ {4}\**(\w+): ", arguments, re.MULTILINE)) == set(inspect.signature(function).parameters)
    assert ">>> " in text.partition("\nExamples:\n")[2]
    assert "+SKIP" not in text
    for parameter in inspect.signature(function).parameters.values():
        assert " at 0x" not in str(parameter)
        if function in SETTINGS:
            assert parameter.kind is not parameter.VAR_KEYWORD


class Heard:
    """Takes the place of what a public function calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *given: Any) -> Any:
        self.calls.append(given)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """What trainings and comparisons are asked for, which do not happen."""
    heard = Heard()
    for place in (train_model, compare_methods):
        monkeypatch.setattr(f"{place.__module__}.{place.__name__}", heard)
    return heard


TRAINING = {"model": "small", "data": "a.txt", "head": "mos:3", "seed": 4, "training": {"steps": 9, "bf16": True}}


def test_forms_of_a_training(heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'model = "small"\ndata = "a.txt"\nhead = "mos:3"\nseed = 4\ntraining = {steps = 9, bf16 = true}\n'
    )
    given: Any = TRAINING
    watcher = object()
    nw.train(given, "out", watcher, "nextword train")  # type: ignore[arg-type, call-arg, misc]
    nw.train(config=given, out="out")  # type: ignore[call-arg]
    nw.train(train_config.configured(given), out="out")  # type: ignore[arg-type]
    nw.train(**given, out="out")
    nw.train("small", "a.txt", head="mos:3", seed=4, training={"steps": 9, "bf16": True}, out="out")
    nw.train(recipe=given, out="out")
    nw.train(recipe=tmp_path / "mine.toml", out="out")
    nw.train(recipe={**given, "head": "cache", "seed": 7, "training": {"steps": 1, "bf16": True}}, head="mos:3",
             seed=4, training={"steps": 9}, out="out")  # fmt: skip
    assert [call[0] for call in heard.calls] == [train_config.configured(given)] * 8
    assert {call[1] for call in heard.calls} == {"out"}
    assert heard.calls[0][2:] == (watcher, "nextword train")


def test_parts_of_a_method_in_short(heard: Heard) -> None:
    recipe = {"model": "small", "data": "a.txt", "method": "cache/histalign"}
    nw.train(recipe=recipe, out="out")
    nw.train(recipe=recipe, objective="trime", out="out")
    assert [call[0].objective for call in heard.calls] == ["histalign", "trime"]


def test_a_key_that_is_no_argument_is_said(heard: Heard) -> None:
    with pytest.raises(SettingsError, match=r"sed: unknown key\. Did you mean 'seed'"):
        nw.train({"model": "small", "data": "a.txt", "head": "cache", "sed": 1}, out="out")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"sed: unknown key\. Did you mean 'seed'"):
        nw.train("small", "a.txt", head="cache", sed=1, out="out")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values for argument 'data'"):
        nw.train("small", "a.txt", data="b.txt", out="out")  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional argument"):
        nw.train("small", "a.txt", "out")  # type: ignore[call-arg, misc]
    with pytest.raises(TypeError, match="'out'"):
        nw.train("small", "a.txt", head="cache")  # type: ignore[call-arg]


def test_forms_of_a_comparison(heard: Heard) -> None:
    recipe: Any = {
        "task": {"name": "lm", "data": "a.txt"}, "methods": ["softmax", "cache/histalign"], "seeds": [0, 3],
        "start": {"model": "gpt2", "seed": 2}, "training": {"steps": 9},
    }  # fmt: skip
    engine = object()
    nw.compare(recipe, "out", None, None, engine)  # type: ignore[arg-type, call-arg, misc]
    nw.compare(config=recipe, folder="out")  # type: ignore[call-arg]
    nw.compare(comparison_settings.configured(recipe), out="out")  # type: ignore[arg-type]
    nw.compare(recipe=recipe, out="out")
    nw.compare("gpt2", "a.txt", task="lm", heads=["softmax", "cache/histalign"], seeds=[0, 3], start={"seed": 2},
               training={"steps": 9}, out="out")  # fmt: skip
    nw.compare(recipe={**recipe, "seeds": [8]}, seeds=[0, 3], out="out")
    assert [call[0] for call in heard.calls] == [comparison_settings.configured(recipe)] * 6
    assert {call[1] for call in heard.calls} == {"out"}
    assert heard.calls[0][4] is engine


@pytest.mark.parametrize("name", comparison_settings.built_in())
def test_a_checked_recipe_is_the_same_when_it_is_checked_again(name: str, heard: Heard) -> None:
    config = comparison_settings.configured(comparison_settings.read(name))
    nw.compare(config, "out")  # type: ignore[arg-type, call-arg]
    nw.compare(recipe=name, out="out")
    assert [call[0] for call in heard.calls] == [config] * 2


def test_defaults_of_fine_tuning_can_be_left_out_of_a_recipe(heard: Heard) -> None:
    recipe: Mapping[str, Any] = {"task": "lm", "methods": ["softmax"], "start": {"model": "gpt2"}}
    nw.compare(recipe=recipe, out="out")
    nw.compare(recipe={**recipe, "fine_tuning": None}, out="out")
    assert [call[0].fine_tuning is None for call in heard.calls] == [False, True]


def test_forms_of_an_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x y"}\n{"text": "y z"}\n', encoding="utf-8")
    heard: list[Any] = []
    settings: Any = {"metrics": ["distinct:1"], "tokenizer": None}
    forms: list[Any] = [
        nw.evaluate({"systems": {"a": [str(path)]}, **settings}, lambda *told: heard.append(told), "again"),  # type: ignore[call-arg, misc, dict-item]
        nw.evaluate(config={"systems": {"a": [str(path)]}, **settings}, command="again"),  # type: ignore[call-arg]
        nw.evaluate(EvaluateConfig(systems={"a": [str(path)]}, metrics=["distinct:1"]), command="again"),  # type: ignore[arg-type]
        nw.evaluate({"a": path}, **settings, command="again", watch=lambda *told: None),
        nw.evaluate(path, metrics="distinct:1", command="again"),
    ]
    assert heard
    assert len({one.model_dump_json(exclude={"environment"}) for one in forms}) == 1
    assert nw.evaluate(path, None, "again").command == "again"  # type: ignore[call-arg, misc]
    with pytest.raises(SettingsError, match=r"metric: unknown key\. Did you mean 'metrics'"):
        nw.evaluate(path, metric="distinct:1")  # type: ignore[call-arg]


def test_positions_by_their_old_name() -> None:
    model, tokenizer = nw.attach(word_model(), "cache"), word_tokenizer()
    given: Any = {"max_new_tokens": 3, "sources": True}
    new = nw.generate(model, tokenizer, "the king", **given, positions=1)
    assert nw.generate(model, tokenizer, "the king", **given, places=1) == new
    assert nw.score(model, tokenizer, "the king", places=2).settings["positions"] == 2  # type: ignore[call-arg]
