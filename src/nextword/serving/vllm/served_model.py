"""A model with a head as vLLM calls it: one of vLLM's own models as backbone, and the head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nextword.distribution import NextToken
from nextword.heads import Dimensions, build_head, parse_head
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.forward.packed_inputs import OutputParts, PackedInputs, PackedTokens, packed_inputs
from nextword.model.head_cache.slots import PassSlots, SlotMemory
from nextword.serving.vllm.backbone_layers import LowerLayers
from nextword.serving.vllm.passes import KVCacheLayer, split_row_numbers, with_row_numbers
from nextword.serving.vllm.servable import backbone_architecture, expect_head_fits, expect_servable

_BACKBONE, _HEAD = "backbone", "next_word_head"
"""What the names of saved weights begin with."""


@dataclass(frozen=True)
class DecidedWords:
    """What the words of a pass were chosen from.

    Attributes:
        distribution: At each row that logits were asked for.
        requests: To which request of the pass each row belongs.
    """

    distribution: NextToken
    requests: list[int]


class ServedModel(nn.Module):
    """What vLLM makes of a folder with a ``NextWordForCausalLM``.

    Its logits are log-probabilities. The softmax of them is themselves, so temperature, top-k and top-p of vLLM act on
    the head's distribution.

    Args:
        vllm_config: All settings of vLLM.
        prefix: Of the names of layers.

    Raises:
        ValueError: The model cannot be served in this way; says why.
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
        """What the words of the last pass were chosen from; None where nobody drafts."""

    def embed_input_ids(self, input_ids: Int[Tensor, "N"]) -> Float[Tensor, "N D"]:
        """Input embeddings."""
        return self.backbone.embed_input_ids(input_ids)  # type: ignore[no-any-return]

    def forward(
        self,
        input_ids: Int[Tensor, "N"] | None,
        positions: Int[Tensor, "N"],
        intermediate_tensors: Any = None,
        inputs_embeds: Float[Tensor, "N D"] | None = None,
    ) -> Float[Tensor, "N D+3"]:
        """Hidden states with the numbers of their rows; what the head keeps of them is written to its slots."""
        given = self.backbone(input_ids, positions, intermediate_tensors, inputs_embeds)
        states, lower = self._lower.split(given)
        self.decided = None
        self._packed = self._pack(input_ids, states, (states, *lower)[: self.next_word_head.layers])
        return with_row_numbers(states)

    def _pack(self, ids: Tensor | None, states: Tensor, layers: tuple[Tensor, ...]) -> PackedInputs | None:
        """What the head is given of this pass; None while vLLM only measures its memory."""
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
        """Log-probabilities after some rows of the last pass."""
        states, rows = split_row_numbers(hidden_states)
        if self._packed is None:
            return self.backbone.compute_logits(states)  # type: ignore[no-any-return]
        distribution = self.next_word_head(self._packed.last(rows))
        if self._drafts and self.decided is None and self._requests is not None:  # prompts are asked for later
            distribution = distribution.computed()
            self.decided = DecidedWords(distribution, self._requests[rows].tolist())
        return self.next_word_head.logits(distribution)  # type: ignore[no-any-return]

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        """Weights under the names of ``save_pretrained``: the backbone's to vLLM's model, the rest to the head."""
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
    """A model of vLLM as ``OutputLayer`` reads one of transformers.

    Args:
        config: The backbone's.
        backbone: The model.
    """

    def __init__(self, config: Any, backbone: Any) -> None:
        self.config, size = config, config.get_text_config().vocab_size
        weight: Tensor = backbone.lm_head.weight[:size]  # vLLM has padding rows behind the words
        bias: Tensor | None = getattr(backbone.lm_head, "bias", None)
        self.layer = nn.Linear(weight.shape[1], size, bias=bias is not None, device="meta")
        self.layer.weight = nn.Parameter(weight, requires_grad=False)
        if bias is not None:
            self.layer.bias = nn.Parameter(bias[:size], requires_grad=False)

    def get_output_embeddings(self) -> nn.Linear:
        """The output layer, over the words alone."""
        return self.layer


def _side_by_side(count: int, device: torch.device) -> PassSlots:
    """The slots of rows that nobody remembers: each is a text of one place."""
    one = torch.ones(count, dtype=torch.long, device=device)
    return PassSlots(torch.arange(count + 1, device=device), one, one[:, None] - 1, count)
