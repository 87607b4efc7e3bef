"""Chooses the model's token at each position of a pass, with which the draft token there is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

from nextword.distribution import NextToken
from nextword.functional.chunked_loss import row_chunks
from nextword.functional.probability import drawn_at
from nextword.heads.head import Draw, Head


class RandomNumbers:
    """Random numbers, one in [0, 1) per text and new token, so that drafting changes no sampled token.

    Args:
        texts: Number of texts.
        given: Numbers (B, T) to use; None: torch's generator makes them when needed.
    """

    def __init__(self, texts: int, given: Float[Tensor, "B T"] | None = None) -> None:
        self._texts = texts
        self._drawn: list[list[float]] = [] if given is None else given.T.tolist()

    def at(self, row: int, step: int) -> float:
        """The number for new token ``step`` of text ``row``."""
        while len(self._drawn) <= step:
            self._drawn.append(torch.rand(self._texts, dtype=torch.float64).tolist())
        return self._drawn[step][row]


class TokenChoice:
    """Chooses each token as ``generate`` does without drafts.

    First the head makes its choice, if it has one, such as a class of ``f2``. The processors change the scores of the
    tokens that this choice allows, and the most probable token or a sampled one is chosen. A draft token is accepted if
    it equals the chosen token. So greedy texts are the same as without drafts. Sampled texts have the same
    distribution, because every token is sampled from the model's own probabilities.

    Few scores are in memory at a time. Without ``processors``, the scores of the whole vocabulary are computed for a
    few positions at a time. If the head chooses a class first (``f2``), only tokens of this class are scored, and only
    at positions whose earlier draft tokens were accepted.

    The model's ``forward`` gets an instance as its argument ``ask``.

    Args:
        head: The model's head.
        draw: Object that makes the head's choice before each token; None: the head makes no choice.
        processors: Logits processors of ``generate``, which get one text at a time.
        numbers: Random numbers for sampling; None: the most probable token is chosen.
        several: Whether the drafter also uses the distribution. The distribution then keeps its scores.
        first: Index in the batch of the first text of a pass.
    """

    def __init__(
        self, head: Head, draw: Draw | None, processors: Sequence[Any], numbers: RandomNumbers | None, several: bool,
        first: int = 0,
    ) -> None:  # fmt: skip
        self._head, self._draw, self._numbers, self._several, self._first = head, draw, numbers, several, first
        rules = LogitsProcessorList(processors)
        self._rules: Any = rules if draw is None else RedrawProcessor(draw, rules)
        self._ruled = bool(processors)
        self.distribution: Any = None
        self._scores: Any = None
        self._tokens: list[int] = []

    def __call__(self, distribution: NextToken) -> Float[Tensor, "N nothing"]:
        """Stores the distribution of a pass; computes its scores only if ``several``. Returns an empty tensor."""
        self.distribution = distribution.computed() if self._several else distribution
        return torch.empty(len(distribution), 0, device=distribution.device)

    @property
    def device(self) -> Any:
        """Device of the distribution."""
        return self.distribution.device

    def begin(self, written: Sequence[int], width: int) -> None:
        """Begins the verification of a pass over ``width`` tokens per text.

        ``written`` is the number of new tokens of each text before the pass.
        """
        self._width = width
        if self._draw is not None:
            return
        if self._ruled:
            self._scores = self._scored(self.distribution)
            return
        at = [(row, step + column) for row, step in enumerate(written) for column in range(width)]
        parts = row_chunks(len(at), self.distribution.row_bytes(), self.device)
        of_parts = [self.distribution] if len(parts) == 1 else [self.distribution[part] for part in parts]
        self._tokens = [
            token
            for part, distribution in zip(parts, of_parts, strict=True)
            for token in self._chosen(self._scored(distribution), at[part]).tolist()
        ]

    def tokens(self, rows: Sequence[int], column: int, steps: Sequence[int], contexts: Sequence[Tensor]) -> list[int]:
        """Returns the token that the model chooses in each of the texts ``rows`` after token ``column`` of the pass.

        Args:
            rows: Indices of the texts.
            column: Index among the tokens of the pass. The chosen token follows the token with this index.
            steps: For each text, the number of new tokens before the chosen token.
            contexts: For each text, its tokens before the chosen token (1, T).
        """
        positions, at = [row * self._width + column for row in rows], list(zip(rows, steps, strict=True))
        if self._ruled:
            each = zip(positions, at, contexts, strict=True)
            return [self._ruled_token(position, number, context) for position, number, context in each]
        if self._draw is None:
            return [self._tokens[position] for position in positions]
        chosen = self._draw.token(self.distribution[torch.tensor(positions, device=self.device)], self._uniform(at))
        found: list[int] = chosen.tolist()
        return found

    def _ruled_token(self, position: int, number: tuple[int, int], context: Tensor) -> int:
        # the token after all processors, which get one text at a time
        if self._draw is None:
            scores = self._scores[position : position + 1].clone()
        else:
            scores = self._draw(self.distribution[position : position + 1]).to(torch.float32)
        return int(self._chosen(self._rules(context, scores), [number]))

    def _scored(self, distribution: NextToken) -> Float[Tensor, "M V"]:
        scores = self._head.logits(distribution).to(torch.float32)
        if bool(scores.amax(-1).isnan().any()):
            raise FloatingPointError("the scores of the next token are nan")
        return scores

    def _chosen(self, scores: Float[Tensor, "M V"], at: Sequence[tuple[int, int]]) -> Tensor:
        uniform = self._uniform(at)
        return scores.argmax(-1) if uniform is None else drawn_at(scores, uniform)

    def _uniform(self, at: Sequence[tuple[int, int]]) -> Float[Tensor, "M"] | None:
        """The random numbers for tokens of these rows and steps; None: greedy."""
        if self._numbers is None:
            return None
        numbers = [self._numbers.at(self._first + row, step) for row, step in at]
        return torch.tensor(numbers, dtype=torch.float64, device=self.device)


# -- A new choice by the head if its first choice leaves no token that generation allows.


class RedrawProcessor(LogitsProcessor):
    """Applies the processors ``inner``. If they exclude all tokens that ``draw`` allows, ``draw`` chooses again.

    For example, the head may choose a class whose only token must not be repeated. Then all scores would be ``-inf``.
    """

    def __init__(self, draw: Draw, inner: Any) -> None:
        self.draw, self.inner = draw, inner

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Processed scores (B, V) with a finite score in every row, if possible."""
        processed = self.inner(input_ids, scores)
        while bool((nothing := processed.amax(-1) == -torch.inf).any()):
            redrawn = self.draw.redraw(nothing)
            if redrawn is None:
                break
            processed = torch.where(nothing[:, None], self.inner(input_ids, redrawn.to(scores)), processed)
        return processed
