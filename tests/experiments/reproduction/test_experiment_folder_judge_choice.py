from __future__ import annotations

import pytest

from nextword.experiments.comparison.comparison_settings import configured, read
from nextword.experiments.reproduction.experiment import AtScale, Experiment
from nextword.experiments.reproduction.experiment_folder import with_judges

PAPERS = Experiment(
    title="made up",
    small=AtScale(recipe="f2-wikitext2"),
    paper=AtScale(recipe="f2-wikitext103", overrides=["task.generation.metrics=['rep', 'mauve', 'coherence']"]),
)


def small(*overrides):
    return configured(read("f2-wikitext2"), ["task.data='x'", *overrides])


def metrics(config):
    return config.task_settings["generation"]["metrics"]


def test_a_judge_is_measured_where_the_paper_has_it_beside_what_is_measured_anyway():
    config = with_judges(small("task.generation.metrics=['rep']"), PAPERS, ["mauve:model=somewhere", "factcc:model=x"])
    assert metrics(config) == ["rep", "mauve:model=somewhere"]
    assert config.task_settings["generation"]["prompts"] == small().task_settings["generation"]["prompts"]


def test_it_takes_the_place_of_the_recipe_s_own():
    config = with_judges(
        small("task.generation.metrics=['rep', 'mauve:model=gpt2']"), PAPERS, ["mauve:model=somewhere"]
    )
    assert metrics(config) == ["rep", "mauve:model=somewhere"]


def test_the_task_s_default_metrics_stay():
    config = with_judges(small(), PAPERS, ["mauve:model=somewhere"])
    assert metrics(config)[-1] == "mauve:model=somewhere"
    assert "self-bleu:1,2,3" in metrics(config)


def test_without_one_that_the_paper_has_nothing_changes():
    assert with_judges(small(), PAPERS, ["factcc:model=x"]) == small()
    assert with_judges(small(), PAPERS.model_copy(update={"paper": None}), ["mauve:model=x"]) == small()


def test_an_unknown_judge_is_refused():
    with pytest.raises(ValueError, match="unknown metric 'fatcc'"):
        with_judges(small(), PAPERS, ["fatcc:model=x"])
