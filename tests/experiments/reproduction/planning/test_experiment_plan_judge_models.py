from __future__ import annotations

import pytest

from nextword.experiments.reproduction.planning.experiment_plan import Findings, judge_models
from nextword.experiments.tasks.writing import Texts


def found(*metrics):
    findings = Findings()
    judge_models(Texts((), metrics, None, 0), findings)
    return findings


def test_metrics_without_models_are_fine():
    assert found("distinct:1", "likelihood", {"metric": "mauve", "model": "start"}) == Findings()


def test_a_judge_by_path_must_be_a_folder_whose_configuration_reads(tmp_path):
    folder = tmp_path / "judge"
    folder.mkdir()
    for content, problems in ((None, 1), ("{", 1), ("[]", 1), ('{"model_type": "bert"}', 0)):
        if content is not None:
            (folder / "config.json").write_text(content)
        lines = found({"metric": "mauve", "model": str(folder)}).problems
        assert len(lines) == problems
        assert all("config.json: must be the configuration of a model" in line for line in lines)
    (line,) = found({"metric": "mauve", "model": "./nowhere"}).problems
    assert line.startswith("mauve.model: must be a folder with a model ('./nowhere' given")


def test_a_name_on_the_hub_is_a_problem_only_where_nothing_can_be_fetched(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    findings = found({"metric": "mauve", "model": "nobody/nothing"})
    assert findings.problems == []
    assert findings.notes == ["mauve.model: 'nobody/nothing' must be downloaded first (hf download nobody/nothing)"]
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert found({"metric": "mauve", "model": "nobody/nothing"}).problems == findings.notes


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("nli", "nli.model: must be the folder or hub name"),
        ({"metric": "sp", "parser": "no_such_module:f"}, "sp.parser: module 'no_such_module' cannot be imported"),
        (
            {"metric": "entities", "pipeline": "no_such_pipeline"},
            "entities.pipeline: 'no_such_pipeline' must be installed",
        ),
    ],
)
def test_what_a_judge_needs_and_lacks_is_one_line(metric, message):
    if "entities" in str(metric):
        pytest.importorskip("spacy")
    (line,) = found(metric).problems
    assert line.startswith(message)
