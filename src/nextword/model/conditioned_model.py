"""Auxiliary texts of a wrapped model: an encoder reads them, and a conditioner passes the states to the decoder."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from nextword.conditioning import conditioner_spec, parse_conditioner
from nextword.conditioning import registry as conditioners
from nextword.conditioning.auxiliary_encoder import longest_text, new_encoder
from nextword.heads import Dimensions
from nextword.model.forward.argument_checks import expect_ids, expect_known_ids
from nextword.model.forward.forward_batch import NO_CONDITIONER, valid_positions
from nextword.model.wrapped_model import WrappedModel
from nextword.runtime.weights import built


class Conditioned(WrappedModel):
    """Methods of a wrapped model for auxiliary texts."""

    def _new_conditioner(self, encoder: PreTrainedModel | None, dimensions: Dimensions) -> None:
        """Builds encoder and conditioner from the configuration. Without a conditioner in it, both are None."""
        self.auxiliary_encoder = self.conditioner = None
        if self.config.conditioner is None:
            return
        expect_no_encoder_of_its_own(self.config)
        config = parse_conditioner(self.config.conditioner)
        decoder = self.config.text_config.get_text_config(decoder=True)
        if encoder is None:
            encoder = new_encoder(self.config.auxiliary_encoder["config"])
            encoder.config._name_or_path = self.config.auxiliary_encoder["name"]
        self.auxiliary_encoder = encoder
        kind, heads = conditioners.get(config.conditioner), decoder.num_attention_heads
        name = f"conditioner '{conditioner_spec(config)}'"
        self.conditioner = built(lambda: kind(config, dimensions, heads), name)
        self.conditioner.place_in(self.backbone)

    @property
    def _encoder_is_frozen(self) -> bool:
        return self.conditioner is not None and self.conditioner.config.trains != "all"

    def train(self, mode: bool = True) -> Any:
        """Sets training mode (``mode`` true) or evaluation mode.

        A frozen auxiliary encoder stays in evaluation mode, so that its states are deterministic.
        """
        super().train(mode)
        if self._encoder_is_frozen:
            self.auxiliary_encoder.eval()
        return self

    def encode(
        self, aux_input_ids: Int[Tensor, "B A"] | None, aux_attention_mask: Tensor | None = None
    ) -> Float[Tensor, "B A E"]:
        """Encodes auxiliary texts. The result can be the argument ``aux_states`` of any number of ``forward`` calls.

        Args:
            aux_input_ids: The auxiliary texts, in tokens of the auxiliary encoder.
            aux_attention_mask: 1 for tokens, 0 for padding; None: no padding.

        Raises:
            ValueError: If the model has no conditioner, ``aux_input_ids`` are empty or outside the encoder's
                vocabulary, or a text is longer than the encoder's positions.
        """
        if self.conditioner is None:
            raise ValueError(f"aux_input_ids: {NO_CONDITIONER}")
        encoder = self.auxiliary_encoder
        aux_input_ids = expect_ids("aux_input_ids", aux_input_ids, vectors="aux_states")
        if aux_input_ids.numel() == 0:
            raise ValueError(
                f"aux_input_ids: must be (batch, positions), neither 0 (shape {tuple(aux_input_ids.shape)} given)"
            )
        expect_known_ids("aux_input_ids", aux_input_ids, encoder.get_input_embeddings().weight.shape[0])
        limit = longest_text(encoder)
        if limit is not None and aux_input_ids.shape[1] > limit:
            raise ValueError(
                f"auxiliary text: {aux_input_ids.shape[1]} tokens are more than the {limit} positions of its "
                "encoder; truncate it (nw.AuxiliaryTokenizer has a max_length)"
            )
        mask = torch.ones_like(aux_input_ids) if aux_attention_mask is None else aux_attention_mask
        valid_positions("aux_attention_mask", mask, aux_input_ids)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self._encoder_is_frozen):
            states: Tensor = encoder(input_ids=aux_input_ids, attention_mask=mask).last_hidden_state
        return states

    def blank_auxiliary(self, rows: int) -> dict[str, Tensor]:
        """Returns placeholder arguments of ``forward`` for ``rows`` auxiliary texts; {} if there is no conditioner."""
        if self.conditioner is None:
            return {}
        weight = next(self.conditioner.parameters())
        states = weight.new_zeros(rows, 1, self.auxiliary_encoder.config.hidden_size)
        positions = torch.zeros(rows, 1, dtype=torch.long, device=weight.device)
        return {"aux_states": states, "source_ids": positions, "source_positions": positions}


def expect_no_encoder_of_its_own(config: Any) -> None:
    """Raises ValueError if ``config`` is that of an encoder-decoder model, which cannot get a conditioner."""
    if config.is_encoder_decoder:
        raise ValueError(
            "conditioner: must be on a decoder-only model (an encoder-decoder model given), which reads texts with "
            "its own encoder"
        )


@torch.no_grad()
def choose_trained(model: WrappedModel) -> None:
    """Enables gradients for the conditioner, the head, and the weights that the conditioner's ``trains`` names.

    All other weights of ``model`` are frozen. Without a conditioner nothing changes.
    """
    conditioner = model.conditioner
    if conditioner is None:
        return
    config, backbone = conditioner.config, model.backbone
    chosen: list[nn.Parameter] = [*conditioner.parameters(), *model.next_word_head.parameters()]
    if config.unties:
        chosen += model.get_output_embeddings().parameters()
    if config.trains == "downstream":
        chosen += conditioner.downstream(backbone)
    if config.trains in ("decoder", "all"):
        chosen += backbone.parameters()
    if config.trains == "all":
        chosen += model.auxiliary_encoder.parameters()
    wanted = {id(parameter) for parameter in chosen}
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.requires_grad_(id(parameter) in wanted)


def untie(backbone: PreTrainedModel) -> None:
    """Gives the output layer of ``backbone`` a copy of its weight if it shares the weight with the input embedding."""
    layer: Any = backbone.get_output_embeddings()
    embedding: Any = backbone.get_input_embeddings()
    if layer.weight is not embedding.weight:
        return
    layer.weight = nn.Parameter(layer.weight.detach().clone(), layer.weight.requires_grad)
    for config in (backbone.config, backbone.config.get_text_config(decoder=True)):
        config.tie_word_embeddings = False
    backbone.all_tied_weights_keys = backbone.get_expanded_tied_weights_keys(all_submodels=False)
