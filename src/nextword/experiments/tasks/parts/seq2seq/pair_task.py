"""What tasks on pairs for encoder-decoder models share: rows, a small start, the likelihood of targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from nextword.experiments.tasks.parts.architecture import ENCODER_DECODER, expect_positions
from nextword.experiments.tasks.parts.bpe import named_or_trained
from nextword.experiments.tasks.parts.pair_samples import PairSamples, PairsConfig
from nextword.experiments.tasks.parts.seq2seq.pair_rows import PairRows, StartPairs
from nextword.experiments.tasks.parts.seq2seq.source_target import PairEncoder
from nextword.experiments.tasks.parts.seq2seq.t5_start import T5StartConfig
from nextword.experiments.tasks.parts.small_start import SmallStart
from nextword.experiments.tasks.task import Task
from nextword.runtime.corpora.gap_sentences import MASK, GapConfig
from nextword.runtime.corpora.pairs import OtherFiles

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PairTaskConfig(PairsConfig):
    """What can be set of every such task; ``data`` must be."""

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
    start: T5StartConfig = T5StartConfig()
    """The start model where no pretrained one is given."""

    @model_validator(mode="after")
    def _sentences_in_order(self) -> Self:
        if self.gaps.min_sentences > self.gaps.max_sentences:
            raise ValueError(
                f"gaps.min_sentences ({self.gaps.min_sentences}) must not be more than gaps.max_sentences "
                f"({self.gaps.max_sentences})"
            )
        return self


class PairTask(Task):
    """Targets that encoder-decoder models write from sources.

    Args:
        config: What the user sets.
        other: What reads data that is no table.
        start_pairs: What the start is trained on, given the task's pairs.
    """

    architecture = ENCODER_DECODER
    # for the small start on two CPU cores; a pretrained one has the rates of FineTuning
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 300, "batch_size": 16, "learning_rate": 2e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: PairRows

    def __init__(
        self,
        config: PairTaskConfig,
        other: OtherFiles,
        start_pairs: Callable[[PairSamples], StartPairs] = lambda pairs: StartPairs(),
    ) -> None:
        self.config = config
        self.pairs = PairSamples(Path(config.data), config.reading(other), config.sizes)
        self.data = data = PairRows(self.pairs, self._encoder, start_pairs(self.pairs))
        self.start = SmallStart(
            lambda: named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache, MASK),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, self._encoder(tokenizer).pad),
            rows=lambda tokenizer, seed: data.start_rows(tokenizer),
            training=config.start.training(),
        )

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The tokenizer must end sequences and mark gaps; the model must hold the lengths and begin targets."""
        if all(getattr(model_config, name, None) is None for name in ("decoder_start_token_id", "bos_token_id")):
            raise ValueError(
                "the start model's config.json says neither decoder_start_token_id nor bos_token_id, so nobody knows "
                "what its targets begin with; set decoder_start_token_id (in T5 the padding token)"
            )
        names = ("max_source_tokens", "max_target_tokens")
        expect_positions(model_config, {name: getattr(self.config, name) for name in names})
        test = self.pairs.test
        self._encoder(tokenizer)([next((pair for pair in test if MASK in pair.source), test[0])])

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PairEncoder:
        config = self.config
        return PairEncoder(
            tokenizer, config.max_source_tokens, config.max_target_tokens, config.source_prefix, config.mask
        )
