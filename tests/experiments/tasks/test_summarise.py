from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nextword.experiments.comparison.all_methods import compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.tasks import registry
from nextword.experiments.tasks.summarise import Summarise, SummariseConfig, SummaryGenerationConfig
from nextword.experiments.tasks.table2text import TableTextsConfig
from nextword.experiments.tasks.task import ENCODER_DECODER
from nextword.experiments.tasks.writing import PromptedDecoding, SeededDecoding
from nextword.inference.generation.strategies import Decoding
from tests.helpers.fake_models import FakeWriter
from tests.helpers.real_data import real_data

NAMES = ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay", "Gus", "Hal"]
PLACES = ["Rome", "Oslo", "Lima", "Bonn", "Kiev"]
BEAMS = SeededDecoding(PromptedDecoding(Decoding(beams=4)), seed=0)
PARTS = {"train": range(60), "dev": range(60, 70), "test": range(70, 90)}


def document(number: int) -> dict[str, object]:
    who, place = NAMES[number % 8], PLACES[number % 5]
    told = f"It was day {number}. {who} went to {place} by train. Nobody saw {who} there.\n\nThe train was late."
    return {"document": told, "summary": f"{who} was in {place}."}


@pytest.fixture
def news(tmp_path: Path) -> Path:
    for part, numbers in PARTS.items():
        lines = "".join(f"{json.dumps(document(number))}\n" for number in numbers)
        (tmp_path / f"{part}.jsonl").write_text(lines)
    return tmp_path


def test_every_seed_of_a_draw_is_a_samples_file_of_its_own() -> None:
    for config in (SummaryGenerationConfig, TableTextsConfig):
        texts = config.model_validate({"decodings": ["top-k:3", "beam:2"], "draws": [0, 7]}).texts()
        assert texts is not None
        assert [texts.draws_of(way) for way in texts.decodings] == [(0, 7), (None,)]


def small(data: Path, **settings: object) -> Summarise:
    settings = {"vocabulary": 330, "frequent_words": 5, "batch_size": 8, **settings}
    return Summarise(SummariseConfig.model_validate({"data": str(data), **settings}))


class Repeater(FakeWriter):
    """Writes its source, and remembers what ``generate`` was given."""

    def __init__(self, task: Summarise) -> None:
        size = len(task.start.tokenizer())
        super().__init__(lambda ids, mode: torch.zeros(*ids.shape, size), lambda source: source)
        self.arguments: dict[str, object] = {}

    def generate(
        self, input_ids: Tensor, attention_mask: Tensor, logits_processor: object = None, **arguments: object
    ) -> Tensor:
        self.arguments = arguments
        return super().generate(input_ids, attention_mask)


def written(task: Summarise, folder: Path) -> list[dict[str, object]]:
    path = folder / "samples.jsonl"
    task.writes.write(Repeater(task), task.start.tokenizer(), {path: BEAMS}, {})
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_registered_with_its_architecture() -> None:
    assert registry.get("summarise") is Summarise
    assert Summarise.architecture is ENCODER_DECODER


def test_samples_have_the_document_and_what_people_wrote_in_full(news: Path, tmp_path: Path) -> None:
    task = small(news, max_source_tokens=16, max_target_tokens=8, vocabulary=300, generation={"summaries": 5})
    lines = written(task, tmp_path)
    assert len(lines) == 5
    for line, number in zip(lines, PARTS["test"], strict=False):
        assert line["source"] == document(number)["document"]  # not as far as the model could read it
        assert line["references"] == [document(number)["summary"]]
        assert len(line["reference_token_ids"]) == 1
        assert len(line["target_token_ids"]) == len(line["log_probs"]) == 8
        assert str(document(number)["document"]).startswith(str(line["text"]))


def test_every_answer_is_a_reference_and_a_row(tmp_path: Path) -> None:
    for part, numbers in PARTS.items():
        lines = [
            {
                "document": document(n)["document"],
                "questions": [{"responses": [{"response_text": f"{x}{n}"} for x in "ab"]}],
            }
            for n in numbers
        ]
        (tmp_path / f"{part}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    task = small(tmp_path)
    assert written(task, tmp_path)[0]["references"] == ["a70", "b70"]
    tokenizer = task.start.tokenizer()
    rows = task.data.training(tokenizer)
    assert len(rows) == 120
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in rows["labels"][:3]] == ["a0", "b0", "a1"]
    assert rows["input_ids"][0] == rows["input_ids"][1]


def test_limits_of_the_search_reach_generate(news: Path, tmp_path: Path) -> None:
    settings = {"max_tokens": 9, "min_tokens": 2, "no_repeat_ngram": 3, "length_penalty": 2.0}
    task = small(news, generation=settings)
    model, files = Repeater(task), {tmp_path / "x.jsonl": BEAMS}
    task.writes.write(model, task.start.tokenizer(), files, {"length_penalty": 0.5})
    wanted = {"min_new_tokens": 2, "no_repeat_ngram_size": 3, "length_penalty": 0.5, "early_stopping": True}
    assert model.arguments == wanted  # a method's own goes first
    assert (model.asked["max_length"], model.asked["num_beams"]) == (10, 4)
    assert small(news, generation={"decodings": ["greedy"]}).config.generation.search() == {}
    assert small(news, generation={"summaries": 0}).writes is None


def test_likelihood_and_what_is_shown(news: Path) -> None:
    task = small(news)
    tokenizer = task.start.tokenizer()
    found = task.measures.evaluate(Repeater(task), tokenizer)
    assert found.metrics["nll"].value == pytest.approx(math.log(len(tokenizer)))
    assert "copy_recall" not in found.metrics  # that is measured of the written summaries
    assert found.examples


def test_the_start_learns_sentences_taken_out_of_training_documents(news: Path, tmp_path: Path) -> None:
    task = small(news)
    tokenizer = task.start.tokenizer()
    rows = task.start.pretraining(tokenizer, seed=0).dataset
    assert len(rows) == 60
    source, target = (tokenizer.decode(rows[name][0]) for name in ("input_ids", "labels"))
    assert "<mask>" in source
    assert target.removesuffix("<eos>") in str(document(0)["document"])
    more = tmp_path / "more"
    more.mkdir()
    for part, numbers in {"train": range(50, 75), "dev": range(1), "test": range(90, 91)}.items():
        lines = [{"article": document(n)["document"], "highlights": "x"} for n in numbers]
        (more / f"{part}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "text.txt").write_text("A dog ran. A cat saw the dog. Cat sat.\n")
    facts = small(news, start={"data": [str(more), str(tmp_path / "text.txt")]}).data.describe()
    assert facts["start_pairs"] == 60 + 15 + 1  # of the further documents ten are training documents of the task
    assert facts["start_leak_documents"] == 5
    assert facts["start_source"] == f"{news.name}, {news.name}/more, {news.name}/text.txt"


def test_documents_without_sentences_give_no_start(news: Path) -> None:
    with pytest.raises(ValueError, match=r"task\.start:.*task\.gaps\.min_sentences"):
        small(news, gaps={"min_sentences": 7})


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "references"),
    [
        ("xsum/pairs.jsonl", 1),
        ("cnn_dailymail/pairs.jsonl", 1),
        ("dialogsum/dialogsum.dev.jsonl", 1),
        ("squality/train.jsonl", 4),
    ],
)
def test_real_data_is_recognised(name: str, references: int) -> None:
    task = small(real_data(name), validation_share=0.1, test_share=0.2, vocabulary=400)
    assert {len(pair.references) for pair in task.pairs.test} == {references}
    assert len(task.pairs.train) > 2 * len(task.pairs.validation)


@pytest.mark.slow
def test_a_comparison_measures_and_shows_what_its_methods_wrote(news: Path, tmp_path: Path) -> None:
    start = {"d_model": 16, "d_ff": 16, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "steps": 2}
    sizes = {"vocabulary": 330, "max_source_tokens": 40, "max_target_tokens": 12}
    task = {"name": "summarise", "data": str(news), "start": start, "generation": {"summaries": 6}, **sizes}
    recipe = {
        "task": task,
        "methods": ["softmax", "cache/histalign", "softmax+cepr:20+mi"],
        "training": {"steps": 2, "save_every": None},
    }
    results = compare(configured(recipe), tmp_path / "run")
    texts = results.texts["beam 4"]
    assert {"rouge-1", "rouge-2", "rouge-l", "cider-d"} <= set(texts.measures)
    assert [system.name for system in texts.systems] == ["softmax", "cache/histalign", "softmax+cepr:20+mi"]
    assert {"nll", "perplexity", "bits_per_byte"} <= set(results.runs[0].evaluation.metrics)
    assert [one.prompt for one in results.written] == [document(number)["document"] for number in PARTS["test"]][:3]
    human = results.written[0].texts[0]
    assert "".join(span.text for span in human.spans) == document(70)["summary"]
