"""Hidden states below the last, for heads that read several (``+mi``)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class LowerLayers:
    """The inputs of a backbone's last layers, kept as they come by in each pass.

    vLLM's own way to them is that of its drafting models. Backbones without it are watched, which needs
    ``enforce_eager``.

    Args:
        backbone: A model of vLLM.
        count: How many.
        eager: Whether vLLM runs the backbone as it stands, without compiling it.

    Raises:
        ValueError: The backbone offers no way.
    """

    def __init__(self, backbone: Any, count: int, eager: bool) -> None:
        from vllm.model_executor.models.interfaces import supports_eagle3

        self._seen: dict[int, Tensor] = {}
        self._count = count
        if not count:
            return
        layers = _layers(backbone)
        self._last = len(layers)
        wanted = [self._last - 1 - place for place in range(count)]
        if supports_eagle3(backbone):
            backbone.set_aux_hidden_state_layers(tuple(sorted(wanted)))
        elif eager:
            for number in wanted:
                layers[number].register_forward_pre_hook(self._keeper(number), with_kwargs=True)
        else:
            raise ValueError(
                f"+mi: vLLM gives no lower hidden states of {type(backbone).__name__} once it is compiled; start with "
                "--enforce-eager"
            )

    def _keeper(self, number: int) -> Any:
        def keep(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            """A layer's input, its residual added where it is handed on apart."""
            tensors = [value for value in (*given, *named.values()) if isinstance(value, Tensor) and value.dim() == 2]
            self._seen[number] = sum(tensors[1:], tensors[0])

        return keep

    def split(self, given: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The last states (N, D), and the lower ones as the head reads them, the highest first."""
        if isinstance(given, tuple):
            states, lower = given
            return states, tuple(reversed(lower))
        return given, tuple(self._seen[self._last - 1 - place] for place in range(self._count))


def _layers(backbone: nn.Module) -> nn.ModuleList:
    """The decoder layers: the longest list of modules."""
    lists = [module for module in backbone.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len)
