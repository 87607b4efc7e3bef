"""Sentence embeddings. A sentence encoder computes one vector per text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from nextword.evaluation.judges.checkpoints import by_length, find_checkpoint, load_part, padded_batches, token_limit
from nextword.evaluation.judges.feature_cache import FeatureCache, key_of
from nextword.evaluation.metrics import Setup
from nextword.runtime import optional_libraries as extras
from nextword.runtime.pretrained import MINILM, encoder_named, packaged_encoder

if TYPE_CHECKING:
    import torch

Pooling = Literal["cls", "mean", "pooler"]
Batch = tuple[list[int], Float[np.ndarray, "B D"]]


@dataclass(frozen=True)
class EncoderReading:
    """Counts from an encoder's tokenization of some texts. They show whether the encoder can read the texts."""

    tokens: int
    unknown: int
    """Number of unknown tokens."""
    characters: int
    """Number of characters (NFC), without white space."""

    @property
    def fault(self) -> str | None:
        """Reason why the encoder cannot read these texts: most tokens are unknown, or tokens outnumber characters.

        None if neither is true. The encoder may still not have been trained on the language of the texts.
        """
        if 2 * self.unknown > self.tokens:
            return f"{self.unknown / self.tokens:.0%} of the tokens are unknown"
        if self.tokens > self.characters:
            return f"characters are split into bytes: {self.tokens / self.characters:.1f} tokens per character"
        return None


class SentenceEncoder:
    """Computes one vector per text with a sentence encoder, and stores the vectors in a cache.

    Args:
        name: Folder or hub name. None or "minilm": the packaged encoder.
        pooling: Pooling of the last layer into one vector: "cls" (first token), "mean" (mean over tokens) or "pooler"
            (first token through the checkpoint's pooling layer). None: the pooling that the checkpoint specifies for
            sentence-transformers, or the mean.
        max_length: Maximum number of tokens read per text, including special tokens; the model's limit if that is
            lower.

    Raises:
        ValueError: If the encoder does not exist.
    """

    def __init__(
        self, name: str | None, pooling: Pooling | None, max_length: int, setup: Setup, setting: str = "encoder"
    ) -> None:
        advice = f"Or install the default: {extras.install('encoder')}."
        self._setting, self._setup = setting, setup
        self._found = find_checkpoint(encoder_named(name or MINILM), setting, advice)
        self._pooling, self._max_length = pooling, max_length

    @property
    def name(self) -> str:
        """Short name of the encoder."""
        return "all-MiniLM-L6-v2" if self._found.name == packaged_encoder() else Path(self._found.name).name

    def reading(self, texts: Sequence[str]) -> EncoderReading | None:
        """Statistics of the tokenization of ``texts``. None if transformers cannot load the encoder's tokenizer."""
        from transformers import AutoTokenizer

        try:
            tokenizer = load_part(AutoTokenizer.from_pretrained, self._found, self._setting)
        except ValueError:
            return None
        rows = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        unknown = tokenizer.unk_token_id
        return EncoderReading(
            tokens=sum(map(len, rows)),
            unknown=0 if unknown is None else sum(list(row).count(unknown) for row in rows),
            characters=sum(len("".join(unicodedata.normalize("NFC", text).split())) for text in texts),
        )

    def embed(self, texts: Sequence[str]) -> Float[np.ndarray, "N D"]:
        """The vector of each of the ``texts``, one row per text. Equal texts are computed only once."""
        settings = {"model": self._found.fingerprint, "pooling": self._pooling, "max_length": self._max_length}
        cache = FeatureCache(self._setup.cache, "sentence-embeddings", settings, self._setup.progress)
        return cache.rows([key_of(text) for text in texts], partial(self._read, texts))

    def _read(self, texts: Sequence[str], missing: list[int]) -> Iterator[Batch]:
        if self._pooling is not None:
            yield from self._pooled(texts, missing, self._pooling)
            return
        from sentence_transformers import SentenceTransformer

        model = load_part(SentenceTransformer, self._found, self._setting, device=self._setup.device)
        model.max_seq_length = min(self._max_length, model.max_seq_length or self._max_length)
        model.float().eval()
        for positions in by_length({position: len(texts[position]) for position in missing}, self._setup.batch_size):
            rows = model.encode(
                [texts[position] for position in positions],
                batch_size=len(positions),
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            yield positions, np.asarray(rows)

    def _pooled(self, texts: Sequence[str], missing: list[int], pooling: Pooling) -> Iterator[Batch]:
        import torch
        import transformers

        tokenizer = load_part(transformers.AutoTokenizer.from_pretrained, self._found, self._setting)
        model, info = load_part(
            transformers.AutoModel.from_pretrained,
            self._found,
            self._setting,
            dtype=torch.float32,
            output_loading_info=True,
        )
        untrained = any("pooler" in name for name in info["missing_keys"])
        if pooling == "pooler" and (untrained or getattr(model, "pooler", None) is None):
            raise ValueError(
                f"{self._setting}: '{self._found.name}' must have a pooling layer for pooling 'pooler' (it has "
                f"none); use 'cls' or 'mean'"
            )
        model.to(self._setup.device).eval()
        limit = token_limit(model, tokenizer, self._max_length)
        encoded = {
            position: dict(tokenizer(texts[position], truncation=True, max_length=limit, split_special_tokens=True))
            for position in missing
        }
        for positions, fields in padded_batches(encoded, tokenizer, self._setup.batch_size, self._setup.device):
            with torch.inference_mode():
                rows = POOLINGS[pooling](model(**fields), fields["attention_mask"])
            yield positions, rows.float().cpu().numpy()


def _mean(output: Any, mask: torch.Tensor) -> torch.Tensor:
    states: torch.Tensor = output.last_hidden_state
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


POOLINGS: dict[Pooling, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "cls": lambda output, mask: output.last_hidden_state[:, 0],
    "mean": _mean,
    "pooler": lambda output, mask: output.pooler_output,
}
