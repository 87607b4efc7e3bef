from __future__ import annotations

import json
import math

import pytest
import torch
from transformers import GPT2Config

from nextword.evaluation.metrics.statistics import bootstrap_ratio
from nextword.experiments.tasks import expand, registry
from nextword.experiments.tasks.expand import with_other_summaries
from nextword.experiments.tasks.task import DECODER_ONLY
from nextword.runtime import pretrained
from tests.helpers.fake_models import FakeModel
from tests.helpers.real_data import real_data
from tests.helpers.summaries import LENGTH, attached, pair, save_encoder, small, write_pairs

SHORT = {"highlights": "Gus slept.", "article": "Too short."}


@pytest.fixture(scope="module")
def news(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("news"))


@pytest.fixture(scope="module")
def task(news, tmp_path_factory):
    return small(news, encoder=save_encoder(tmp_path_factory.mktemp("encoder")))


def append(path, *rows):
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(f"\n{json.dumps(row)}" for row in rows))


def nats(model, before, ids, **told):
    """Of each token, asked for one by one in a row of its own."""
    found = []
    with torch.no_grad():
        for place, token in enumerate(ids):
            row = torch.tensor([[*before, *ids[:place]]])
            found.append(-float(model.distribution(row, **told).log_probs()[-1, token]))
    return found


def steered(model, task, prompted, right=True):
    """Nats of each test article by the plainest way there is, one article at a time."""
    tokenizer = task.start.tokenizer()
    inputs = task.data.inputs(model, tokenizer)
    given = task.data.prompts(tokenizer).beginnings(task.data.pairs.test, "test")
    total = []
    for one in given if right else with_other_summaries(given, task.config.seed):
        told = inputs.auxiliary([one.summary]) if model.conditioner is not None else {}
        if not model.next_word_head.reads_source:
            told = {name: value for name, value in told.items() if name.startswith("aux")}
        before = [tokenizer.bos_token_id, *(one.prompt if prompted else [])]
        total.append(sum(nats(model, before, one.ids, **told)))
    return total


def test_registered():
    assert registry.get("expand") is expand.Expand
    assert expand.Expand.architecture is DECODER_ONLY
    assert expand.Expand.may_change == {"generation.metrics", "generation.wins", "generation.examples"}


def test_uniform_model_has_the_perplexity_of_its_vocabulary(task):
    tokenizer, shares = task.start.tokenizer(), []
    model = FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)))
    metrics = task.measures.evaluate(model, tokenizer, shares.append).metrics
    size = sum(
        len(tokenizer.decode(tokenizer(one.target)["input_ids"][:LENGTH]).encode()) for one in task.data.pairs.test
    )
    for prefix in ("", "prompted_"):
        assert metrics[f"{prefix}nll"].value == pytest.approx(math.log(len(tokenizer)))
        assert metrics[f"{prefix}nll"].n == 6 * LENGTH
        assert metrics[f"{prefix}perplexity"].value == pytest.approx(len(tokenizer), rel=1e-5)
        bits = 6 * LENGTH * math.log2(len(tokenizer)) / size
        assert metrics[f"{prefix}bits_per_byte"].value == pytest.approx(bits)
    assert metrics["prompted_steering"].value == 0
    assert "steering" not in metrics
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert model.training


@pytest.mark.slow
def test_an_unconditioned_model_is_steered_by_its_prompt_only(task):
    model = attached(task)
    metrics = task.measures.evaluate(model, task.start.tokenizer()).metrics
    alone, prompted, other = (steered(model, task, *way) for way in ((False,), (True,), (True, False)))
    tokens = 6 * LENGTH
    # float32 log-probabilities, of one row here and of padded batches there
    assert metrics["nll"].value == pytest.approx(sum(alone) / tokens, rel=1e-5)
    assert metrics["prompted_nll"].value == pytest.approx(sum(prompted) / tokens, rel=1e-5)
    for prefix, each in (("", alone), ("prompted_", prompted)):
        mean = metrics[f"{prefix}mean_perplexity"]
        assert mean.value == pytest.approx(sum(math.exp(nats / LENGTH) for nats in each) / 6, rel=1e-4)
        assert mean.value > metrics[f"{prefix}perplexity"].value * 1.0001  # the articles are not equally hard
        assert (mean.n, mean.unit) == (6, "per article token of this tokenizer, mean over articles")
    lost = torch.tensor(other, dtype=torch.float64) - torch.tensor(prompted, dtype=torch.float64)
    assert metrics["prompted_steering"].value == pytest.approx(float(lost.sum()) / tokens, abs=1e-5)
    low, high = bootstrap_ratio(lost.numpy(), torch.full((6,), float(LENGTH)).double().numpy())
    assert (metrics["prompted_steering"].low, metrics["prompted_steering"].high) == pytest.approx((low, high), abs=1e-5)
    assert "steering" not in metrics


@pytest.mark.slow
@pytest.mark.parametrize(("head", "conditioner"), [("softmax", "dau"), ("pg", "bergpt")])
def test_steering_is_what_another_summary_costs(task, head, conditioner):
    model = attached(task, head, {"conditioner": conditioner, "start": "random"})
    for parameter in model.conditioner.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    metrics = task.measures.evaluate(model, task.start.tokenizer()).metrics
    for prefix, prompted in (("", False), ("prompted_", True)):
        right, other = steered(model, task, prompted), steered(model, task, prompted, right=False)
        assert metrics[f"{prefix}nll"].value == pytest.approx(sum(right) / (6 * LENGTH), rel=1e-4)
        steering = (sum(other) - sum(right)) / (6 * LENGTH)
        assert abs(steering) > 1e-3
        assert metrics[f"{prefix}steering"].value == pytest.approx(steering, abs=1e-4)


def test_a_conditioner_that_changes_nothing_does_not_steer(task):
    plain, neutral = attached(task), attached(task, "softmax", "dau")
    assert neutral.conditioner.is_neutral
    found, expected = (task.measures.evaluate(model, task.start.tokenizer()).metrics for model in (neutral, plain))
    assert found["steering"].value == 0
    assert found["nll"].value == pytest.approx(expected["nll"].value, rel=1e-6)


def test_training_rows_are_slices_with_the_summary_for_the_encoder(task):
    tokenizer = task.start.tokenizer()
    data = task.data.training(tokenizer)
    assert data.column_names == ["input_ids", "labels", "aux_input_ids", "source_ids", "source_positions"]
    assert len(data) == 20
    for number, row in enumerate(data):
        assert len(row["input_ids"]) == LENGTH + 1
        text = tokenizer.decode(row["input_ids"]).removeprefix("<eos>").strip("\N{REPLACEMENT CHARACTER}")
        assert text in pair(number)["article"]
        assert tokenizer.decode(row["source_ids"]) == pair(number)["highlights"]
        assert len(row["source_positions"]) == len(row["source_ids"])
    validation = task.data.validation(tokenizer)
    assert set(validation.column_names) == set(data.column_names)
    start = tokenizer(pair(20)["article"], add_special_tokens=False)["input_ids"][:LENGTH]
    assert validation[0]["input_ids"] == validation[0]["labels"] == [tokenizer.bos_token_id, *start]


def test_prompted_rows(news):
    data = small(news, prompted_share=1.0)
    tokenizer = data.start.tokenizer()
    row = data.data.training(tokenizer)[3]
    prompt = tokenizer(pair(3)["highlights"], add_special_tokens=False)["input_ids"][:7]
    assert row["input_ids"][1:8] == prompt
    assert row["labels"][:9] == [-100] * 9
    assert len(row["input_ids"]) == 9 + LENGTH


def test_the_start_reads_articles_its_own_text_and_prompts_where_asked(news, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("A text of its own.\n" * 9)
    task = small(news)
    tokenizer = task.start.tokenizer()
    stream = [token for row in task.start.pretraining(tokenizer, 0).dataset["input_ids"] for token in row]
    articles = [[tokenizer.bos_token_id, *tokenizer(one.target)["input_ids"]] for one in task.data.pairs.train]
    assert stream == [token for article in articles for token in article][: len(stream)]
    settings = {"n_layer": 1, "n_embd": 16, "n_head": 2, "block": 16, "data": [str(more)], "prompted_share": 1.0}
    task = small(news, start=settings)
    tokenizer = task.start.tokenizer()
    start = task.start.pretraining(tokenizer, 0)
    text = tokenizer.decode([token for row in start.dataset["input_ids"] for token in row])
    prompt = tokenizer.decode(task.data.prompts(tokenizer)([pair(0)["highlights"]])[0])
    assert text.startswith(f"<eos>{prompt}{pair(0)['article']}<eos>")
    assert text.count("A text of its own.") >= 8
    assert start.model_config.n_positions == 1 + 7 + 1 + LENGTH
    told = task.data.describe()
    assert (told["start_source"], told["start_bytes"], told["start_leak_articles"]) == ("more.txt", 9 * 19, 0)


def test_short_articles_and_empty_summaries_are_left_out_and_counted(tmp_path):
    write_pairs(tmp_path)
    append(tmp_path / "train.jsonl", SHORT, {**pair(70), "highlights": " "})
    append(tmp_path / "test.jsonl", SHORT, pair(3), {**pair(4), "article": pair(71)["article"]})
    task = small(tmp_path)
    tokenizer = task.start.tokenizer()
    told = task.data.describe()
    assert (told["train_pairs"], told["test_pairs"], told["empty_pairs_left_out"]) == (21, 9, 1)
    assert (told["leak_articles"], told["leak_summaries"]) == (2, 3)
    probe = task.start.probe(None, tokenizer)
    assert [probe[f"{part}_too_short"].value for part in ("train", "validation", "test")] == [1, 0, 1]
    assert probe["test_too_short"].n == 9
    assert len(task.data.training(tokenizer)) == 20
    model = FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)))
    assert task.measures.evaluate(model, tokenizer).metrics["nll"].n == 8 * LENGTH


def test_pairs_with_one_article_stay_in_one_part(tmp_path):
    rows = [{**pair(number), "highlights": f"{number} {again}."} for number in range(60) for again in range(2)]
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    task = small(path, validation_share=0.2, test_share=0.3)
    assert task.data.describe()["split"] == "one file by a hash of the article, 50/20/30 %"
    assert task.data.describe()["leak_articles"] == 0
    assert all(len(part) % 2 == 0 for part in (task.data.pairs.train, task.data.pairs.validation, task.data.pairs.test))


def test_what_a_start_must_hold(task):
    tokenizer = task.start.tokenizer()
    task.check(GPT2Config(n_positions=21), tokenizer)
    with pytest.raises(ValueError, match="prompt_tokens"):
        task.check(GPT2Config(n_positions=20), tokenizer)


def test_tuning_asks_for_the_likelihood_of_validation_articles(task):
    model = attached(task, "cache")
    tuned = task.measures.tune(model, task.start.tokenizer())
    config = model.next_word_head.config
    assert tuned
    assert all(getattr(config, name) == value for name, value in tuned.items())
    assert task.measures.tune(attached(task), task.start.tokenizer()) == {}


def test_encoders(news, task, monkeypatch):
    assert task.data.encoder() == task.config.encoder
    monkeypatch.setattr(pretrained, "packaged_encoder", lambda: "packaged")
    assert small(news).data.encoder() == small(news, encoder="MiniLM").data.encoder() == "packaged"
    monkeypatch.setattr(pretrained, "packaged_encoder", lambda: None)
    missing = small(news)
    with pytest.raises(ValueError, match=r"task\.encoder:.*'nextword\[encoder\]'"):
        missing.data.encoder()
    # whoever compares unconditioned models needs none
    assert missing.data.training(missing.start.tokenizer()).column_names == ["input_ids", "labels"]
    with pytest.raises(ValueError, match=r"task\.encoder:.*conditioner"):
        missing.measures.evaluate(attached(task, "softmax", "dau"), task.start.tokenizer())
    wrong = small(news, encoder=str(news / "nothing"))
    with pytest.raises(ValueError, match=r"task\.encoder: cannot load '.*nothing'"):
        wrong.data.training(wrong.start.tokenizer())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validation_share": 0.6, "test_share": 0.5}, r"validation_share \+ task\.test_share is 1\.1"),
        (
            {"summary_field": "text"},
            r"line 1: no field 'text'; its fields are highlights, article\..*task\.summary_field",
        ),
        ({"article_field": "document"}, r"line 1: no field 'document'.*task\.article_field"),
        ({"start": {"n_embd": 30, "n_head": 4}}, r"n_embd \(30\) must be a multiple of n_head \(4\)"),
        ({"start": {"data": ["nowhere.txt"]}}, r"task\.start\.data: 'nowhere\.txt' does not exist"),
        ({"data": "nowhere"}, r"task\.data: 'nowhere' does not exist\. Give .*or a folder with \.story files"),
        ({"generation": {"decodings": ["greedy", "greedy"]}}, "'greedy' given twice"),
    ],
)
def test_wrong_settings(news, settings, message):
    with pytest.raises(ValueError, match=message):
        small(**{"data": news, **settings})


def test_too_short_for_everything(news):
    task = small(news, length=4000)
    tokenizer = task.start.tokenizer()
    with pytest.raises(ValueError, match=r"task\.length"):
        task.data.training(tokenizer)
    with pytest.raises(ValueError, match=r"task\.start\.block:.*block of 9000"):
        small(news, start={"n_embd": 16, "block": 9000}).start.pretraining(tokenizer, 0)


def test_xsum():
    folder = real_data("xsum")
    told = small(folder / "pairs.jsonl", summary_field="summary", article_field="document").data.describe()
    assert told["train_pairs"] + told["validation_pairs"] + told["test_pairs"] == 1000
    assert told["leak_articles"] == 0
