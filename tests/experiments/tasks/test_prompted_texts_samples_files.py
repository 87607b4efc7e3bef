from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.evaluation import evaluate
from nextword.experiments.tasks.lm import LanguageModelling, LmConfig
from nextword.experiments.tasks.prompted_texts import PromptedTexts
from nextword.experiments.tasks.tokenizers import trained_tokenizer, word_tokenizer
from nextword.experiments.tasks.writing import METRICS, WINS, PromptedDecoding, SeededDecoding, Texts
from nextword.inference.generation.generator import Generator
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding
from nextword.settings.config import validated
from tests.helpers.writing_models import opened_model

TEXT = "옛날 옛적에 a king 살았다, and his 말 was 뷁. " * 60
GREEDY, SAMPLE = Decoding(), Decoding(sample=True)
TEXTS = Texts((PromptedDecoding(GREEDY),), (), None, 0)


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
    ways = [SeededDecoding(PromptedDecoding(decoding), seed) for decoding in decodings]
    files = {folder / f"{one.way.title}.jsonl": one for one in ways}
    task.writes.write(model, tokenizer, files, arguments or {}, progress)
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


@pytest.mark.slow
def test_seeds_and_files_do_not_touch_each_other(task, model, tokenizer, tmp_path):
    one, two = write(task, model, tokenizer, tmp_path / "a", SAMPLE, Decoding(top_k=20))
    ((*alone,),) = write(task, model, tokenizer, tmp_path / "b", Decoding(top_k=20))
    (other,) = write(task, model, tokenizer, tmp_path / "c", SAMPLE, seed=1)
    assert two == alone
    assert [line["token_ids"] for line in one] != [line["token_ids"] for line in other]


@pytest.mark.slow
def test_draws_of_a_file_each_have_their_own_seed(task, model, tokenizer, tmp_path):
    files = {tmp_path / f"{seed}.jsonl": SeededDecoding(PromptedDecoding(SAMPLE), seed) for seed in (0, 1, 42)}
    task.writes.write(model, tokenizer, files, {})
    found = [lines(path) for path in files]
    assert len({path.read_text() for path in files}) == 3
    assert len({json.dumps([line["log_probs"] for line in one]) for one in found}) == 1
    (alone,) = write(task, model, tokenizer, tmp_path / "alone", SAMPLE, seed=42)
    assert found[2] == alone


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
    with pytest.raises(ValueError, match=r"unigram-kl\.against:.*only in a comparison"):
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


@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_a_text_that_may_end_and_its_reference_have_no_special_tokens(family, tmp_path):
    opened = opened_model(family)
    model, words = opened.model, opened.tokenizer
    targets = [words(text)["input_ids"] for text in (" a little dragon", " met the mayor")]
    contexts = [words(text)["input_ids"] for text in ("Once upon", "The king")]
    rows = zip(contexts, targets, strict=True)
    prompts = [Prompt(before, [*after, words.eos_token_id], 20, row) for row, (before, after) in enumerate(rows)]
    if model.config.is_encoder_decoder:
        model.generation_config.forced_bos_token_id = words.pad_token_id

    def lines_of(name, longest):
        path = tmp_path / name
        files = {path: SeededDecoding(PromptedDecoding(GREEDY), 0)}
        PromptedTexts(TEXTS, lambda words: {"": prompts}, 2, 2, longest=longest).write(model, words, files, {})
        return lines(path)

    before = lines_of("a", 9)
    for line, target in zip(before, targets, strict=True):
        assert line["reference_token_ids"] == [target]
        assert line["references"] == [words.decode(target)]
        assert line["target_token_ids"] == [*target, words.eos_token_id]
        assert len(line["log_probs"]) == len(target) + 1
        assert len(line["token_ids"]) == (8 if model.config.is_encoder_decoder else 9)
        assert not {words.pad_token_id, words.eos_token_id} & set(line["token_ids"])
        assert line["text"] == words.decode(line["token_ids"])
    first = before[0]["token_ids"]
    model.generation_config.eos_token_id = first[2]
    assert lines_of("b", 9)[0]["token_ids"] == first[: first.index(first[2])]


def test_an_unknown_word_is_a_word_unless_it_ends_texts(tmp_path):
    words = word_tokenizer(["a b c d"])
    torch.manual_seed(0)
    sizes = {"n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    model = nw.attach(GPT2LMHeadModel(GPT2Config(vocab_size=len(words), **sizes)).eval(), "softmax")
    target = [words.unk_token_id, words.eos_token_id]

    def references(name):
        files = {tmp_path / name: SeededDecoding(PromptedDecoding(GREEDY), 0)}
        prompt = Prompt(words("a b")["input_ids"], target, 3, 0)
        PromptedTexts(TEXTS, lambda words: {"": [prompt]}, 1, 1, longest=3).write(model, words, files, {})
        return lines(tmp_path / name)[0]["reference_token_ids"]

    assert references("word") == [target[:1]]
    words.eos_token = words.unk_token
    assert references("end") == [[]]


@pytest.mark.parametrize("batches_before", [1, 2])
@pytest.mark.parametrize("cut", [0, 40])
def test_a_killed_file_resumes_with_the_texts_it_would_have_had(
    task, model, tokenizer, tmp_path, monkeypatch, batches_before, cut
):
    (whole,) = write(task, model, tokenizer, tmp_path / "whole", SAMPLE, seed=3)
    begun, written = Generator.write, []

    def killed(self, prompts, loop=None):
        if len(written) == batches_before:
            raise KeyboardInterrupt
        written.append(len(prompts))
        return begun(self, prompts, loop)

    with monkeypatch.context() as patch:
        patch.setattr(Generator, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            write(task, model, tokenizer, tmp_path / "killed", SAMPLE, seed=3)
    (partial,) = (tmp_path / "killed").iterdir()
    content = partial.read_bytes()
    partial.write_bytes(content[: len(content) - cut])  # killed while it wrote the last line of a batch
    again = []
    monkeypatch.setattr(Generator, "write", lambda self, prompts: again.append(len(prompts)) or begun(self, prompts))
    (resumed,) = write(task, model, tokenizer, tmp_path / "killed", SAMPLE, seed=3)
    assert resumed == whole
    assert sum(again) == 5 - 2 * (batches_before - bool(cut))
    assert [path.suffix for path in (tmp_path / "killed").iterdir()] == [".jsonl"]


def test_what_was_begun_with_another_seed_is_written_anew(task, model, tokenizer, tmp_path):
    (whole,) = write(task, model, tokenizer, tmp_path / "whole", SAMPLE, seed=3)
    (tmp_path / "sample.jsonl.partial").write_text('{"seed": 2}\n[0, {"text": "of another seed"}]\n')
    (found,) = write(task, model, tokenizer, tmp_path, SAMPLE, seed=3)
    assert found == whole
