"""Probabilities that do not add up, or are none."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tests.helpers.audit_zoo.naming import NEGATIVE, SUM, UNSCORED
from tests.helpers.audit_zoo.ngrams import KEYS, VOCABULARY, NGram, Pointer, SinglePrecision, UnigramCache
from tests.helpers.audit_zoo.planting import fault

FREQUENT = 17
"""A token id that some code keeps for itself."""


@fault(SUM, twin=UnigramCache)
class UnnormalisedCache(UnigramCache):
    """The cache adds counts of tokens, not their relative frequencies: the sum grows with the text."""

    def memory(self, prefix: list[int]) -> Tensor:
        return super().memory(prefix) * len(prefix)


@fault(SUM, twin=UnigramCache)
class WeightsMissByAThousandth(UnigramCache):
    """The weights of a mixture sum to 1.001."""

    def blend(self, language: Tensor, memory: Tensor) -> Tensor:
        return (1 - self.SHARE) * language + (self.SHARE + 0.001) * memory


@fault(SUM, twin=NGram)
class LabelSmoothingLeftIn(NGram):
    """Scores are the label-smoothed training loss: 0.9 log p plus 0.1 times the mean of all log p."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        log_p = super().log_probs(prefix)
        return 0.9 * log_p + 0.1 * log_p.mean()


@fault(SUM, twin=NGram)
class TemperatureAfterTheSoftmax(NGram):
    """A second temperature divides the log-probabilities, which are not normalised again."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        return (self.scores(prefix) / 1.2).log_softmax(-1) / 1.2


@fault(SUM, twin=UnigramCache)
class DuplicatesLostInAScatter(UnigramCache):
    """Each position overwrites the share of its token instead of adding to it, so a repeated token has one share."""

    def memory(self, prefix: list[int]) -> Tensor:
        ids = torch.tensor(prefix, dtype=torch.long)
        return torch.zeros(VOCABULARY, dtype=torch.float64).scatter(0, ids, 1 / max(1, len(prefix)))


@fault(SUM, twin=SinglePrecision)
class SumsInBfloat16(SinglePrecision):
    """The normaliser is summed in bfloat16."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        scores = self.scores(prefix)
        total = torch.zeros((), dtype=torch.bfloat16)
        for weight in scores.exp().bfloat16():
            total += weight
        return scores - total.float().log()


@fault(SUM, twin=NGram)
class LogarithmsToBaseTwo(NGram):
    """Scores are in bits instead of nats."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        return super().log_probs(prefix) / math.log(2)


@fault(SUM, UNSCORED, twin=NGram)
class TruncatedAndNotRenormalised(NGram):
    """Top-p truncation is on, and the remaining probabilities are not normalised."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        log_p = super().log_probs(prefix)
        ordered, ids = log_p.sort(descending=True)
        outside = ordered.exp().cumsum(0) - ordered.exp() > 0.9
        return log_p.masked_fill(torch.zeros_like(outside).scatter(0, ids, outside), -torch.inf)


@fault(SUM, twin=NGram)
class ClippedBelow(NGram):
    """Probabilities are clipped at 1e-12 and not normalised again."""

    def scores(self, prefix: list[int]) -> Tensor:
        return 8 * super().scores(prefix)

    def log_probs(self, prefix: list[int]) -> Tensor:
        return super().log_probs(prefix).exp().clamp_min(1e-12).log()


@fault(SUM, twin=NGram)
class EpsilonInTheLogarithm(NGram):
    """log(p + 1e-8), as in published code: rare tokens get too much probability."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        return (super().log_probs(prefix).exp() + 1e-8).log()


@fault(SUM, twin=Pointer)
class AttentionOverTheWholeWindow(Pointer):
    """As in a published pointer: attention is normalised over later positions too, and their mass is dropped."""

    def attention(self, ids: Tensor) -> Tensor:
        if not len(ids):
            return super().attention(ids)
        window = torch.cat([ids, ids.new_zeros(16)])
        return (KEYS[window] @ KEYS[ids[-1]]).softmax(-1)[: len(ids)]


@fault(SUM, twin=UnigramCache)
class EmptyMemory(UnigramCache):
    """The cache contains tokens older than 4 steps; the model has weight 0.7 even while the cache is empty."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        return self.blend(NGram.log_probs(self, prefix).exp(), self.memory(prefix[:-4])).log()


@fault(SUM, twin=NGram)
class OneUnknownForManyWords(NGram):
    """Every token outside a list of 50 gets the whole probability of the unknown token."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        log_p = super().log_probs([min(one, 50) for one in prefix])
        listed = torch.cat([log_p[:50], log_p[50:].logsumexp(0, keepdim=True)])
        return listed[torch.arange(VOCABULARY).clamp_max(50)]


@fault(SUM, NEGATIVE, twin=NGram)
class ScoresInPlaceOfLogProbs(NGram):
    """It returns logits."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        return self.scores(prefix)


@fault(SUM, NEGATIVE, twin=NGram)
class ProbsInPlaceOfLogProbs(NGram):
    """It returns probabilities instead of log-probabilities."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        return super().log_probs(prefix).exp()


@fault(NEGATIVE, twin=UnigramCache)
class ZeroTimesInfinity(UnigramCache):
    """A mixture in log space multiplies log 0 by 0 while its memory is empty."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        used = float(len(prefix) > 3)
        language, memory = NGram.log_probs(self, prefix), used * self.memory(prefix).log()
        return torch.logaddexp(math.log(1 - self.SHARE * used) + language, math.log(self.SHARE) + memory)


@fault(SUM, twin=NGram)
class ArgmaxIsCertain(NGram):
    """The most probable token gets probability 1, and the others keep theirs."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        log_p = super().log_probs(prefix)
        return log_p.index_fill(0, log_p.argmax(), 0.0)


@fault(UNSCORED, twin=NGram)
class ArgmaxAlone(NGram):
    """Greedy decoding as a distribution: 1 for the most probable token, 0 for all others."""

    def log_probs(self, prefix: list[int]) -> Tensor:
        log_p = super().log_probs(prefix)
        return torch.full_like(log_p, -torch.inf).index_fill(0, log_p.argmax(), 0.0)


@fault(UNSCORED, twin=NGram)
class OneTokenIsImpossible(NGram):
    """One token id is reserved for a sentinel and never predicted."""

    def scores(self, prefix: list[int]) -> Tensor:
        return super().scores(prefix).index_fill(0, torch.tensor(FREQUENT), -torch.inf)


@fault(SUM, twin=Pointer)
class OneTokenIsNotCopied(Pointer):
    """As in published code with id 100: the pointer's probability for one token id is dropped."""

    def memory(self, prefix: list[int]) -> Tensor:
        return super().memory(prefix).index_fill(0, torch.tensor(FREQUENT), 0.0)
