"""Sentence embeddings: one vector for a text, from a model that was trained to compare texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from nextword.evaluation.judges.checkpoints import (
    Checkpoint,
    as_tensors,
    by_length,
    find_checkpoint,
    load_part,
    pad_id_of,
    padded,
    token_limit,
)
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
    """How an encoder's tokenizer cuts texts."""

    tokens: int
    unknown: int
    """Tokens that stand for something the vocabulary does not have."""
    characters: int
    """Of the texts, composed, without white space."""

    @property
    def fault(self) -> str | None:
        """Why the encoder cannot have read these texts, or None.

        Texts of no more tokens than characters may still be in a language that it was not trained on.
        """
        if 2 * self.unknown > self.tokens:
            return f"{self.unknown / self.tokens:.0%} of the tokens are unknown"
        if self.tokens > self.characters:
            return f"characters are taken apart, {self.tokens / self.characters:.1f} tokens for each"
        return None


class SentenceEncoder:
    """Turns texts into vectors, with a cache.

    Args:
        name: Folder or hub name; None or "minilm" for the packaged encoder.
        pooling: None for what the checkpoint says, as sentence-transformers reads it (a plain checkpoint: the mean over
            tokens). Else how the last layer becomes one vector: "cls" its first token, "mean" the mean over tokens,
            "pooler" the first token through the checkpoint's own pooling layer.
        max_length: Tokens that are read at most, special ones included; the model's own limit where that is lower.
        setup: Device, batch size, cache.
        setting: Name of the setting that names the encoder, for messages.

    Raises:
        ValueError: There is no such encoder.
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
        """What was asked for, in short."""
        return "all-MiniLM-L6-v2" if self._found.name == packaged_encoder() else Path(self._found.name).name

    def reading(self, texts: Sequence[str]) -> EncoderReading | None:
        """How its tokenizer cuts these texts; None where it has none of its own, as with encoders over whole words."""
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
        """A vector for every text; equal texts are read once."""
        settings = {"model": self._found.fingerprint, "pooling": self._pooling, "max_length": self._max_length}
        cache = FeatureCache(self._setup.cache, "sentence-embeddings", settings, self._setup.progress)
        return cache.rows(
            [key_of(text) for text in texts], lambda missing: self._read(missing, [texts[place] for place in missing])
        )

    def _read(self, places: list[int], texts: list[str]) -> Iterator[Batch]:
        batches = self._by_checkpoint(texts) if self._pooling is None else self._pooled(texts, POOLINGS[self._pooling])
        for batch, rows in batches:
            yield [places[one] for one in batch], rows

    def _by_checkpoint(self, texts: list[str]) -> Iterator[Batch]:
        from sentence_transformers import SentenceTransformer

        model = load_part(SentenceTransformer, self._found, self._setting, device=self._setup.device)
        model.max_seq_length = min(self._max_length, model.max_seq_length or self._max_length)
        model.float().eval()
        for batch in by_length([len(text) for text in texts], self._setup.batch_size):
            rows = model.encode(
                [texts[one] for one in batch], batch_size=len(batch), show_progress_bar=False, convert_to_numpy=True
            )
            yield batch, np.asarray(rows)

    def _pooled(self, texts: list[str], pool: Callable[[Any, torch.Tensor], torch.Tensor]) -> Iterator[Batch]:
        import torch

        tokenizer, model = _plain_encoder(self._found, self._setting, self._pooling == "pooler")
        model.to(self._setup.device).eval()
        limit = token_limit(model, tokenizer, self._max_length)
        encoded = [
            dict(tokenizer(text, truncation=True, max_length=limit, split_special_tokens=True)) for text in texts
        ]
        for batch in by_length([len(text["input_ids"]) for text in encoded], self._setup.batch_size):
            fields = as_tensors(padded([encoded[one] for one in batch], pad_id_of(tokenizer)), self._setup.device)
            with torch.inference_mode():
                rows = pool(model(**fields), fields["attention_mask"])
            yield batch, rows.float().cpu().numpy()


def _plain_encoder(found: Checkpoint, setting: str, needs_pooler: bool) -> tuple[Any, Any]:
    import torch
    import transformers

    tokenizer = load_part(transformers.AutoTokenizer.from_pretrained, found, setting)
    model, info = load_part(
        transformers.AutoModel.from_pretrained, found, setting, dtype=torch.float32, output_loading_info=True
    )
    absent = [name for name in info["missing_keys"] if "pooler" in name]
    if needs_pooler and (absent or getattr(model, "pooler", None) is None):
        raise ValueError(
            f"{setting}: '{found.name}' has no pooling layer, which pooling 'pooler' reads; use 'cls' or 'mean'"
        )
    return tokenizer, model


def _mean(output: Any, mask: torch.Tensor) -> torch.Tensor:
    states: torch.Tensor = output.last_hidden_state
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def _cls(output: Any, mask: torch.Tensor) -> torch.Tensor:
    first: torch.Tensor = output.last_hidden_state[:, 0]
    return first


def _pooler(output: Any, mask: torch.Tensor) -> torch.Tensor:
    pooled: torch.Tensor = output.pooler_output
    return pooled


POOLINGS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {"cls": _cls, "mean": _mean, "pooler": _pooler}
