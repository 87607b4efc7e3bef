from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.config import validated
from nextword.decoding.strategies import Decoding, PromptedDecoding
from nextword.decoding.writing_settings import METRICS, WINS
from nextword.evaluation import evaluate
from nextword.tasks.lm import LanguageModelling, LmConfig
from nextword.tasks.parts.bpe import trained_tokenizer

TEXT = "옛날 옛적에 a king 살았다, and his 말 was 뷁. " * 60
GREEDY, SAMPLE = Decoding(), Decoding(sample=True)


@pytest.fixture(scope="module")
def tokenizer():
    return trained_tokenizer(TEXT, 300, None)


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=24, n_embd=16, n_layer=1, n_head=2, initializer_range=1.0
    )
    return nw.attach(GPT2LMHeadModel(config).eval(), "cache")


@pytest.fixture
def task(tmp_path):
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.txt").write_text(TEXT)
    written = {"prompts": 5, "prefix": 7, "continuation": 9, "batch_size": 2}
    settings = {"data": str(tmp_path), "vocabulary": 300, "block": 16, "window": 16, "stride": 16, "batch_size": 3}
    return LanguageModelling(validated(LmConfig, {**settings, "generation": written}))


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(task, model, tokenizer, folder, *decodings, seed=0, arguments=None, progress=None):
    files = {folder / f"{decoding.title}.jsonl": PromptedDecoding(decoding) for decoding in decodings}
    task.writes.write(model, tokenizer, files, seed, arguments or {}, progress)
    return [lines(path) for path in files]


def test_a_line_holds_text_and_ids_of_everybody(task, model, tokenizer, tmp_path):
    ((first, *others),) = write(task, model, tokenizer, tmp_path, GREEDY)
    stream = tokenizer(task.data.parts.test, add_special_tokens=False)["input_ids"]
    assert len(others) == 4
    assert [line["id"] for line in [first, *others]] == [0, 1, 2, 3, 4]
    assert first["prompt_token_ids"] == stream[:7]
    assert first["reference_token_ids"] == [stream[7:16]]
    assert first["target_token_ids"] == stream[7:16]
    assert others[0]["prompt_token_ids"] == stream[16:23]
    assert first["prompt"] + first["references"][0] == tokenizer.decode(stream[:16])
    assert len(first["token_ids"]) == 9
    assert first["text"] == tokenizer.decode(first["token_ids"])


def test_bytes_of_references_are_those_of_their_text(task, model, tokenizer, tmp_path):
    (found,) = write(task, model, tokenizer, tmp_path, GREEDY)
    whole = [line for line in found if "\N{REPLACEMENT CHARACTER}" not in line["references"][0]]
    assert whole
    for line in whole:
        assert line["target_bytes"] == len(line["references"][0].encode())


def test_greedy_is_the_argmax_of_every_step(task, model, tokenizer, tmp_path):
    (found,) = write(task, model, tokenizer, tmp_path, GREEDY)
    for line in found:
        ids = [*line["prompt_token_ids"], *line["token_ids"]]
        best = model.distribution(torch.tensor([ids])).log_probs()[6:-1].argmax(-1)
        assert best.tolist() == line["token_ids"]


def test_log_probs_are_teacher_forced(task, model, tokenizer, tmp_path):
    greedy, sampled = write(task, model, tokenizer, tmp_path, GREEDY, SAMPLE)
    assert [line["log_probs"] for line in greedy] == [line["log_probs"] for line in sampled]
    for line in greedy:
        ids = [*line["prompt_token_ids"], *line["target_token_ids"]]
        log_probs = model.distribution(torch.tensor([ids])).log_probs()[6:-1]
        expected = log_probs.gather(1, torch.tensor(ids[7:])[:, None])[:, 0].tolist()
        # float32 scores of a size around 10, of one row here and of three at a time there
        assert line["log_probs"] == pytest.approx(expected, abs=1e-5)


def test_seeds_and_files_do_not_touch_each_other(task, model, tokenizer, tmp_path):
    one, two = write(task, model, tokenizer, tmp_path / "a", SAMPLE, Decoding(top_k=20))
    ((*alone,),) = write(task, model, tokenizer, tmp_path / "b", Decoding(top_k=20))
    (other,) = write(task, model, tokenizer, tmp_path / "c", SAMPLE, seed=1)
    assert two == alone
    assert [line["token_ids"] for line in one] != [line["token_ids"] for line in other]


def test_no_token_ends_a_text_and_no_setting_of_the_model_counts(task, model, tokenizer, tmp_path):
    (before,) = write(task, model, tokenizer, tmp_path / "a", GREEDY)
    often = before[0]["token_ids"][0]
    own = model.generation_config
    model.generation_config = GenerationConfig(eos_token_id=often, no_repeat_ngram_size=1, max_new_tokens=2)
    try:
        (after,) = write(task, model, tokenizer, tmp_path / "b", GREEDY)
        assert after == before
        assert model.generation_config.no_repeat_ngram_size == 1
    finally:
        model.generation_config = own


def test_a_killed_file_leaves_the_finished_ones(task, model, tokenizer, tmp_path):
    def kill(share):
        if share > 0.7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(task, model, tokenizer, tmp_path, GREEDY, SAMPLE, progress=kill)
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["greedy.jsonl"]
    assert not list(tmp_path.glob(".*.tmp"))


def test_progress_reaches_one(task, model, tokenizer, tmp_path):
    shares = []
    write(task, model, tokenizer, tmp_path, GREEDY, SAMPLE, progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) == 6
    assert shares[-1] == 1


def test_the_samples_can_be_measured(task, model, tokenizer, tmp_path):
    write(task, model, tokenizer, tmp_path, SAMPLE)
    with pytest.raises(ValueError, match=r"unigram-kl\.against: 'test' is the test data of a comparison's task"):
        evaluate({"systems": {"a": [str(tmp_path / "sample.jsonl")]}, "metrics": list(METRICS)})
    metrics = [metric.removesuffix(":test") for metric in METRICS]
    found = evaluate({"systems": {"a": [str(tmp_path / "sample.jsonl")]}, "metrics": metrics})
    assert set(WINS) <= set(found.measures)
    scored = [value for line in lines(tmp_path / "sample.jsonl") for value in line["log_probs"]]
    assert found.systems[0].values["nll"].value == pytest.approx(-np.mean(scored))


def test_a_method_s_own_arguments_reach_generate(task, model, tokenizer, tmp_path):
    (before,) = write(task, model, tokenizer, tmp_path / "a", GREEDY)
    (after,) = write(task, model, tokenizer, tmp_path / "b", GREEDY, arguments={"no_repeat_ngram_size": 1})
    assert before != after
