"""Tokenises auxiliary texts into tokens of the encoder, and for heads that copy also into tokens of the decoder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int
from transformers import BatchEncoding

from nextword.functional.padding import stacked
from nextword.runtime.pretrained import encoder_location, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

FILL = {"aux_input_ids": 0, "aux_attention_mask": 0, "source_ids": 0, "source_positions": -1}
"""Padding value of each input that ``AuxiliaryTokenizer`` makes."""

ENCODER_TOKENIZER = "encoder_tokenizer"
"""Name of the folder with the encoder's tokenizer, in a conditioned model's folder or beside it."""

_UNLIMITED = 2**20
"""A tokenizer whose ``model_max_length`` is larger than this has no limit."""


class AuxiliaryTokenizer:
    """Turns auxiliary texts into inputs of a conditioned model.

    Args:
        encoder: Tokenizer of the auxiliary encoder, or the encoder as in ``attach``: a folder, a hub name, or "minilm".
        tokenizer: Tokenizer of the decoder, needed by heads that copy from the auxiliary text (``softmax+ce``, ``pg``).
            With it, both tokenizers must be fast tokenizers, which return character offsets. None: no ``source_ids``.
        max_length: Longest auxiliary text in tokens, including special tokens; None: the limit of the encoder's
            tokenizer. Longer texts are truncated, with a warning once.

    Raises:
        ValueError: If a tokenizer has no character offsets or cannot be loaded, or ``max_length`` is out of range.

    Examples:
        >>> import nextword as nw
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"<pad>": 0, "A": 1, "bishop": 2, "falls": 3, "ill": 4}))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> encoder = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>")
        >>> auxiliary = nw.AuxiliaryTokenizer(encoder)  # then: model.generate(**prompts, **auxiliary(texts))
        >>> auxiliary(["A bishop falls ill", "A bishop"])["aux_input_ids"].tolist()
        [[1, 2, 3, 4], [1, 2, 0, 0]]
    """

    def __init__(
        self,
        encoder: PreTrainedTokenizerBase | str,
        tokenizer: PreTrainedTokenizerBase | None = None,
        max_length: int | None = None,
    ) -> None:
        if isinstance(tokenizer, str):
            raise ValueError(
                f"auxiliary texts: the decoder's tokenizer must be loaded (the name '{tokenizer}' given); load it with "
                "AutoTokenizer.from_pretrained"
            )
        if isinstance(encoder, str):
            encoder = load_tokenizer(encoder_location(encoder, "auxiliary texts"), "auxiliary texts")
        for one in (encoder, tokenizer) if tokenizer is not None else ():
            if one is not None and not one.is_fast:
                raise ValueError(
                    f"auxiliary texts: tokenizer '{one.name_or_path}' is a slow tokenizer, which gives no character "
                    f"offsets; use its fast version, or a head that does not copy"
                )
        limit = encoder.model_max_length if encoder.model_max_length < _UNLIMITED else None
        if max_length is not None and max_length < 1 + encoder.num_special_tokens_to_add():
            raise ValueError(
                f"auxiliary texts: max_length {max_length} leaves no room for a token of the text; give a larger number"
            )
        if max_length is not None and limit is not None and max_length > limit:
            raise ValueError(f"auxiliary texts: max_length {max_length} is more than the encoder's limit of {limit}")
        self.encoder, self.tokenizer = encoder, tokenizer
        self.max_length = max_length or limit
        self._told = False

    def __call__(self, texts: Sequence[str]) -> BatchEncoding:
        """Returns the padded inputs of a model for ``texts``.

        These are ``aux_input_ids`` and ``aux_attention_mask`` for the encoder. With a decoder tokenizer there are also
        ``source_ids``, the texts in the decoder's tokens, and ``source_positions``: for each decoder token, the index
        in ``aux_input_ids`` of the encoder token in which it begins.

        Raises:
            ValueError: If ``texts`` is empty or a single text, or if some items are not texts or have no tokens; the
                message has the indices of these items.
        """
        rows = self.rows(texts)
        rows["aux_attention_mask"] = [[1] * len(row) for row in rows["aux_input_ids"]]
        return BatchEncoding({name: stacked(found, FILL[name]) for name, found in rows.items()})

    def rows(self, texts: Sequence[str]) -> dict[str, list[list[int]]]:
        """Returns the inputs of a model as ``__call__`` does, but as lists, without padding and without the mask."""
        self._expect_texts(texts)
        made: Any = self.encoder(
            list(texts),
            truncation=self.max_length is not None,
            max_length=self.max_length,
            return_offsets_mapping=self.tokenizer is not None,
            return_special_tokens_mask=True,
        )
        empty = [row for row, special in enumerate(made["special_tokens_mask"]) if all(special)]
        if empty:
            raise ValueError(
                f"auxiliary texts: {_rows(empty)} no token for the encoder ({texts[empty[0]][:40]!r}); "
                "leave such rows out"
            )
        self._tell_of_cuts(texts, made["input_ids"])
        found = {"aux_input_ids": [list(row) for row in made["input_ids"]]}
        if self.tokenizer is None:
            return found
        decoded: Any = self.tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
        aligned = [
            _aligned(ids, np.array(spans).reshape(-1, 2), np.array(theirs), np.array(special, dtype=bool))
            for ids, spans, theirs, special in zip(
                decoded["input_ids"], decoded["offset_mapping"], made["offset_mapping"], made["special_tokens_mask"],
                strict=True,
            )
        ]  # fmt: skip
        return found | {
            "source_ids": [ids for ids, _ in aligned],
            "source_positions": [positions for _, positions in aligned],
        }

    def _expect_texts(self, texts: Sequence[str]) -> None:
        if isinstance(texts, str):
            raise ValueError("auxiliary texts: must be a list with one text for each row (a single text given)")
        if not len(texts):
            raise ValueError("auxiliary texts: none given")
        missing = [row for row, text in enumerate(texts) if not isinstance(text, str)]
        if missing:
            given = type(texts[missing[0]]).__name__
            raise ValueError(f"auxiliary texts: {_rows(missing)} no text ({given} given); every row needs one")
        empty = [row for row, text in enumerate(texts) if not text.strip()]
        if empty:
            raise ValueError(f"auxiliary texts: {_rows(empty)} an empty text; leave such rows out")

    def _tell_of_cuts(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        # a text that just fits also has the length of the limit, so texts of that length are tokenised again uncut
        if self._told or self.max_length is None:
            return
        full = [text for text, row in zip(texts, ids, strict=True) if len(row) >= self.max_length]
        uncut = self.encoder(full, verbose=False)["input_ids"] if full else []
        cut = sum(len(row) > self.max_length for row in uncut)
        if cut:
            self._told = True
            logger.warning(
                "%d of %d auxiliary texts are longer than %d tokens and are truncated (warned once)",
                cut, len(texts), self.max_length,
            )  # fmt: skip


def _aligned(
    ids: list[int], spans: Int[np.ndarray, "S 2"], theirs: Int[np.ndarray, "A 2"], special: np.ndarray
) -> tuple[list[int], list[int]]:
    """Returns the decoder tokens of the text that the encoder read, and the encoder position at which each begins."""
    # if no encoder token covers that character (white space, characters left out), the next encoder token is used
    positions = np.flatnonzero(~special)
    ends = theirs[positions, 1]
    seen = spans[:, 0] < ends[-1] if len(ends) else np.zeros(len(spans), dtype=bool)
    found = np.searchsorted(ends, spans[seen, 0], side="right")
    kept = [token for token, inside in zip(ids, seen.tolist(), strict=True) if inside]
    return kept, positions[found].tolist()


def _rows(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"row {shown} has" if len(numbers) == 1 else f"rows {shown} have"
