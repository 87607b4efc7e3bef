from __future__ import annotations

from datasets import Dataset

from nextword.experiments.tasks.small_start import Gpt2StartConfig, SmallStart
from nextword.experiments.tasks.tokenizers import word_tokenizer


def test_the_tokenizer_is_made_once_and_the_rest_for_the_one_that_is_given() -> None:
    config, made = Gpt2StartConfig(n_embd=16), []

    def tokenizer():
        made.append(word_tokenizer(["Rome Oslo"]))
        return made[-1]

    start = SmallStart(
        tokenizer,
        architecture=lambda other: config.architecture(other, positions=9),
        rows=lambda other, seed: Dataset.from_dict({"input_ids": [[len(other), seed]]}),
        training=config.training(),
    )
    assert made == []
    assert start.tokenizer() is start.tokenizer() is made[0]
    pretraining = start.pretraining(word_tokenizer(["Rome Oslo Lima"]), seed=7)
    assert (pretraining.model_config.vocab_size, pretraining.model_config.n_positions) == (6, 9)
    assert pretraining.dataset["input_ids"][:] == [[6, 7]]
    assert pretraining.settings == {"steps": 800, "batch_size": 8, "learning_rate": 2e-3}
    assert (start.probe(None, made[0]), start.knows_enough({})) == ({}, True)
