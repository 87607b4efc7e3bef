"""Properties of a single distribution: it is valid, and its methods agree with each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from nextword.checking.probe_texts import Batch
from nextword.checking.property import Case, Deviation, Property
from nextword.checking.readers import Reader, deviation, inputs_of, largest
from nextword.functional.chunked_loss import score_memory
from nextword.functional.inplace import log_softmax_
from nextword.functional.probability import at_least_float32

_ONE_ROW_AT_ONCE = 1e-6
"""A memory budget in MiB that is too small for two rows, so that rows are computed one by one."""

_LEAST = 1e-30
"""Probabilities below this are ignored, because their components underflow in float32."""


def _sums_to_one(reader: Reader, case: Case) -> Iterator[Deviation]:
    log_probs = reader.log_probs(case.batch)
    yield Deviation("", largest((log_probs.double().exp().sum(-1) - 1).abs()))


def _finite(reader: Reader, case: Case) -> Iterator[Deviation]:
    log_probs = reader.log_probs(case.batch)
    off = log_probs.double().clamp_min(0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)
    if not off.any():
        yield Deviation("", 0.0)
        return
    where, token = divmod(int(off.argmax()), off.shape[1])
    row, position, value = int(case.batch.row[where]), int(case.batch.position[where]), float(log_probs[where, token])
    yield Deviation("", largest(off), f"after {position + 1} tokens of text {row}, the answer {token} is {value:.4g}")


def _asked(batch: Batch, vocab_size: int) -> dict[str, Tensor]:
    """Sets of token ids to query: few and many ids, inside and outside the text."""
    text = batch.ids[batch.row]
    every = torch.arange(vocab_size, device=text.device).expand(len(text), -1)
    own = batch.ids[batch.mask][:, None]
    return {"one token": own, "a few tokens": torch.cat([own, text[:, :1], every[:, -2:]], 1), "all tokens": every}


def _log_prob(reader: Reader, case: Case) -> Iterator[Deviation]:
    distribution, log_probs = reader.distribution(case.batch), reader.log_probs(case.batch)
    for name, ids in _asked(case.batch, distribution.vocab_size).items():
        yield Deviation(name, deviation(distribution.log_prob(ids), log_probs.gather(1, ids)))


def _top_k(reader: Reader, case: Case) -> Iterator[Deviation]:
    distribution, log_probs = reader.distribution(case.batch), reader.log_probs(case.batch)
    for k in {1, min(5, distribution.vocab_size)}:
        values, ids = distribution.top_k(k)
        yield Deviation(f"k = {k}, the values", deviation(values, log_probs.topk(k).values))
        yield Deviation(f"k = {k}, the tokens", deviation(values, log_probs.gather(1, ids)))


def _entropy(reader: Reader, case: Case) -> Iterator[Deviation]:
    log_probs = reader.log_probs(case.batch)
    expected = torch.special.entr(log_probs.double().exp()).sum(-1)
    yield Deviation("", deviation(reader.distribution(case.batch).entropy(), expected))


def _logits(reader: Reader, case: Case) -> Iterator[Deviation]:
    if reader.mode != getattr(case.model.next_word_head.config, "mode", "joint"):
        return  # forward always uses the mode in the head's settings
    batch = case.batch
    for name, labels in (("without labels", None), ("with labels", batch.ids)):
        out = case.model(**inputs_of(case.model, batch), labels=labels, return_logits=True)
        logits = at_least_float32(out.logits[batch.mask])
        yield Deviation(name, deviation(log_softmax_(logits.clone()), reader.log_probs(batch)))


def _sources(reader: Reader, case: Case) -> Iterator[Deviation]:
    distribution = reader.distribution(case.batch)
    for name, ids in _asked(case.batch, distribution.vocab_size).items():
        shares = torch.stack(list(distribution.sources(ids).values())).double()
        total = shares.sum(0).clamp_min(_LEAST).log()
        probability = reader.log_probs(case.batch).gather(1, ids).double().clamp_min(math.log(_LEAST))
        yield Deviation(name, max(deviation(total, probability), largest(-shares)))


def _places(reader: Reader, case: Case) -> Iterator[Deviation]:
    distribution, batch = reader.distribution(case.batch), case.batch
    text = batch.ids if batch.source_ids is None else batch.source_ids
    every = torch.arange(distribution.vocab_size, device=text.device).expand(len(batch.row), -1)
    sources = distribution.sources(every)
    for name, shares in distribution.positions().items():
        if distribution.positions_in()[name] == "store":
            # the token at each position is known only from the entries
            token = sources[name].argmax(1)
            of_token = distribution.token_positions(token)[name].sum(1) - sources[name].gather(1, token[:, None])[:, 0]
            of_all = shares.sum(1) - sources[name].sum(1)
            yield Deviation(f"'{name}'", max(largest(of_token.abs()), largest(of_all.abs()), largest(-shares)))
            continue
        by_token = torch.zeros_like(sources[name]).scatter_add(1, text[batch.row], shares.to(sources[name].dtype))
        yield Deviation(f"'{name}'", max(largest((by_token - sources[name]).abs()), largest(-shares)))


def _chunks(reader: Reader, case: Case) -> Iterator[Deviation]:
    whole = reader.distribution(case.batch)
    ids = _asked(case.batch, whole.vocab_size)["a few tokens"]
    with score_memory(_ONE_ROW_AT_ONCE):
        log_probs, log_prob = whole.log_probs(), whole.log_prob(ids)
        entropy, shares = whole.entropy(), whole.sources(ids)
    yield Deviation("log_probs", deviation(log_probs, reader.log_probs(case.batch)))
    yield Deviation("log_prob", deviation(log_prob, whole.log_prob(ids)))
    yield Deviation("entropy", deviation(entropy, whole.entropy()))
    for name, share in whole.sources(ids).items():
        yield Deviation(f"source '{name}'", deviation(shares[name], share))


ANSWERS = (
    Property(
        name="sums to one",
        fault="sum",
        meaning="the probabilities of all tokens add up to 1 at every position",
        look_at="Check the head's normaliser: every score in log_probs must be in it exactly once.",
        measure=_sums_to_one,
        single=True,
    ),
    Property(
        name="finite",
        fault="negative",
        meaning="no NaN, no infinite probability, no log-probability above 0",
        look_at="Look for -inf minus -inf, a division by an empty sum, or a log of a difference.",
        measure=_finite,
        single=True,
    ),
    Property(
        name="log_prob",
        fault="distribution",
        meaning="log_prob(ids) is log_probs() at these ids, and -inf for the same tokens",
        look_at="Training uses log_prob and decoding log_probs; compare _log_prob and _log_probs of the distribution.",
        measure=_log_prob,
    ),
    Property(
        name="top_k",
        fault="distribution",
        meaning="top_k(k) gives the k largest of log_probs() and their tokens",
        look_at="Check top_k of the distribution.",
        measure=_top_k,
    ),
    Property(
        name="entropy",
        fault="distribution",
        meaning="entropy() is that of log_probs()",
        look_at="Check how entropy handles tokens of probability 0.",
        measure=_entropy,
    ),
    Property(
        name="logits",
        fault="score-is-not-its-steps",
        meaning="the softmax of the logits returned by forward, with and without labels, is the distribution",
        look_at="Check logits() of the head, and that labels do not change the distribution in forward.",
        measure=_logits,
    ),
    Property(
        name="sources",
        fault="distribution",
        meaning="the contributions of all components are not negative and add up to each token's probability",
        look_at="Check _log_sources for a component that is missing or counted twice.",
        measure=_sources,
    ),
    Property(
        name="positions",
        fault="distribution",
        meaning="the contributions of positions are not negative and add up to that of their component",
        look_at="Check _log_positions and first_position, the position of the first entry in the text.",
        measure=_places,
        nothing="no component of this head attributes probability to positions",
    ),
    Property(
        name="chunks",
        fault="distribution",
        meaning="results do not depend on how many rows are computed at once",
        look_at="Check __getitem__ of the distribution, and sums over rows in _log_probs or _log_prob.",
        measure=_chunks,
    ),
)
"""All properties of this module, in the order of the report."""
