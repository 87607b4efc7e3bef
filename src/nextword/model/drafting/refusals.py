"""What cannot be combined with a draft, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transformers import StaticCache
from transformers.generation import logits_process
from transformers.generation.configuration_utils import GenerationMode

_WORD_BY_WORD = (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)
_EXTRAS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
_EVERY_STEP = (logits_process.UnbatchedClassifierFreeGuidanceLogitsProcessor,)
"""Processors that run along with every step of their own, and cannot be asked about words that are taken back."""
_BY_ROW = (
    logits_process.PrefixConstrainedLogitsProcessor,
    logits_process.EncoderNoRepeatNGramLogitsProcessor,
    logits_process.EncoderRepetitionPenaltyLogitsProcessor,
)
"""Processors that go by a text's number in the batch; with drafts each text is shown to them alone."""


def expect_draftable(
    model: Any, texts: int, config: Any, processors: Iterable[Any], streamer: Any, arguments: dict[str, Any]
) -> None:
    """Raises ValueError where words cannot be drafted.

    Args:
        model: Ours.
        texts: How many are written at once.
        config: The configuration of this call of ``generate``.
        processors: What changes scores.
        streamer: Who is handed each word.
        arguments: The model's.
    """
    cache = arguments.get(model._cache_argument)
    mode = config.get_generation_mode()
    if mode not in _WORD_BY_WORD:
        raise ValueError(
            f"draft: must go with greedy search or sampling ({mode.value.replace('_', ' ')} given), where one word "
            "follows the other; beams are reordered and assistants draft by themselves, so leave out one of the two"
        )
    if cache is None or not config.use_cache or isinstance(cache, StaticCache) or not hasattr(cache, "crop"):
        given = "none" if cache is None else type(cache).__name__
        raise ValueError(
            f"draft: needs a cache that can be cropped ({given} given); leave out use_cache and cache_implementation"
        )
    if model._is_stateful:
        raise ValueError(
            f"draft: {type(model.backbone).__name__} keeps a state that read all words before, and rejected ones "
            "cannot be taken out of it; leave out the draft"
        )
    extra = next((name for name in _EXTRAS if getattr(config, name, False)), None)
    if extra is not None:
        raise ValueError(f"draft: {extra} is not kept of drafted words; leave out one of the two")
    if arguments.get("inputs_embeds") is not None:
        raise ValueError("draft: needs the words of the prompt (inputs_embeds given); give input_ids")
    for processor in processors:
        if isinstance(processor, _EVERY_STEP) or (texts > 1 and isinstance(processor, _BY_ROW)):
            one = "" if isinstance(processor, _EVERY_STEP) else ", or write one text at a time"
            raise ValueError(
                f"draft: {type(processor).__name__} must see every step of all texts together; leave it out{one}"
            )
    if streamer is not None and texts > 1:
        raise ValueError(f"draft: a streamer takes one text at a time ({texts} given); leave out the streamer")
