"""What is drawn against what is said: tokens must be as frequent as their probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.checking.audit.scorer_reading import lacks
from nextword.checking.audit.statistics import FALSE_ALARM_SAMPLED, largest_gap
from nextword.checking.property import Case, Deviation, Property

_TOKENS = 2_000_000
"""Tokens that a model reads at most, each of a thousand weights, to draw from it."""

DRAWS = 4000
"""Tokens drawn after each prefix, where they cost little."""

_AT_ONCE = 250
"""Texts that a model continues side by side; each keeps a cache or states of its own."""

_SCORES = 1_000_000
"""Scores of next tokens side by side: ``generate`` copies them, and a vocabulary may be large."""

PREFIXES = 8
"""After so many prefixes of one text."""

_TESTS = 3
"""Tests that share the false alarms: of all tokens in order of probability, of the rare ones, and of each by itself."""

_TAILS = 10
"""The rare ones: tokens behind 1/2, 3/4, 7/8 and so on of the probability."""


def places_in_order(log_probs: Float[Tensor, "V"], drawn: Int[Tensor, "n"], seed: int) -> Float[Tensor, "n"]:
    """For each drawn token a number that is uniform from 0 to 1 where draws follow the probabilities.

    It is the probability of all tokens that are more probable than the drawn one, and a random part of its own (the
    probability integral transform of a discrete distribution). Draws after different prefixes can so be put together,
    and a temperature or truncation moves all of them one way.
    """
    p = log_probs.double().exp()
    order = p.argsort(descending=True)
    before = torch.empty_like(p)
    before[order] = p[order].cumsum(0) - p[order]
    part = torch.rand(len(drawn), generator=torch.Generator().manual_seed(_SEED + seed), dtype=torch.float64)
    return before[drawn] + part * p[drawn]


def largest_step(uniform: Float[Tensor, "n"]) -> float:
    """How far the distribution function of numbers is from that of a uniform one (Kolmogorov and Smirnov)."""
    found = uniform.sort().values
    steps = torch.arange(len(found) + 1, dtype=torch.float64) / len(found)
    return float(torch.maximum(steps[1:] - found, found - steps[:-1]).max())


def least_likely_tail(uniform: Float[Tensor, "n"]) -> tuple[int, float]:
    """Of the tails beyond 1 - 2^-j the j whose count is least explained, and the logarithm of that chance."""
    from scipy.stats import binom

    chances = []
    for j in range(1, _TAILS + 1):
        n, p = len(uniform), 2.0**-j
        count = int((uniform > 1 - p).sum())
        chances.append((float(min(binom.logcdf(count, n, p), binom.logsf(count - 1, n, p))), j))
    chance, j = min(chances)
    return j, chance


def least_likely(log_probs: Float[Tensor, "V"], drawn: Int[Tensor, "n"]) -> float:
    """Logarithm of the chance of the token whose count is least explained by its binomial distribution."""
    from scipy.stats import binom

    counts, p = torch.bincount(drawn, minlength=len(log_probs)).numpy(), log_probs.double().exp().clamp_max(1).numpy()
    tails = binom.logcdf(counts, len(drawn), p), binom.logsf(counts - 1, len(drawn), p)
    return float(min(tail.min() for tail in tails))


_SEED = 0x5EED_0F_A0D17
"""Not what a sampler under audit may be seeded with: its numbers and ours must be independent."""

Draws = list[tuple[list[int], Tensor, Tensor]]
"""Prefixes, each with what is said of the next token and what was drawn."""


def judged(draws: Draws) -> Iterator[Deviation]:
    """All tests, as a share of what luck explains: they fail beyond 1, together with the chance allowed for luck."""
    together = torch.cat([places_in_order(told, drawn, seed) for seed, (_, told, drawn) in enumerate(draws)])
    gap, bound = largest_step(together), largest_gap(len(together), _TESTS)
    at = f"{gap:.4g} of the probability is elsewhere in {len(together)} draws; luck explains {bound:.4g}"
    yield Deviation("all tokens in order of probability", gap / bound, at)
    j, chance = least_likely_tail(together)
    share = float((together > 1 - 2.0**-j).double().mean())
    at = f"the least probable tokens, together {2.0**-j:.4g}, are {share:.4g} of {len(together)} draws"
    yield Deviation("rare tokens", chance / math.log(FALSE_ALARM_SAMPLED / _TESTS / (2 * _TAILS)), at)
    for prefix, told, drawn in draws:
        allowed = math.log(FALSE_ALARM_SAMPLED / _TESTS / len(draws) / (2 * len(told)))
        counts = torch.bincount(drawn, minlength=len(told)).double() / len(drawn)
        token = int((counts - told.double().exp()).abs().argmax())
        shown = f"token {token} is {float(counts[token]):.4g} of {len(drawn)} draws"
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
    # a model may force the last token that there is room for, which here would be the only one
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
    return {
        "input_ids": batch.source_ids,
        "attention_mask": batch.source_mask.long(),
        "decoder_input_ids": batch.ids,
    }


def _generates_nothing(model: Any) -> str:
    return "" if callable(getattr(model.backbone, "generate", None)) else "the model has no generate"


SAMPLING = Property(
    name="sampling",
    fault="sampling",
    meaning="drawn tokens are as frequent as their probabilities say, within luck",
    look_at="Look at temperature, top-k, top-p, forbidden tokens, and the seed.",
    measure=_sampling,
    limit=1.0,
    applies=lacks("sample"),
)
GENERATING = Property(
    name="sampling",
    fault="sampling",
    meaning="what generate draws is as frequent as the probabilities say, within luck",
    look_at="Look at generation_config.json: it may forbid, force or penalise tokens.",
    measure=_of_a_model,
    limit=1.0,
    applies=_generates_nothing,
)
