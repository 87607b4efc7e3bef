"""Features of texts from a language model: the last layer's state of the last token, as MAUVE reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from nextword.evaluation.judges.parts.checkpoints import find_checkpoint, load_part, token_limit
from nextword.evaluation.judges.parts.feature_cache import FeatureCache, key_of
from nextword.evaluation.judges.parts.padded_batches import as_tensors, by_length, pad_id_of, padded
from nextword.evaluation.metrics import Setup


class LastTokenFeatures:
    """Turns texts into the state of their last token, with a cache.

    Args:
        name: Folder or hub name of a causal language model; of an encoder-decoder its encoder reads the texts.
        max_length: Tokens of a text that are read, from its beginning; the model's own limit where that is lower.
        setup: Device, batch size, cache.
        setting: Name of the setting that names the model, for messages.

    Raises:
        ValueError: There is no such model.
    """

    def __init__(self, name: str, max_length: int, setup: Setup, setting: str = "model") -> None:
        self._found = find_checkpoint(name, setting)
        self._max_length, self._setup, self._setting = max_length, setup, setting

    def of(self, texts: Sequence[str]) -> Float[np.ndarray, "N D"]:
        """A row for every text; equal texts are read once.

        Raises:
            ValueError: A text has no token.
        """
        settings = {"model": self._found.fingerprint, "max_length": self._max_length}
        cache = FeatureCache(self._setup.cache, "last-token", settings, self._setup.progress)
        return cache.rows(
            [key_of(text) for text in texts], lambda missing: self._read(missing, [texts[place] for place in missing])
        )

    def cut(self, texts: Sequence[str], length: int) -> list[str] | None:
        """The first ``length`` tokens of each text, as text; None if one of them has fewer."""
        rows = [self._tokenizer(text, truncation=True, max_length=length)["input_ids"] for text in texts]
        return [str(self._tokenizer.decode(ids)) for ids in rows] if min(map(len, rows)) == length else None

    @cached_property
    def _tokenizer(self) -> Any:
        import transformers

        return load_part(transformers.AutoTokenizer.from_pretrained, self._found, self._setting)

    def _read(self, places: list[int], texts: list[str]) -> Iterator[tuple[list[int], Float[np.ndarray, "B D"]]]:
        import torch
        import transformers

        tokenizer = self._tokenizer
        model = load_part(transformers.AutoModel.from_pretrained, self._found, self._setting, dtype=torch.float32)
        reader = model.get_encoder() if model.config.is_encoder_decoder else model
        reader.to(self._setup.device).eval()
        limit = token_limit(model, tokenizer, self._max_length)
        encoded = []
        for place, text in zip(places, texts, strict=True):
            ids = tokenizer(text, truncation=True, max_length=limit)["input_ids"]
            if not ids:
                raise ValueError(f"{self._setting}: text number {place + 1} has no token in this model: {text[:60]!r}")
            encoded.append({"input_ids": ids, "attention_mask": [1] * len(ids)})
        for batch in by_length([len(text["input_ids"]) for text in encoded], self._setup.batch_size):
            fields = as_tensors(padded([encoded[one] for one in batch], pad_id_of(tokenizer)), self._setup.device)
            with torch.inference_mode():
                states = reader(**fields).last_hidden_state
            last = fields["attention_mask"].sum(dim=1) - 1
            rows = states[torch.arange(len(batch), device=states.device), last]
            yield [places[one] for one in batch], rows.float().cpu().numpy()
