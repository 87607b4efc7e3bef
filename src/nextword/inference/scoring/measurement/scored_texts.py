"""Tokenised texts to score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from nextword.inference.scoring.example_encoding import Example, example_tokens
from nextword.inference.scoring.long_text import ScoringWindow
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.text_tokens import byte_ends

LONGEST_DEFAULT = 4096
"""Default window of a model that has more positions. It limits the memory that is used."""

WITHOUT_LIMIT = 1024
"""Default window of a model whose configuration has no limit."""


@dataclass(frozen=True, eq=False)
class ScoredText:
    """An example as tokens of a model.

    Attributes:
        context: Tokens before the text: a start token and the prompt; for an encoder-decoder model the source.
        specials: Number of start tokens before the prompt in the context; 0 for an encoder-decoder model.
        target: Tokens of the text, which are scored.
        ends: End of each target token in the text, in UTF-8 bytes.
        is_special: True for target tokens without text, such as an end token.
        visible: For each target token, the index (from the beginning of the prompt) of the first token that the model
            sees when it predicts this target; 0 for an encoder-decoder model.
        copied_from: Mapping from "source" or "auxiliary" to the ids of that text in the target's tokenizer, without
            special tokens. It has only texts that the model reads.
        source_is_cut: Whether the source was too long for the encoder and was truncated.
    """

    example: Example
    context: Int[np.ndarray, "C"]
    specials: int
    target: Int[np.ndarray, "T"]
    ends: Int[np.ndarray, "T"]
    is_special: Bool[np.ndarray, "T"]
    visible: Int[np.ndarray, "T"]
    copied_from: dict[str, Int[np.ndarray, "S"]]
    source_is_cut: bool = False

    @property
    def prompt(self) -> Int[np.ndarray, "P"]:
        """Tokens before the text in the decoder, without a start token; none for an encoder-decoder model."""
        return self.context[:0] if "source" in self.copied_from else self.context[self.specials :]

    @property
    def text_bytes(self) -> Int[np.ndarray, "T"]:
        """Number of UTF-8 bytes of each token. The numbers sum to the bytes of the text."""
        return np.diff(self.ends, prepend=0)

    @property
    def tokens_before(self) -> int:
        """Number of tokens before the text in the decoder, start tokens included."""
        return 1 if "source" in self.copied_from else len(self.context)

    def token_at(self, text: str, position: int) -> int | None:
        """Returns the token id at ``position``, counted from 1, in a text of this example.

        ``text`` is "text", or "source" for the source or auxiliary text. In "text", tokens before the text have
        positions of 0 and less. The result for the start token of an encoder-decoder model is None.
        """
        if text == "source":
            read = self.context if "source" in self.copied_from else self.copied_from["auxiliary"]
            return int(read[position - 1])
        if position >= 1:
            return int(self.target[position - 1])
        return None if "source" in self.copied_from else int(self.context[position - 1])


def scoring_window_of(opened: OpenedModel, settings: ScoreSettings) -> ScoringWindow:
    """Returns the size of the windows in which a model scores texts. An encoder-decoder model scores texts as a whole.

    Raises:
        ValueError: If the window exceeds the model's positions, or the stride exceeds the window.
    """
    if opened.has_encoder:
        return ScoringWindow()
    longest = opened.longest
    window = settings.window or min(longest or WITHOUT_LIMIT, LONGEST_DEFAULT)
    if longest is not None and window > longest:
        raise ValueError(f"window: must be at most {longest:,}, what '{opened.name}' can see ({window:,} given)")
    stride = settings.stride or max(1, window // 2)
    if stride > window:
        raise ValueError(f"stride: must be at most {window:,}, the window of '{opened.name}' ({stride:,} given)")
    return ScoringWindow(window, stride, opened.model.next_word_head.looks_back)


def scored_text(opened: OpenedModel, example: Example, scoring_window: ScoringWindow) -> ScoredText:
    """Tokenises ``example`` for the model ``opened``, and truncates a source that is too long for the encoder.

    Raises:
        ValueError: If ``example_tokens`` raises it, the text has too many tokens for the decoder of an encoder-decoder
            model, or a token is outside the vocabulary.
    """
    tokens = example_tokens(opened, example)
    context, target, longest = tokens.context.ids, tokens.target, opened.longest
    for ids in (context, target.ids):
        _expect_known(opened, example, ids)
    if opened.has_encoder and longest is not None and len(target.ids) > longest:
        raise ValueError(
            f"{example.id}: must have at most {longest:,} tokens, what the decoder of '{opened.name}' can see "
            f"({len(target.ids):,} given); cut it into shorter texts"
        )
    if opened.has_encoder and longest is not None:
        context = _cut(opened, context, longest)
    return ScoredText(
        example=example,
        context=context,
        specials=tokens.specials,
        target=target.ids,
        ends=byte_ends(example.text, target.spans[:, 1]),
        is_special=target.spans[:, 0] < 0,
        visible=_visible(len(context), len(target.ids), tokens.specials, scoring_window),
        copied_from=_copied_from(opened, example),
        source_is_cut=len(context) < len(tokens.context.ids),
    )


def limited(opened: OpenedModel, examples: Sequence[Example], limit: int) -> tuple[list[Example], int]:
    """Cuts ``examples`` after about ``limit`` tokens. Also returns how many tokens are missing if they have fewer."""
    found: list[Example] = []
    for example in examples:
        target = example_tokens(opened, example).target
        if len(target.ids) >= limit:
            end = max(int(target.spans[:limit, 1].max()), 1)
            return [*found, replace(example, text=example.text[:end])], 0
        found.append(example)
        limit -= len(target.ids)
    return found, limit


def _visible(context: int, target: int, specials: int, scoring_window: ScoringWindow) -> Int[np.ndarray, "T"]:
    found = np.zeros(target, dtype=np.int64)
    if scoring_window.long is not None:
        return np.maximum(context - specials + np.arange(target) - scoring_window.long, 0)
    for window in scoring_window.windows(context, context + target):
        found[window.targets.start - context : window.targets.stop - context] = max(0, window.begin - specials)
    return found


def _copied_from(opened: OpenedModel, example: Example) -> dict[str, Int[np.ndarray, "S"]]:
    read = {"source": example.source} if opened.has_encoder else {}
    if opened.auxiliary_tokenizer is not None:
        read["auxiliary"] = example.auxiliary
    tokenizer: Any = opened.tokenizer
    return {
        name: np.array(tokenizer(text or "", add_special_tokens=False, verbose=False)["input_ids"], dtype=np.int64)
        for name, text in read.items()
    }


def _cut(opened: OpenedModel, source: Int[np.ndarray, "S"], longest: int) -> Int[np.ndarray, "C"]:
    # truncates a source as its tokenizer does: the special tokens at the end stay
    if len(source) <= longest:
        return source
    tokenizer: Any = opened.tokenizer
    ends = 0
    while ends < len(source) and source[len(source) - 1 - ends] in tokenizer.all_special_ids:
        ends += 1
    return np.concatenate([source[: longest - ends], source[len(source) - ends :]])


def _expect_known(opened: OpenedModel, example: Example, ids: Int[np.ndarray, "N"]) -> None:
    size = int(opened.model.get_input_embeddings().weight.shape[0])
    wrong = np.flatnonzero((ids < 0) | (ids >= size))
    if len(wrong):
        token = int(ids[wrong[0]])
        raise ValueError(
            f"{example.id}: token {token} ({opened.tokenizer.convert_ids_to_tokens(token)!r}) is outside the "
            f"vocabulary of '{opened.name}', which has {size:,} tokens. Does the tokenizer belong to this model?"
        )
