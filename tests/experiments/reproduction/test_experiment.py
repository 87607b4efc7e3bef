from __future__ import annotations

import pytest

from nextword.experiments.comparison.comparison_settings import built_in, configured, read
from nextword.experiments.reproduction.data_sets import DataFolder, known_data_sets
from nextword.experiments.reproduction.experiment import (
    SCALES,
    AtScale,
    comparison_of,
    find_experiment,
    known_experiments,
    overrides_of,
    recipe_of,
    settings_of,
)
from tests.helpers.real_data import DATA

EXPERIMENTS = [(name, scale) for name in known_experiments() for scale in SCALES]


def made(name, scale):
    one = find_experiment(name).at(scale)
    if one is None:
        pytest.skip(f"{name} is not done at scale {scale}")
    return one


@pytest.mark.parametrize(("name", "scale"), EXPERIMENTS)
def test_every_experiment_names_a_recipe_and_data_that_are_known(name, scale):
    one = made(name, scale)
    assert one.recipe in built_in()
    places = [place for wanted in one.data.values() for place in ([wanted] if isinstance(wanted, str) else wanted)]
    assert all(place.partition("/")[0] in known_data_sets() for place in places)
    assert one.start is None or find_experiment(one.start).at(scale) is not None


def settings_without_data(one):
    """All settings of an experiment, whose data is not looked for."""
    paths = [
        f"{key}={'a path'!r}" if isinstance(wanted, str) else f"{key}=['a path']" for key, wanted in one.data.items()
    ]
    return settings_of(configured(recipe_of(one), [*one.overrides, *paths]))


@pytest.mark.parametrize(("name", "scale"), EXPERIMENTS)
def test_every_experiment_is_a_comparison_whose_settings_its_task_takes(name, scale):
    settings = settings_without_data(made(name, scale))
    assert settings["task"]["name"]
    assert settings["training"]


@pytest.mark.parametrize(("name", "scale"), EXPERIMENTS)
def test_what_stands_for_the_paper_s_own_is_named(name, scale):
    one = made(name, scale)
    told = " ".join(one.differs)
    assert told
    config = configured(recipe_of(one), one.overrides)
    forms = {method.objective_spec for method in config.methods if method.title == "cache (HistAlign)"}
    assert [form for form in forms if f"HistAlign is `{form}`" not in told] == []
    settings = {method.head for method in config.methods if "=" in str(method.head)}
    assert [head for head in settings if f"`{head}`" not in told] == []


@pytest.mark.parametrize("name", [name for name, one in known_experiments().items() if one.small and one.paper])
def test_the_small_model_in_place_of_the_paper_s_is_told_by_its_size(name):
    one = find_experiment(name).small
    start = settings_without_data(one)["task"]["start"]
    layers = start.get("n_layer") or f"{start['num_layers']} + {start['num_decoder_layers']}"
    assert f"{layers} layers × {start.get('n_embd') or start['d_model']}" in " ".join(one.differs)


def test_methods_of_an_experiment_stand_behind_its_recipe_s():
    one = AtScale(recipe="ambiguous", methods=[{"head": "cache", "objective": "histalign:released", "label": "mine"}])
    ours, recipe = (configured(content).methods for content in (recipe_of(one), read("ambiguous")))
    assert ours[:-1] == recipe
    assert (ours[-1].title, ours[-1].objective_spec) == ("mine", "histalign:released")
    changed = comparison_of(one, DataFolder(), None, [f"methods.{len(recipe)}.label='other'"])
    assert changed.methods[-1].title == "other"


def test_a_length_in_epochs_leaves_no_default_number_of_steps():
    settings = settings_of(configured(read("ambiguous"), ["training.epochs=5"]))["training"]
    assert (settings["epochs"], settings["steps"]) == (5, None)


def test_what_no_recipe_says_has_its_default():
    settings = settings_of(configured(read("ambiguous"), []))["training"]
    assert (settings["warmup_ratio"], settings["weight_decay"], settings["gradient_accumulation_steps"]) == (0, 0, 1)


@pytest.mark.parametrize("name", known_experiments())
def test_small_experiments_have_three_seeds(name):
    one = made(name, "small")
    assert len(configured(read(one.recipe), one.overrides).seeds) >= 3


@pytest.mark.parametrize("name", known_experiments())
def test_the_data_of_small_experiments_is_there(name):
    if not DATA.exists():
        pytest.skip(f"no real data ({DATA})")
    one = made(name, "small")
    assert comparison_of(one, DataFolder(DATA)).methods


def test_data_start_and_changes_are_overrides(tmp_path):
    (tmp_path / "xsum").mkdir()
    (tmp_path / "xsum" / "pairs.jsonl").write_text("{}\n")
    one = AtScale(recipe="seq2seq", data={"task.data": "xsum/pairs.jsonl"}, overrides=["seeds=[4]"])
    data = DataFolder(tmp_path)
    assert overrides_of(one, data) == ["seeds=[4]", f'task.data="{tmp_path / "xsum" / "pairs.jsonl"}"']
    config = comparison_of(one, data, start=tmp_path / "model", changes=["training.steps=3"])
    assert config.fine_tuning is None  # the start is a small one, which is not made yet
    other = comparison_of(one, data, start=tmp_path / "model", changes=["start.model=gpt2"])
    assert other.fine_tuning is not None
    assert (config.seeds, config.start.model, config.training["steps"]) == ([4], str(tmp_path / "model"), 3)


def test_an_unknown_experiment_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="'ambiguous'"):
        find_experiment("ambigous")


def test_histalign_s_grid_is_a_search_of_its_method():
    grid = {
        "training.learning_rate": [1e-5, 3e-5, 5e-5],
        "objective.margin": [1e-3, 1e-4, 1e-5],
        "objective.alpha": [0.5, 1.0],
    }
    written = "{" + ", ".join(f'"{key}"={values}' for key, values in grid.items()) + "}"
    for name in ("stories-paper", "summaries-xsum-paper", "summaries-cnn-paper", "logicnlg-paper"):
        config = configured(read(name), [f"methods.2.search={written}"])
        assert (config.methods[2].label, config.methods[2].search) == ("cache (HistAlign)", grid)
