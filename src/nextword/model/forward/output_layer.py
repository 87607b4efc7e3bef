"""The backbone's output layer, including all later changes that the model makes to the scores.

Most models return the output layer's product unchanged. Some models cap the scores (Gemma 2), scale them (Cohere,
Granite) or add a bias (BART, Marian). A head must change its scores in the same way, or its distribution differs from
the model's. This module finds the changes from the model's attributes. To check them, it compares its scores with the
model's own logits on amplified (larger) states. A model with unknown changes is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.functional.chunked_loss import row_chunks
from nextword.functional.inplace import concatenate_chunks
from nextword.functional.products import dense_products, grouped_product, picked_product
from nextword.functional.vocab_shard import ALL_COLUMNS, ColumnRange
from nextword.functional.weight_gradient import FusedBackward, defer_gradient
from nextword.model.training_modes import as_in_evaluation
from nextword.runtime.devices import (
    class_of,
    device_of,
    gather_weight,
    held_here,
    is_offloaded,
    is_sharded,
    vocabulary_mesh,
    weight_of,
)


class UnsupportedBackboneError(ValueError):
    """Raised if a model's scores cannot be reproduced from its output layer, or the model is not causal."""


# Costs relative to one row of the whole product: of picking a row, and of its product with one more state. Picking is
# slow because it reads, writes and reads again; a product with few states waits for memory (measured on two CPU cores).
_PICK, _PER_STATE = 3.0, 0.1


def _is_plain(layer: Any) -> bool:
    # Whether rows of the layer's weight may be picked. They may not if another class (torchao) stores the weight in its
    # own way, or if accelerate loads the weight for each call.
    known = type(layer.weight) in (Tensor, nn.Parameter) or vocabulary_mesh(layer) is not None
    return class_of(layer) is nn.Linear and known and not is_offloaded(layer)


def _read(layer: Any) -> Tensor:
    """A layer's weight, with its gradient deferred if possible; for a sharded weight the rows of this process."""
    weight: Tensor = layer.weight
    # FSDP2 takes the gradient when the gradient of the states leaves the layer's group, and would lose a deferred one
    return weight if is_sharded(layer) else defer_gradient(held_here(weight))


def vocabulary_size(backbone: PreTrainedModel) -> int:
    """The number of tokens V that the output layer of a model scores."""
    layer: Any = backbone.get_output_embeddings()
    return int(getattr(layer, "out_features", 0) or layer.weight.shape[0])


def state_width(backbone: PreTrainedModel) -> int:
    """The width D of the states that the output layer of a model reads."""
    layer: Any = backbone.get_output_embeddings()
    return int(getattr(layer, "in_features", 0) or layer.weight.shape[1])


class OutputLayer:
    """The output layer of a backbone as a ``Vocabulary``: computes the model's final scores from states.

    Args:
        backbone: The model. Every call uses its current output layer. Create this object before the states are
            computed: the weight's gradient is deferred until autograd has finished all operations that were recorded
            after this object was made (``defer_gradient``).
    """

    def __init__(self, backbone: PreTrainedModel) -> None:
        self.layer: Any = backbone.get_output_embeddings()
        self.adjustments = adjustments_of(backbone)
        self.size = vocabulary_size(backbone)
        gather_weight(self.layer)
        mesh = vocabulary_mesh(self.layer)
        self.columns = ALL_COLUMNS if mesh is None else ColumnRange(mesh, self.size)
        # the weight for products of a plain layer; picked rows have a sparse gradient and use the layer's own weight
        self._weight = _read(self.layer) if _is_plain(self.layer) else None
        self._bias = None if self._weight is None or self.layer.bias is None else held_here(self.layer.bias)

    def __call__(
        self, states: Float[Tensor, "N D"], fused_backward: FusedBackward | None = None
    ) -> Float[Tensor, "N V"]:
        """Returns a score for every token, equal to the score that the model itself computes."""
        return self.each([states], fused_backward)[0]

    def each(
        self, states: Sequence[Float[Tensor, "_R D"]], fused_backward: FusedBackward | None = None
    ) -> list[Float[Tensor, "_R V"]]:
        """Returns the scores of all tokens for each tensor in ``states``."""
        if self._weight is None:
            made = [self._by_layer(part) for part in states]
            # later steps overwrite the scores, which autograd forbids for a view (torchao's int8 layers return a view)
            return [self._adjusted(scores.clone() if scores._is_view() else scores, None) for scores in made]
        alike = [self.columns.read_by_all(part) for part in states]
        products = dense_products(self._weight, self._bias, alike, fused_backward)
        return [self._adjusted(scores, self.columns.tokens) for scores in products]

    def _by_layer(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        # without states the layer is not called, because bitsandbytes cannot compute an empty 4-bit product
        return self.layer(states) if len(states) else states.new_zeros(0, self.size)

    def _adjusted(self, scores: Float[Tensor, "*rows _V"], ids: Tensor | None) -> Float[Tensor, "*rows _V"]:
        for adjustment in self.adjustments:
            scores = adjustment.change(scores, ids)
        return scores

    def scores_of(
        self, states: Float[Tensor, "B Q D"], ids: Int[Tensor, "B K"], fused_backward: FusedBackward | None = None
    ) -> Float[Tensor, "B Q K"]:
        """Returns the scores of only the K tokens ``ids`` of each sequence, the same scores as from ``__call__``."""
        if self._weight is not None:
            # a collector of gradients belongs to one tensor, so the product must use this tensor
            collected = fused_backward is not None and fused_backward.collector(self._weight) is not None
            whole = self.columns is ALL_COLUMNS  # otherwise the layer has a DTensor, even if one process holds all rows
            weight = self.layer.weight if whole and not collected else self._weight
            alike = self.columns.read_by_all(states)

            def product(rows: Tensor) -> Tensor:
                scores = picked_product(weight, alike, rows, fused_backward)
                return scores if self._bias is None else scores + self._bias[rows][:, None]

            scores = self.columns.from_holders(ids, product)
        else:
            scores = self._picked(states, ids)
        return self._adjusted(scores, ids[:, None])

    def map(self, change: Callable[[Tensor], Tensor]) -> OutputLayer:
        """Returns this object unchanged, because it has no tensors with one row per position."""
        return self

    def shared(self) -> list[Tensor]:
        """The layer's parameters."""
        if self._weight is None:
            return list(self.layer.parameters())
        return [self._weight] if self._bias is None else [self._weight, self._bias]

    def scores_of_groups(
        self,
        states: Sequence[Float[Tensor, "_R D"]],
        ids: Sequence[Int[Tensor, "_K"]],
        rows: Sequence[Int[Tensor, "_R"]],
        fused_backward: FusedBackward | None = None,
    ) -> list[Float[Tensor, "_R _K"]]:
        """Returns, for each group of ``states``, the scores of only the tokens in the same group of ``ids``.

        Picking rows of the weight copies them. If picking is slower than the product with the whole weight (few states,
        most of the vocabulary, no gradient), this method computes the product with the whole weight. ``rows`` is not
        used.
        """
        products: list[Tensor] = []
        ids = [self.columns.held(group) for group in ids]
        if self._weight is None:
            products += [self._picked(part[None], group[None])[0] for part, group in zip(states, ids, strict=True)]
        else:
            alike = [self.columns.read_by_all(part) for part in states]
            held = [self.columns.rows(group) for group in ids]
            if self._whole_is_cheaper(states, ids):
                whole = dense_products(self._weight, self._bias, alike)
                products += [scores[:, group] for scores, group in zip(whole, held, strict=True)]
            else:
                products += grouped_product(self._weight, alike, held, fused_backward)
                if self._bias is not None:
                    products = [scores + self._bias[group] for scores, group in zip(products, held, strict=True)]
        return [self._adjusted(scores, group[None]) for scores, group in zip(products, ids, strict=True)]

    def _whole_is_cheaper(self, states: Sequence[Tensor], ids: Sequence[Tensor]) -> bool:
        if torch.is_grad_enabled():
            return False
        picked = sum(len(group) * (_PICK + _PER_STATE * len(part)) for part, group in zip(states, ids, strict=True))
        return picked > self.size / self.columns.processes * (1 + _PER_STATE * sum(map(len, states)))

    def _picked(self, states: Float[Tensor, "B Q D"], ids: Int[Tensor, "B K"]) -> Float[Tensor, "B Q K"]:
        # a few scores out of all, in row chunks: a quantised or adapted layer can only compute all scores
        flat = states.flatten(0, 1)
        owner = torch.arange(len(ids), device=ids.device).repeat_interleave(states.shape[1])
        chunks = row_chunks(len(flat), self.size * 4, flat.device) or [slice(0, 0)]
        scores = concatenate_chunks(lambda rows: self._by_layer(flat[rows]).gather(1, ids[owner[rows]]), chunks)
        return scores.unflatten(0, states.shape[:2])


_PROBE_LENGTH = 4
_PROBE_SPREAD = 30.0  # standard deviation of the scores in the check; it is large, so that a cap changes the scores


@torch.no_grad()
def validate_output_layer(backbone: PreTrainedModel) -> float:
    """Checks on amplified states that ``OutputLayer`` reproduces the model's logits, and that the model is causal.

    Returns:
        The factor between the decoder's last hidden state and the output layer's input (T5: D ** -0.5; others: 1).

    Raises:
        UnsupportedBackboneError: If the model has no output layer, changes its scores in an unknown way, or is not
            causal.
    """
    name = type(backbone).__name__
    layer = backbone.get_output_embeddings()
    if not isinstance(layer, nn.Module) or isinstance(layer, nn.Embedding):
        raise UnsupportedBackboneError(f"{name} has no output embedding layer, so there is nothing to put a head on")
    vocabulary = OutputLayer(backbone)
    fed: list[Tensor] = []

    def amplified(states: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(states.shape, generator=generator).to(states)
        scores = layer(noise).float()
        finite = scores[scores.isfinite()]
        if len(finite) > 1:  # NaN weights leave fewer scores; a later check reports them
            noise = noise * (_PROBE_SPREAD / finite.std().clamp_min(1e-6)).to(noise)
        fed.append(noise)
        return fed[0]

    with as_in_evaluation(backbone):
        outputs, states = run_with_output_tap(backbone, probe_inputs(backbone), amplified)
        expected, ours = outputs.logits.flatten(0, 1).float(), vocabulary(fed[0].flatten(0, 1)).float()
    same_shape = expected.shape == ours.shape
    # if both scores are -inf, they do not differ
    difference = (expected - ours).masked_fill(expected == ours, 0.0).abs().max().item() if same_shape else float("inf")
    largest = ours.masked_fill(ours == -torch.inf, 0.0).abs().max().item()
    if math.isnan(difference) and (fault := weights_at_fault(backbone)):
        raise ValueError(f"{name}: {fault}")
    if not difference <= 64 * torch.finfo(states.dtype).eps * max(largest, 1.0):
        done = ", ".join(a.name for a in vocabulary.adjustments) or "nothing"
        raise UnsupportedBackboneError(
            f"{name}: its logits are not its output layer followed by {done} (largest difference {difference:.3g} on "
            f"scores up to {largest:.3g}). It does something to its scores that nextword does not know, and a head "
            "would silently compute another distribution, so it is refused."
        )
    _expect_no_look_ahead(name, states)
    hidden = outputs.decoder_hidden_states if backbone.config.is_encoder_decoder else outputs.hidden_states
    return _ratio(states.float(), hidden[-1].float())


@torch.no_grad()
def expect_layers(backbone: PreTrainedModel, count: int) -> None:
    """Raises ValueError unless the last ``count`` hidden states exist, each one vector per position (not Gemma 3n)."""
    if count < 2 or device_of(backbone.get_input_embeddings()).type == "meta":
        return
    with as_in_evaluation(backbone):
        inputs = probe_inputs(backbone)
        outputs = backbone(**inputs, return_dict=True)
    of_decoder = backbone.config.is_encoder_decoder
    positions = inputs["decoder_input_ids" if of_decoder else "input_ids"].shape
    hidden = outputs.decoder_hidden_states if of_decoder else outputs.hidden_states
    if len(hidden) < count:
        raise ValueError(
            f"+mi: must read at most as many hidden states per token as there are or as are stored ({count} given, "
            f"{len(hidden)} there); read fewer, or store more ('nextword states build --layers {count}')"
        )
    strange = next(
        (layer for layer in hidden[-count:] if layer.shape[:-1] != positions or layer.shape != hidden[-1].shape), None
    )
    if strange is not None:
        raise ValueError(
            f"+mi: {type(backbone).__name__} has hidden states of shape {tuple(strange.shape)} below its last, not one "
            "vector of its width per position; use +mi:1xK, which reads only the last"
        )


def expect_state_scale(backbone: PreTrainedModel, saved: float) -> None:
    """Raises ValueError if the factor ``saved`` differs by over 2 % from what ``validate_output_layer`` measures."""
    scale = validate_output_layer(backbone)
    if abs(scale / saved - 1) > 2e-2:  # in half precision the factor is measured with an error of about one percent
        raise ValueError(
            f"state_scale: {saved:g} in the configuration, but {type(backbone).__name__} gives its output layer "
            f"{scale:g} times its last hidden state; put this number there, or null"
        )


def _expect_no_look_ahead(name: str, states: Float[Tensor, "2 T D"]) -> None:
    """Raises an error if the states of two texts with different last tokens differ before that token."""
    one, other = states[:, :-1].float()
    seen, largest = (one - other).abs().max().item(), one.abs().max().item()
    if seen > min(max(64 * torch.finfo(states.dtype).eps, 1e-4), 0.05) * largest:
        raise UnsupportedBackboneError(
            f"{name}: its states depend on later tokens (by {seen:.3g}, on states up to {largest:.3g}), so it gives no "
            "distribution of the next word; a BERT-like model needs is_decoder=True in its configuration"
        )


def probe_inputs(backbone: PreTrainedModel) -> dict[str, Any]:
    """Inputs of the backbone for its check: two texts that differ only in their last token."""
    embeddings: Any = backbone.get_input_embeddings()
    ids = torch.arange(1, _PROBE_LENGTH + 1, device=device_of(embeddings)).expand(2, -1).clone()
    ids[1, -1] += 1
    ids %= embeddings.weight.shape[0]
    inputs: dict[str, Any] = {"attention_mask": torch.ones_like(ids), "output_hidden_states": True, "use_cache": False}
    if backbone.config.is_encoder_decoder:
        return inputs | {"input_ids": ids[:1].expand(2, -1), "decoder_input_ids": ids}
    return inputs | {"input_ids": ids}


def _ratio(states: Tensor, hidden: Tensor) -> float:
    if states.shape != hidden.shape:
        return 1.0
    ratio = ((states * hidden).sum() / hidden.square().sum()).item()
    if not torch.allclose(states, ratio * hidden, rtol=1e-2, atol=1e-3):
        return 1.0
    # in half precision the measured factor has few digits, so a known factor near it is returned instead
    exact = [number for number in (1.0, hidden.shape[-1] ** -0.5) if abs(ratio / number - 1) < 1e-2]
    return exact[0] if exact else ratio


# -- What backbones do to their scores after the output layer: a cap, a scale, a bias.


class Adjustment(NamedTuple):
    """A change (such as a bias) to the scores (..., V) of all tokens, or to the scores (..., K) of given tokens."""

    name: str
    change: Callable[[Tensor, Tensor | None], Tensor]


# Adjustments by one number. The configuration of the model has the number under one of these names.
_BY_NUMBER: tuple[tuple[str, tuple[str, ...], Callable[[Tensor, float], Tensor]], ...] = (
    # Gemma 2 and related models, RecurrentGemma, xLSTM
    (
        "soft_cap",
        ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap"),
        lambda scores, cap: torch.tanh(scores / cap) * cap,
    ),
    ("multiply", ("logit_scale",), lambda scores, scale: scores * scale),  # Cohere
    ("divide", ("logits_scaling",), lambda scores, scale: scores / scale),  # Granite
)


def _with_number(change: Callable[[Tensor, float], Tensor], number: float) -> Callable[[Tensor, Tensor | None], Tensor]:
    return lambda scores, _: change(scores, number)


def adjustments_of(backbone: PreTrainedModel) -> list[Adjustment]:
    """The adjustments of a model's logits (soft cap, scale, bias), in the order in which to apply them."""
    config = backbone.config
    # T5 and similar models have one configuration for both sides, and copy all of it if asked for the decoder's
    if not config.is_encoder_decoder or config.sub_configs:
        config = config.get_text_config(decoder=True)
    made = []
    for name, keys, change in _BY_NUMBER:
        number = next((found for key in keys if (found := getattr(config, key, None)) is not None), None)
        if number is not None:
            made.append(Adjustment(name, _with_number(change, number)))
    bias = getattr(backbone, "final_logits_bias", None)  # BART and Marian have it outside the output layer
    if bias is not None:

        def add_bias(scores: Tensor, ids: Tensor | None) -> Tensor:
            of_all = bias.flatten().to(scores.device)
            return scores + (of_all if ids is None else of_all[ids])

        made.append(Adjustment("bias", add_bias))
    return made


# -- Running an unmodified backbone up to its output layer.
#
# A pre-hook on the backbone's output layer sees the states that the layer would read. It gives the layer an empty slice
# of the states instead. So the backbone finishes its forward pass without computing scores. The head computes the
# scores later, in row chunks, with the same layer, so that tied weights, LoRA and quantisation still work.
#
# The hook finds the running call in a context variable, not in a closure. A deep copy of a model copies hooks by
# reference, so a closure would refer to the original model.


class OutputTap:
    """Captures the input of a backbone's output layer in one call, and gives the layer ``feed(states)`` instead."""

    def __init__(self, feed: Callable[[Tensor], Tensor]) -> None:
        self.feed = feed
        self.states: Tensor | None = None  # the input that the output layer would have read


class _CurrentTap:
    """The tap of the running call. In eager mode each thread and task has a tap; a traced graph has an attribute."""

    def __init__(self) -> None:
        self._variable: ContextVar[OutputTap | None] = ContextVar("nextword_tap", default=None)
        self._traced: OutputTap | None = None

    def get(self) -> OutputTap | None:
        return self._traced if is_torchdynamo_compiling() else self._variable.get()

    def set(self, tap: OutputTap) -> Token[OutputTap | None] | None:
        if is_torchdynamo_compiling():
            self._traced = tap
            return None
        return self._variable.set(tap)

    def reset(self, token: Token[OutputTap | None] | None) -> None:
        if token is None:
            self._traced = None
        else:
            self._variable.reset(token)


_current = _CurrentTap()


def _before_output_layer(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    tap = _current.get()
    if tap is None or tap.states is not None:
        return None
    tap.states = args[0]
    return (tap.feed(args[0]), *args[1:])


def fewest_states(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """A function that cuts states to the smallest number of positions that the layer accepts."""
    # 1 if the layer's weight has integers (an empty product with a 4-bit weight of bitsandbytes ends the process) or is
    # sharded over processes (DTensor divides by the number of positions), otherwise 0
    fewest = 0 if weight_of(layer).is_floating_point() and vocabulary_mesh(layer) is None else 1
    return lambda states: states[:, :fewest]


def run_with_output_tap(
    backbone: PreTrainedModel, inputs: dict[str, Any], feed: Callable[[Tensor], Tensor] | None = None
) -> tuple[Any, Tensor]:
    """Runs the backbone and captures the input of its output layer.

    Args:
        backbone: Any transformers language model.
        inputs: Keyword arguments of its forward.
        feed: Function that computes the output layer's input from the states. None: cut the states to the smallest
            number of positions that the layer accepts, to save time.

    Returns:
        The backbone's outputs, whose logits are computed from ``feed(states)``, and the states (B, T, D).
    """
    layer = backbone.get_output_embeddings()
    if not getattr(layer, "_nextword_tapped", False):
        layer.register_forward_pre_hook(_before_output_layer, prepend=True)
        layer._nextword_tapped = True
    tap = OutputTap(fewest_states(layer) if feed is None else feed)
    token = _current.set(tap)
    try:
        outputs = backbone(**inputs, return_dict=True)
    finally:
        _current.reset(token)
    assert tap.states is not None, "the backbone did not call its output layer"
    return outputs, tap.states


# -- Weights that are NaN, for instance after the training of a model diverged.

_SHOWN = 3


def weights_at_fault(model: nn.Module) -> str | None:
    """Error message that names the weights with NaN or infinite values; None if all are finite.

    >>> layer = nn.Linear(2, 1)
    >>> weights_at_fault(layer)
    >>> _ = layer.bias.data.fill_(float("nan"))
    >>> weights_at_fault(layer)
    'the weights bias are not finite numbers; take a checkpoint from before the model diverged'
    """
    names = [name for name, weight in model.named_parameters() if not torch.isfinite(weight).all()]
    if not names:
        return None
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"the weights {shown} are not finite numbers; take a checkpoint from before the model diverged"
