"""What methods write in a comparison, and what is measured of it."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from nextword.evaluation import evaluate
from nextword.evaluation.metrics.unigram_kl import unigram_kl
from nextword.experiments.comparison.all_methods import ComparisonInterrupted, compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.comparison.measured_texts import written_examples
from nextword.functional.frequency import TokenCounts
from nextword.results.records import Results
from nextword.runtime import optional_libraries as extras
from tests.helpers.counting_task import CountingRows, Heard

pytestmark = pytest.mark.usefixtures("counting", "writing", "quick_report")

WRITTEN = {
    "prompts": 6, "prefix": 3, "continuation": 4, "decodings": ["greedy", "top-k:3"], "metrics": ["likelihood", "rep"],
}  # fmt: skip
RECIPE = {"task": {"name": "writing", "generation": WRITTEN}, "methods": ["softmax", "mos:2"], "seeds": [0, 1]}


@pytest.fixture(scope="module")
def finished(counting, writing, tmp_path_factory):
    """A finished comparison, which tests must leave as it is."""
    folder = tmp_path_factory.mktemp("finished") / "out"
    compare(configured(RECIPE), folder)
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def samples(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.jsonl")}


def test_every_run_writes_every_decoding(finished):
    results = Results.load(finished / "results.json")
    assert len(samples(finished)) == 8
    for run in results.runs:
        slug = {"softmax": "softmax", "mos:2": "mos-2"}[run.method]
        files = [f"runs/{slug}-seed{run.seed}/samples/{name}.jsonl" for name in ("greedy", "top-k-3")]
        assert run.samples == {"greedy": files[:1], "top-k 3": files[1:]}
        assert all(len((finished / file).read_text().splitlines()) == 6 for file in files)
    greedy, other = (samples(finished)[f"runs/softmax-seed{seed}/samples/top-k-3.jsonl"] for seed in (0, 1))
    assert greedy != other


def test_the_texts_are_measured_together(finished):
    results = Results.load(finished / "results.json")
    assert list(results.texts) == ["greedy", "top-k 3"]
    for title, found in results.texts.items():
        files = {
            name: [run.samples[title][0] for run in results.runs if run.method == name] for name in ("softmax", "mos:2")
        }
        direct = evaluate(
            {
                "systems": {name: [str(finished / file) for file in of] for name, of in files.items()},
                "metrics": ["likelihood", "rep"],
                "special": [0],
            }
        )
        assert [system.values for system in found.systems] == [system.values for system in direct.systems]
        assert found.human.values == direct.human.values
        assert found.settings["systems"] == files
        assert found.wins.measures == ["perplexity", "rep"]


def test_a_finished_comparison_measures_nothing_again(copied):
    heard = Heard()
    first = Results.load(copied / "results.json")
    assert compare(configured(RECIPE), copied, heard).texts == first.texts
    assert heard.events == [("planned", 4, 4)]


def test_other_metrics_measure_again_without_training_or_writing(copied):
    before = samples(copied)
    heard = Heard()
    again = compare(configured(RECIPE, ['task.generation.metrics=["distinct:1"]']), copied, heard)
    assert heard.events == [("planned", 4, 4), ("texts", "greedy"), ("texts", "top-k 3")]
    assert list(again.texts["greedy"].measures) == ["distinct-1"]
    assert samples(copied) == before


def test_texts_are_compared_with_all_of_the_test_data(copied, writing, monkeypatch):
    """Not with the references of the prompts: F2-Softmax, section 4.1.6."""
    asked = configured(RECIPE, ['task.generation.metrics=["unigram-kl:test"]'])
    with pytest.raises(ValueError, match=r"unigram-kl.against:.*'writing'"):
        compare(asked, copied)
    monkeypatch.setattr(CountingRows, "test_text", lambda self: "1 2 2 19")
    greedy = compare(asked, copied).texts["greedy"]
    lines = samples(copied)["runs/softmax-seed0/samples/greedy.jsonl"].splitlines()
    # 0 is the padding, at which a text ends
    ids = [np.array(list(itertools.takewhile(bool, json.loads(line)["token_ids"])), dtype=int) for line in lines]
    written, test = (np.bincount(tokens, minlength=20) for tokens in (np.concatenate(ids), [1, 2, 2, 19]))
    either = (test > 0) | (written > 0)
    first = greedy.systems[0].files[0].values["kl-human-generated"]
    assert first.value == pytest.approx(unigram_kl(test[either], written[either]))
    assert greedy.measures["kl-human-generated"].title == "KL(test || generated)"
    assert greedy.settings["metrics"][0]["against"] == "start/test-counts.npz"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ('task.generation.decodings=["greedy"]', r"task_settings\.generation\.decodings"),
        ("task.generation.prompts=5", r"task_settings\.generation\.prompts: 6 there, 5 asked for"),
    ],
)
def test_other_texts_are_another_comparison(finished, override, message):
    with pytest.raises(ValueError, match=message):
        compare(configured(RECIPE, [override]), finished)


@pytest.mark.slow
def test_an_added_method_is_measured_with_the_others(copied):
    before = samples(copied)
    heard = Heard()
    results = compare(configured({**RECIPE, "methods": ["softmax", "mos:2", "cache"]}), copied, heard)
    assert heard.of("texts") == ["cache, seed 0", "cache, seed 1"]
    assert [system.name for system in results.texts["greedy"].systems] == ["softmax", "mos:2", "cache"]
    assert before.items() <= samples(copied).items()


def test_a_run_that_was_killed_between_two_files_writes_the_other(finished, tmp_path):
    recipe = {**RECIPE, "methods": ["softmax"], "seeds": [0]}
    killed = Heard(killed_in=("softmax, seed 0", "texts"))
    with pytest.raises(ComparisonInterrupted, match="0 of 1 runs"):
        compare(configured(recipe), tmp_path, killed)
    folder = tmp_path / "runs" / "softmax-seed0"
    begun = ["greedy.jsonl", "measured.json", "top-k-3.jsonl.partial"]
    assert sorted(path.name for path in folder.rglob("*.*")) == begun
    written = (folder / "samples" / "greedy.jsonl").stat().st_mtime_ns
    heard = Heard()
    compare(configured(recipe), tmp_path, heard)
    assert [event for event in heard.events if event[0] == "softmax, seed 0"] == [("softmax, seed 0", "texts")]
    assert (folder / "samples" / "greedy.jsonl").stat().st_mtime_ns == written
    assert not (folder / "measured.json").exists()
    assert samples(tmp_path).items() <= samples(finished).items()


@pytest.mark.slow
def test_texts_of_another_training_are_not_kept(tmp_path):
    recipe = {**RECIPE, "methods": ["softmax"], "seeds": [0]}
    with pytest.raises(ComparisonInterrupted):
        compare(configured(recipe), tmp_path, Heard(killed_in=("softmax, seed 0", "texts")))
    shutil.rmtree(tmp_path / "trained")
    heard = Heard()
    compare(configured(recipe), tmp_path, heard)
    stages = [stage for name, *rest in heard.events for stage in rest if name == "softmax, seed 0"]
    assert stages == ["training", "evaluation", "texts"]


@pytest.mark.slow
def test_tuned_settings_hold_for_texts_that_are_written_later(tmp_path):
    late = {"head": "cache", "label": "late", "trained_as": "softmax"}
    recipe = {**RECIPE, "methods": [late], "seeds": [0]}
    whole = compare(configured(recipe), tmp_path / "whole")
    with pytest.raises(ComparisonInterrupted):
        compare(configured(recipe), tmp_path / "cut", Heard(killed_in=("late, seed 0", "texts")))
    heard = Heard()
    resumed = compare(configured(recipe), tmp_path / "cut", heard)
    assert heard.of("tuning") == []
    assert samples(tmp_path / "cut") == samples(tmp_path / "whole")
    assert resumed.runs[0].evaluation == whole.runs[0].evaluation


def test_samples_that_are_gone_are_written_again(copied, caplog):
    before = samples(copied)
    (copied / "runs" / "mos-2-seed1" / "samples" / "greedy.jsonl").unlink()
    heard = Heard()
    compare(configured(RECIPE), copied, heard)
    assert heard.of("texts") == ["mos:2, seed 1"]
    assert heard.trained == []
    assert samples(copied) == before
    assert "names samples that are gone (runs/mos-2-seed1/samples/greedy.jsonl)" in caplog.text


def test_changed_samples_are_measured_again(copied):
    path = copied / "runs" / "mos-2-seed1" / "samples" / "greedy.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["log_probs"] = [-5.0] * 4
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    heard = Heard()
    compare(configured(RECIPE), copied, heard)
    assert heard.events == [("planned", 4, 4), ("texts", "greedy")]


def test_a_broken_measurement_is_made_again(copied, caplog):
    (copied / "texts" / "greedy.json").write_text("{")
    heard = Heard()
    compare(configured(RECIPE), copied, heard)
    assert heard.events == [("planned", 4, 4), ("texts", "greedy")]
    assert "the texts are measured again" in caplog.text


def test_an_interrupted_measurement_is_made_again_and_the_finished_one_kept(copied):
    shutil.rmtree(copied / "texts")
    with pytest.raises(ComparisonInterrupted, match="4 of 4 runs"):
        compare(configured(RECIPE), copied, Heard(killed_in=("texts", "top-k 3")))
    heard = Heard()
    compare(configured(RECIPE), copied, heard)
    assert heard.events == [("planned", 4, 4), ("texts", "top-k 3")]


def test_progress_of_measuring_rises_to_one(copied):
    shutil.rmtree(copied / "texts")
    heard = Heard()
    compare(configured(RECIPE), copied, heard)
    half = len(heard.fractions) // 2
    assert heard.fractions[:half] == sorted(heard.fractions[:half])
    assert 0.9 < max(heard.fractions) <= 1


def test_metrics_by_frequency_get_the_counts_of_the_training_text(copied):
    results = compare(configured(RECIPE, ['task.generation.metrics=["frequency-groups"]']), copied)
    found = results.texts["greedy"]
    counts = found.settings["metrics"][0]["counts"]
    assert counts == "start/counts.npz"
    assert "the training text" in found.measures["vr"].unit
    assert TokenCounts.load(copied / counts).total == 72


def test_what_was_written_is_shown(finished):
    (first, *others) = Results.load(finished / "results.json").written
    assert len(others) == 2
    assert (first.decoding, first.seed, first.prompt) == ("top-k 3", 0, "1 2 3")
    assert [text.author for text in first.texts] == ["human", "softmax", "mos:2"]
    assert "".join(span.text for span in first.texts[0].spans) == "4 5 6 7"
    line = json.loads(samples(finished)["runs/mos-2-seed0/samples/top-k-3.jsonl"].splitlines()[0])
    assert "".join(span.text for span in first.texts[2].spans) == line["text"]


def writing_in(folder, decodings):
    """What ``written_examples`` asks of a setting: two prompts of such decodings."""
    return SimpleNamespace(
        task=SimpleNamespace(writes=SimpleNamespace(texts=SimpleNamespace(decodings=decodings, examples=2))),
        start=SimpleNamespace(
            counts=folder / "start" / "counts.npz", tokenizer=AutoTokenizer.from_pretrained(folder / "start" / "model")
        ),
        config=SimpleNamespace(seeds=[0, 1]),
        folder=SimpleNamespace(path=folder),
    )


def test_texts_without_and_with_a_prompt_are_both_shown(finished):
    """Of ways that differ by the prompt alone, the first that draws tokens and its other."""
    results = Results.load(finished / "results.json")
    titles = ("greedy", "greedy, with prompt", "top-k 3", "top-k 3, with prompt", "top-k 5, with prompt")
    decodings = [SimpleNamespace(title=title, is_sampled=not title.startswith("greedy")) for title in titles]
    runs = [
        run.model_copy(update={"samples": {title: run.samples[title.partition(",")[0]] for title in titles[:4]}})
        for run in results.runs
    ]
    found = written_examples(writing_in(finished, decodings), runs)
    assert [one.decoding for one in found] == [*["top-k 3"] * 2, *["top-k 3, with prompt"] * 2]
    assert found[0].texts == results.written[0].texts


def test_the_source_stands_beside_its_texts(copied):
    results = Results.load(copied / "results.json")
    for run in results.runs:
        path = copied / run.samples["greedy"][0]
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines[0]["source"] = "a document with 4 5 6 in it"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    greedy = SimpleNamespace(title="greedy", is_sampled=False)
    found = written_examples(writing_in(copied, [greedy]), results.runs)
    assert [one.source for one in found] == ["a document with 4 5 6 in it", None]
    assert [(span.text, span.copied) for span in found[0].texts[0].spans] == [("4 5 6", True), (" 7", False)]


def test_texts_that_cannot_be_measured_are_refused_before_anything_is_trained(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="human references"):
        compare(configured({**RECIPE, "methods": [{"head": "softmax", "label": "human"}]}), tmp_path / "a")
    monkeypatch.setattr(extras, "missing", lambda modules: ["nltk"])
    with pytest.raises(ValueError, match="likelihood"):
        compare(configured(RECIPE), tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_a_method_s_own_arguments_of_generate(tmp_path):
    own = {"head": "softmax", "label": "own", "generation": {"no_repeat_ngram_size": 1}}
    heard = Heard()
    results = compare(configured({**RECIPE, "methods": ["softmax", own], "seeds": [0]}), tmp_path, heard)
    assert heard.trained == ["start", "softmax, seed 0"]
    plain, other = (samples(tmp_path)[run.samples["greedy"][0]] for run in results.runs)
    assert plain != other
    for line in map(json.loads, other.splitlines()):
        assert len(set(line["token_ids"])) == 4
    wrong = {**own, "generation": {"dekoupled": True}}
    heard = Heard()
    with pytest.raises(ValueError, match=r"(?s)method 'own': generation: .*dekoupled"):
        compare(configured({**RECIPE, "methods": [wrong]}), tmp_path / "wrong", heard)
    assert heard.trained == []


def test_a_task_without_texts_writes_none(tmp_path):
    recipe = {"task": {"name": "counting"}, "methods": ["softmax"], "seeds": [0]}
    results = compare(configured(recipe), tmp_path)
    assert (results.texts, results.written, results.runs[0].samples) == ({}, [], {})
    assert not (tmp_path / "texts").exists()
    assert not list(tmp_path.rglob("*.jsonl"))
    with pytest.raises(ValueError, match="this task generates no texts"):
        compare(
            configured({**recipe, "methods": [{"head": "softmax", "generation": {"use_cache": True}}]}), tmp_path / "b"
        )


def test_weights_that_write_are_the_saved_ones(finished):
    import nextword as nw

    model = nw.load(finished / "trained" / "softmax-mle-seed0" / "model").eval()
    for line in map(json.loads, samples(finished)["runs/softmax-seed0/samples/greedy.jsonl"].splitlines()):
        ids = torch.tensor([line["prompt_token_ids"] + line["token_ids"]])
        assert model(input_ids=ids).logits[0, 2:-1].argmax(-1).tolist() == line["token_ids"]


@pytest.mark.slow
def test_what_nobody_trained_counts_once_where_nothing_is_drawn(tmp_path):
    methods = [{"head": "softmax", "trained": False, "tune": False}, "softmax"]
    results = compare(configured({**RECIPE, "methods": methods}), tmp_path / "out")
    files = {
        title: [len(system.files) for system in texts.systems if system.name != "human"]
        for title, texts in results.texts.items()
    }
    assert files == {"greedy": [1, 2], "top-k 3": [2, 2]}
