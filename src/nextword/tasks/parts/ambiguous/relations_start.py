"""The tiny GPT-2 that learns the words and their relations before any method is compared on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from nextword.config import Settings
from nextword.model.training_modes import measuring
from nextword.records import MetricValue
from nextword.scoring.prompt_encoding import start_id
from nextword.tasks.parts.ambiguous.invented_stories import documents, frame_words, probes
from nextword.tasks.parts.ambiguous.lexicon import Lexicon
from nextword.tasks.parts.ambiguous.templates import template_texts
from nextword.tasks.parts.ambiguous.two_answers import completion_accuracy
from nextword.tasks.parts.blocks import block_rows
from nextword.tasks.parts.small_start import SmallStart
from nextword.tasks.parts.word_tokenizer import word_tokenizer

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import GPT2Config, PreTrainedTokenizerBase


class AmbiguousStartConfig(Settings):
    """The tiny GPT-2 that stands in for a pretrained model, and its training on generated text."""

    n_layer: int = Field(default=2, ge=1, le=1000)
    """Transformer layers."""
    n_embd: int = Field(default=64, ge=4, le=100_000)
    """Width of the states: the rank of a softmax is at most this plus one."""
    n_head: int = Field(default=4, ge=1)
    """Attention heads; must divide n_embd."""
    documents: int = Field(default=20_000, ge=100, le=10_000_000)
    """Generated documents."""
    block: int = Field(default=64, ge=16)
    """Tokens of one training row."""
    steps: int = Field(default=2000, ge=1)
    """Optimiser steps of one round."""
    knows: float = Field(default=0.95, ge=0, le=1)
    """Share of each relation's statements that it must complete; rounds of training go on until it does."""
    batch_size: int = Field(default=16, ge=1)
    """Rows of one step."""
    learning_rate: float = Field(default=3e-3, gt=0)
    """Highest learning rate."""

    def architecture(self, tokenizer: PreTrainedTokenizerBase) -> GPT2Config:
        """A GPT-2 of this size for the tokens of ``tokenizer``."""
        from transformers import GPT2Config

        end = start_id(tokenizer)
        return GPT2Config(
            vocab_size=len(tokenizer), n_positions=max(128, self.block), n_embd=self.n_embd,
            n_layer=self.n_layer, n_head=self.n_head, bos_token_id=end, eos_token_id=end,
            pad_token_id=tokenizer.pad_token_id, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip

    def training(self) -> dict[str, Any]:
        """Settings of its training."""
        return {"steps": self.steps, "batch_size": self.batch_size, "learning_rate": self.learning_rate}


class RelationsStart(SmallStart):
    """A tiny GPT-2 on generated text that states the relations, trained until it knows them.

    Args:
        lexicon: The words and their relations.
        config: Its size and training.
        batch_size: Statements asked for at a time.
    """

    def __init__(self, lexicon: Lexicon, config: AmbiguousStartConfig, batch_size: int) -> None:
        super().__init__(self._words, config.architecture, self._documents, config.training())
        self._lexicon, self._config, self._batch_size = lexicon, config, batch_size

    def probe(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """How well the model knows the relations: share of statements whose last word it guesses first."""
        with measuring(model):
            return completion_accuracy(model, probes(self._lexicon), tokenizer, self._batch_size)

    def knows_enough(self, probe: dict[str, MetricValue]) -> bool:
        """Every relation at least to the share that ``task.start.knows`` asks for."""
        return all(known.value >= self._config.knows for known in probe.values())

    def _words(self) -> PreTrainedTokenizerBase:
        """Word-level: every word of the lexicon, the templates and the sentence frames is one token."""
        return word_tokenizer([" ".join(self._lexicon.words()), *template_texts(), *frame_words()])

    def _documents(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Dataset:
        end = start_id(tokenizer)
        texts = list(documents(self._lexicon, self._config.documents, seed))
        encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
        stream = [token for document in encoded for token in (end, *document)]
        return block_rows(stream, self._config.block, "the generated text", "task.start.block")
