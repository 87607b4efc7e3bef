"""The model's own next token at each position of a pass: what drafts are compared with."""

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
    """One uniform number in [0, 1) per text and new token, so that samples are the same with and without drafting.

    Args:
        texts: Number of texts.
        given: Use these numbers (B, T); None: draw them from torch's generator when needed.
    """

    def __init__(self, texts: int, given: Float[Tensor, "B T"] | None = None) -> None:
        self._texts = texts
        self._drawn: list[list[float]] = [] if given is None else given.T.tolist()

    def at(self, row: int, step: int) -> float:
        """The choice of one token."""
        while len(self._drawn) <= step:
            self._drawn.append(torch.rand(self._texts, dtype=torch.float64).tolist())
        return self._drawn[step][row]


class TokenChoice:
    """Chooses each token as ``generate`` does without drafts: the head's choice, the processors, then best or drawn.

    A drafted token is accepted where it is the token chosen here, so greedy texts are the same, and sampled ones follow
    the same distribution: every token is sampled from the model's own probabilities behind the tokens before it.

    Only what decides is asked for. Where no processor acts, scores of all tokens are made for a few positions at a
    time, and where the head makes a choice of its own (a class of ``f2``), only what it chose is scored, and only at
    positions behind accepted tokens.

    It is what a pass is given as ``ask``.

    Args:
        head: The model's head.
        draw: The head's own choice before a token; None: it makes none.
        processors: Processors of ``generate``, which see one text at a time.
        numbers: Random numbers for the tokens; None: the most probable one is taken.
        several: Whether the distribution will be asked more than for tokens.
        first: Number of the first text.
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
        """Takes the distribution of a pass; nothing is asked yet."""
        self.distribution = distribution.computed() if self._several else distribution
        return torch.empty(len(distribution), 0, device=distribution.device)

    @property
    def device(self) -> Any:
        """Where the distribution is."""
        return self.distribution.device

    def begin(self, written: Sequence[int], width: int) -> None:
        """A pass is to be verified that read ``width`` tokens of each text, behind so many new ones of it."""
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
        """The token of each of some texts, behind the same one of the tokens that the pass read of them.

        Args:
            rows: Which texts.
            column: Behind which of these tokens.
            steps: How many new tokens come before it in each text.
            contexts: Each text up to there (1, T).
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
        # after all processors, which see one text at a time
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
        """The numbers by which tokens of these rows and steps are drawn; None: nothing is drawn."""
        if self._numbers is None:
            return None
        numbers = [self._numbers.at(self._first + row, step) for row, step in at]
        return torch.tensor(numbers, dtype=torch.float64, device=self.device)


# -- What happens where a head's choice leaves no token that generation allows.


class RedrawProcessor(LogitsProcessor):
    """Applies generation's own processors (``inner``), and lets the head choose again where they ruled out everything.

    A class of one token that must not be repeated would otherwise leave a row of ``-inf``, which nothing can be drawn
    from.
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
