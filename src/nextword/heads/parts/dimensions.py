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
        source: Width of the states of a source that heads may read: the encoder's of an encoder-decoder model, or those
            of the auxiliary text that a conditioner brings to a decoder-only model; None where there is none.
        auxiliary: Whether the source is an auxiliary text.
        longest: Positions that a text may have at most, as far as the model says so.
    """

    hidden: int
    layer: int
    layers: int
    vocab_size: int
    source: int | None = None
    auxiliary: bool = False
    longest: int = 16_384

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the backbone has an encoder of its own."""
        return self.source is not None and not self.auxiliary
