"""The wrapped models: an unmodified backbone, a head that computes the output distribution, and an objective."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import transformers
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationMixin, PreTrainedModel

from nextword.conditioning.auxiliary_encoder import width_of
from nextword.distribution import NextToken
from nextword.functional.padding import IGNORED_LABEL
from nextword.heads import Dimensions, build_head, head_spec, parse_head
from nextword.heads.context import Context
from nextword.heads.head import Draw
from nextword.model.configuration import NextWordConfig, NextWordSeq2SeqConfig
from nextword.model.continuous_batching import ContinuousBatching
from nextword.model.forward.argument_checks import expect_chosen
from nextword.model.forward.backbone import BackboneOutput, read_auxiliary, router_loss, run_backbone
from nextword.model.forward.forward_batch import ForwardBatch, forward_batch
from nextword.model.forward.head_inputs import HeadInputs, PackedInputs, head_inputs
from nextword.model.forward.output_layer import expect_layers, state_width, validate_output_layer, vocabulary_size
from nextword.model.forward.packing import LOSS, SEQUENCE_UPDATE, outside_graph
from nextword.model.generation import HeadGeneration
from nextword.model.head_cache.kv_cache import LongMemory, cache_argument, why_no_head_cache
from nextword.model.registration import list_by_name
from nextword.model.sequence_update import expect_room, prefixes_of, write_greedily
from nextword.model.training_modes import as_in_evaluation
from nextword.model.transformers_mixin import TransformersMixin
from nextword.objectives import Loss, parse_objective
from nextword.objectives import registry as objectives
from nextword.objectives.objective import with_known_logits
from nextword.runtime.devices import device_of
from nextword.runtime.pretrained import encoder_config, wordless_tokens


class NextWordModel(TransformersMixin, HeadGeneration, ContinuousBatching):
    """Base class of ``NextWordForCausalLM`` and ``NextWordForSeq2SeqLM``.

    Args:
        config: Configuration of the backbone, the head, the objective and the conditioner.
        backbone: The model to wrap; None: built from ``config``, without trained weights.
        encoder: The encoder of auxiliary texts; None: built from ``config`` if it has a conditioner.

    Raises:
        ValueError: If head, objective, conditioner and backbone cannot be combined; the message says why.
    """

    base_model_prefix = "backbone"
    supports_gradient_checkpointing = True
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True
    _can_compile_fullgraph = True
    _auto_class_of_backbone: ClassVar[Any]

    def __init__(
        self, config: Any, backbone: PreTrainedModel | None = None, encoder: PreTrainedModel | None = None
    ) -> None:
        super().__init__(config)
        self.backbone = self._new_backbone(config) if backbone is None else backbone
        self.next_word_head = build_head(parse_head(config.head), self._dimensions())
        config.head = self.next_word_head.config.model_dump()  # the constructor may have set missing values
        self._new_conditioner(encoder, self._dimensions())
        self.objective = self._new_objective(config.objective)
        self.state_scale: float | None = config.state_scale
        """Factor from the configuration. If it is None, it is measured before the first pass."""
        self.loss_parts: dict[str, Tensor] = {}
        """Terms of the last loss, detached."""
        parameters = inspect.signature(self.backbone.forward).parameters
        self._accepts = frozenset(parameters)
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            # some models accept these only through **kwargs, for instance GraniteMoe its use_cache
            self._accepts |= {"use_cache", "inputs_embeds", "attention_mask"}
        self._cache_argument = cache_argument(self.backbone) or "past_key_values"
        self._why_no_head_cache = why_no_head_cache(self.backbone)
        self._parts_texts: dict[str, bool] = {}
        self._wordless = wordless_tokens(config.text_config)
        self._is_stateful = self.backbone._is_stateful
        self.loss_type = "ForCausalLM"  # tells Trainer to count shifted labels
        self.post_init()
        if getattr(self.backbone, "generation_config", None) is not None:
            self.generation_config = copy.deepcopy(self.backbone.generation_config)
        self._refuse_head_cache_without_kv_cache()
        if backbone is not None:
            expect_layers(self.backbone, self.next_word_head.layers)

    @classmethod
    def knows(cls, config: Any) -> bool:
        """Whether the Auto class of transformers has a model class for the backbone's configuration ``config``."""
        return type(config) in cls._auto_class_of_backbone._model_mapping

    def _new_backbone(self, config: Any) -> Any:
        if config.backbone_class is None:
            return self._auto_class_of_backbone.from_config(config.text_config)
        return getattr(transformers, config.backbone_class)._from_config(config.text_config)

    def _new_objective(self, spec: Any) -> Any:
        config = parse_objective(spec)
        expect_room(self.config, config.seq)
        objective = objectives.get(config.objective)(config, self._dimensions())
        objective.check(self.next_word_head)
        return objective.train(self.training).to(device_of(self.get_output_embeddings()))

    def _dimensions(self) -> Dimensions:
        decoder = self.config.text_config.get_text_config(decoder=True)
        source = width_of(self.config.auxiliary_encoder["config"]) if self.config.conditioner else None
        if self.config.is_encoder_decoder:
            source = encoder_config(self.config.text_config).hidden_size
        longest = getattr(decoder, "max_position_embeddings", None)
        layers = getattr(decoder, "num_decoder_layers", None)  # T5's name; transformers maps the names of other models
        return Dimensions(
            hidden=state_width(self.backbone),
            layer=decoder.hidden_size,
            layers=layers or decoder.num_hidden_layers,
            vocab_size=vocabulary_size(self.backbone),
            source=source,
            auxiliary=not self.config.is_encoder_decoder,
            **({"longest": longest} if longest else {}),
        )

    def configure_head(self, **changes: Any) -> None:
        """Changes head settings that may change after training, for example ``configure_head(temperature=1.2)``.

        Raises:
            ValueError: If a setting is unknown or cannot be changed after the head is built.
        """
        self.next_word_head.configure(changes)
        self.config.head = self.next_word_head.config.model_dump()

    def set_objective(self, objective: Any) -> None:
        """Changes the training objective.

        Raises:
            ValueError: If the objective is unknown or does not work with the head.
        """
        self.objective = self._new_objective(objective)
        self.config.objective = self.objective.config.model_dump()

    def context(self, inputs: dict[str, Any]) -> Context:
        """The head's input at every position, row by row. ``inputs`` maps argument names of ``forward`` to values."""
        return self._run(self._batch(inputs))[1].last(0)

    def _batch(self, arguments: Mapping[str, Any]) -> ForwardBatch:
        if self.state_scale is None:
            self.state_scale = validate_output_layer(self.backbone)
        return forward_batch(self, arguments)

    def _run(self, batch: ForwardBatch) -> tuple[BackboneOutput, HeadInputs | PackedInputs]:
        auxiliary = read_auxiliary(self, batch)
        run = run_backbone(self, batch, auxiliary)
        return run, head_inputs(self, batch, auxiliary, run)

    @outside_graph(LOSS)
    def _loss(self, for_head: Any, targets: Tensor, logits: Tensor | None, total_items: Any, routers: Any) -> Tensor:
        # ``logits`` are the logits of all positions, or None
        counted = _numbers_of(targets != IGNORED_LABEL)
        head, context = self.next_word_head, for_head.at(counted)
        if logits is not None:
            head = with_known_logits(head, context, logits, for_head.among_all(counted))
        return self._divided(self.objective(head, context, targets.flatten()[counted]), total_items, routers)

    @outside_graph(SEQUENCE_UPDATE)
    def _sequence_update(
        self, batch: ForwardBatch, total_items: Any
    ) -> tuple[BackboneOutput, HeadInputs, Tensor] | None:
        """A pass on text that the model generates, with its loss. None if this step trains on the batch's tokens."""
        prefixes, targets, updates = prefixes_of(self, batch), batch.targets, self.objective.sequence
        if prefixes is None or targets is None or updates is None:
            return None
        with as_in_evaluation(self):
            continuations = write_greedily(self, prefixes)
            run, for_head = self._run(self._batch(continuations.arguments))
            assert isinstance(for_head, HeadInputs), "continuous batching trains nothing"
            context, count = for_head.at(_numbers_of(continuations.positions)), int((targets != IGNORED_LABEL).sum())
            loss = updates(self.next_word_head, context, continuations.written, count)
        return run, for_head, self._divided(loss, total_items, router_loss(self.backbone, run.outputs))

    def _divided(self, loss: Loss, total_items: Any, routers: Tensor | None) -> Tensor:
        """The mean loss over targets plus the router loss. The method also stores the terms of the loss."""
        mean = loss.total / (max(loss.tokens, 1) if total_items is None else total_items)
        if routers is None:
            self.loss_parts = loss.parts
            return mean
        self.loss_parts = loss.parts | {"router_loss": routers.detach()}
        return mean + routers.to(mean.device)

    def distribution(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        positions: Bool[Tensor, "B T"] | None = None,
        mode: str | None = None,
        **inputs: Any,
    ) -> NextToken:
        """The distributions of the next token at several positions, as one object with methods.

        Args:
            input_ids: Token ids, see ``forward``.
            attention_mask: 1 for tokens, 0 for padding, see ``forward``.
            positions: Mask, True at the positions to predict from. The result has one row per True, in row-major order:
                the distribution of the token after this position. None: all B * T positions.
            mode: One of the head's ``modes``; None: the mode in its settings.
            **inputs: Further arguments of ``forward``, such as ``decoder_input_ids``.

        Raises:
            ValueError: If the mode is unknown, or if ``forward`` would reject the inputs.
        """
        modes = self.next_word_head.modes
        if mode is not None and mode not in modes:
            raise ValueError(f"mode '{mode}': head '{head_spec(self.next_word_head.config)}' has {', '.join(modes)}")
        batch = self._batch({"input_ids": input_ids, "attention_mask": attention_mask, **inputs})
        if positions is not None:
            expect_chosen(positions, batch.ids.shape)
        _, for_head = self._run(batch)
        context = for_head.last(0) if positions is None else for_head.at(_numbers_of(positions))
        distribution = self.next_word_head(context, mode=mode)
        if not isinstance(distribution, NextToken):
            head, given = head_spec(self.next_word_head.config), type(distribution).__name__
            raise TypeError(
                f"head '{head}': forward must return a distribution such as SoftmaxDistribution ({given} given)"
            )
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
        source_positions: Tensor | None = None,
        memory: LongMemory | None = None,
        new_positions: Bool[Tensor, "B T"] | None = None,
        step_mask: Tensor | None = None,
        step_ids: Tensor | None = None,
        return_logits: bool | None = None,
        draw: Draw | None = None,
        ask: Callable[[NextToken], Tensor] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Runs the backbone, and computes ``logits`` of the head, ``loss``, or both.

        A token is a target if its own position and the position before, which predicts it, both hold a token. So a text
        has the same loss alone, padded on the left and padded on the right, and its first token is not a target. (In
        transformers' models padding on the left predicts the first token.) A token after a masked position inside the
        text is not a target either. Masks that are not 2-D do not define padding: with such a mask, give positions that
        are not targets the label -100. If a KV cache holds the beginning of the text, ``labels`` are those of the new
        tokens. The first new token is then not a target, because the earlier pass predicted it. If the objective has
        ``+seq``, some training steps instead generate continuations of the batch, and the loss is about these.

        Args:
            input_ids: Tokens (B, T); the source (B, E) of an encoder-decoder model.
            attention_mask: 1 for tokens, 0 for padding; a 2-D mask includes the positions in the KV cache.
            position_ids: The backbone's position ids. Give them with left padding if the backbone counts positions from
                the left end (GPT-2). Without them, padding changes the scores, as in transformers' model. If there is
                no mask and no KV cache, a new text begins wherever the ids do not increase by one. Texts of one row do
                not see or predict each other.
            past_key_values: KV cache of the earlier passes. The head's cache is an attribute of this object.
            inputs_embeds: Embeddings instead of ids. A head that stores tokens then does not know these tokens.
            decoder_input_ids: Decoder tokens (B, T); None: made from ``labels``.
            decoder_attention_mask: 1 for decoder tokens, 0 for padding. For left padding, pass ``decoder_input_ids``
                with the start token after the padding.
            encoder_outputs: The encoder's outputs, if already computed.
            decoder_inputs_embeds: Embeddings instead of the decoder's ids.
            labels: Targets, with -100 where there is no target. For a decoder-only model, give the input ids, which
                ``forward`` shifts. For an encoder-decoder model, give the decoder's targets.
            use_cache: Whether to return a cache.
            logits_to_keep: Number of last positions to return logits for (0: all positions), or a tensor of positions.
            source_ids: The source's tokens (B, E), for heads that copy from it, if ``input_ids`` are not given. With a
                conditioner: the auxiliary text in the decoder's tokens (B, S), for heads that copy from it.
            aux_input_ids: Auxiliary text (B, A) in the tokens of its encoder, for a model with a conditioner.
            aux_attention_mask: 1 for tokens of the auxiliary text, 0 for padding.
            aux_states: States (B, A, E) of the auxiliary text from ``encode``, instead of its tokens.
            source_positions: For each of ``source_ids`` the index (0 to A - 1) of the auxiliary token whose state
                represents it, or -1 at padding. ``nextword.AuxiliaryTokenizer`` makes all auxiliary inputs.
            memory: The head's cache (``LongMemory``) of a long text. The rows of the batch are the text's next windows,
                in order. Their new positions are added to ``memory``; ``logits`` have one row, with these positions.
            new_positions: Mask (B, T) of the positions that are not in ``memory`` yet and occur in no earlier row;
                None: all but padding.
            step_mask: Padding mask of the new tokens, set by generation.
            step_ids: Token ids of the positions in ``inputs_embeds``, set by generation.
            return_logits: Whether to compute the (B, T, V) logits. None: yes, except in training with labels, because
                the loss does not need them.
            draw: Object that chooses, for example, a class of tokens before each token; set by generation. ``logits``
                are then those of the last position, given this choice.
            ask: Function of the distribution, set by generation with drafts; ``logits`` are then its result.
            **kwargs: Further arguments of the backbone. ``shift_labels`` are targets that are already shifted: each is
                at the position that predicts it. Decoder-only models use them instead of ``labels``.
                ``num_items_in_batch`` is the divisor of the summed loss (gradient accumulation); by default it is the
                number of targets. Trainer sets it to the number of labels without -100 and without the first label of
                each row. So with left padding give the first token of each text the label -100.

        Returns:
            An instance of the backbone's output class. ``logits`` are normalised log-probabilities, or with the head
            ``softmax`` the backbone's own scores. ``loss`` is in nats per target. With ``output_router_logits``, given
            here or in the configuration, a mixture of experts adds its router loss to ``loss``, as without a head.

        Raises:
            ValueError: If there is no token, an id is outside the vocabulary (checked only on the CPU), a tensor has a
                wrong type or shape, the text exceeds the model's learned positions, or the KV cache was changed without
                the head's cache.
        """
        total_items, return_dict = kwargs.pop("num_items_in_batch", None), kwargs.pop("return_dict", True)
        arguments = {
            "input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids,
            "inputs_embeds": inputs_embeds, "past_key_values": past_key_values, "use_cache": use_cache,
            "labels": labels, "encoder_outputs": encoder_outputs, "decoder_input_ids": decoder_input_ids,
            "decoder_attention_mask": decoder_attention_mask, "decoder_inputs_embeds": decoder_inputs_embeds,
            "source_ids": source_ids, "source_positions": source_positions, "aux_input_ids": aux_input_ids,
            "aux_attention_mask": aux_attention_mask, "aux_states": aux_states, "memory": memory,
            "new_positions": new_positions, "step_mask": step_mask, "step_ids": step_ids, **kwargs,
        }  # fmt: skip
        batch = self._batch(arguments)
        targets = batch.targets
        writes_itself = targets is not None and self.training and self.objective.sequence is not None
        done = self._sequence_update(batch, total_items) if writes_itself else None
        run, for_head, loss = (*self._run(batch), None) if done is None else done
        logits = None
        if (targets is None or not self.training) if return_logits is None else return_logits:
            draw = draw or getattr(kwargs.get("cache"), "head_draw", None)  # continuous batching sets ``head_draw``
            logits = self._logits(for_head, draw, ask, logits_to_keep)
        if targets is not None and loss is None:
            asked = draw or ask or isinstance(logits_to_keep, Tensor) or logits_to_keep
            routers = router_loss(self.backbone, run.outputs)
            loss = self._loss(for_head, targets, None if asked else logits, total_items, routers)
        made = {name: tensor for name, tensor in (("loss", loss), ("logits", logits)) if tensor is not None}
        outputs = type(run.outputs)(**dict(run.outputs) | made)
        return outputs.to_tuple() if return_dict is False else outputs

    def _logits(self, for_head: Any, draw: Any, ask: Any, logits_to_keep: int | Tensor) -> Tensor:
        """The result of ``draw`` or ``ask``. If neither is given, the head's logits (B, T, V)."""
        chosen = draw is not None and not isinstance(logits_to_keep, Tensor)
        distribution = self.next_word_head(for_head.last(1 if chosen else logits_to_keep))
        answer: Callable[[NextToken], Tensor] = draw or ask or self.next_word_head.logits
        return answer(distribution).unflatten(0, (for_head.rows, -1))

    def extra_repr(self) -> str:
        """The head spec, which ``print`` shows for this module."""
        return f"head={head_spec(self.next_word_head.config)}"


def _numbers_of(positions: Bool[Tensor, "B T"]) -> Int[Tensor, "N"]:
    """Flat indices of the given positions. Counting them synchronises the GPU, once per step."""
    return positions.flatten().nonzero()[:, 0]


class NextWordForCausalLM(NextWordModel, GenerationMixin):  # type: ignore[misc]  # bool or None, says transformers
    """A decoder-only language model with a nextword head; made by ``nextword.attach``."""

    config_class = NextWordConfig
    _auto_class_of_backbone = AutoModelForCausalLM


class NextWordForSeq2SeqLM(NextWordModel, GenerationMixin):  # type: ignore[misc]
    """An encoder-decoder language model with a nextword head; made by ``nextword.attach``."""

    config_class = NextWordSeq2SeqConfig
    _auto_class_of_backbone = AutoModelForSeq2SeqLM


AutoModelForCausalLM.register(NextWordConfig, NextWordForCausalLM, exist_ok=True)
AutoModelForSeq2SeqLM.register(NextWordSeq2SeqConfig, NextWordForSeq2SeqLM, exist_ok=True)
list_by_name(NextWordForCausalLM, NextWordForSeq2SeqLM)
