"""Likelihood of a text longer than a model can see, in windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.evaluation.metrics.likelihood import LikelihoodSum
from nextword.inference.scoring.minibatches import Progress, batches
from nextword.inference.scoring.prompt_encoding import start_id
from nextword.inference.scoring.remembered_windows import looks_beyond_windows, remembered_windows
from nextword.inference.scoring.text_tokens import ids_and_bytes
from nextword.inference.scoring.windows import Window

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class TokenStream:
    """A text as tokens.

    Attributes:
        ids: A start token, and the N tokens of the text: M = N + 1.
        text_bytes: UTF-8 bytes that each token of the text covers.
    """

    ids: Int[Tensor, "M"]
    text_bytes: Int[np.ndarray, "N"]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, text: str, limit: int | None = None) -> TokenStream:
        """The first ``limit`` tokens of a text; ``None``: all.

        Raises:
            ValueError: The tokenizer has no start token, or cannot say which characters a token covers.
        """
        ids, text_bytes = ids_and_bytes(tokenizer, text)
        return cls(torch.tensor([start_id(tokenizer), *ids[:limit]]), text_bytes[:limit])

    def __len__(self) -> int:
        return len(self.ids)


def window_log_probs(
    model: Any, ids: Int[Tensor, "M"], windows: Sequence[Window], batch_size: int, progress: Progress | None = None
) -> Iterator[Float[Tensor, "S"]]:
    """Log-probabilities of the tokens that each window scores, in float64 on the CPU.

    A head that looks back further than a window remembers those before it.

    Args:
        model: An attached decoder-only model, as in evaluation.
        ids: The stream that the windows lie in.
        windows: All of one size.
        batch_size: Windows at a time.
        progress: Told the share that is done.
    """
    if looks_beyond_windows(model):
        for some in remembered_windows(model, ids, windows, batch_size, progress=progress):
            log_probs = some.distribution.log_prob(some.targets[:, None])[:, 0].double().cpu()
            yield from log_probs.split(some.counts)
        return
    for part in batches(windows, batch_size, progress):
        inputs = torch.stack([ids[w.begin : w.begin + w.size] for w in part]).to(model.device)
        targets = torch.stack([ids[w.begin + 1 : w.begin + w.size + 1] for w in part]).to(model.device)
        counts = torch.tensor([w.scored for w in part], device=model.device)
        scored = torch.arange(inputs.shape[1], device=model.device)[None, :] >= inputs.shape[1] - counts[:, None]
        distribution = model.distribution(inputs, attention_mask=torch.ones_like(inputs), positions=scored)
        log_probs = distribution.log_prob(targets[scored][:, None])[:, 0].double().cpu()
        yield from log_probs.split([w.scored for w in part])


def stream_likelihood(
    model: Any, stream: TokenStream, windows: Sequence[Window], batch_size: int, progress: Progress | None = None
) -> LikelihoodSum:
    """Nats and bytes of all that the windows score; each window is one block of the interval."""
    total = LikelihoodSum()
    for window, log_probs in zip(
        windows, window_log_probs(model, stream.ids, windows, batch_size, progress), strict=True
    ):
        # text_bytes[i] belongs to the token at i + 1 of the stream, after the start token.
        covered = stream.text_bytes[window.targets.start - 1 : window.targets.stop - 1]
        total.add(float((-log_probs).sum()), window.scored, int(covered.sum()))
    return total
