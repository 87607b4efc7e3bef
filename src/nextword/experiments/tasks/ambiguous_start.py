"""The tiny model that learns the words and their relations before any method is compared on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from nextword.experiments.tasks.ambiguous_measures import completion_accuracy
from nextword.experiments.tasks.ambiguous_prompts import documents, frame_words, probes
from nextword.experiments.tasks.ambiguous_words import Lexicon, template_texts
from nextword.experiments.tasks.small_start import SmallStart
from nextword.experiments.tasks.tokenizers import word_tokenizer
from nextword.experiments.tasks.window_likelihood import block_rows
from nextword.inference.scoring.text_tokens import start_id
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import MetricValue
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


class AmbiguousStartConfig(Settings):
    """The tiny model that stands in for a pretrained model, and its training on generated text."""

    family: Literal["gpt2", "llama"] = "gpt2"
    """Architecture; a llama has an output layer of its own, as the published ones do."""
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

    def architecture(self, tokenizer: PreTrainedTokenizerBase) -> PretrainedConfig:
        """A model of this family and size for the tokens of ``tokenizer``."""
        end = start_id(tokenizer)
        positions, tokens = max(128, self.block), {"bos_token_id": end, "eos_token_id": end}
        return _ARCHITECTURES[self.family](self, positions, vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id, **tokens)  # fmt: skip

    def training(self) -> dict[str, Any]:
        """Settings of its training."""
        return {"steps": self.steps, "batch_size": self.batch_size, "learning_rate": self.learning_rate}


def _gpt2(size: AmbiguousStartConfig, positions: int, **tokens: Any) -> PretrainedConfig:
    from transformers import GPT2Config

    return GPT2Config(
        n_positions=positions, n_embd=size.n_embd, n_layer=size.n_layer, n_head=size.n_head,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **tokens,
    )  # fmt: skip


def _llama(size: AmbiguousStartConfig, positions: int, **tokens: Any) -> PretrainedConfig:
    from transformers import LlamaConfig

    return LlamaConfig(
        max_position_embeddings=positions, hidden_size=size.n_embd, intermediate_size=4 * size.n_embd,
        num_hidden_layers=size.n_layer, num_attention_heads=size.n_head, **tokens,
    )  # fmt: skip


_ARCHITECTURES = {"gpt2": _gpt2, "llama": _llama}


class RelationsStart(SmallStart):
    """A tiny model on generated text that states the relations, trained until it knows them.

    Args:
        lexicon: The words and their relations.
        config: Its size and training.
        wording: Of the templates, whose words it has tokens for.
        batch_size: Statements asked for at a time.
    """

    def __init__(self, lexicon: Lexicon, config: AmbiguousStartConfig, wording: str, batch_size: int) -> None:
        super().__init__(self._words, config.architecture, self._documents, config.training())
        self._lexicon, self._config, self._wording, self._batch_size = lexicon, config, wording, batch_size

    def probe(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """How well the model knows the relations: share of statements whose last word it guesses first."""
        with inference_mode_of(model):
            return completion_accuracy(model, probes(self._lexicon), tokenizer, self._batch_size)

    def knows_enough(self, probe: dict[str, MetricValue]) -> bool:
        """Every relation at least to the share that ``task.start.knows`` asks for."""
        return all(known.value >= self._config.knows for known in probe.values())

    def _words(self) -> PreTrainedTokenizerBase:
        """Word-level: every word of the lexicon, the templates and the sentence frames is one token."""
        return word_tokenizer([" ".join(self._lexicon.words()), *template_texts(self._wording), *frame_words()])

    def _documents(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Dataset:
        end = start_id(tokenizer)
        texts = list(documents(self._lexicon, self._config.documents, seed))
        encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
        stream = [token for document in encoded for token in (end, *document)]
        return block_rows(stream, self._config.block, "the generated text", "task.start.block")
