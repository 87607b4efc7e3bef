"""Extends transformers' generation with the inputs of a head: source tokens, mask of new tokens, head cache."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from nextword.heads import head_spec
from nextword.model.conditioned_model import Conditioned
from nextword.model.forward.argument_checks import expect_ids, expect_known_ids, expect_not_empty, expect_one_text
from nextword.model.forward.backbone import too_long
from nextword.model.forward.forward_batch import AUXILIARY_ARGUMENTS, step_mask
from nextword.model.head_cache.kv_cache import attach_head_cache, decoder_cache, head_cache_of, kv_length
from nextword.model.speculative_decoding.speculative_decoding import speculative_decoding_of
from nextword.model.speculative_decoding.speculative_loop import SpeculativeLoop
from nextword.model.speculative_decoding.token_choice import RedrawProcessor
from nextword.runtime.pretrained import encoder_config

logger = logging.getLogger(__name__)


class HeadGeneration(Conditioned):
    """Overrides some methods of transformers' generation, so that ``generate`` works with a head and with drafts."""

    # length of the static cache in the call before, from which transformers decides whether to make a new cache
    _previous_max_cache_length: int = -1

    def _refuse_head_cache_without_kv_cache(self) -> None:
        if self.next_word_head.remembers and self._why_no_head_cache:
            raise ValueError(
                f"{type(self.backbone).__name__} {self._why_no_head_cache}, so the state of head "
                f"'{head_spec(self.next_word_head.config)}' cannot be stored; use a head without state (softmax, mos)"
            )

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        next_sequence_length: int | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        is_first_iteration: bool | None = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Returns the backbone's inputs for the next pass, with ``step_mask`` and ``step_ids`` (see ``forward``)."""
        # the backbone may replace the 2-D mask by a 4-D mask, or drop a mask of ones, so the 2-D mask is kept here
        seq2seq = self.config.is_encoder_decoder
        mask = kwargs.get("decoder_attention_mask") if seq2seq else attention_mask
        if self._cache_argument in kwargs:
            past_key_values = kwargs.pop(self._cache_argument)
        prepared: dict[str, Any] = self.backbone.prepare_inputs_for_generation(
            input_ids,
            next_sequence_length=next_sequence_length,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            is_first_iteration=is_first_iteration,
            **{self._cache_argument: past_key_values},
            **kwargs,
        )
        ids = prepared.get("decoder_input_ids" if seq2seq else "input_ids")
        new = (ids if ids is not None else prepared["inputs_embeds"]).shape[1]
        if mask is not None and mask.ndim == 2:
            prepared["step_mask"] = step_mask(mask, new)
        elif mask is None and getattr(past_key_values, "is_compileable", False):
            prepared["step_mask"] = input_ids.new_ones(input_ids.shape[0], new)
        if ids is None and input_ids.shape[1] == new:
            prepared["step_ids"] = input_ids
        head_cache = head_cache_of(past_key_values)
        if not is_first_iteration and head_cache is not None and head_cache.knows_source:
            # the cache has the values computed from an auxiliary text, so later steps need not compare the text again
            prepared = {name: given for name, given in prepared.items() if name not in AUXILIARY_ARGUMENTS}
        return prepared

    def _validate_model_kwargs(self, model_kwargs: dict[str, Any]) -> None:
        # arguments that our forward does not name must be arguments of the backbone (token_type_ids)
        ours = inspect.signature(self.forward).parameters
        self.backbone._validate_model_kwargs({name: given for name, given in model_kwargs.items() if name not in ours})

    def _prepare_cache_for_generation(
        self,
        generation_config: Any,
        model_kwargs: dict[str, Any],
        generation_mode: Any,
        batch_size: int,
        max_cache_length: int,
    ) -> None:
        # transformers decides by the model's class (Mamba's cache has another name, MiniMax makes its own), and some
        # classes override this method. So a copy of the backbone prepares the cache; the user's model is not changed.
        preparing = copy.copy(self.backbone)
        preparing._previous_max_cache_length = self._previous_max_cache_length
        preparing._prepare_cache_for_generation(
            generation_config, model_kwargs, generation_mode, batch_size, max_cache_length
        )
        self._previous_max_cache_length = preparing._previous_max_cache_length
        kv_cache = model_kwargs.get(self._cache_argument)
        if kv_cache is None or not self.carries_head_cache:
            return
        head_cache = head_cache_of(kv_cache) or attach_head_cache(kv_cache)
        if all(decoder_cache(kv_cache).is_sliding):
            # sliding windows do not show how many tokens the cache will get
            longest = max(int(head_cache.length) + max_cache_length, self._previous_max_cache_length)
            head_cache.reserve(longest)

    # some model classes override these methods of transformers: for position ids (Qwen2-VL, Reformer), for the results
    # of a step (Mllama), and for the values that are repeated for beams

    def _prepare_position_ids_for_generation(self, *args: Any, **kwargs: Any) -> Any:
        return self.backbone._prepare_position_ids_for_generation(*args, **kwargs)

    def _update_model_kwargs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
        return self.backbone._update_model_kwargs_for_generation(*args, **kwargs)

    def _expand_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
        return self.backbone._expand_inputs_for_generation(*args, **kwargs)

    def _supports_default_dynamic_cache(self) -> Any:
        return type(self.backbone)._supports_default_dynamic_cache()

    def _prefill(
        self, input_ids: Tensor, generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        # transformers counts the positions of a soft prefix as tokens of the text, so tokens already read are removed
        kv_cache: Any = model_kwargs.get(self._cache_argument)
        head_cache = head_cache_of(kv_cache)
        # transformers also does not know the length of a cache that does not count its positions
        uncounted = head_cache is not None and kv_cache is not None and kv_length(kv_cache) is None
        if head_cache is not None and (uncounted or (head_cache.virtual and kv_length(kv_cache))):
            mask = model_kwargs.get("attention_mask")
            whole = getattr(generation_config, "_mask_length", -1) if mask is None else mask.shape[1]
            if whole == input_ids.shape[1]:
                input_ids = input_ids[:, int(head_cache.length) :]
            if head_cache.virtual and generation_config.prefill_chunk_size is not None:
                raise ValueError("prefill_chunk_size: must be left out for a used cache with conditioner 'prefix'")
        # transformers repeats each prompt for its beams before reading it; here it is read once, then repeated
        copies = max(generation_config.num_beams or 1, generation_config.num_return_sequences or 1)
        once = copies > 1 and reads_prompts_once(kv_cache, generation_config, model_kwargs)
        if once:
            input_ids = input_ids[::copies]
            model_kwargs = {name: x[::copies] if isinstance(x, Tensor) else x for name, x in model_kwargs.items()}
        outputs = super()._prefill(  # type: ignore[misc]
            input_ids, generation_config, model_kwargs, *args, **kwargs
        )
        if once:
            # peft's prefix tuning replaces the given cache
            outputs.get(self._cache_argument, kv_cache).batch_repeat_interleave(copies)
            outputs.logits = outputs.logits.repeat_interleave(copies, dim=0)
        return outputs

    def _maybe_prepare_encoder_kwargs_for_generation(
        self, inputs_tensor: Tensor, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        given = "encoder_outputs" in model_kwargs or inputs_tensor.is_floating_point()
        if self.config.is_encoder_decoder and not given:
            source = expect_ids("input_ids", inputs_tensor, vectors="inputs_embeds")
            expect_not_empty(source)
            expect_known_ids("input_ids", source, self.backbone.get_input_embeddings().weight.shape[0])
        words = {"source_ids": model_kwargs["source_ids"]} if "source_ids" in model_kwargs else {}
        if self.next_word_head.reads_source and not words:
            # if only the encoder's outputs are given, transformers sets the tokens to -100
            if inputs_tensor.is_floating_point() or bool((inputs_tensor < 0).any()):
                raise ValueError(
                    f"head '{head_spec(self.next_word_head.config)}' reads the source's tokens: pass input_ids, or "
                    "source_ids beside inputs_embeds or encoder_outputs"
                )
            words = {"source_ids": inputs_tensor}
        prepared: dict[str, Any]
        try:
            prepared = super()._maybe_prepare_encoder_kwargs_for_generation(  # type: ignore[misc]
                inputs_tensor,
                {name: given for name, given in model_kwargs.items() if name not in words},
                *args,
                **kwargs,
            )
        except IndexError as fault:
            message = too_long(encoder_config(self.config), inputs_tensor.shape[1])
            if message is None:
                raise
            raise ValueError(message) from fault
        # generation keeps the encoder's states but not its tokens; added here, tokens are repeated for beams as well
        return prepared | words

    def _prepare_generation_config(self, generation_config: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        # arguments of the head for ``generate`` are stored in the configuration, next to transformers' settings
        given = {name: kwargs.pop(name) for name in self.next_word_head.generate_takes if name in kwargs}
        expect_one_text(kwargs)
        if "past_key_values" in kwargs:
            kwargs[self._cache_argument] = kwargs.pop("past_key_values")
        ids = kwargs.pop("aux_input_ids", None)
        if ids is not None:  # the text is encoded once, before rows are repeated for beams
            kwargs["aux_states"] = self.encode(ids, kwargs.get("aux_attention_mask"))
        prepared, rest = super()._prepare_generation_config(generation_config, **kwargs)  # type: ignore[misc]
        if self.conditioner is not None and (prepared.guidance_scale or 1) != 1:
            raise ValueError(
                "guidance_scale: must be 1 with a conditioner; it runs the model without inputs, but the model needs "
                "auxiliary text; leave it out"
            )
        prepared.head_settings = given
        if given and (prepared.num_beams or 1) > 1:
            logger.warning("%s: beam search takes the whole distribution, so it has no effect", ", ".join(given))
        return prepared, rest

    def generate(self, inputs: Any = None, *args: Any, draft: Any = None, **kwargs: Any) -> Any:
        """Transformers' ``generate``, with speculative decoding if ``draft`` is given (docs/drafting.md).

        Args:
            inputs: Prompt ids, as in transformers.
            *args: Further arguments of transformers' ``generate``.
            draft: Source of several proposed next tokens, which the model verifies in one pass: "head" (the tokens
                after the position from which a copying head copied the last token), "prompt" (the tokens after an
                earlier occurrence of the last token), another model, or a ``nextword.SpeculativeDecoding``. Greedy
                texts are the same as without a draft, and sampled texts have the same distribution. Exception: if
                another model drafts, ``f2`` uses its full distribution. None: every pass generates one token.
            **kwargs: Further arguments of transformers' ``generate``.

        Raises:
            ValueError: If ``draft`` has another value, or is combined with beam search, ``custom_generate`` or
                ``assistant_model``.
        """
        if draft is None:
            return super().generate(inputs, *args, **kwargs)  # type: ignore[misc]
        given = next((name for name in ("custom_generate", "assistant_model") if kwargs.get(name) is not None), None)
        if given is not None:
            raise ValueError(f"draft: must be the only loop of generate ({given} given); leave out one of the two")
        decoding = speculative_decoding_of(draft)
        if decoding is None:
            return super().generate(inputs, *args, assistant_model=draft, **kwargs)  # type: ignore[misc]
        loop = SpeculativeLoop(decoding, streamer=kwargs.get("streamer"))
        return super().generate(inputs, *args, custom_generate=loop, **kwargs)  # type: ignore[misc]

    def _sample(
        self, input_ids: Tensor, logits_processor: Any, stopping_criteria: Any, generation_config: Any, **kwargs: Any
    ) -> Any:
        draw = self.head_draw(generation_config)
        if draw is not None:
            kwargs["draw"] = draw
            logits_processor = LogitsProcessorList([RedrawProcessor(draw, logits_processor)])
            generation_config.disable_compile = True  # the sizes of tensors depend on the head's choice
        return super()._sample(  # type: ignore[misc]
            input_ids, logits_processor, stopping_criteria, generation_config, **kwargs
        )

    def _get_candidate_generator(self, *args: Any, **kwargs: Any) -> Any:
        assistant = kwargs.get("assistant_model")
        config = args[0] if args else kwargs["generation_config"]
        if self.head_draw(config) is not None:  # transformers' loop for drafts does not call ``_sample``
            logger.warning(
                "generate: with drafts of a model or of prompt_lookup_num_tokens, tokens are chosen from the full "
                "distribution, not from a class (decoupled decoding); draft='prompt' keeps decoupled decoding"
            )
        if getattr(getattr(assistant, "conditioner", None), "virtual", 0):
            raise ValueError(
                "generate: a model with conditioner 'prefix' cannot assist another, as the prefix is in its KV cache"
            )
        if assistant is not None and getattr(assistant, "conditioner", None) is None:
            kept = {"source_ids"} if isinstance(assistant, HeadGeneration) else set()
            ours = {"source_ids", *AUXILIARY_ARGUMENTS} - (kept if self.conditioner is None else set())
            kwargs["model_kwargs"] = {k: v for k, v in kwargs["model_kwargs"].items() if k not in ours}
        return super()._get_candidate_generator(*args, **kwargs)  # type: ignore[misc]


# -- Reading each prompt once, although it is continued several times.

# arguments with a row per text, or one value for all texts; others may say something about each copy (``draw``)
_OF_A_TEXT = {"attention_mask", "position_ids", "token_type_ids", "source_ids", *AUXILIARY_ARGUMENTS}
_OF_A_TEXT |= {"use_cache", "logits_to_keep"}


def reads_prompts_once(kv_cache: Any, generation_config: Any, model_kwargs: Mapping[str, Any]) -> bool:
    """Whether ``_prefill`` may read one copy of each prompt, and repeat what it computes.

    That is possible if it computes only logits, and keys and values of an empty cache whose layers can be repeated.
    """
    given = {name for name, value in model_kwargs.items() if value is not None and value is not kv_cache}
    layers: Any = getattr(kv_cache, "layers", [])
    positions = model_kwargs.get("position_ids")
    return (
        type(kv_cache) is DynamicCache
        and not kv_cache.offloading
        and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)
        and not any(layer.is_initialized for layer in layers)
        and given <= _OF_A_TEXT
        and (positions is None or positions.ndim == 2)
        and generation_config.prefill_chunk_size is None
        and not (generation_config.output_attentions or generation_config.output_hidden_states)
    )


# -- Generation without the constraints in a pretrained model's own settings.

# the only settings that are kept, because other settings would change the distribution of the texts
_SPECIAL_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id")


@contextmanager
def unconstrained_generation(model: Any, *, stops: bool = True, **settings: Any) -> Iterator[None]:
    """In this block ``model.generate`` uses ``settings`` (of ``GenerationConfig``) instead of the model's own settings.

    Of the model's own settings only the special tokens are kept. The others are removed for this block, because
    ``generate`` would use them where ``settings`` has no value. If ``stops`` is false, the end token is removed too, so
    that no text ends at it.
    """
    own = model.generation_config
    special = {name: getattr(own, name, None) for name in _SPECIAL_TOKENS if stops or name != "eos_token_id"}
    model.generation_config = GenerationConfig(**special, **settings)
    try:
        yield
    finally:
        model.generation_config = own
