"""The wrapped models: an unmodified backbone, a head in place of its output distribution, an objective."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationMixin, PreTrainedModel
from transformers.modeling_utils import slice_logits_to_keep

from nextword.conditioning.encoder import POOLER, width_of
from nextword.config import validated
from nextword.context import Context, Layout
from nextword.distribution import NextToken, Vocabulary
from nextword.heads import Dimensions, head_spec, parse_head
from nextword.heads import registry as heads
from nextword.heads.head import Draw
from nextword.model.conditioned import Conditioned
from nextword.model.config import NextWordConfig, NextWordSeq2SeqConfig
from nextword.model.continuation import decoder_side, expect_room, prefixes_of
from nextword.model.generation import HeadGeneration
from nextword.model.inputs import DecoderInputs, expect_known_ids
from nextword.model.observe import Observation, observe
from nextword.model.vocabulary import OutputLayer, prove_output_layer
from nextword.objectives import Loss, parse_objective
from nextword.objectives import registry as objectives

_IGNORED_LABEL = -100


class NextWordModel(HeadGeneration, Conditioned, PreTrainedModel):
    """What both wrapped models share; use :class:`NextWordForCausalLM` or :class:`NextWordForSeq2SeqLM`.

    Args:
        config: Backbone, head and objective.
        backbone: The model to wrap; built from the configuration where it is None.
        encoder: The encoder of auxiliary texts; built from the configuration where it is None and one is needed.

    Raises:
        ValueError: Head, objective, conditioner and backbone do not go together; the message says why.
    """

    base_model_prefix = "backbone"
    supports_gradient_checkpointing = True
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True
    _can_compile_fullgraph = True
    _keys_to_ignore_on_load_missing = [rf"auxiliary_encoder\.{POOLER}"]  # noqa: RUF012  (as transformers declares it)
    _auto_class_of_backbone: ClassVar[Any]

    def __init__(
        self, config: Any, backbone: PreTrainedModel | None = None, encoder: PreTrainedModel | None = None
    ) -> None:
        super().__init__(config)
        new = self._auto_class_of_backbone.from_config
        self.backbone: Any = new(config.text_config) if backbone is None else backbone
        self.next_word_head: Any = self._new_head(config.head)
        self._new_conditioner(encoder, self._dimensions())
        self.objective = self._new_objective(config.objective)
        self.loss_parts: dict[str, Tensor] = {}
        """Detached terms of the last loss."""
        parameters = inspect.signature(self.backbone.forward).parameters
        self._accepts = frozenset(parameters)
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            # some models take these through **kwargs only (GraniteMoe and use_cache)
            self._accepts |= {"use_cache", "inputs_embeds", "attention_mask"}
        self._is_stateful = self.backbone._is_stateful
        self.loss_type = "ForCausalLM"  # Trainer counts shifted labels by it
        self.post_init()
        if getattr(self.backbone, "generation_config", None) is not None:
            self.generation_config = self.backbone.generation_config
        self._refuse_history_without_cache()

    def _new_head(self, spec: Any) -> nn.Module:
        config = parse_head(spec)
        head = heads.get(config.head)(config, self._dimensions())
        self.config.head = head.config.model_dump()  # building may have filled something in
        return head

    def _new_objective(self, spec: Any) -> Any:
        config = parse_objective(spec)
        expect_room(self.config, config.seq)
        objective = objectives.get(config.objective)(config, self._dimensions())
        objective.check(self.next_word_head)
        return objective.train(self.training).to(self.get_output_embeddings().weight.device)

    def _dimensions(self) -> Dimensions:
        decoder = self.config.text_config.get_text_config(decoder=True)
        source = width_of(self.config.auxiliary_encoder["config"]) if self.config.conditioner else None
        if self.config.is_encoder_decoder:
            source = self.config.text_config.get_text_config(encoder=True).hidden_size
        vocabulary = OutputLayer(self.backbone)
        layers = getattr(decoder, "num_decoder_layers", None) or getattr(decoder, "decoder_layers", None)
        return Dimensions(
            hidden=vocabulary.width,
            layer=decoder.hidden_size,
            layers=layers or decoder.num_hidden_layers,
            vocab_size=vocabulary.size,
            source=source,
            auxiliary=not self.config.is_encoder_decoder,
        )

    def _init_weights(self, module: nn.Module) -> None:
        # the backbone initialises itself; of the head, whatever a checkpoint did not fill
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()

    # -- what transformers asks of a model, answered by the backbone

    def get_input_embeddings(self) -> Any:
        """The backbone's."""
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """The backbone's."""
        self.backbone.set_input_embeddings(value)

    def get_output_embeddings(self) -> Any:
        """The backbone's."""
        return self.backbone.get_output_embeddings()

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """The backbone's."""
        self.backbone.set_output_embeddings(new_embeddings)

    def get_encoder(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's."""
        return self.backbone.get_encoder(*args, **kwargs)

    def get_decoder(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's."""
        return self.backbone.get_decoder(*args, **kwargs)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Any:
        """The backbone's (encoder-decoder models)."""
        return self.backbone.prepare_decoder_input_ids_from_labels(labels)

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> Any:
        """The backbone's; the head follows."""
        embeddings = self.backbone.resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        self.next_word_head.resized(OutputLayer(self.backbone).size)
        self.config.head = self.next_word_head.config.model_dump()
        if self.conditioner is not None:
            self.conditioner.resized(OutputLayer(self.backbone).size)
        self.vocab_size = self.config.get_text_config(decoder=True).vocab_size
        self.objective.resize_vocabulary(OutputLayer(self.backbone).size)
        return embeddings

    # -- the head

    def configure_head(self, **changes: Any) -> None:
        """Changes evaluation-time settings of the head, for example ``configure_head(temperature=1.2)``.

        Raises:
            ValueError: Unknown setting, or one that cannot change after the head is built.
        """
        config = self.next_word_head.config
        fixed = sorted(set(changes) - self.next_word_head.adjustable)
        changed = validated(type(config), config.model_dump() | changes, "head")
        if fixed:
            allowed = ", ".join(sorted(self.next_word_head.adjustable)) or "none"
            raise ValueError(f"head.{fixed[0]}: cannot change once the head is built; adjustable: {allowed}")
        self.next_word_head.config = changed
        self.config.head = changed.model_dump()

    def set_objective(self, objective: Any) -> None:
        """Trains towards another objective from now on.

        Raises:
            ValueError: Unknown objective, or one that makes no sense with the head.
        """
        self.objective = self._new_objective(objective)
        self.config.objective = self.objective.config.model_dump()

    def _context(self, seen: Observation, layout: Layout, places: Tensor, of: Callable[[Tensor], Tensor]) -> Context:
        """The context at some places, with what gives their rows of (B, T, ...)."""
        output_layer: Vocabulary = seen.output_layer
        if seen.auxiliary is not None:
            output_layer = self.conditioner.output_layer(output_layer, seen.auxiliary.conditioner)
        return Context(
            states=(states := of(seen.states)),
            inputs=states if seen.inputs is seen.states else of(seen.inputs),
            position=places + seen.past,
            layout=layout,
            output_layer=output_layer,
            memory=seen.memory,
            source=seen.source,
            input_embedding=self.get_input_embeddings().weight,
            output_embedding=self.get_output_embeddings().weight,
        )

    def _context_at(self, seen: Observation, positions: Bool[Tensor, "B T"]) -> Context:
        row, places = positions.nonzero(as_tuple=True)
        return self._context(seen, Layout(row, len(positions)), places, lambda of_all: of_all[row, places])

    def _context_to_keep(self, seen: Observation, keep: int | Tensor) -> Context:
        batch, length, _ = seen.states.shape
        places = torch.arange(length, device=seen.states.device)
        if isinstance(keep, Tensor):
            kept = slice_logits_to_keep(places.expand(batch, -1)[..., None], keep)[..., 0]
            layout = Layout.full(batch, kept.shape[1], kept.device)
            return self._context(seen, layout, kept.flatten(), lambda of_all: of_all[layout.row, kept.flatten()])
        # the same last places of every sequence are cut out, not looked up one by one
        last = slice(-keep, None)
        layout = Layout.full(batch, len(places[last]), places.device)
        return self._context(seen, layout, places[last].repeat(batch), lambda of_all: of_all[:, last].flatten(0, 1))

    def context(self, inputs: dict[str, Any]) -> Context:
        """What the head is given at every position of these inputs of :meth:`forward`, row after row."""
        return self._context_to_keep(observe(self, inputs), 0)

    def _prove_once(self) -> None:
        if self.config.state_scale is None:
            self.config.state_scale = prove_output_layer(self.backbone)

    def distribution(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        positions: Bool[Tensor, "B T"] | None = None,
        mode: str | None = None,
        **inputs: Any,
    ) -> NextToken:
        """The next-word distribution, as an object to ask.

        Args:
            input_ids: Tokens (B, T); the source (B, E) of an encoder-decoder model.
            attention_mask: 1 for tokens, 0 for padding.
            positions: Which positions to keep, in row-major order; all B * T by default. The distribution at a
                position is that of the token after it.
            mode: What to evaluate, one of the head's ``modes``; by default what the head is set to.
            **inputs: Further arguments of :meth:`forward`, such as ``decoder_input_ids``.

        Raises:
            ValueError: Unknown mode, or inputs that do not fit.
        """
        modes = self.next_word_head.modes
        if mode is not None and mode not in modes:
            raise ValueError(f"mode '{mode}': head '{head_spec(self.next_word_head.config)}' has {', '.join(modes)}")
        self._prove_once()
        seen = observe(self, dict(input_ids=input_ids, attention_mask=attention_mask, **inputs))
        if positions is not None and positions.shape != seen.states.shape[:2]:
            raise ValueError(f"positions: shape {tuple(positions.shape)}, expected {tuple(seen.states.shape[:2])}")
        context = self._context_to_keep(seen, 0) if positions is None else self._context_at(seen, positions)
        distribution: NextToken = self.next_word_head(context, mode=mode)
        return distribution

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        source_ids: Tensor | None = None,
        aux_input_ids: Tensor | None = None,
        aux_attention_mask: Tensor | None = None,
        aux_states: Tensor | None = None,
        source_places: Tensor | None = None,
        step_mask: Tensor | None = None,
        step_ids: Tensor | None = None,
        return_logits: bool | None = None,
        draw: Draw | None = None,
        **kwargs: Any,
    ) -> Any:
        """One pass of the backbone, and the head's distribution or its loss.

        Arguments not named here are those of the backbone, with the meaning they have there.

        Args:
            input_ids: Tokens (B, T); the source (B, E) of an encoder-decoder model.
            attention_mask: 1 for tokens, 0 for padding.
            position_ids: As in the backbone.
            past_key_values: KV cache; the head's memory rides in it.
            inputs_embeds: Embeddings instead of ids. Heads that remember tokens know nothing of such places.
            decoder_input_ids: Decoder's tokens (B, T); made from the labels where they are missing.
            decoder_attention_mask: 1 for the decoder's tokens, 0 for padding.
            encoder_outputs: The encoder's outputs, where they are known already.
            decoder_inputs_embeds: Embeddings instead of the decoder's ids.
            labels: Targets, -100 where none: the input ids themselves for a decoder-only model (they are shifted here),
                the decoder's targets for an encoder-decoder model. Targets at padding do not count.
            use_cache: Whether to return a cache.
            logits_to_keep: Last positions (or which) to return logits for; 0 for all.
            source_ids: The source's tokens where ``encoder_outputs`` are given instead of ``input_ids``; with a
                conditioner the auxiliary text in the decoder's tokens (B, S), for heads that copy its words.
            aux_input_ids: With a conditioner the auxiliary text in its encoder's tokens (B, A).
            aux_attention_mask: 1 for its tokens, 0 for padding.
            aux_states: Its states (B, A, E) in place of its tokens, from :meth:`encode`.
            source_places: For each of ``source_ids`` the place among the auxiliary tokens whose state stands for it, -1
                at padding; :class:`nextword.AuxiliaryTokenizer` makes all of these.
            step_mask: Padding mask of the new tokens, set by generation.
            step_ids: Tokens behind ``inputs_embeds``, set by generation.
            return_logits: Whether to make the (B, T, V) logits. By default they are made except in training with
                labels, where nobody reads them.
            draw: The head's way to draw step by step, set by generation; ``logits`` are then those of the last place
                after its choice.
            **kwargs: Further arguments of the backbone; ``num_items_in_batch`` divides the summed loss in place of the
                number of targets (gradient accumulation).

        Returns:
            The backbone's output class. ``logits`` are normalised log-probabilities; with plain ``softmax`` they are
            the backbone's own scores. ``loss`` is in nats per target.

        Raises:
            ValueError: Empty prompt, ids outside the vocabulary, a text beyond the model's positions, a cache that was
                changed behind the head's back.
        """
        self._prove_once()
        total_items, return_dict = kwargs.pop("num_items_in_batch", None), kwargs.pop("return_dict", True)
        inputs = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "past_key_values": past_key_values,
            "inputs_embeds": inputs_embeds,
            "decoder_input_ids": decoder_input_ids,
            "decoder_attention_mask": decoder_attention_mask,
            "encoder_outputs": encoder_outputs,
            "decoder_inputs_embeds": decoder_inputs_embeds,
            "labels": labels,
            "use_cache": use_cache,
            "source_ids": source_ids,
            "aux_input_ids": aux_input_ids,
            "aux_attention_mask": aux_attention_mask,
            "aux_states": aux_states,
            "source_places": source_places,
            "step_mask": step_mask,
            "step_ids": step_ids,
        }
        seen, loss = self._observed(inputs | kwargs, labels)
        fields = {name: value for name, value in seen.outputs.items() if name not in seen.unwanted}
        if loss is not None:
            self.loss_parts = loss.parts
            fields["loss"] = loss.total / (max(loss.tokens, 1) if total_items is None else total_items)
        if (labels is None or not self.training) if return_logits is None else return_logits:
            kept = self._context_to_keep(seen, logits_to_keep if draw is None else 1)
            distribution = self.next_word_head(kept)
            logits = self.next_word_head.logits(distribution) if draw is None else draw(distribution)
            fields["logits"] = logits.unflatten(0, (len(seen.states), -1))
        outputs = type(seen.outputs)(**fields)
        return outputs.to_tuple() if return_dict is False else outputs

    def _observed(self, inputs: dict[str, Any], labels: Tensor | None) -> tuple[Observation, Loss | None]:
        """One pass, and the loss where there are labels; in a sequence update both are of what the model writes."""
        if labels is None:
            return observe(self, inputs), None
        prefixes = prefixes_of(self, inputs) if self.training else None
        if prefixes is not None:
            _, targets = self._targets(decoder_side(self, inputs, labels), labels)
            return prefixes.update(self, int((targets != _IGNORED_LABEL).sum()))
        seen = observe(self, inputs)
        labels, targets = self._targets(seen.decoder, labels)
        counted = targets != _IGNORED_LABEL
        context = self._context_at(seen.with_labels(labels), counted)
        return seen, self.objective(self.next_word_head, context, targets[counted])

    def _targets(self, decoder: DecoderInputs, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The labels without those of padding, and what each position has to predict."""
        if labels.shape != decoder.ids.shape:
            raise ValueError(
                f"labels: shape {tuple(labels.shape)}, expected that of the tokens, {tuple(decoder.ids.shape)}"
            )
        labels = labels.masked_fill(~decoder.valid, _IGNORED_LABEL)
        expect_known_ids("labels", labels, OutputLayer(self.backbone).size, ignored=_IGNORED_LABEL)
        if self.config.is_encoder_decoder:
            return labels, labels
        # the state at a place predicts the token after it
        return labels, nn.functional.pad(labels[:, 1:], (0, 1), value=_IGNORED_LABEL)

    def extra_repr(self) -> str:
        """The head spec."""
        return f"head={head_spec(self.next_word_head.config)}"


class NextWordForCausalLM(NextWordModel, GenerationMixin):  # type: ignore[misc]  # bool or None, says transformers
    """A decoder-only language model with a head of ours; made by :func:`nextword.attach`."""

    config_class = NextWordConfig
    _auto_class_of_backbone = AutoModelForCausalLM


class NextWordForSeq2SeqLM(NextWordModel, GenerationMixin):  # type: ignore[misc]
    """An encoder-decoder language model with a head of ours; made by :func:`nextword.attach`."""

    config_class = NextWordSeq2SeqConfig
    _auto_class_of_backbone = AutoModelForSeq2SeqLM
