"""Running an unmodified backbone up to its output layer, and no further.

A pre-hook on the backbone's output layer sees the states that layer would read. It hands the layer an empty slice of
them instead, so the backbone finishes its forward pass without a single score, and the head makes the scores later, in
row chunks, by calling the same layer (so tied weights, LoRA or quantisation on it keep working).

The hook finds the running call in a context variable rather than in a closure: a deep copy of a model copies hooks by
reference, and a closure would lead back to the original.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.runtime.devices import vocabulary_mesh, weight_of


class OutputTap:
    """One running call of a backbone, until its output layer is reached.

    Args:
        feed: What the output layer gets to read instead of its states.
    """

    def __init__(self, feed: Callable[[Tensor], Tensor]) -> None:
        self.feed = feed
        self.states: Tensor | None = None
        """What the output layer would have read."""


class _CurrentTap:
    """The tap of the running call: per thread and task in eager mode, a plain attribute while a graph is traced."""

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
    """What takes the fewest positions that a layer can be called with: none.

    One, where the layer's weight is of integers (a product of nothing with a 4-bit weight of bitsandbytes ends the
    process) or shared by processes (DTensor divides by the number of positions).
    """
    fewest = 0 if weight_of(layer).is_floating_point() and vocabulary_mesh(layer) is None else 1
    return lambda states: states[:, :fewest]


def run_with_output_tap(
    backbone: PreTrainedModel, inputs: dict[str, Any], feed: Callable[[Tensor], Tensor] | None = None
) -> tuple[Any, Tensor]:
    """Runs the backbone and catches what its output layer reads.

    Args:
        backbone: Any transformers language model.
        inputs: Keyword arguments of its forward.
        feed: What the output layer gets to read instead; None for as little as it can be called with.

    Returns:
        The backbone's outputs (its logits are those of ``feed``) and the states (B, T, D).
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
