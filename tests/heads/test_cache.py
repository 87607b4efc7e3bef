"""The cache over the decoder's past and over a source: published numbers, textbook form, rank, size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nextword.heads import Head
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context
from tests.oracles import poster
from tests.oracles.published_memories import DOUBLE, PublishedBart, PublishedGpt2
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import memory as stored
from tests.oracles.textbook_cases import CHECKS, Case, Comparisons, D, V, rank


def form(head: Head, case: Case) -> Tensor:
    logits = textbook.scores(case.layers[0], case.weight)
    config = head.config.as_published()  # nothing was attached that could be fitted
    temperature, weight = config.temperature, config.weight
    if head.reads_source:
        memory = stored.source_memory(case.layers[0], case.encoder, case.source_ids, case.source_mask, temperature)
    else:
        memory = stored.decoder_memory(case.layers[0], case.ids, case.mask, temperature)
    if head.config.mode == "cache_only" or weight == 1.0:  # the textbook blend has log 0, and no gradient, at weight 1
        return stored.log_cache_only(logits, memory)
    if head.config.mode == "lm_only":
        return stored.log_lm_only(logits)
    return stored.log_joint(logits, memory) if weight is None else stored.log_linear(logits, memory, weight)


def cache(**settings: Any) -> dict[str, Any]:
    return {"head": "cache", **settings}


compared = Comparisons(
    form,
    decoder={
        "joint": "cache",
        "flat": cache(temperature=2.5),
        "linear": cache(weight=0.3),
        "none": cache(weight=0.0),
        "all": cache(weight=1.0),
        "cache only": cache(mode="cache_only"),
        "lm only": cache(mode="lm_only"),
    },
    encoder_decoder={"joint": "cache", "cache only": cache(mode="cache_only")},
)


@pytest.mark.few(10)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("model", "name"), compared.every)
def test_textbook_form(model: str, name: str, check: str) -> None:
    CHECKS[check](compared(model, name))


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=DOUBLE, atol=DOUBLE)


def test_published_numbers_of_the_past() -> None:
    published = PublishedGpt2()
    numbers, head, context = published.numbers, published.head, published.everywhere()
    shape = numbers["logp_full"].shape
    close(head(context).log_probs().view(shape), numbers["logp_full"])
    close(head(context, mode="lm_only").log_probs().view(shape), numbers["logp_lm"])
    cache, theirs = head(context, mode="cache_only").log_probs().view(shape), numbers["logp_cache"]
    # published: about -1e4 stands for probability zero, also everywhere in a row with nothing stored, where ours falls
    # back to the softmax
    stored = theirs > -9000
    assert torch.equal(stored[:, 1:], cache[:, 1:] != -torch.inf)
    close(cache[stored], theirs[stored])
    close(cache[:, 0], numbers["logp_lm"][:, 0])


def test_published_numbers_of_a_source() -> None:
    published = PublishedBart()
    numbers, head, context = published.numbers, published.head, published.everywhere()
    shape = numbers["logp_full"].shape
    close(head(context).log_probs().view(shape), numbers["logp_full"])
    close(head(context, mode="lm_only").log_probs().view(shape), numbers["logp_lm"])
    cache, theirs = head(context, mode="cache_only").log_probs().view(shape), numbers["logp_cache"]
    stored = theirs > -9000
    assert torch.equal(stored, cache != -torch.inf)
    close(cache[stored], theirs[stored])


def test_half_precision_similarities_are_float32() -> None:
    """And so is what is summed over them."""
    case = Case()
    head = build_head("cache", D, V).bfloat16()
    vocabulary = LinearVocabulary(case.weight.detach().bfloat16())
    context = decoder_context(head, case.layers[0].detach().bfloat16(), case.ids, vocabulary)
    assert head.entries(context).scores.dtype == torch.float32
    assert head(context).log_probs().dtype == torch.float32


@torch.no_grad()
def test_rank_exceeds_that_of_softmax() -> None:
    assert rank("cache") > D + 1


def test_cache_adds_no_parameter() -> None:
    assert poster.added("cache") == 0
