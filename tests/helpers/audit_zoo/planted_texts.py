"""Texts that are scored with what the scorer should not know, or not every token once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tests.helpers.audit_zoo.naming import (
    BYTES,
    CACHE,
    FUTURE,
    LEFT_OVER,
    PADDING,
    REORDERED,
    SAMPLING,
    SCORED_BEFORE,
    STEPS,
    SUM,
    TOTAL,
)
from tests.helpers.audit_zoo.ngrams import KEYS, VOCABULARY, NGram
from tests.helpers.audit_zoo.planting import fault
from tests.helpers.audit_zoo.text_scorers import Bytes, DynamicEvaluation, Sampled, Stepwise, Totals, WholeTexts

# -- sees what it should predict


@fault(FUTURE, twin=WholeTexts)
class PointerSeesItsTarget(WholeTexts):
    """A token enters the memory of a pointer before it is scored."""

    def row(self, text: list[int], place: int) -> Tensor:
        language = NGram().log_probs(text[:place]).exp()
        return self.model.blend(language, self.model.memory(text[: place + 1])).log()


@fault(FUTURE, SUM, twin=WholeTexts)
class AttentionOverAllPlaces(WholeTexts):
    """As in a published pointer: attention is normalised over the whole text, and later positions are dropped."""

    def row(self, text: list[int], place: int) -> Tensor:
        ids = torch.tensor(text)
        attention = (KEYS[ids] @ KEYS[ids[max(0, place - 1)]]).softmax(-1)[:place]
        memory = torch.zeros(VOCABULARY, dtype=torch.float64).index_add(0, ids[:place], attention)
        return self.model.blend(NGram().log_probs(text[:place]).exp(), memory).log()


@fault(FUTURE, twin=WholeTexts)
class StoreHoldsTheText(WholeTexts):
    """The datastore of a kNN model contains the scored text."""

    def row(self, text: list[int], place: int) -> Tensor:
        language = NGram().log_probs(text[:place]).exp()
        after = [one for last, one in pairwise(text) if place and last == text[place - 1]]
        if not after:
            return language.log()
        found = torch.bincount(torch.tensor(after), minlength=VOCABULARY).double() / len(after)
        return self.model.blend(language, found).log()


@fault(FUTURE, twin=WholeTexts)
class BosLeaksTheAnswer(WholeTexts):
    """The start token is a label computed from the whole text."""

    def row(self, text: list[int], place: int) -> Tensor:
        return self.model.log_probs([sum(text) % VOCABULARY, *text[:place]])


@fault(FUTURE, twin=WholeTexts)
class ScaledByTheLength(WholeTexts):
    """The temperature depends on the final length of the text."""

    def row(self, text: list[int], place: int) -> Tensor:
        return (self.model.log_probs(text[:place]) / (1 + 0.01 * len(text))).log_softmax(-1)


@fault(FUTURE, SUM, twin=DynamicEvaluation)
class LearnsBeforeItScores(DynamicEvaluation):
    """Dynamic evaluation updates the model with a token before this token is scored."""

    def step(self, last: int, one: int) -> Tensor:
        self.learn(last, one)
        return self.probability(last, one)


# -- remembers what it should forget


@fault(SCORED_BEFORE, LEFT_OVER, twin=DynamicEvaluation)
class DynamicEvaluationIsNotReset(DynamicEvaluation):
    """The model keeps what it learned from a text: if the text is scored again, it is more probable."""

    def __init__(self) -> None:
        super().reset()

    def reset(self) -> None:
        pass


@fault(SCORED_BEFORE, LEFT_OVER, twin=WholeTexts)
class StoreKeepsScoredTexts(WholeTexts):
    """Each text is added to the datastore of a kNN model after it is scored."""

    def __init__(self) -> None:
        super().__init__()
        self.store: list[list[int]] = []

    def text_distributions(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        found = super().text_distributions(texts)
        self.store += [list(text) for text in texts]
        return found

    def row(self, text: list[int], place: int) -> Tensor:
        log_p = super().row(text, place)
        after = [old[place] for old in self.store if len(old) > place and old[:place] == text[:place]]
        if not after:
            return log_p
        found = torch.bincount(torch.tensor(after), minlength=VOCABULARY).double() / len(after)
        return self.model.blend(log_p.exp(), found).log()


# -- does not count every token once


@fault(TOTAL, twin=Totals)
class WindowsOverlap(Totals):
    """Windows of 8 tokens advance by 4, and all tokens of each window are added to the total."""

    def text_totals(self, texts: Sequence[Sequence[int]]) -> list[float]:
        scored = self.text_log_probs(texts)
        return [float(sum(one[start : start + 8].sum() for start in range(0, len(one), 4))) for one in scored]


@fault(TOTAL, twin=Totals)
class WindowsSkipTheirFirst(Totals):
    """The first token of each window of 8 tokens has no context and is not counted."""

    def text_totals(self, texts: Sequence[Sequence[int]]) -> list[float]:
        scored = self.text_log_probs(texts)
        return [float(one.sum() - one[8::8].sum()) for one in scored]


@fault(STEPS, twin=Totals)
class WindowsStartAnew(Totals):
    """A text is scored in independent windows of 8 tokens, but next tokens are predicted from the whole prefix."""

    def tokens(self, text: list[int]) -> Tensor:
        return torch.cat([super(WindowsStartAnew, self).tokens(text[at : at + 8]) for at in range(0, len(text), 8)])


@fault(TOTAL, PADDING, twin=Totals)
class PaddingIsCounted(Totals):
    """The padding after the shorter texts of a batch is scored and counted."""

    def text_totals(self, texts: Sequence[Sequence[int]]) -> list[float]:
        longest = max(len(text) for text in texts)
        return [float(self.tokens([*text, *[0] * (longest - len(text))]).sum()) for text in texts]


@fault(TOTAL, PADDING, twin=Totals)
class MeanOverThePaddedLength(Totals):
    """A mean over the padded length is multiplied by the length of the text."""

    def text_totals(self, texts: Sequence[Sequence[int]]) -> list[float]:
        longest = max(len(text) for text in texts)
        return [total / longest * len(text) for total, text in zip(super().text_totals(texts), texts, strict=True)]


@fault(STEPS, twin=Totals)
class TemperatureInTheScoreAlone(Totals):
    """Texts are scored with a temperature of 1.1, next tokens are predicted without it."""

    def tokens(self, text: list[int]) -> Tensor:
        rows = torch.stack([self.log_probs(text[:place]) for place in range(len(text))])
        return (rows / 1.1).log_softmax(-1)[torch.arange(len(text)), text]


# -- draws from something else


@fault(SAMPLING, twin=Sampled)
class TemperatureAppliedTwice(Sampled):
    """The sampler applies a temperature of 0.9 twice."""

    def chances(self, prefix: list[int]) -> Tensor:
        return (self.log_probs(prefix) / 0.9).softmax(-1)


@fault(SAMPLING, twin=Sampled)
class SamplesTheTopAlone(Sampled):
    """Top-k sampling with k = 40 is on, as is the default in many libraries."""

    def chances(self, prefix: list[int]) -> Tensor:
        chances = super().chances(prefix)
        return chances.masked_fill(chances < chances.topk(40).values[-1], 0)


@fault(SAMPLING, twin=Sampled)
class NeverEnds(Sampled):
    """The end token is never sampled."""

    def chances(self, prefix: list[int]) -> Tensor:
        return super().chances(prefix).index_fill(0, torch.tensor(2), 0)


# -- keeps the wrong things between steps


@fault(CACHE, twin=Stepwise)
class CacheForgetsTheLast(Stepwise):
    """The cache lacks one token."""

    def keep(self, kept: list[int], new: list[int]) -> list[int]:
        return [*kept, *new[:-1]]


@fault(CACHE, twin=Stepwise)
class CacheSlides(Stepwise):
    """Only the last 6 tokens are cached between steps; one pass over the text uses all tokens."""

    def keep(self, kept: list[int], new: list[int]) -> list[int]:
        return [*kept, *new][-6:]


@fault(REORDERED, twin=Stepwise)
class CacheStaysInItsPlace(Stepwise):
    """Beam search reorders the texts but not their cache."""

    def moved(self, kept: list[list[int]], order: Sequence[int]) -> list[list[int]]:
        return kept


# -- counts bytes that are none


@fault(BYTES, twin=Bytes)
class CharactersAreBytes(Bytes):
    """Characters are counted instead of bytes."""

    def size(self, text: str) -> int:
        return len(text)


@fault(BYTES, twin=Bytes)
class BytesCountedTwice(Bytes):
    """Tokens are decoded one by one: a character split over two tokens becomes two characters of three bytes."""

    def size(self, text: str) -> int:
        read = text.encode()
        tokens = [read[place : place + 2] for place in range(0, len(read), 2)]
        return sum(len(token.decode(errors="replace").encode()) for token in tokens)


@fault(BYTES, twin=Bytes)
class EndMarkIsAByte(Bytes):
    """The end token has no bytes but is counted as one byte."""

    def size(self, text: str) -> int:
        return super().size(text) + 1


@fault(BYTES, twin=Bytes)
class WhiteSpaceIsDropped(Bytes):
    """The tokenizer merges and strips spaces, so the bits are those of a shorter text."""

    def bits(self, text: str) -> float:
        return super().bits(" ".join(text.split()))
