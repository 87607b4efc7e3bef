"""A text that the model writes itself after a prompt or a source, as tokens that can be asked about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from nextword.inference.inspection.text_pieces import pieces_of_ids
from nextword.inference.scoring.example_encoding import EncodedExample, Example, encode_context
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.model.drafting.drafting import JudgedDraft, drafting_of


def written_example(
    opened: OpenedModel, example: Example, inputs: Mapping[str, Any], generation: Mapping[str, Any]
) -> tuple[EncodedExample, list[str], list[JudgedDraft]]:
    """What the model writes, the piece of text of each token, and the drafts on the way.

    Args:
        opened: The model.
        example: What it reads; its text is not looked at.
        inputs: Further inputs of the model, such as its auxiliary text.
        generation: Arguments of ``generate``.

    Raises:
        ValueError: The model writes nothing, or several texts are asked for.
    """
    if generation.get("num_return_sequences", 1) != 1:
        raise ValueError("trace: num_return_sequences must be 1, one text; call trace once for each")
    context, spans = encode_context(opened, example).listed
    ids = torch.tensor([context], device=opened.model.device)
    drafting = drafting_of(generation["draft"]) if generation.get("draft") is not None else None
    drafts = {} if drafting is None else {"draft": drafting}
    made = opened.model.generate(ids, attention_mask=torch.ones_like(ids), **inputs, **{**generation, **drafts})
    written = getattr(made, "sequences", made)[0].tolist()
    target = written[1 if opened.has_encoder else len(context) :]
    if not target:
        raise ValueError("trace: the model wrote nothing; give a text, or max_new_tokens of 1 or more")
    pieces = pieces_of_ids(opened.tokenizer, target, () if opened.has_encoder else context)
    bytes_written = len("".join(pieces).encode())
    encoded = EncodedExample(context, target, bytes_written, example, [], 1, spans)
    return encoded, pieces, [] if drafting is None else drafting.judged
