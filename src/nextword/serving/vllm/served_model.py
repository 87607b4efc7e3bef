"""A model with a head for vLLM: the backbone is one of vLLM's own models, the head is nextword's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nextword.distribution import NextToken
from nextword.heads import Dimensions, build_head, parse_head
from nextword.model.forward.head_inputs import OutputParts, PackedInputs, PackedTokens, packed_inputs
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.head_cache.slots import SlotMapping, SlotMemory
from nextword.serving.vllm.plugin import backbone_architecture, expect_head_fits, expect_servable

_BACKBONE, _HEAD = "backbone", "next_word_head"
"""Prefixes of saved weights."""


@dataclass(frozen=True)
class DecidedWords:
    """The distributions of a forward pass's next tokens, and for each distribution the index of its request."""

    distribution: NextToken
    requests: list[int]


class ServedModel(nn.Module):
    """The model class with which vLLM serves a saved ``NextWordForCausalLM``.

    Its logits are log-probabilities, so vLLM's temperature, top-k and top-p act on the head's distribution.

    Raises:
        ValueError: If vLLM's settings do not support the model. The message says why.
    """

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        from vllm.model_executor.models.utils import init_vllm_registered_model, maybe_prefix

        super().__init__()
        config = vllm_config.model_config.hf_config
        self._configuration = config
        expect_servable(config, vllm_config)
        self.backbone: Any = init_vllm_registered_model(
            vllm_config,
            prefix=maybe_prefix(prefix, _BACKBONE),
            hf_config=config.text_config,
            architectures=[backbone_architecture(config)],
        )
        text = config.get_text_config()
        self.next_word_head: Any = build_head(
            parse_head(config.head),
            Dimensions(
                hidden=text.hidden_size,
                layer=text.hidden_size,
                layers=text.num_hidden_layers,
                vocab_size=text.vocab_size,
                source=None,
                auxiliary=True,
            ),
        ).eval()
        expect_head_fits(self.next_word_head, vllm_config)
        eager = bool(vllm_config.model_config.enforce_eager)
        self._lower = LowerLayers(self.backbone, max(self.next_word_head.layers - 1, 0), eager)
        self._cache = KVCacheLayer(vllm_config) if self.next_word_head.remembers else None
        self._memory: SlotMemory | None = None
        self._parts: OutputParts | None = None
        self._packed: PackedInputs | None = None
        self._drafts = vllm_config.speculative_config is not None
        self._requests: Tensor | None = None
        self.decided: DecidedWords | None = None
        """Distributions of the last pass; None without drafts."""

    def embed_input_ids(self, input_ids: Int[Tensor, "N"]) -> Float[Tensor, "N D"]:
        """Input embeddings of ``input_ids``."""
        return self.backbone.embed_input_ids(input_ids)  # type: ignore[no-any-return]

    def forward(
        self,
        input_ids: Int[Tensor, "N"] | None,
        positions: Int[Tensor, "N"],
        intermediate_tensors: Any = None,
        inputs_embeds: Float[Tensor, "N D"] | None = None,
    ) -> Float[Tensor, "N D+3"]:
        """Runs the backbone, and writes the head's cache. Returns the last states with the numbers of their rows."""
        given = self.backbone(input_ids, positions, intermediate_tensors, inputs_embeds)
        states, lower = self._lower.split(given)
        self.decided = None
        self._packed = self._pack(input_ids, states, (states, *lower)[: self.next_word_head.layers])
        return with_row_numbers(states)

    def _pack(self, ids: Tensor | None, states: Tensor, layers: tuple[Tensor, ...]) -> PackedInputs | None:
        slots = _side_by_side(len(states), states.device) if self._cache is None else self._cache.current()
        if slots is None:
            return None
        if self._memory is None or self._parts is None:
            self._memory = SlotMemory(0 if self._cache is None else self._cache.slots)
            self._parts = OutputParts(OutputLayer(_PlainBackbone(self._configuration.text_config, self.backbone)))  # type: ignore[arg-type]
        new, self._requests = slice(slots.count), slots.request
        words = torch.zeros_like(slots.request) if ids is None else ids[new].long()
        tokens = PackedTokens(words, states[new], tuple(layer[new] for layer in layers))
        return packed_inputs(self.next_word_head, self._parts, tokens, self._memory.in_pass(slots))

    def compute_logits(self, hidden_states: Float[Tensor, "M D+3"]) -> Float[Tensor, "M V"]:
        """Log-probabilities of the next token for each of ``hidden_states``, rows of the last result of ``forward``."""
        states, rows = split_row_numbers(hidden_states)
        if self._packed is None:
            return self.backbone.compute_logits(states)  # type: ignore[no-any-return]
        distribution = self.next_word_head(self._packed.last(rows))
        if self._drafts and self.decided is None and self._requests is not None:  # not for prompts, which come later
            distribution = distribution.computed()
            self.decided = DecidedWords(distribution, self._requests[rows].tolist())
        return self.next_word_head.logits(distribution)  # type: ignore[no-any-return]

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        """Loads ``weights``, named as in ``save_pretrained``, into backbone and head. Returns the loaded names."""
        from vllm.model_executor.models.utils import AutoWeightsLoader

        own: dict[str, Tensor] = {}

        def of_backbone() -> Iterable[tuple[str, Tensor]]:
            for name, weight in weights:
                if name.startswith(f"{_HEAD}."):
                    own[name.removeprefix(f"{_HEAD}.")] = weight
                elif name.startswith(f"{_BACKBONE}."):
                    yield name, weight

        loaded: set[str] = AutoWeightsLoader(self).load_weights(of_backbone())
        self.next_word_head.load_state_dict(own)
        self.next_word_head.open_stored()
        return loaded | {f"{_HEAD}.{name}" for name, _ in self.next_word_head.named_parameters()}


class _PlainBackbone:
    """A vLLM model with the attributes that ``OutputLayer`` reads."""

    def __init__(self, config: Any, backbone: Any) -> None:
        self.config, size = config, config.get_text_config().vocab_size
        weight: Tensor = backbone.lm_head.weight[:size]  # vLLM has padding rows after the rows of the vocabulary
        bias: Tensor | None = getattr(backbone.lm_head, "bias", None)
        self.layer = nn.Linear(weight.shape[1], size, bias=bias is not None, device="meta")
        self.layer.weight = nn.Parameter(weight, requires_grad=False)
        if bias is not None:
            self.layer.bias = nn.Parameter(bias[:size], requires_grad=False)

    def get_output_embeddings(self) -> nn.Linear:
        return self.layer


def _side_by_side(count: int, device: torch.device) -> SlotMapping:
    """Cache slots for ``count`` rows in a pass without a KV cache: each row is a text with one position."""
    one = torch.ones(count, dtype=torch.long, device=device)
    return SlotMapping(torch.arange(count + 1, device=device), one, one[:, None] - 1, count)


# -- Lower hidden states, for heads that read several layers (``+mi``).


class LowerLayers:
    """Captures the inputs of a backbone's last ``count`` layers in each pass, for heads that read several layers.

    Backbones that support EAGLE-3 drafts return these inputs. For other backbones hooks capture them, in eager mode.

    Raises:
        ValueError: If the backbone does not return these inputs and ``eager`` is false.
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
            """Stores a layer's input. If the residual is passed separately, it is added."""
            tensors = [value for value in (*given, *named.values()) if isinstance(value, Tensor) and value.dim() == 2]
            self._seen[number] = sum(tensors[1:], tensors[0])

        return keep

    def split(self, given: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Splits the backbone's output ``given`` into last states (N, D) and captured inputs, highest layer first."""
        if isinstance(given, tuple):
            states, lower = given
            return states, tuple(reversed(lower))
        return given, tuple(self._seen[self._last - 1 - place] for place in range(self._count))


def _layers(backbone: nn.Module) -> nn.ModuleList:
    """The decoder layers: the longest list of modules in the backbone."""
    lists = [module for module in backbone.modules() if isinstance(module, nn.ModuleList)]
    return max(lists, key=len)


# -- The slots of a pass's tokens in the KV cache, from the data that vLLM gives its attention layers.
#
# vLLM asks for the logits of some rows of a pass's states (sampled tokens, parts of a prompt), and does not say which
# rows these are. So each row contains its number, in additional columns after the state.

_DIGITS, _BASE = 3, 256
"""Number of digits of a row number, and their base. bfloat16 represents integers up to 256 exactly."""


def with_row_numbers(states: Float[Tensor, "N D"]) -> Float[Tensor, "N D+3"]:
    """Appends its number to each row of ``states``, in columns that ``split_row_numbers`` reads."""
    rows = torch.arange(len(states), device=states.device)
    digits = torch.stack([(rows // _BASE**place) % _BASE for place in range(_DIGITS)], dim=1)
    return torch.cat([states, digits.to(states.dtype)], dim=1)


def split_row_numbers(carried: Float[Tensor, "M D+3"]) -> tuple[Float[Tensor, "M D"], Int[Tensor, "M"]]:
    """Splits ``carried``, rows of the result of ``with_row_numbers``, into states and row numbers."""
    states, digits = carried[:, :-_DIGITS], carried[:, -_DIGITS:].long()
    powers = torch.tensor([_BASE**place for place in range(_DIGITS)], device=digits.device)
    return states, (digits * powers).sum(1)


class KVCacheLayer:
    """The attention layer whose KV cache decides in which slot the head's cache stores each token.

    The layer has no sliding window, so its cache keeps whole texts. Create this object after the backbone was built
    with the settings ``vllm_config``.

    Raises:
        ValueError: If the backbone has no attention layer without a sliding window.
    """

    def __init__(self, vllm_config: Any) -> None:
        from vllm.config import get_layers_from_vllm_config
        from vllm.model_executor.layers.attention import Attention

        self._cache = vllm_config.cache_config
        layers = get_layers_from_vllm_config(vllm_config, Attention)
        whole = [name for name, layer in layers.items() if layer.sliding_window is None]
        if not whole:
            raise ValueError("the backbone has no attention layer that keeps the whole text, which a head needs")
        self._name = whole[-1]

    @property
    def slots(self) -> int:
        """Number of slots of the KV cache."""
        return int(self._cache.num_gpu_blocks * self._cache.block_size)

    def current(self) -> SlotMapping | None:
        """The slots of the tokens in the current forward pass. None while vLLM profiles its memory."""
        from vllm.forward_context import get_forward_context

        metadata = get_forward_context().attn_metadata
        if not isinstance(metadata, dict):
            return None
        own = metadata[self._name]
        requests = len(own.seq_lens)
        return SlotMapping.of_blocks(
            starts=own.query_start_loc[: requests + 1],
            lengths=own.seq_lens,
            table=own.block_table[:requests],
            block_size=self._cache.block_size,
            count=own.num_actual_tokens,
            longest=own.max_seq_len,
        )
