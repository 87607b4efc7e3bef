from __future__ import annotations

import hashlib
import math
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pydantic import ValidationError
from transformers import LlamaConfig

from nextword.experiments.tasks import registry
from nextword.experiments.tasks.ambiguous import Ambiguous, AmbiguousConfig
from nextword.experiments.tasks.ambiguous_measures import probes
from nextword.functional.padding import IGNORED_LABEL
from tests.helpers.fake_models import FakeModel, copier
from tests.helpers.real_data import real_data

SMALL = AmbiguousConfig(train_prompts=20, validation_prompts=10, test_prompts=40, rank_rows=300)


@pytest.fixture(scope="module")
def task() -> Ambiguous:
    return Ambiguous(SMALL)


@pytest.fixture(scope="module")
def tokenizer(task: Ambiguous):
    return task.start.tokenizer()


def test_registered() -> None:
    assert registry.get("Ambiguous") is Ambiguous


def test_no_test_pair_and_no_test_prompt_is_trained_on(task: Ambiguous) -> None:
    told = task.data.describe()
    assert told["leak_pairs"] == told["leak_prompts"] == told["words_in_training_and_test"] == 0
    words = {
        part: {w for p in task.data.prompts[part] for w in (*p.words, *p.competitors)} for part in task.data.prompts
    }
    assert not words["test"] & (words["train"] | words["validation"])


def test_the_leak_count_can_be_other_than_zero(task: Ambiguous) -> None:
    planted = Ambiguous(SMALL)
    split = planted.data.splits["family"]
    planted.data.splits["family"] = type(split)(split.train + split.test, split.validation, split.test)
    told = planted.data.describe()
    assert told["leak_pairs"] == len(split.test)
    assert told["leak_prompts"] == 16 * math.comb(len(split.test), 2)


def test_two_examples_a_prompt_and_only_the_word_is_a_label(task: Ambiguous, tokenizer) -> None:
    rows = task.data.training(tokenizer)
    assert len(rows) == 2 * len(task.data.prompts["train"])
    for place, prompt in enumerate(task.data.prompts["train"]):
        for row, word in zip((rows[2 * place], rows[2 * place + 1]), prompt.words, strict=True):
            assert row["input_ids"][0] == tokenizer.bos_token_id
            targets = [label for label in row["labels"] if label != IGNORED_LABEL]
            assert tokenizer.decode(targets) == word
            assert row["labels"] == [IGNORED_LABEL] * (len(row["labels"]) - 1) + targets
            assert row["input_ids"][-1] == targets[0]


@pytest.mark.slow
def test_copier_is_perfect_in_both_settings(task: Ambiguous, tokenizer) -> None:
    words = {tokenizer.convert_tokens_to_ids(word) for word in task.data.lexicon.words()}
    model = FakeModel(copier(len(tokenizer), words), modes=("joint", "cache_only", "lm_only"))
    shares: list[float] = []
    found = task.measures.evaluate(model, tokenizer, shares.append)
    for name in (
        "acc@1",
        "acc@2",
        "acc@25",
        "people_acc@2",
        "places_acc@2",
        "cache_only_acc@2",
        "cache_only_people_acc@5",
    ):
        assert found.metrics[name].value == 1.0, name
    assert found.metrics["acc@2"].n == 40
    assert found.metrics["acc@2"].low < 1.0
    assert found.metrics["nll"].value > math.log(2)
    assert "lm_only_acc@2" not in found.metrics
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert model.training


def test_competitors_on_top_score_zero(task: Ambiguous, tokenizer) -> None:
    words = {tokenizer.convert_tokens_to_ids(word) for word in task.data.lexicon.words()}
    upside_down = copier(len(tokenizer), words, first=-5.0)
    metrics = task.measures.evaluate(FakeModel(upside_down), tokenizer).metrics
    assert metrics["acc@25"].value == metrics["acc@1"].value == 0.0
    assert "cache_only_acc@2" not in metrics


def test_words_of_probability_zero_are_no_predictions(task: Ambiguous, tokenizer) -> None:
    def nothing_but_start(ids: torch.Tensor, mode: str) -> torch.Tensor:
        scores = torch.full((*ids.shape, len(tokenizer)), -math.inf)
        scores[..., tokenizer.bos_token_id] = 0.0
        return scores

    found = task.measures.evaluate(FakeModel(nothing_but_start, modes=("joint", "cache_only")), tokenizer)
    assert found.metrics["cache_only_acc@25"].value == 0.0
    # And the rank is not computed, which is said.
    assert found.metrics["rank_undefined"].value == found.metrics["rank_undefined"].n == 300
    assert "probability 0" in found.metrics["rank_undefined"].unit
    assert found.spectrum is None
    assert "nll" not in found.metrics


@pytest.mark.slow
def test_rank_of_a_softmax_is_at_most_width_plus_one(task: Ambiguous, tokenizer) -> None:
    torch.manual_seed(0)
    states, output = torch.randn(len(tokenizer), 6), torch.randn(len(tokenizer), 6)
    mix = torch.randn(40, 6)

    def softmax(ids: torch.Tensor, mode: str) -> torch.Tensor:
        return (states[ids] + mix[: ids.shape[1]]) @ output.T

    found = task.measures.evaluate(FakeModel(softmax), tokenizer)
    assert found.metrics["rank@1e-3"].value == found.metrics["rank@default"].value == 7
    assert f"300 x {len(tokenizer)} matrix" in found.metrics["rank@1e-3"].unit
    assert found.spectrum[0] == 1.0
    assert found.spectrum[7] < 1e-6
    assert len(found.spectrum) == 200


@pytest.mark.slow
def test_example_predictions(task: Ambiguous, tokenizer) -> None:
    words = {tokenizer.convert_tokens_to_ids(word) for word in task.data.lexicon.words()}
    model = FakeModel(copier(len(tokenizer), words, first=20.0), modes=("joint", "cache_only"))
    found = task.measures.evaluate(model, tokenizer).examples
    assert [example.setting for example in found] == ["joint", "cache_only"] * 4
    assert len({example.prompt for example in found}) == 4
    *pairs, _, _, lists, _ = found
    for example in [*pairs, found[4], found[5]]:
        assert {word.word for word in example.top[: len(example.expected)]} == set(example.expected)
        for word in example.top:
            assert sum(word.sources.values()) == pytest.approx(word.probability, rel=1e-5)
    assert [len(example.expected) for example in found] == [2, 2, 2, 2, 5, 5, 0, 0]
    assert len(lists.top) == 4


@pytest.mark.slow
def test_listed_words_of_a_copier(task: Ambiguous, tokenizer) -> None:
    words = {tokenizer.convert_tokens_to_ids(word) for word in task.data.lexicon.words()}
    model = FakeModel(copier(len(tokenizer), words), modes=("joint", "cache_only"))
    metrics = task.measures.evaluate(model, tokenizer).metrics
    # five words of weight e^5 against a vocabulary of weights from 1 to e^0.06
    mass = 5 * math.exp(5) / (5 * math.exp(5) + len(tokenizer) - 5)
    assert metrics["choices_copied_mass"].value == pytest.approx(mass, rel=0.05)
    assert metrics["choices_copied_spread"].value == pytest.approx(1.0, abs=1e-3)
    assert metrics["lists_repeated_mass"].value > 0.4
    assert metrics["cache_only_choices_copied_mass"].value > metrics["choices_copied_mass"].value
    assert metrics["choices_copied_mass"].n == metrics["lists_repeated_mass"].n == 100
    assert "lists_copied_mass" not in metrics


def test_lists_are_of_test_words(task: Ambiguous) -> None:
    trained = {word for part in ("train", "validation") for p in task.data.prompts[part] for word in p.words}
    asked = probes(None, task.data.lexicon, task.data.splits, seed=0)
    assert asked == probes(None, task.data.lexicon, task.data.splits, seed=0)
    assert asked != probes(None, task.data.lexicon, task.data.splits, seed=1)
    for probe in asked:
        assert not trained & set(probe.words)
        assert all(probe.prompt.count(word) for word in probe.words)


def test_probes_by_name_and_by_file(tmp_path: Path, tokenizer) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[[probes]]\nname = "towns"\ntext = "She likes {} or {}, so she took a bus to"\n'
        'words = [["Paris", "Rome"]]\ncopied = true\n',
        encoding="utf-8",
    )
    task = Ambiguous(SMALL.model_copy(update={"probes": str(own)}))
    task.check(SimpleNamespace(), tokenizer)
    model = FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)))
    found = task.measures.evaluate(model, tokenizer)
    assert found.metrics["towns_copied_mass"].value == pytest.approx(2 / len(tokenizer))
    assert found.metrics["towns_copied_mass"].n == 2
    assert found.examples[-1].prompt == "She likes Paris or Rome, so she took a bus to"
    # the small start has no token for what the papers list
    with pytest.raises(ValueError, match=r"task.probes:.*11 prompts"):
        Ambiguous(SMALL.model_copy(update={"probes": "papers"})).check(SimpleNamespace(), tokenizer)
    with pytest.raises(ValueError, match=r"nowhere.toml:.*file of probes"):
        Ambiguous(AmbiguousConfig(probes="nowhere.toml"))


def test_prompts_of_finished_comparisons_stay_what_they_were() -> None:
    texts = [p.text for part in Ambiguous(AmbiguousConfig()).data.prompts.values() for p in part]
    digest = "fa267be3dda0b99bdb8fc12874e78e8b252ba881506346bd440a366ecc1ab678"
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == digest


def test_a_prompt_must_fit_into_the_model(tokenizer) -> None:
    longer = Ambiguous(SMALL.model_copy(update={"distractors": 8}))
    longest = max(len(tokenizer(p.text)["input_ids"]) for p in longer.data.prompts["test"]) + 1
    longer.check(SimpleNamespace(max_position_embeddings=longest), tokenizer)
    with pytest.raises(ValueError, match=rf"at most {longest - 1} tokens, .* \({longest} given\)"):
        longer.check(SimpleNamespace(max_position_embeddings=longest - 1), tokenizer)


def test_a_small_llama() -> None:
    task = Ambiguous(AmbiguousConfig.model_validate({"start": {"family": "llama", "documents": 100, "n_embd": 32}}))
    config = task.start.pretraining(task.start.tokenizer(), seed=0).model_config
    assert isinstance(config, LlamaConfig)
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (32, 2, 4)
    assert (config.max_position_embeddings, config.vocab_size) == (128, len(task.start.tokenizer()))
    assert not config.tie_word_embeddings
    assert config.bos_token_id == config.eos_token_id == task.start.tokenizer().eos_token_id


def test_the_paper_s_wording() -> None:
    task = Ambiguous(SMALL.model_copy(update={"templates": "paper"}))
    texts = [p.text for p in task.data.prompts["test"]]
    assert any("are my favorites, and I especially love" in text for text in texts)
    tokenizer = task.start.tokenizer()
    assert all(tokenizer.unk_token_id not in tokenizer(text)["input_ids"] for text in texts)


def test_nothing_to_tune(task: Ambiguous, tokenizer) -> None:
    assert task.measures.tune(FakeModel(copier(len(tokenizer), set())), tokenizer) == {}


def test_probe_start_counts_completed_statements(task: Ambiguous, tokenizer) -> None:
    facts = {}
    for relation in task.data.lexicon.relations:
        for pair in relation.pairs:
            a, b = (tokenizer.convert_tokens_to_ids(word) for word in pair)
            facts |= {a: b, b: a}

    def knows(ids: torch.Tensor, mode: str) -> torch.Tensor:
        scores = torch.zeros(*ids.shape, len(tokenizer))
        for row, tokens in enumerate(ids.tolist()):
            for place in range(len(tokens)):
                subject = next((t for t in reversed(tokens[: place + 1]) if t in facts), None)
                if subject is not None:
                    scores[row, place, facts[subject]] = 5.0
        return scores

    found = task.start.probe(FakeModel(knows), tokenizer)
    assert {name: value.value for name, value in found.items()} == {
        "knows_capital": 1.0, "knows_city": 1.0, "knows_family": 1.0,
    }  # fmt: skip
    nothing = task.start.probe(FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer))), tokenizer)
    assert all(value.value == 0.0 for value in nothing.values())


def test_start_has_full_blocks_of_known_words(tokenizer) -> None:
    task = Ambiguous(AmbiguousConfig.model_validate({"start": {"documents": 300, "block": 32}}))
    start = task.start.pretraining(tokenizer, seed=0)
    assert start.model_config.vocab_size == len(tokenizer)
    assert all(len(row) == 32 for row in start.dataset["input_ids"])
    assert start.dataset["labels"][0] == start.dataset["input_ids"][0]
    assert set(start.settings) == {"steps", "batch_size", "learning_rate"}


def test_config_errors() -> None:
    with pytest.raises(ValidationError, match="analogy"):
        AmbiguousConfig.model_validate({"analogy": "x"})
    with pytest.raises(ValueError, match=r"must add up to less than 1, to leave a test set \(1.1"):
        Ambiguous(AmbiguousConfig(train_share=0.6, validation_share=0.5))
    with pytest.raises(ValueError, match=r"cannot read 'nowhere.txt'"):
        Ambiguous(AmbiguousConfig(analogies="nowhere.txt"))


@pytest.mark.slow
def test_google_analogies() -> None:
    path = real_data("google-analogies/questions-words.txt")
    task = Ambiguous(AmbiguousConfig(analogies=str(path), test_prompts=60))
    told = task.data.describe()
    assert told["pairs"] == 205
    assert told["leak_pairs"] == told["leak_prompts"] == 0
    # Georgia, a country in one relation and a state in the other.
    assert told["words_in_training_and_test"] <= 1
    tokenizer = task.start.tokenizer()
    words = {tokenizer.convert_tokens_to_ids(word) for word in task.data.lexicon.words()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert task.measures.evaluate(FakeModel(copier(len(tokenizer), words)), tokenizer).metrics["acc@2"].value == 1.0
