"""From a source to a target: likelihood of the targets, and whether a model copies what is to be copied.

The data is pairs of your own, one JSON object a line:

    {"source": "The river Aare rises in the Alps and flows through Bern.", "target": "The Aare flows through Bern."}

or plain text, of each paragraph of which one sentence is taken out, as in the pre-training of PEGASUS (Zhang et al.,
2020): source "A dog barked. <mask> The cat ran.", target "The dog saw the cat."
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from nextword.config import Settings
from nextword.corpora.gap_sentences import MASK, GapConfig
from nextword.corpora.pairs import gap_texts, read_pairs
from nextword.decoding.strategies import Decoding
from nextword.decoding.writer import Writer
from nextword.metrics.copying import frequent_words
from nextword.model.training_modes import measuring
from nextword.records import Evaluation
from nextword.scoring.minibatches import Progress, progress_within
from nextword.scoring.target_likelihood import TokenPair, likelihood_sum, target_log_probs
from nextword.tasks.parts.architecture import ENCODER_DECODER, expect_positions
from nextword.tasks.parts.bpe import named_or_trained
from nextword.tasks.parts.cache_tuning import tune_cache
from nextword.tasks.parts.likelihood_values import likelihood_values
from nextword.tasks.parts.pair_samples import PairSamples, PairsConfig
from nextword.tasks.parts.seq2seq.copying_measures import copying_metrics, example_predictions
from nextword.tasks.parts.seq2seq.pair_rows import PairRows
from nextword.tasks.parts.seq2seq.source_target import PairEncoder
from nextword.tasks.parts.seq2seq.t5_start import T5StartConfig
from nextword.tasks.parts.small_start import SmallStart
from nextword.tasks.task import Measures, Task, registry

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.metrics.likelihood import LikelihoodSum

LIKELIHOOD_SHARE = 0.25
"""Share of an evaluation's time that goes into the likelihood, about; the rest is generation."""


class CopyingConfig(Settings):
    """What is generated to measure copying."""

    pairs: int = Field(default=300, ge=1)
    """Test pairs, from the first, whose targets are generated."""
    beams: int = Field(default=1, ge=1, le=1000)
    """Beams; 1 is greedy."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Longest output; None: as long as the longest target."""


class Seq2SeqConfig(PairsConfig):
    """What can be set; ``data`` must be."""

    gaps: GapConfig = GapConfig()
    """How pairs are made of plain text."""
    mask: str | None = None
    """Text in place of the sentence taken out; None: the tokenizer's mask token (in T5's, <extra_id_0>)."""
    source_prefix: str = ""
    """Text before every source, for pretrained models that expect one, such as "summarize: "."""
    vocabulary: int = Field(default=8000, ge=259)
    """Tokens of the trained BPE."""
    frequent_words: int = Field(default=1000, ge=0)
    """Rare words are all but so many most frequent words of the training targets."""
    generation: CopyingConfig = CopyingConfig()
    """What is generated."""
    start: T5StartConfig = T5StartConfig()
    """The start model where no pretrained one is given."""


@registry.register("seq2seq")
class SequenceToSequence(Task):
    """Targets written from sources by encoder-decoder models: likelihood, and copying. See docs/tasks/seq2seq.md."""

    name = "seq2seq"
    version = 1
    Config = Seq2SeqConfig
    architecture = ENCODER_DECODER
    # for the small start on two CPU cores; a pretrained model wants a learning rate of 1e-5 to 1e-4
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 300, "batch_size": 16, "learning_rate": 2e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: PairRows

    def __init__(self, config: Seq2SeqConfig) -> None:
        _check_settings(config)
        self.config = config
        reading = config.reading(gap_texts(config.gaps))
        pairs = PairSamples(Path(config.data), reading, config.sizes)
        first = None if config.start.data is None else read_pairs(Path(config.start.data), reading, "task.start.data")
        self.data = data = PairRows(pairs, self._encoder, first)
        self.start = SmallStart(
            lambda: named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache, MASK),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, self._encoder(tokenizer).pad),
            rows=lambda tokenizer, seed: data.rows(data.start_pairs or pairs.train, tokenizer),
            training=config.start.training(),
        )
        self.measures = LikelihoodAndCopying(pairs, self._encoder, config)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The tokenizer must end sequences and mark gaps; the model must hold the lengths and begin targets."""
        if all(getattr(model_config, name, None) is None for name in ("decoder_start_token_id", "bos_token_id")):
            raise ValueError(
                "the start model's config.json says neither decoder_start_token_id nor bos_token_id, so nobody knows "
                "what its targets begin with; set decoder_start_token_id (in T5 the padding token)"
            )
        names = ("max_source_tokens", "max_target_tokens")
        expect_positions(model_config, {name: getattr(self.config, name) for name in names})
        test = self.data.pairs.test
        self._encoder(tokenizer)([next((pair for pair in test if MASK in pair.source), test[0])])

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PairEncoder:
        config = self.config
        return PairEncoder(
            tokenizer, config.max_source_tokens, config.max_target_tokens, config.source_prefix, config.mask
        )


class LikelihoodAndCopying(Measures):
    """Likelihood of the test targets, copying in generated outputs, example predictions."""

    def __init__(
        self, pairs: PairSamples, encoder: Callable[[PreTrainedTokenizerBase], PairEncoder], config: Seq2SeqConfig
    ) -> None:
        self._pairs, self._encoder, self._config = pairs, encoder, config

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Likelihood over all test pairs, copying over the first of them."""
        config, pairs, encoder = self._config, self._pairs, self._encoder(tokenizer)
        encoded = encoder(pairs.test)
        tokens = [pair.tokens for pair in encoded]
        frequent = frequent_words((pair.target for pair in pairs.train), config.frequent_words)
        with measuring(model):
            total = self._likelihood(model, tokens, progress_within(progress, 0, LIKELIHOOD_SHARE))
            outputs = Writer(model, config.batch_size).write(
                tokens[: config.generation.pairs],
                Decoding(beams=config.generation.beams),
                length=config.generation.max_new_tokens or config.max_target_tokens,
                ends=True,
                progress=progress_within(progress, LIKELIHOOD_SHARE, 1),
            )
            examples = example_predictions(model, encoded, tokenizer, frequent)
        texts = tokenizer.batch_decode(outputs, skip_special_tokens=True)
        sources = (encoder.visible_text(pair.source) for pair in encoded)
        references = (pair.target.text for pair in encoded)
        copied = list(zip(sources, references, texts, strict=False))
        metrics = likelihood_values(total, "target token", "targets") | copying_metrics(copied, frequent)
        return Evaluation(metrics=metrics, examples=examples)

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation targets."""
        encoded = self._encoder(tokenizer)(self._pairs.validation[: self._config.tuning_pairs])
        tokens = [pair.tokens for pair in encoded]
        with measuring(model):
            return tune_cache(model, lambda: self._likelihood(model, tokens).nll())

    def _likelihood(self, model: Any, pairs: Sequence[TokenPair], progress: Progress | None = None) -> LikelihoodSum:
        log_probs = target_log_probs(model, pairs, self._config.batch_size, progress=progress)
        return likelihood_sum(pairs, (float((-row).sum()) for row in log_probs))


def _check_settings(config: Seq2SeqConfig) -> None:
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
