from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config

from nextword.experiments.tasks import registry
from nextword.experiments.tasks.lm import LanguageModelling, LmConfig
from tests.helpers.fake_models import FakeModel
from tests.helpers.real_data import real_data
from tests.helpers.token_states import summed_nll, token_model

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    lines = [" ".join(WORDS[(line + place) % 10] for place in range(12)) + " .\n" for line in range(400)]
    path.write_text("".join(lines))
    return path


def small(data: Path, **settings: object) -> LanguageModelling:
    settings = {"vocabulary": 300, "block": 16, "window": 16, "stride": 8, "tuning_tokens": 64, **settings}
    return LanguageModelling(LmConfig.model_validate({"data": str(data), **settings}))


def test_registered() -> None:
    assert registry.get("lm") is LanguageModelling


def test_uniform_model_has_the_perplexity_of_its_vocabulary(book: Path) -> None:
    task = small(book, test_tokens=None)
    tokenizer = task.start.tokenizer()
    model = FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)))
    shares: list[float] = []
    metrics = task.measures.evaluate(model, tokenizer, shares.append).metrics
    tokens = len(tokenizer(task.data.parts.test, add_special_tokens=False)["input_ids"])
    size = len(task.data.parts.test.encode())
    assert metrics["perplexity"].value == pytest.approx(len(tokenizer))
    assert metrics["nll"].value == pytest.approx(math.log(len(tokenizer)))
    assert metrics["nll"].n == tokens
    assert metrics["bits_per_byte"].n == size
    assert metrics["bits_per_byte"].value == pytest.approx(tokens * math.log2(len(tokenizer)) / size)
    assert metrics["perplexity"].low == pytest.approx(metrics["perplexity"].high)
    assert shares[-1] == 1.0
    assert model.training


def test_windows_begin_with_the_start_token_and_cover_the_text(book: Path) -> None:
    task = small(book, test_tokens=50)
    tokenizer = task.start.tokenizer()
    stream = [tokenizer.bos_token_id, *tokenizer(task.data.parts.test, add_special_tokens=False)["input_ids"][:50]]
    model = FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)))
    assert task.measures.evaluate(model, tokenizer).metrics["nll"].n == 50
    seen = [row for batch in model.seen for row in batch.tolist()]
    # 50 targets: 16 by the first window, 8 by each of four, 2 by the last, which still has 16 inputs.
    assert seen == [stream[begin : begin + 16] for begin in (0, 8, 16, 24, 32, 34)]


def test_uneven_model_by_hand(book: Path) -> None:
    task = small(book, test_tokens=40, stride=5, batch_size=3)
    tokenizer = task.start.tokenizer()
    torch.manual_seed(0)
    table = torch.log_softmax(torch.randn(len(tokenizer), len(tokenizer)), -1)
    metrics = task.measures.evaluate(FakeModel(lambda ids, mode: table[ids]), tokenizer).metrics
    ids = [tokenizer.bos_token_id, *tokenizer(task.data.parts.test, add_special_tokens=False)["input_ids"][:40]]
    expected = -sum(float(table[a, b]) for a, b in pairwise(ids))
    assert metrics["nll"].value == pytest.approx(expected / 40, rel=1e-5)
    text = tokenizer.decode(ids[1:])
    assert metrics["bits_per_byte"].value == pytest.approx(expected / math.log(2) / len(text.encode()), rel=1e-5)
    assert metrics["nll"].low < metrics["nll"].value < metrics["nll"].high


def test_a_long_memory_sees_all_of_the_text_and_not_its_window_alone(book: Path) -> None:
    task = small(book, test_tokens=60)
    tokenizer = task.start.tokenizer()
    ids = [tokenizer.bos_token_id, *tokenizer(task.data.parts.test, add_special_tokens=False)["input_ids"][:60]]
    window, long = (token_model(len(tokenizer), head) for head in ("cache", "cache:long=1000"))
    found = [task.measures.evaluate(model, tokenizer).metrics["nll"].value for model in (window, long)]
    assert found[1] == pytest.approx(summed_nll(window, ids) / 60, abs=1e-9)
    assert abs(found[0] - found[1]) > 1e-3


def test_training_blocks_are_contiguous(book: Path) -> None:
    task = small(book)
    tokenizer = task.start.tokenizer()
    rows = task.data.training(tokenizer)
    assert all(len(row) == 16 for row in rows["input_ids"])
    joined = [token for row in rows["input_ids"] for token in row]
    whole = [tokenizer.bos_token_id, *tokenizer(task.data.parts.train, add_special_tokens=False)["input_ids"]]
    assert joined == whole[: len(joined)]
    assert len(whole) - len(joined) < 16
    assert rows["labels"][3] == rows["input_ids"][3]


def test_the_first_tokens_of_a_split_are_trained_on(book: Path) -> None:
    task = small(book)
    tokenizer = task.start.tokenizer()
    whole = {part: task.data.token_stream(tokenizer, part)[0] for part in ("train", "validation")}
    short = small(book, train_tokens=100, validation_tokens=40).data
    assert short.token_stream(tokenizer, "train")[0] == whole["train"][:101]  # and the start token
    assert short.token_stream(tokenizer, "validation")[0] == whole["validation"][:41]
    assert len(short.training(tokenizer)) == 101 // 16
    assert small(book, train_tokens=10**9).data.token_stream(tokenizer, "train")[0] == whole["train"]


def test_start_fits_the_window(book: Path) -> None:
    task = small(book, block=16, window=32, stride=32)
    start = task.start.pretraining(task.start.tokenizer(), seed=0)
    assert start.model_config.n_positions == 32
    assert start.model_config.vocab_size == len(task.start.tokenizer())


def test_a_start_must_hold_a_prompt_and_its_text(book: Path) -> None:
    task = small(book, generation={"prompts": 5, "prefix": 7, "continuation": 20})
    tokenizer = task.start.tokenizer()
    assert task.start.pretraining(tokenizer, 0).model_config.n_positions == 27
    task.check(GPT2Config(n_positions=27), tokenizer)
    with pytest.raises(ValueError, match="continuation"):
        task.check(GPT2Config(n_positions=26), tokenizer)
    assert small(book).writes is None


def test_errors(book: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        small(tmp_path / "nowhere")
    task = small(book, block=4096, window=4096, stride=4096)
    model = FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(task.start.tokenizer())))
    with pytest.raises(ValueError, match="window of 4096"):
        task.measures.evaluate(model, task.start.tokenizer())
    with pytest.raises(ValueError, match="block of 4096"):
        task.data.validation(task.start.tokenizer())
    with pytest.raises(ValueError, match=r"task.stride"):
        small(book, window=8, stride=9)
    with pytest.raises(ValueError, match=r"task.tokenizer: cannot load '.*no-tokenizer'"):
        small(book, tokenizer=str(tmp_path / "no-tokenizer")).start.tokenizer()


@pytest.mark.slow
def test_wikitext() -> None:
    folder = real_data("wikitext-2")
    task = LanguageModelling(LmConfig(data=str(folder), vocabulary=400, test_tokens=3000, window=64, stride=64))
    told = task.data.describe()
    assert told["test_bytes"] == 1_256_449
    counts = task.data.counts()
    assert [counts[f"{part}_articles"] for part in ("train", "validation", "test")] == [600, 60, 60]  # as published
    assert counts["test_words"] == 241_211  # 245,569 tokens as published, each of the 4,358 line ends being one
    assert not counts.keys() & told.keys()
    # A tokenizer of a slice, so that the test is quick.
    from nextword.experiments.tasks.tokenizers import trained_tokenizer

    tokenizer = trained_tokenizer(task.data.parts.validation[:200_000], 400, None)
    model = FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)))
    metrics = task.measures.evaluate(model, tokenizer).metrics
    assert metrics["perplexity"].value == pytest.approx(len(tokenizer), rel=1e-6)
    assert metrics["perplexity"].n == 3000
