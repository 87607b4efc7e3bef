"""The Ambiguous Template task: does a model rank two words of the prompt above their analogues?

Each prompt has two correct next words and two wrong ones:

    "Last night the king and the woman came to dinner, and afterwards I walked home with the"
    right: king, woman; wrong: queen, man

Source: Chang & McCallum (2022), as used by HistAlign (Wan et al., 2023), sections 5.1, 5.3 and 6.1, tables 1 and 9.
Differences from the published data: Each word pair of a relation is in only one split, so that no test pair is in the
training data (the released split repeats about 31 % of its test examples in training). Two pairs are combined in one
order only, so that no prompt occurs twice. The wording is ours. The lexicon is part of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from nextword.experiments.tasks.ambiguous_measures import (
    accuracy,
    completion_accuracy,
    encode,
    example_predictions,
    expect_positions,
    mean_nll,
    probe_examples,
    probe_metrics,
    probes,
    rank_and_spectrum,
    usable,
)
from nextword.experiments.tasks.ambiguous_prompts import AmbiguousPrompts, documents, frame_words
from nextword.experiments.tasks.ambiguous_prompts import probes as relation_probes
from nextword.experiments.tasks.ambiguous_words import Lexicon, embedded, from_analogies, template_texts
from nextword.experiments.tasks.small_start import SmallStart, StartSettings
from nextword.experiments.tasks.task import Measures, Task, registry
from nextword.experiments.tasks.tokenizers import word_tokenizer
from nextword.experiments.tasks.window_likelihood import block_rows
from nextword.inference.scoring.calibrate import tuned
from nextword.inference.scoring.opened_model import Progress, progress_within
from nextword.inference.scoring.text_tokens import start_id
from nextword.inference.scoring.word_probes import WordProbe
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import Evaluation, MetricValue
from nextword.settings.config import Seed, Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


class AmbiguousStartConfig(StartSettings):
    """The small initial model, used if no pretrained model is given, and its training on generated text."""

    family: Literal["gpt2", "llama"] = "gpt2"
    """Architecture. The output layer of ``llama`` is untied, as in the published models."""
    n_layer: int = Field(default=2, ge=1, le=1000)
    """Number of transformer layers."""
    n_embd: int = Field(default=64, ge=4, le=100_000)
    """Width of the hidden states. A softmax gives log-probabilities with a rank of at most this width plus one."""
    n_head: int = Field(default=4, ge=1)
    """Number of attention heads; must divide n_embd."""
    documents: int = Field(default=20_000, ge=100, le=10_000_000)
    """Number of generated training documents."""
    block: int = Field(default=64, ge=16)
    """Tokens per training row."""
    steps: int = Field(default=2000, ge=1)
    """Optimiser steps per training round."""
    knows: float = Field(default=0.95, ge=0, le=1)
    """Share of each relation's statements that the model must complete correctly. Training rounds are repeated until it
    does, at most four."""
    batch_size: int = Field(default=16, ge=1)
    """Rows per step."""
    learning_rate: float = Field(default=3e-3, gt=0)
    """Maximum learning rate."""

    def architecture(self, tokenizer: PreTrainedTokenizerBase) -> PretrainedConfig:
        """Configuration of a model of this architecture and size, with the vocabulary of ``tokenizer``."""
        from transformers import GPT2Config, LlamaConfig

        end, positions = start_id(tokenizer), max(128, self.block)
        tokens: dict[str, Any] = {
            "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": end, "eos_token_id": end,
        }  # fmt: skip
        if self.family == "llama":
            return LlamaConfig(
                max_position_embeddings=positions, hidden_size=self.n_embd, intermediate_size=4 * self.n_embd,
                num_hidden_layers=self.n_layer, num_attention_heads=self.n_head, **tokens,
            )  # fmt: skip
        return GPT2Config(
            n_positions=positions, n_embd=self.n_embd, n_layer=self.n_layer, n_head=self.n_head,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **tokens,
        )  # fmt: skip


class AmbiguousConfig(Settings):
    """Settings of the task. With the defaults it needs no file."""

    analogies: str | None = None
    """Path of the Google analogy file questions-words.txt; none: the lexicon of the package."""
    templates: Literal["ours", "paper"] = "ours"
    """Wording of the prompts; "paper": the templates that the HistAlign paper prints, and our own where the paper
    prints none."""
    train_share: float = Field(default=0.5, gt=0, lt=1)
    """Share of each relation's pairs for training."""
    validation_share: float = Field(default=0.15, gt=0, lt=1)
    """Share of each relation's pairs for validation. The remaining pairs are for testing."""
    split_seed: Seed = 0
    """Seed of the split and of the sampling of prompts."""
    train_prompts: int = Field(default=2000, ge=1)
    """Maximum number of training prompts. Each gives two examples, one per correct word."""
    validation_prompts: int = Field(default=200, ge=2)
    """Maximum number of validation prompts."""
    test_prompts: int = Field(default=500, ge=2)
    """Maximum number of test prompts."""
    pairs: int = Field(default=1, ge=1, le=14)
    """Number of word pairs in a prompt, each in a statement about one person. The prompt ends with a question about one
    of these people."""
    distractors: int = Field(default=0, ge=0, le=100)
    """Number of stories about other words, placed among the statements before the question."""
    noise: float = Field(default=0.0, ge=0, lt=1)
    """Share of the training prompts whose labels are replaced by other words, which are not in the prompt."""
    probes: str | None = None
    """Prompts that list words, to probe the model: "papers" (the prompts printed in the papers), or the path of a TOML
    file like src/nextword/inference/scoring/paper_probes.toml; none: lists of words from the test pairs."""
    rank_rows: int = Field(default=4750, ge=2)
    """Maximum number of rows of the log-probability matrix whose rank is measured. It should exceed the hidden size.
    The default is HistAlign's number."""
    batch_size: int = Field(default=64, ge=1)
    """Batch size of the measurements, in prompts."""
    start: AmbiguousStartConfig = AmbiguousStartConfig()
    """The small initial model, used if no pretrained model is given."""


@registry.register("ambiguous")
class Ambiguous(Task):
    """Prompts with two correct next words; words related to them are wrong. See docs/tasks/ambiguous.md.

    >>> described = Ambiguous(AmbiguousConfig()).data.describe()
    >>> described["leak_pairs"], described["leak_prompts"]
    (0, 0)
    """

    name = "ambiguous"
    version = 1
    Config = AmbiguousConfig
    # docs/tasks/ambiguous.md says how the values were chosen; a pretrained model has the learning rates of FineTuning
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 600, "batch_size": 32, "learning_rate": 6e-3, "freeze_output_embeddings": True,
    }  # fmt: skip
    data: AmbiguousPrompts

    def __init__(self, config: AmbiguousConfig) -> None:
        self.config = config
        lexicon = from_analogies(Path(config.analogies)) if config.analogies else embedded()
        share = config.train_share + config.validation_share
        if share >= 1:
            raise ValueError(
                f"task.train_share, task.validation_share: must add up to less than 1, to leave a test set "
                f"({share:g} given)"
            )
        self.data = AmbiguousPrompts(lexicon, config)
        self.start = RelationsStart(lexicon, config)
        self._probes = probes(config.probes, lexicon, self.data.splits, config.split_seed)
        self.measures = TwoAnswers(self.data, self._probes, config)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check that the tokenizer distinguishes the words of the prompts, and that prompts fit the model."""
        expect_positions(encode(self.data.prompts["test"], tokenizer), model_config)
        usable(self._probes, tokenizer)


class TwoAnswers(Measures):
    """Measures Acc@k, the rank and spectrum of log-probabilities, and predictions after lists of words."""

    def __init__(self, data: AmbiguousPrompts, asked: Sequence[WordProbe], config: AmbiguousConfig) -> None:
        self._data, self._probes, self._config = data, asked, config

    def evaluate(
        self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None
    ) -> Evaluation:
        """Measure the test prompts with the joint distribution and, if the head has a cache, with the cache only."""
        prompts, size = self._data.prompts["test"], self._config.batch_size
        modes = [mode for mode in ("joint", "cache_only") if mode in model.next_word_head.modes]
        encoded, asked = encode(prompts, tokenizer), usable(self._probes, tokenizer)
        stages = len(modes) + 1
        shares = [progress_within(progress, number / stages, (number + 1) / stages) for number in range(stages)]
        metrics: dict[str, MetricValue] = {}
        with inference_mode_of(model):
            for mode, share in zip(modes, shares, strict=False):
                metrics |= accuracy(model, encoded, mode, size, share)
                metrics |= probe_metrics(model, tokenizer, asked, mode, size)
            ranks, spectrum = rank_and_spectrum(model, encoded, self._config.rank_rows, size, shares[-1])
            examples = example_predictions(model, encoded, tokenizer, modes)
            examples += probe_examples(model, tokenizer, asked, modes)
        if left_out := len(prompts) - len(encoded):
            unit = "test prompts left out, because two of the four words begin with the same token"
            metrics["left_out"] = MetricValue(value=float(left_out), unit=unit, n=len(prompts))
        return Evaluation(metrics=metrics | ranks, spectrum=spectrum, examples=examples)

    def tune(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Choose a cache's temperature and weight by the likelihood of the correct words of the validation prompts."""
        encoded = encode(self._data.prompts["validation"], tokenizer)
        return tuned(model, lambda: mean_nll(model, encoded, self._config.batch_size))


# -- The small model that learns the words and their relations before the methods are compared.


class RelationsStart(SmallStart):
    """A small model, trained on generated text until it knows the word relations of the task."""

    def __init__(self, lexicon: Lexicon, config: AmbiguousConfig) -> None:
        super().__init__(self._words, config.start.architecture, self._documents, config.start.training())
        self._lexicon, self._config = lexicon, config

    def probe(self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """Share of statements of each relation whose last word is the model's top prediction."""
        with inference_mode_of(model):
            return completion_accuracy(model, relation_probes(self._lexicon), tokenizer, self._config.batch_size)

    def knows_enough(self, probe: dict[str, MetricValue]) -> bool:
        """Whether every relation reaches the share ``task.start.knows``."""
        return all(known.value >= self._config.start.knows for known in probe.values())

    def _words(self) -> PreTrainedTokenizerBase:
        templates = template_texts(self._config.templates)
        return word_tokenizer([" ".join(self._lexicon.words()), *templates, *frame_words()])

    def _documents(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Dataset:
        end = start_id(tokenizer)
        texts = list(documents(self._lexicon, self._config.start.documents, seed))
        encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
        stream = [token for document in encoded for token in (end, *document)]
        return block_rows(stream, self._config.start.block, "the generated text", "task.start.block")
