"""What happens where a head's choice leaves no token that generation allows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor

from nextword.heads.head import Draw


class RedrawProcessor(LogitsProcessor):
    """Applies generation's own processors, and lets the head choose again where they ruled out everything.

    A class of one token that must not be repeated would otherwise leave a row of ``-inf``, which nothing can be drawn
    from.

    Args:
        draw: The head's choice, which made the scores.
        inner: The processors that rule tokens out.
    """

    def __init__(self, draw: Draw, inner: Any) -> None:
        self.draw, self.inner = draw, inner

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Processed scores (B, V) with something finite in every row, where that is possible."""
        processed = self.inner(input_ids, scores)
        while bool((nothing := processed.amax(-1) == -torch.inf).any()):
            redrawn = self.draw.redraw(nothing)
            if redrawn is None:
                break
            processed = torch.where(nothing[:, None], self.inner(input_ids, redrawn.to(scores)), processed)
        return processed
