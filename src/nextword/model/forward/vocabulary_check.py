"""Whether every token and every label of a pass is in the model's vocabulary."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.functional.padding import IGNORED_LABEL
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.forward.padding_and_targets import Sides


def expect_vocabulary(model: Any, sides: Sides) -> None:
    """Raises ValueError where a token or a label of a pass is outside the vocabulary.

    Args:
        model: A ``NextWordModel``.
        sides: Those of the pass.
    """
    inputs, size = sides.inputs, model.get_input_embeddings().weight.shape[0]
    side = "decoder_" if model.config.is_encoder_decoder else ""
    if inputs.decoder.ids is not None or inputs.step_ids is not None:
        expect_known_ids(f"{side}input_ids", sides.decoder.ids, size)
    if inputs.source is not None and inputs.source.ids is not None and inputs.encoder_outputs is None:
        expect_known_ids("input_ids", inputs.source.ids, size)
    words = inputs.auxiliary.source_ids if inputs.source is None else inputs.source_ids
    if words is not None and model.next_word_head.reads_source:
        expect_known_ids("source_ids", words, size)
    labels = None if inputs.labels is None else sides.decoder.labels
    targets = None if inputs.shift_labels is None else sides.decoder.targets
    for name, given in (("labels", labels), ("shift_labels", targets)):
        if given is not None:
            expect_known_ids(name, given, OutputLayer(model.backbone).size, ignored=IGNORED_LABEL)


def expect_known_ids(name: str, ids: Tensor, size: int, *, ignored: int | None = None) -> None:
    """Raises ValueError where a token id is outside the vocabulary.

    Looked at on the CPU only: elsewhere it would stop the device in every step.
    """
    if ids.device.type != "cpu" or is_torchdynamo_compiling() or ids.numel() == 0:
        return
    low, high = ids.aminmax()
    if low >= 0 and high < size:
        return
    wrong = (ids < 0) | (ids >= size)
    if ignored is not None:
        wrong &= ids != ignored
    if wrong.any():
        also = "" if ignored is None else f" (or {ignored}, which is not scored)"
        raise ValueError(
            f"{name}: token id {ids[wrong][0].item()} is outside the vocabulary of {size} tokens; ids are 0 to "
            f"{size - 1}{also}. Does the tokenizer belong to this model?"
        )
