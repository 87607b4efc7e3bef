"""Reading distributions off a scorer: after every prefix, of whole texts, or of observed tokens alone."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.checking.probe_texts import Batch
from nextword.checking.ways_of_reading import Reader

CALL, TEXTS, OBSERVED = "__call__", "text_distributions", "text_log_probs"
WAYS = (CALL, TEXTS, OBSERVED)
"""Methods by which a scorer can be asked, those first that are held to be right where two contradict each other."""


_LONGEST_COPY = 2**26
"""Bytes; a copy of a large model takes memory that the audit promises not to."""


class WrongAnswerError(ValueError):
    """A scorer's answer is no answer to the question: too few rows, or not so many numbers."""


class ScorerReader(Reader):
    """Asks a scorer in one of its ways.

    A text is asked about with one more token behind it, so that what comes after it is told too. Nothing is padded.

    Args:
        scorer: A scorer (``Scorer``).
        way: One of ``WAYS``, a method that it has.
        vocabulary: Number of tokens.
        copied: The scorer as ``copy_of`` found it, before anything was asked.
    """

    def __init__(self, scorer: Any, way: str, vocabulary: int, copied: bytes | None = None) -> None:
        super().__init__(scorer, way)
        self._copied = copied
        self.name = way
        self.lag = int(way == OBSERVED)
        self.vocabulary = vocabulary

    def texts(self, batch: Batch) -> list[list[int]]:
        """The texts of a batch, as a scorer is given them."""
        return [ids[mask].tolist() for ids, mask in zip(batch.ids.cpu(), batch.mask.cpu(), strict=True)]

    def asked(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """For each text of T tokens (T, V), or (T, 1) where only observed tokens are scored: row t is about token t.

        Raises:
            WrongAnswerError: The answer has another shape.
        """
        self._reset()
        if self.mode == CALL:
            return self._after_prefixes(texts)
        found = [tensor(answer) for answer in getattr(self.model, self.mode)([list(text) for text in texts])]
        wide = (self.vocabulary,) if self.mode == TEXTS else ()
        wanted = [(len(text), *wide) for text in texts]
        self._expect(wanted, [tuple(answer.shape) for answer in found])
        return [answer.reshape(len(answer), -1) for answer in found]

    def untouched(self) -> ScorerReader:
        """The same scorer as it was before anything was asked."""
        assert self._copied is not None
        return ScorerReader(pickle.loads(self._copied), self.mode, self.vocabulary)

    def side_by_side(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """As ``asked``, but with texts and prefixes of all lengths in one call."""
        if self.mode != CALL:
            return self.asked(texts)
        self._reset()
        prefixes = [list(text[:length]) for text in texts for length in range(1, len(text))]
        answer = tensor(self.model(prefixes))
        self._expect([(len(prefixes), self.vocabulary)], [tuple(answer.shape)])
        nothing = answer.new_full((1, self.vocabulary), torch.nan)
        return [torch.cat([nothing, told]) for told in torch.split(answer, [len(text) - 1 for text in texts])]

    @property
    def base(self) -> ScorerReader:
        """The same scorer asked in the way that is held to be right; itself where it is that way."""
        way = ways_of(self.model)[0]
        return self if way == self.mode else ScorerReader(self.model, way, self.vocabulary)

    @property
    def precision(self) -> torch.dtype:
        """In which its sums were made, as far as one knows."""
        return torch.float64 if getattr(self.model, "precision", "") == "float64" else torch.float32

    def in_steps(
        self, batch: Batch, sizes: tuple[int, ...], order: Int[Tensor, "B"] | None = None
    ) -> Float[Tensor, "N V"]:
        """As of any reader; texts are told with one token more, as everywhere."""
        self._reset()
        texts = self._longer(self.texts(batch))
        found = self.model.in_steps(texts, list(sizes), None if order is None else order.tolist())
        answers = [tensor(answer) for answer in found]
        self._expect([(len(text), self.vocabulary) for text in texts], [tuple(answer.shape) for answer in answers])
        return torch.cat([answer[1:] for answer in answers])

    def _all_log_probs(self, batch: Batch) -> Float[Tensor, "N K"]:
        return torch.cat([answer[1:] for answer in self.asked(self._longer(self.texts(batch)))])

    def _after_prefixes(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        # prefixes of one length are asked about together, as a batch of texts that are written is
        found = [torch.full((len(text), self.vocabulary), torch.nan) for text in texts]
        for length in range(1, max(len(text) for text in texts)):
            rows = [row for row, text in enumerate(texts) if len(text) > length]
            answer = tensor(self.model([list(texts[row][:length]) for row in rows]))
            self._expect([(len(rows), self.vocabulary)], [tuple(answer.shape)])
            for row, told in zip(rows, answer, strict=True):
                found[row] = found[row].to(torch.promote_types(found[row].dtype, told.dtype))
                found[row][length] = told
        return found

    def _reset(self) -> None:
        if callable(getattr(self.model, "reset", None)):
            self.model.reset()

    def _longer(self, texts: list[list[int]]) -> list[list[int]]:
        return [[*text, text[0]] for text in texts]

    def _expect(self, wanted: Sequence[tuple[int, ...]], given: Sequence[tuple[int, ...]]) -> None:
        if wanted != given:
            raise WrongAnswerError(f"{self.mode}: must answer in shapes {wanted} ({given} given)")


def ways_of(scorer: Any) -> tuple[str, ...]:
    """In which ways a scorer can be asked."""
    return tuple(way for way in WAYS if callable(getattr(scorer, way, None)))


def lacks(method: str) -> Callable[[Any], str]:
    """For ``Property.applies``: why a scorer without this method is not asked, and nothing where it has it."""
    return lambda scorer: "" if callable(getattr(scorer, method, None)) else f"the scorer has no {method}"


def copy_of(scorer: Any) -> bytes | None:
    """A copy to be read again with ``untouched``; None where none can be made, or none of less than 64 MiB."""
    copied = _Short()
    try:
        pickle.dump(scorer, copied)
    except Exception:  # of anything: local functions, open files, connections, or too large
        return None
    return copied.getvalue()


class _Short(io.BytesIO):
    def write(self, part: Any) -> int:
        if self.tell() + len(part) > _LONGEST_COPY:
            raise ValueError("copy: must be short")
        return super().write(part)


def tensor(answer: Any) -> Tensor:
    """A scorer's numbers as a tensor on the CPU without gradients."""
    return torch.as_tensor(answer).detach().cpu()
