"""Compares sampled tokens with the stated probabilities, and tests that probabilities sum to one."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.checking.audit.scorer import OBSERVED, lacks, ways_of
from nextword.checking.property import Case, Deviation, Property, at_least_single
from nextword.checking.readers import Reader, in_blocks

_TOKENS = 2_000_000
"""Maximum number of tokens that a model with a thousand weights reads to generate samples; larger models read
proportionally fewer."""

DRAWS = 4000
"""Number of tokens that are sampled after each prefix, if sampling is cheap."""

_AT_ONCE = 250
"""Maximum batch size of generation, because each text needs its own cache."""

_SCORES = 1_000_000
"""Maximum number of scores in a batch, because ``generate`` copies them and the vocabulary may be large."""

PREFIXES = 8
"""Number of prefixes of one text."""

_TESTS = 3
"""Number of tests of samples, which share the allowed false-alarm rate: ``largest_step`` (all tokens, in order of
probability), ``least_likely_tail`` (rare tokens), and ``least_likely`` (single tokens)."""

_TAILS = 10
"""Number of tails that ``least_likely_tail`` tests. In order of decreasing probability, tail j begins where the tokens
before it have the total probability ``1 - 2^-j``."""


def positions_in_order(log_probs: Float[Tensor, "V"], drawn: Int[Tensor, "n"], seed: int) -> Float[Tensor, "n"]:
    """Maps each token in ``drawn`` to a number, which is uniform on [0, 1] if tokens are sampled from ``log_probs``.

    A token's number is the total probability of all more probable tokens, plus a random part of the token's own
    probability (the probability integral transform of a discrete distribution). ``seed`` seeds the random parts.
    Numbers for different prefixes can be pooled, because all are uniform. Sampling with a temperature or truncation
    shifts all numbers in one direction.
    """
    p = log_probs.double().exp()
    order = p.argsort(descending=True)
    before = torch.empty_like(p)
    before[order] = p[order].cumsum(0) - p[order]
    part = torch.rand(len(drawn), generator=torch.Generator().manual_seed(_SEED + seed), dtype=torch.float64)
    return before[drawn] + part * p[drawn]


def largest_step(uniform: Float[Tensor, "n"]) -> float:
    """Kolmogorov-Smirnov distance of the numbers ``uniform`` from the uniform distribution on [0, 1]."""
    found = uniform.sort().values
    steps = torch.arange(len(found) + 1, dtype=torch.float64) / len(found)
    return float(torch.maximum(steps[1:] - found, found - steps[:-1]).max())


def least_likely_tail(uniform: Float[Tensor, "n"]) -> tuple[int, float]:
    """Finds the j (1 to 10) for which the count of numbers in ``uniform`` above ``1 - 2^-j`` is least probable.

    Returns j, and the log of the binomial tail probability of this count (the smaller of the two tails).
    """
    from scipy.stats import binom

    chances = []
    for j in range(1, _TAILS + 1):
        n, p = len(uniform), 2.0**-j
        count = int((uniform > 1 - p).sum())
        chances.append((float(min(binom.logcdf(count, n, p), binom.logsf(count - 1, n, p))), j))
    chance, j = min(chances)
    return j, chance


def least_likely(log_probs: Float[Tensor, "V"], drawn: Int[Tensor, "n"]) -> float:
    """Returns the log of the smallest binomial tail probability that any token's count in ``drawn`` has."""
    from scipy.stats import binom

    counts, p = torch.bincount(drawn, minlength=len(log_probs)).numpy(), log_probs.double().exp().clamp_max(1).numpy()
    tails = binom.logcdf(counts, len(drawn), p), binom.logsf(counts - 1, len(drawn), p)
    return float(min(tail.min() for tail in tails))


_SEED = 0x5EED_0F_A0D17
"""Random seed of these tests. It differs from the likely seeds of a tested sampler, so that both are independent."""

Draws = list[tuple[list[int], Tensor, Tensor]]
"""For each prefix: its tokens, the stated log-probabilities of the next token, and sampled next tokens."""


def judged(draws: Draws) -> Iterator[Deviation]:
    """Yields a deviation for each test of the samples in ``draws``; above 1, the test fails.

    The deviation is the test's statistic, divided by the largest value that ``FALSE_ALARM_SAMPLED`` permits.
    """
    together = torch.cat([positions_in_order(told, drawn, seed) for seed, (_, told, drawn) in enumerate(draws)])
    gap, bound = largest_step(together), largest_gap(len(together), _TESTS)
    at = f"{gap:.4g} of the probability is misplaced in {len(together)} samples; chance explains {bound:.4g}"
    yield Deviation("all tokens in order of probability", gap / bound, at)
    j, chance = least_likely_tail(together)
    share = float((together > 1 - 2.0**-j).double().mean())
    at = f"the least probable tokens, together {2.0**-j:.4g}, are {share:.4g} of {len(together)} samples"
    yield Deviation("rare tokens", chance / math.log(FALSE_ALARM_SAMPLED / _TESTS / (2 * _TAILS)), at)
    for prefix, told, drawn in draws:
        allowed = math.log(FALSE_ALARM_SAMPLED / _TESTS / len(draws) / (2 * len(told)))
        counts = torch.bincount(drawn, minlength=len(told)).double() / len(drawn)
        token = int((counts - told.double().exp()).abs().argmax())
        shown = f"token {token} is {float(counts[token]):.4g} of {len(drawn)} samples"
        at = f"after {prefix} {shown} and should be {float(told[token].double().exp()):.4g}"
        yield Deviation("each token by itself", least_likely(told, drawn) / allowed, at)


def _sampling(reader: Any, case: Case) -> Iterator[Deviation]:
    text = reader.texts(case.batch)[0]
    draws: Draws = []
    for length in range(1, max(2, len(text)), max(1, len(text) // PREFIXES)):
        prefix = text[:length]
        (told,) = reader.asked([[*prefix, prefix[0]]])
        draws.append((prefix, told[-1], torch.tensor(list(reader.model.sample(list(prefix), DRAWS)))))
    yield from judged(draws)


def _of_a_model(reader: Any, case: Case) -> Iterator[Deviation]:
    model, batch = case.model.backbone._model, case.batch
    weights = sum(weight.numel() for weight in model.parameters())
    draws = int(min(DRAWS, max(100, _TOKENS * 1000 // weights // batch.ids.shape[1])))
    told = reader.log_probs(batch)[-1].cpu()
    settings = {"do_sample": True, "num_beams": 1, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "max_new_tokens": 1}
    # a model may force the last token of a text, and here the last token is the only one
    inputs = _inputs(case) | settings | {"pad_token_id": case.words.pad, "forced_eos_token_id": None}
    at_once = max(1, min(_AT_ONCE, _SCORES // told.numel()))
    pieces = [min(at_once, draws - start) for start in range(0, draws, at_once)]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        written = [model.generate(**inputs, num_return_sequences=piece) for piece in pieces]
    drawn = torch.cat([ids[:, -1] for ids in written]).cpu()
    yield from judged([(batch.ids[0].tolist(), told, drawn)])


def _inputs(case: Case) -> dict[str, Any]:
    batch = case.batch
    if batch.source_ids is None:
        return {"input_ids": batch.ids, "attention_mask": batch.mask.long()}
    assert batch.source_mask is not None
    return {"input_ids": batch.source_ids, "attention_mask": batch.source_mask.long(), "decoder_input_ids": batch.ids}


def _generates_nothing(model: Any) -> str:
    return "" if callable(getattr(model.backbone, "generate", None)) else "the model has no generate"


SAMPLING = Property(
    name="sampling",
    fault="sampling",
    meaning="sampled tokens are as frequent as their probabilities, up to chance",
    look_at="Check temperature, top-k, top-p, forbidden tokens, and the seed.",
    measure=_sampling,
    limit=1.0,
    applies=lacks("sample"),
)
GENERATING = Property(
    name="sampling",
    fault="sampling",
    meaning="tokens sampled by generate are as frequent as their probabilities, up to chance",
    look_at="Check generation_config.json, which may forbid, force or penalise tokens.",
    measure=_of_a_model,
    limit=1.0,
    applies=_generates_nothing,
)


# -- Sums of probabilities: how they are computed, how much rounding can change them, and which tokens have the excess.

_SUMS = 10_000
"""Assumed maximum number of tested sums in one audit, which share the false-alarm rate ``FALSE_ALARM_EXACT``."""

_LARGEST_SCORE = 256.0
"""Assumed maximum size of logits, whose rounding limits the precision of sums. Real logits are smaller."""

_MOSTLY = 1 / 3
"""If the sum's excess over 1 is larger than this share of the probability of tokens seen before, the message names
these tokens as the cause."""

_CALLS_AT_ONCE = 4096
"""Number of continuations that the scorer scores per call."""

MANY = 20_000
"""Maximum vocabulary size for which all continuations are tested in a quick audit."""

FEW_PREFIXES = 2
"""Maximum number of prefixes whose continuations are tested if the vocabulary has more than ``MANY`` tokens."""


def compensated_sum(values: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """Sum over the last dimension in float64, correct to rounding.

    Values are added pairwise. The rounding error of each addition is kept (Knuth's two-sum) and added at the end. For
    any number of values, the error is that of one rounding plus the rounding of the kept errors.

    >>> compensated_sum(torch.tensor([1e16, 1.0, -1e16, 1.0]))
    tensor(2., dtype=torch.float64)
    """
    values = values.double()
    kept = values.new_zeros(values.shape[:-1])
    while values.shape[-1] > 1:
        if values.shape[-1] % 2:
            values = torch.nn.functional.pad(values, (0, 1))
        a, b = values[..., ::2], values[..., 1::2]
        total = a + b
        taken = total - a
        kept = kept + ((a - (total - taken)) + (b - taken)).sum(-1)
        values = total
    return values[..., 0] + kept


def sum_tolerance(answers: torch.dtype, computed: torch.dtype, vocabulary: int) -> float:
    r"""Largest distance from 1 that rounding can give the sum of V correctly normalised probabilities.

    It is ``u_c (s + log V + lambda sqrt(V)) + u_a log V``, with the unit roundoffs u_c of ``computed`` and u_a of
    ``answers``. The rounding error of a log-probability is proportional to the size s of the logits, assumed to be 256,
    and to the log-probability itself (log V). The third term is for the normaliser, a sum of V terms in any order. Its
    rounding errors exceed ``lambda sqrt(V) u_c`` with the probability ``2 exp(-lambda^2 / 2)`` (Higham and Mary 2019,
    theorem 2.4); lambda makes this the allowed false-alarm rate per sum. The last term is 0 unless ``answers`` is less
    precise than ``computed``: rounding the answers then changes the sum by at most u_a times the entropy.

    Args:
        answers: Precision of the returned log-probabilities.
        computed: Precision of the normalisation, at least float32: half precision does not excuse a wrong sum.
        vocabulary: Vocabulary size V.
    """
    sure = math.sqrt(2 * math.log(2 * _SUMS / FALSE_ALARM_EXACT))
    rounding = torch.finfo(computed).eps / 2
    coarse = torch.finfo(answers).eps / 2 if torch.finfo(answers).eps > torch.finfo(computed).eps else 0.0
    width = math.log(vocabulary)
    return rounding * (_LARGEST_SCORE + width + sure * math.sqrt(vocabulary)) + coarse * width


def _rounding(reader: Any, case: Case) -> float:
    """The tolerance of this reader's sums."""
    answer = reader.log_probs(case.batch)
    vocabulary = getattr(reader, "vocabulary", answer.shape[1])
    return sum_tolerance(answer.dtype, at_least_single(reader.precision), vocabulary)


def _sums(reader: Reader, case: Case) -> Iterator[Deviation]:
    if reader.mode == OBSERVED:
        return
    log_probs = reader.log_probs(case.batch)
    totals = torch.cat([compensated_sum(rows.double().exp()) for (rows,) in in_blocks(log_probs)])
    off = (totals - 1).abs().nan_to_num(nan=0.0)  # the property "finite" reports NaN
    where = int(off.argmax())
    row, position = int(case.batch.row[where]), int(case.batch.position[where])
    text = case.batch.ids[row][case.batch.mask[row]][: position + 1]
    yield Deviation("", float(off[where]), _excess(text.tolist(), float(totals[where]), log_probs[where]))


def _excess(text: list[int], total: float, log_probs: Float[Tensor, "V"]) -> str:
    said = f"position {len(text)} assigns {total:.6g} in total"
    if not total > 1:
        return f"{said}; {1 - total:.4g} is missing"
    seen = sorted(set(text))
    held = float(log_probs[seen].double().exp().sum())
    if held >= total - 1 > _MOSTLY * held:
        return f"{said}; the excess is on tokens seen before, whose total is {held:.4g}"
    return f"{said}; the total of tokens seen before is {held:.4g}"


def _sums_of_continuations(reader: Any, case: Case) -> Iterator[Deviation]:
    if reader.mode != OBSERVED:
        return
    vocabulary = reader.vocabulary
    for text in reader.texts(case.batch)[: max(1, MANY // vocabulary)]:
        prefix = text[: max(1, len(text) // 2)]
        found = [
            torch.stack([answer[-1, 0] for answer in reader.asked([[*prefix, token] for token in tokens.tolist()])])
            for tokens in _watched(torch.split(torch.arange(vocabulary), _CALLS_AT_ONCE))
        ]
        log_probs = torch.cat(found)
        total = float(compensated_sum(log_probs.double().exp()))
        variant = f"all {vocabulary:,} continuations of {len(prefix)} tokens"
        yield Deviation(variant, abs(total - 1), _excess(prefix, total, log_probs))


def _watched(parts: Sequence[Tensor]) -> Iterable[Tensor]:
    if len(parts) * _CALLS_AT_ONCE <= MANY or not sys.stderr.isatty():
        return parts
    from rich.console import Console
    from rich.progress import track

    return track(parts, "all continuations", console=Console(stderr=True), transient=True)


def continuations(vocabulary: int, thorough: bool) -> Property:
    """Returns the property that ``text_log_probs`` of a scorer gives all next tokens probabilities that sum to 1.

    If ``vocabulary`` is above 20,000, the property applies only if ``thorough`` is True. A test of only some tokens
    would prove nothing about the sum, because the other tokens may have the missing probability.
    """
    if thorough or vocabulary <= MANY:
        return CONTINUATIONS
    costly = f"{vocabulary:,} continuations of a prefix are tested only in a thorough check"
    return replace(CONTINUATIONS, applies=lambda scorer: _none_observed(scorer) or costly)


def _none_observed(scorer: Any) -> str:
    return "" if OBSERVED in ways_of(scorer) else "complete distributions are available"


SUMS = Property(
    name="sums to one",
    fault="sum",
    meaning="the probabilities of all tokens add up to 1 after every prefix",
    look_at="Check the normaliser: every term must be in it exactly once.",
    measure=_sums,
    single=True,
    exact=_rounding,
)
CONTINUATIONS = Property(
    name="continuations",
    fault="sum",
    meaning="the probabilities of all continuations add up to 1, for a scorer of observed tokens only",
    look_at="Check whether something is learned from the scored token itself, and check the normaliser.",
    measure=_sums_of_continuations,
    applies=_none_observed,
    exact=_rounding,
)


# -- How often an audit reports a fault that does not exist, and how large a fault must be for the audit to find it.

FALSE_ALARM_EXACT = 1e-6
"""Probability that any exact test of an audit fails because of rounding alone."""

FALSE_ALARM_SAMPLED = 1e-3
"""Probability that any test of samples in an audit fails by chance alone."""

MISSED = 1e-3
"""Probability that the audit misses a fault at the share of positions that it reports (``share_found``)."""


def share_found(asked: int) -> float:
    """Share of faulty positions for which tests of ``asked`` positions miss every fault with probability 0.001.

    >>> round(share_found(1000), 4)
    0.0069
    """
    return -math.expm1(math.log(MISSED) / max(1, asked))


def largest_gap(draws: int, tests: int) -> float:
    """Largest Kolmogorov-Smirnov distance of ``draws`` uniform numbers that the false-alarm rate permits.

    The limit follows from the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant (1990), which holds
    for any ``draws``. ``tests`` tests share the false-alarm rate ``FALSE_ALARM_SAMPLED``.

    >>> round(largest_gap(10_000, 1), 4)
    0.0195
    """
    return math.sqrt(math.log(2 * tests / FALSE_ALARM_SAMPLED) / (2 * draws))
