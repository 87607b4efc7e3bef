"""From a source to a target: likelihood of the targets, and whether a model copies what is to be copied.

The pairs are your own, or sentences taken out of plain text as in the pre-training of PEGASUS (Zhang et al., 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.corpora.gaps import MASK, Pair
from nextword.corpora.pairs import PairParts, Reading, Side, gap_texts, leaks, read_pairs, sample
from nextword.metrics.copying import frequent_words
from nextword.records import Evaluation
from nextword.scoring.ask import Progress, measuring, part_of
from nextword.tasks.parts import pair_measures
from nextword.tasks.parts.architecture import ENCODER_DECODER
from nextword.tasks.parts.bpe import named_or_trained
from nextword.tasks.parts.cache_tuning import tune_cache
from nextword.tasks.parts.likelihood_values import likelihood_values
from nextword.tasks.parts.seq2seq_settings import Seq2SeqConfig
from nextword.tasks.parts.source_target import PairEncoder
from nextword.tasks.task import Start, Task, registry

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

LIKELIHOOD_SHARE = 0.25
"""Share of an evaluation's time that goes into the likelihood, about; the rest is generation."""


@registry.register("seq2seq")
class SequenceToSequence(Task):
    """Targets written from sources by encoder-decoder models: likelihood, and copying. See docs/tasks/seq2seq.md."""

    name = "seq2seq"
    version = 1
    Config = Seq2SeqConfig
    architecture = ENCODER_DECODER

    def __init__(self, config: Seq2SeqConfig) -> None:
        self.config = config
        _check(config)
        self.reading = Reading(
            source=Side("source", config.source_field), target=Side("target", config.target_field),
            split_field=config.split_field, validation_share=config.validation_share, test_share=config.test_share,
            seed=config.seed, other=gap_texts(config.gaps),
        )  # fmt: skip
        self.available = read_pairs(Path(config.data), self.reading)
        self.train = sample(self.available.train, config.train_pairs, config.seed)
        self.validate = sample(self.available.validation, config.validation_pairs, config.seed)
        self.test = sample(self.available.test, config.test_pairs, config.seed)
        self.pretraining: PairParts | None = None
        if config.start.data is not None:
            self.pretraining = read_pairs(Path(config.start.data), self.reading, "task.start.data")

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, split, checksums, and how many test pairs have a source or target that training has too."""
        found, used = self.available, (self.train, self.validate, self.test)
        sizes: dict[str, int | float | str] = {}
        for part, pairs in zip(("train", "validation", "test"), used, strict=True):
            sizes[f"{part}_pairs"] = len(pairs)
            sizes[f"{part}_pairs_available"] = len(getattr(found, part))
        told: dict[str, int | float | str] = {
            "source": found.source, "sha256": found.sha256, "split": found.split, **sizes,
            "empty_pairs_left_out": found.empty, **leaks(found.train, found.test, "leak", self.reading),
        }  # fmt: skip
        if self.pretraining is not None:
            told |= {
                "start_source": self.pretraining.source,
                "start_sha256": self.pretraining.sha256,
                "start_pairs": len(self.pretraining.train),
                **leaks(self.pretraining.train, found.test, "start_leak", self.reading),
            }
        return told

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that was named, or a byte-level BPE trained on everything that models are trained on."""
        return self._tokenizer

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        def text() -> str:
            return "\n".join(pair.text for pair in (*self._start_pairs, *self.train))

        return named_or_trained(self.config.tokenizer, text, self.config.vocabulary, self.config.cache, MASK)

    @property
    def _start_pairs(self) -> Sequence[Pair]:
        return () if self.pretraining is None else self.pretraining.train

    def start(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Start:
        """A small T5, trained on ``task.start.data`` or the training pairs."""
        from transformers import T5Config

        config = self.config.start
        encoder = self._encoder(tokenizer)
        architecture = T5Config(
            vocab_size=len(tokenizer), d_model=config.d_model, d_kv=config.d_model // config.num_heads,
            d_ff=config.d_ff, num_layers=config.num_layers, num_decoder_layers=config.num_decoder_layers,
            num_heads=config.num_heads, feed_forward_proj=config.feed_forward, dropout_rate=config.dropout,
            pad_token_id=encoder.pad, eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        architecture.decoder_start_token_id = encoder.pad  # as in every T5
        settings = {
            "steps": config.steps, "batch_size": config.batch_size, "learning_rate": config.learning_rate,
        }  # fmt: skip
        return Start(architecture, _examples(self._start_pairs or self.train, encoder), settings)

    def check_start(self, config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The tokenizer must end sequences and mark gaps; the model must hold the lengths and begin targets."""
        if all(getattr(config, name, None) is None for name in ("decoder_start_token_id", "bos_token_id")):
            raise ValueError(
                "the start model's config.json says neither decoder_start_token_id nor bos_token_id, so nobody knows "
                "what its targets begin with; set decoder_start_token_id (in T5 the padding token)"
            )
        limit = getattr(config, "max_position_embeddings", None)
        for name in ("max_source_tokens", "max_target_tokens"):
            size = getattr(self.config, name)
            if limit is not None and size > limit:
                raise ValueError(f"task.{name} ({size}) is longer than the {limit} positions of the start model")
        self._encoder(tokenizer)([next((pair for pair in self.test if MASK in pair.source), self.test[0])])

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Sources as ``input_ids``, targets as ``labels``."""
        return _examples(self.train, self._encoder(tokenizer))

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """As ``training``."""
        return _examples(self.validate, self._encoder(tokenizer))

    def training_defaults(self) -> dict[str, Any]:
        """Sized for the small start on two CPU cores; a pretrained model wants a learning rate of 1e-5 to 1e-4."""
        return {"steps": 300, "batch_size": 16, "learning_rate": 2e-3, "freeze_output_embeddings": False}

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation targets."""
        encoder = self._encoder(tokenizer)
        encoded = encoder(self.validate[: self.config.tuning_pairs])
        with measuring(model):
            return tune_cache(
                model,
                lambda: pair_measures.likelihood(model, encoded, encoder.pad, self.config.batch_size).nll(),
            )

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Likelihood of the test targets, copying in generated outputs, example predictions."""
        encoder = self._encoder(tokenizer)
        encoded = encoder(self.test)
        written = encoded[: self.config.generation.pairs]
        size = self.config.batch_size
        frequent = frequent_words((pair.target for pair in self.train), self.config.frequent_words)
        with measuring(model):
            total = pair_measures.likelihood(model, encoded, encoder.pad, size, part_of(progress, 0, LIKELIHOOD_SHARE))
            outputs = pair_measures.generate(
                model,
                written,
                tokenizer,
                size,
                tokens=self.config.generation.max_new_tokens or self.config.max_target_tokens,
                beams=self.config.generation.beams,
                progress=part_of(progress, LIKELIHOOD_SHARE, 1),
            )
            examples = pair_measures.example_predictions(model, encoded, tokenizer, frequent)
        copied = [
            (encoder.seen(pair.source), pair.target.text, output) for pair, output in zip(written, outputs, strict=True)
        ]
        metrics = likelihood_values(total, "target token", "targets") | pair_measures.copying_metrics(copied, frequent)
        return Evaluation(metrics=metrics, examples=examples)

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PairEncoder:
        config = self.config
        return PairEncoder(
            tokenizer, config.max_source_tokens, config.max_target_tokens, config.source_prefix, config.mask
        )


def _check(config: Seq2SeqConfig) -> None:
    if config.gaps.min_sentences > config.gaps.max_sentences:
        raise ValueError(
            f"task.gaps.min_sentences ({config.gaps.min_sentences}) must not be more than task.gaps.max_sentences "
            f"({config.gaps.max_sentences})"
        )
    if config.start.d_model % config.start.num_heads:
        raise ValueError(
            f"task.start.d_model ({config.start.d_model}) must be a multiple of task.start.num_heads "
            f"({config.start.num_heads})"
        )


def _examples(pairs: Sequence[Pair], encoder: PairEncoder) -> Dataset:
    from datasets import Dataset

    encoded = encoder(pairs)
    return Dataset.from_dict(
        {"input_ids": [pair.source.ids for pair in encoded], "labels": [pair.target.ids for pair in encoded]}
    )
