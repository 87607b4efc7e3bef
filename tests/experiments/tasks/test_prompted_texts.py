from __future__ import annotations

import json

import pytest
import torch

from nextword.evaluation import evaluate
from nextword.experiments.tasks.writing import PromptedDecoding, SeededDecoding
from nextword.inference.generation.strategies import Decoding
from nextword.results.records import WITH_PROMPT
from tests.helpers.summaries import LENGTH, attached, pair, save_encoder, small, write_pairs

GREEDY, SAMPLE = Decoding(), Decoding(top_k=20)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return small(write_pairs(tmp_path_factory.mktemp("news")), encoder=save_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def model(task):
    made = attached(task, "pg", {"conditioner": "bergpt", "start": "random"})
    for parameter in made.conditioner.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def write(task, model, folder, *ways, seed=0, arguments=None, progress=None):
    files = {folder / f"{way.title}.jsonl": SeededDecoding(way, seed) for way in ways}
    task.writes.write(model, task.start.tokenizer(), files, arguments or {}, progress)
    return [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in files]


def both(decoding):
    return PromptedDecoding(decoding), PromptedDecoding(decoding, WITH_PROMPT)


def test_lines(task, model, tmp_path):
    tokenizer = task.start.tokenizer()
    alone, prompted = write(task, model, tmp_path, *both(GREEDY))
    assert [line["id"] for line in alone] == [0, 1, 2, 3, 4]
    for number, (one, other) in enumerate(zip(alone, prompted, strict=True), start=24):
        summary, article = pair(number)["highlights"], tokenizer(pair(number)["article"])["input_ids"]
        assert one["prompt"] == one["source"] == other["prompt"] == summary
        assert one["prompt_token_ids"] == []
        assert other["prompt_token_ids"] == [*tokenizer(summary)["input_ids"][:7], *tokenizer("\n")["input_ids"]]
        for line in (one, other):
            assert line["target_token_ids"] == article[:LENGTH] == line["reference_token_ids"][0]
            assert line["references"] == [tokenizer.decode(article[:LENGTH])]
            assert line["target_bytes"] == len(line["references"][0].encode())
            assert len(line["token_ids"]) == LENGTH
            assert line["text"] == tokenizer.decode(line["token_ids"])


def test_texts_and_log_probs_are_those_of_each_row_alone(task, model, tmp_path):
    tokenizer = task.start.tokenizer()
    inputs = task.data.inputs(model, tokenizer)
    for lines in write(task, model, tmp_path, *both(GREEDY)):
        for line in lines:
            told = inputs.auxiliary([line["source"]])
            before = [tokenizer.bos_token_id, *line["prompt_token_ids"]]
            with torch.no_grad():
                written = model.distribution(torch.tensor([[*before, *line["token_ids"]]]), **told).log_probs()
                people = model.distribution(torch.tensor([[*before, *line["target_token_ids"]]]), **told).log_probs()
            assert written[len(before) - 1 : -1].argmax(-1).tolist() == line["token_ids"]
            expected = people[len(before) - 1 : -1].gather(1, torch.tensor(line["target_token_ids"])[:, None])[:, 0]
            # rounded to 6 digits, float32 of one row here and of padded batches there
            assert line["log_probs"] == pytest.approx(expected.tolist(), abs=1e-4)


def test_prompts_and_summaries_change_what_is_written(task, model, tmp_path):
    alone, prompted = write(task, model, tmp_path / "a", *both(GREEDY))
    assert [line["token_ids"] for line in alone] != [line["token_ids"] for line in prompted]
    assert len({tuple(line["token_ids"]) for line in alone}) > 1  # nothing but the summary tells the rows apart
    plain = attached(task)
    (unguided,) = write(task, plain, tmp_path / "b", both(GREEDY)[0])
    assert len({tuple(line["token_ids"]) for line in unguided}) == 1


@pytest.mark.slow
def test_seeds_and_files_do_not_touch_each_other(task, model, tmp_path):
    alone, prompted = write(task, model, tmp_path / "a", *both(SAMPLE))
    ((*again,),) = write(task, model, tmp_path / "b", both(SAMPLE)[1])
    (other,) = write(task, model, tmp_path / "c", both(SAMPLE)[0], seed=1)
    assert prompted == again
    assert [line["token_ids"] for line in alone] != [line["token_ids"] for line in other]


def test_a_method_s_own_arguments_and_progress(task, model, tmp_path):
    shares = []
    (before,) = write(task, model, tmp_path / "a", both(GREEDY)[1], progress=shares.append)
    (after,) = write(task, model, tmp_path / "b", both(GREEDY)[1], arguments={"no_repeat_ngram_size": 1})
    assert before != after
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_the_samples_can_be_measured_as_the_task_asks(task, model, tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("rouge_score")
    write(task, model, tmp_path, both(SAMPLE)[1])
    metrics = ["likelihood", "rouge:1,2,l", {"metric": "topics", "topics": 2}]
    path = tmp_path / "top-k 20, with prompt.jsonl"
    results = evaluate({"systems": {"pg": [str(path)]}, "metrics": metrics})
    assert {"perplexity", "rouge-1", "rouge-2", "rouge-l", "topics-jsd"} <= set(results.measures)
