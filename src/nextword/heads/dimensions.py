"""What a head is told about the model it sits on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dimensions:
    """Sizes of the model under a head.

    Args:
        hidden: Width of what the output layer reads (D).
        layer: Width of the decoder's hidden states; nearly always the same.
        layers: Number of decoder hidden states, the embeddings not counted.
        vocab_size: V.
        source: Width of the encoder's states; None for a decoder-only model.
    """

    hidden: int
    layer: int
    layers: int
    vocab_size: int
    source: int | None = None

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether there is an encoder."""
        return self.source is not None
