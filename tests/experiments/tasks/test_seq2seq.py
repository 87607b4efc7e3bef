from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import BartConfig, T5Config

from nextword.experiments.tasks import registry
from nextword.experiments.tasks.seq2seq import Seq2SeqConfig, SequenceToSequence
from nextword.experiments.tasks.task import DECODER_ONLY, ENCODER_DECODER, architecture_of
from tests.helpers.fake_models import FakeWriter
from tests.helpers.real_data import real_data

NAMES = ["ann", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"]
PLACES = ["rome", "oslo", "lima", "bonn", "kiev"]


def pair(number: int) -> dict[str, str]:
    who, other, place = NAMES[number % 8], NAMES[(number * 5 + 3) % 8], PLACES[number % 5]
    return {
        "source": f"Number {number}: {who} met {other} in {place} and they talked.",
        "target": f"They say {who} was in {place}.",
    }


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    for part, numbers in {"train": range(80), "validation": range(80, 90), "test": range(90, 110)}.items():
        (tmp_path / f"{part}.jsonl").write_text("".join(f"{json.dumps(pair(number))}\n" for number in numbers))
    return tmp_path


def small(data: Path, **settings: object) -> SequenceToSequence:
    settings = {"vocabulary": 320, "frequent_words": 5, "batch_size": 8, **settings}
    return SequenceToSequence(Seq2SeqConfig.model_validate({"data": str(data), **settings}))


def uniform(task: SequenceToSequence) -> FakeWriter:
    return FakeWriter(lambda ids, mode: torch.zeros(*ids.shape, len(task.start.tokenizer())), lambda source: source)


def test_registered_with_its_architecture() -> None:
    assert registry.get("seq2seq") is SequenceToSequence
    assert SequenceToSequence.architecture is ENCODER_DECODER is architecture_of(T5Config())
    assert registry.get("lm").architecture is DECODER_ONLY


def test_uniform_model_has_the_perplexity_of_its_vocabulary(stories: Path) -> None:
    task = small(stories)
    tokenizer, model, shares = task.start.tokenizer(), uniform(task), []
    metrics = task.measures.evaluate(model, tokenizer, shares.append).metrics
    targets = [pair(number)["target"] for number in range(90, 110)]
    tokens = sum(len(tokenizer(target)["input_ids"]) + 1 for target in targets)
    size = sum(len(target.encode()) for target in targets)
    assert metrics["nll"].value == pytest.approx(math.log(len(tokenizer)))
    assert metrics["perplexity"].value == pytest.approx(len(tokenizer), rel=1e-5)
    assert (metrics["nll"].n, metrics["bits_per_byte"].n) == (tokens, size)
    assert metrics["bits_per_byte"].value == pytest.approx(tokens * math.log2(len(tokenizer)) / size)
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert model.training


def test_likelihood_by_hand(stories: Path) -> None:
    task = small(stories, test_pairs=7, batch_size=3)
    tokenizer = task.start.tokenizer()
    torch.manual_seed(0)
    table = torch.log_softmax(torch.randn(len(tokenizer), len(tokenizer)), -1)
    metrics = task.measures.evaluate(FakeWriter(lambda ids, mode: table[ids], lambda source: source), tokenizer).metrics
    expected, count = 0.0, 0
    for one in task.data.pairs.test:
        targets = [*tokenizer(one.target)["input_ids"], tokenizer.eos_token_id]
        expected -= sum(float(table[a, b]) for a, b in zip([0, *targets], targets, strict=False))
        count += len(targets)
    assert metrics["nll"].value == pytest.approx(expected / count, rel=1e-5)
    assert metrics["nll"].low < metrics["nll"].value < metrics["nll"].high


def test_a_model_that_repeats_its_source_copies_everything(stories: Path) -> None:
    task = small(stories, generation={"pairs": 6, "beams": 2, "max_new_tokens": 9})
    model = uniform(task)
    metrics = task.measures.evaluate(model, task.start.tokenizer()).metrics
    # who, place, and "they"; of number, 90, who, met, other, in, place, and, they, talked
    wanted, copied = 6 * 4, sum(10 - (NAMES[n % 8] == NAMES[(n * 5 + 3) % 8]) for n in range(90, 96))
    assert (metrics["copy_recall"].value, metrics["copy_recall"].n) == (1.0, wanted)
    assert metrics["copy_precision"].n == copied
    assert metrics["copy_precision"].value == pytest.approx(wanted / copied)
    # frequent in the training targets: they, say, was, in, and one name
    assert metrics["rare_copy_recall"].n < wanted - 6
    assert (model.asked["num_beams"], model.asked["max_length"], model.asked["do_sample"]) == (2, 10, False)


def test_a_silent_model_copies_nothing_and_precision_is_left_out(stories: Path) -> None:
    task = small(stories)
    model = FakeWriter(lambda ids, mode: torch.zeros(*ids.shape, len(task.start.tokenizer())), lambda source: [0])
    metrics = task.measures.evaluate(model, task.start.tokenizer()).metrics
    assert metrics["copy_recall"].value == 0.0
    assert "copy_precision" not in metrics


def test_examples_stand_before_a_rare_word_of_the_source(stories: Path) -> None:
    task = small(stories)
    examples = task.measures.evaluate(uniform(task), task.start.tokenizer()).examples
    assert len(examples) == 3
    for example in examples:
        source, _, begun = example.prompt.partition(" \N{RIGHTWARDS ARROW} ")
        [one] = [one for one in task.data.pairs.test if one.source == source]
        word = example.expected[0].removeprefix("\N{OPEN BOX}")
        assert example.expected == [f"\N{OPEN BOX}{word}"]  # it begins a word, and the label says so
        assert one.target.startswith(f"{begun} {word}")
        assert word in NAMES + PLACES
        assert len(example.top) == 3


def test_rows_are_sources_and_targets(stories: Path) -> None:
    task = small(stories)
    tokenizer = task.start.tokenizer()
    rows = task.data.training(tokenizer)
    assert len(rows) == 80
    assert tokenizer.decode(rows["input_ids"][3]) == pair(3)["source"] + "<eos>"
    assert tokenizer.decode(rows["labels"][3]) == pair(3)["target"] + "<eos>"
    assert len(task.data.validation(tokenizer)) == 10
    assert len(small(stories, train_pairs=9).data.training(tokenizer)) == 9


def test_the_start_is_a_small_t5_on_its_own_data(stories: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for name in ("train", "valid", "test"):
        (text / f"{name}.txt").write_text("A dog ran. A cat saw the dog. Cat sat.\n" * 3)
    task = small(stories, start={"data": str(text), "d_model": 16, "num_heads": 2, "num_decoder_layers": 3})
    tokenizer = task.start.tokenizer()
    start = task.start.pretraining(tokenizer, seed=0)
    config = start.model_config
    assert (config.d_model, config.d_kv, config.num_layers, config.num_decoder_layers) == (16, 8, 2, 3)
    assert config.decoder_start_token_id == config.pad_token_id == tokenizer.pad_token_id
    assert len(start.dataset) == 3
    assert tokenizer.mask_token_id in start.dataset["input_ids"][0]
    told = task.data.describe()
    assert (told["start_source"], told["start_pairs"], told["start_leak_sources"]) == ("text", 3, 0)
    assert len(small(stories).start.pretraining(tokenizer, seed=0).dataset) == 80


def test_leaks_are_counted(stories: Path) -> None:
    with (stories / "test.jsonl").open("a") as file:
        file.write(json.dumps(pair(3)) + "\n" + json.dumps({**pair(4), "source": "new"}) + "\n")
    told = small(stories).data.describe()
    targets = {pair(number)["target"] for number in range(80)}
    repeated = sum(pair(number)["target"] in targets for number in range(90, 110))
    assert (told["leak_sources"], told["leak_targets"]) == (1, repeated + 2)
    assert told["test_pairs"] == 22


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validation_share": 0.6, "test_share": 0.5}, r"validation_share \+ task\.test_share is 1\.1"),
        ({"gaps": {"min_sentences": 9}}, r"min_sentences: must be at most gaps.max_sentences, 8 \(9"),
        ({"start": {"d_model": 30}}, r"d_model \(30\) must be a multiple of num_heads \(4\)"),
        ({"start": {"data": "nowhere"}}, r"task\.start\.data: 'nowhere' does not exist"),
        ({"source_field": "text"}, r"line 1: no field 'text'; its fields are source, target"),
    ],
)
def test_wrong_settings(stories: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(stories, **settings)


def test_unsuitable_starts(stories: Path, tmp_path: Path) -> None:
    task = small(stories)
    tokenizer = task.start.tokenizer()
    with pytest.raises(ValueError, match=r"task\.max_source_tokens"):
        task.check(BartConfig(max_position_embeddings=100), tokenizer)
    with pytest.raises(ValueError, match="must have decoder_start_token_id or bos_token_id"):
        task.check(T5Config(), tokenizer)
    task.check(task.start.pretraining(tokenizer, 0).model_config, tokenizer)
    with pytest.raises(ValueError, match=r"task\.tokenizer: cannot load"):
        small(stories, tokenizer=str(tmp_path / "none")).start.tokenizer()


def test_xsum() -> None:
    folder = real_data("xsum")
    told = small(folder / "pairs.jsonl", source_field="document", target_field="summary").data.describe()
    assert told["train_pairs"] + told["validation_pairs"] + told["test_pairs"] == 1000
    assert told["leak_sources"] == 0
