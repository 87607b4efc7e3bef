"""Decoupled decoding of F2-Softmax inside generate: a class, then a token within it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from tests.helpers.generating_models import NEW, headed, left_padded, prompt

DRAWS = 100_000


@pytest.fixture(params=["gpt2", "t5"])
def model(request: pytest.FixtureRequest) -> Any:
    return headed(request.param, "f2")


@torch.no_grad()
def factors(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """p1 (K) and p2 (K, V) after the first row of a prompt, by the formula."""
    distribution = model.distribution(ids[:1])[-1:]
    classes = [torch.tensor([number]) for number in range(distribution.classes.count)]
    return distribution.log_class_probs()[0].exp(), torch.cat([distribution.within(c) for c in classes]).exp()


@torch.no_grad()
def greedy_by_hand(model: Any, ids: Tensor) -> Tensor:
    """Recomputed from the whole text at every step."""
    for _ in range(NEW):
        distribution = model.distribution(ids)[torch.arange(1, len(ids) + 1) * ids.shape[1] - 1]
        chosen = distribution.log_class_probs().argmax(-1)
        ids = torch.cat([ids, distribution.within(chosen).argmax(-1)[:, None]], 1)
    return ids


@torch.no_grad()
def test_greedy_is_the_best_token_of_the_best_class() -> None:
    model, ids = headed("gpt2", "f2"), prompt(3)
    found = model.generate(ids, max_new_tokens=NEW, decoupled=True)
    assert torch.equal(found, greedy_by_hand(model, ids))
    assert not torch.equal(found, model.generate(ids, max_new_tokens=NEW)), "decoupling made no difference"


def context() -> Tensor:
    """One short text, so that 100,000 copies are quick."""
    return prompt(1, length=1)


def draws(model: Any, **settings: Any) -> Tensor:
    torch.manual_seed(11)
    found = []
    for _ in range(DRAWS // 5_000):
        found.append(
            model.generate(
                context(), max_new_tokens=1, do_sample=True, num_return_sequences=5_000, **{"top_k": 0} | settings
            )
        )
    return torch.cat(found)[:, -1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "cut"),
    [
        ({}, {}),
        ({"top_k": 3}, {"top_k": 3}),
        ({"top_p": 0.6}, {"top_p": 0.6}),
        ({"temperature": 0.5}, {"temperature": 0.5}),
        ({"class_top_k": 2}, {"class_top_k": 2}),
        ({"class_top_p": 0.7, "top_k": 2}, {"class_top_p": 0.7, "top_k": 2}),
    ],
    ids=["plain", "top-k", "top-p", "temperature", "class top-k", "class top-p, top-k"],
)
def test_samples_follow_the_formula(settings: dict[str, Any], cut: dict[str, Any]) -> None:
    """100,000 tokens from one context against p1 (cut and normalised) times p2 (cut and normalised): chi-square."""
    model = headed("gpt2", "f2")
    p1, p2 = factors(model, context())
    p1, p2 = cut_by_hand(p1, cut.get("class_top_k"), cut.get("class_top_p")), p2 ** (1 / cut.get("temperature", 1.0))
    p2 = torch.stack([cut_by_hand(row / row.sum(), cut.get("top_k"), cut.get("top_p")) for row in p2])
    expected = p1 @ p2
    observed = torch.bincount(draws(model, decoupled=True, **settings), minlength=len(expected)).double()
    assert (observed[expected == 0] == 0).all()
    often = expected * DRAWS >= 5
    assert often.sum() > 2
    rest = ~often & (expected > 0)
    pooled_observed = torch.cat([observed[often], observed[rest].sum()[None]])
    pooled_expected = torch.cat([expected[often], expected[rest].sum()[None]]) * DRAWS
    kept = pooled_expected > 0
    assert chisquare(pooled_observed[kept], pooled_expected[kept], sum_check=False).pvalue > 1e-3


@pytest.mark.slow
def test_the_test_sees_another_distribution() -> None:
    """Top-k of the full posterior is not top-k within the class, and 100,000 draws tell them apart."""
    model = headed("gpt2", "f2")
    p1, p2 = factors(model, context())
    expected = p1 @ torch.stack([cut_by_hand(row, 3, None) for row in p2])
    observed = torch.bincount(draws(model, decoupled=False, top_k=3), minlength=len(expected)).double()
    assert (observed[expected > 0] == 0).any()


def cut_by_hand(probs: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    kept, mass = torch.zeros_like(probs), 0.0
    for index in probs.argsort(descending=True)[: top_k or len(probs)].tolist():
        if probs[index] == 0 or (top_p is not None and mass >= top_p):
            break
        kept[index] = probs[index]
        mass += float(probs[index])
    return kept / kept.sum()


@torch.no_grad()
def test_batches_padding_and_caches_change_nothing() -> None:
    model, ids = headed("gpt2", "f2"), prompt(3)
    alone = torch.cat([model.generate(row[None], max_new_tokens=NEW, decoupled=True) for row in ids])
    padded, mask = left_padded(ids, [2, 0, 4])
    short = [
        model.generate(row[m.bool()][None], max_new_tokens=NEW, decoupled=True)
        for row, m in zip(ids, mask, strict=True)
    ]
    together = model.generate(ids, max_new_tokens=NEW, decoupled=True)
    assert torch.equal(together, alone)
    assert torch.equal(model.generate(ids, max_new_tokens=NEW, decoupled=True, use_cache=False), together)
    left = model.generate(padded, attention_mask=mask, max_new_tokens=NEW, decoupled=True)
    for row, found in zip(short, left, strict=True):
        assert torch.equal(row[0, -NEW:], found[-NEW:])


@torch.no_grad()
def test_scores_are_those_within_the_class(model: Any) -> None:
    out = model.generate(
        prompt(2), max_new_tokens=3, do_sample=True, top_k=0, decoupled=True,
        output_scores=True, output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    token_class = model.next_word_head.table.token_class
    for step, (scores, logits) in enumerate(zip(out.scores, out.logits, strict=True)):
        tokens = out.sequences[:, step - 3]
        assert torch.equal(scores, logits)
        inside = token_class == token_class[tokens][:, None]
        torch.testing.assert_close(logits.exp().sum(-1), torch.ones(2, dtype=logits.dtype))
        assert torch.equal(logits > -torch.inf, inside)


@torch.no_grad()
def test_beams_search_the_full_posterior(model: Any) -> None:
    ids = prompt(2)
    plain = model.generate(ids, num_beams=3, max_new_tokens=NEW, decoupled=False)
    assert torch.equal(model.generate(ids, num_beams=3, max_new_tokens=NEW, decoupled=True), plain)


@torch.no_grad()
def test_a_class_whose_tokens_are_all_forbidden_is_left(model: Any) -> None:
    """Otherwise nothing could be drawn from a row of -inf."""
    head = model.next_word_head
    best = model.generate(prompt(1), max_new_tokens=1, decoupled=True)[0, -1]
    banned = (head.table.token_class == head.table.token_class[best]).nonzero()[:, 0].tolist()
    for mode in ({}, {"do_sample": True}):
        found = model.generate(
            prompt(2), max_new_tokens=NEW, decoupled=True, bad_words_ids=[[token] for token in banned], **mode
        )
        assert not set(found[:, -NEW:].flatten().tolist()) & set(banned)


@torch.no_grad()
def test_a_class_that_was_cut_off_comes_after_those_that_were_not(model: Any) -> None:
    ids, token_class = prompt(1), model.next_word_head.table.token_class

    def classes(banned: list[int], kept: int) -> list[int]:
        words = [[token] for token, of in enumerate(token_class.tolist()) if of in banned]
        found = model.generate(
            ids.expand(60, -1),
            max_new_tokens=1,
            do_sample=True,
            decoupled=True,
            class_top_k=kept,
            bad_words_ids=words or None,
        )
        return token_class[found[:, -1]].unique().tolist()

    (first,) = classes([], 1)
    (second,) = {*classes([], 2)} - {first}
    assert classes([first], 2) == [second]


@torch.no_grad()
def test_other_loops_for_drafts_say_that_they_are_not_decoupled(caplog: pytest.LogCaptureFixture) -> None:
    """Transformers' loop does not let the head choose a class; ours does."""
    model, smaller, ids = headed("gpt2", "f2"), headed("gpt2", "softmax"), prompt(1)
    plain, decoupled = (model.generate(ids, max_new_tokens=NEW, decoupled=choice) for choice in (False, True))
    said = "draft='prompt' keeps decoupled decoding"

    def written(**settings: Any) -> Tensor:
        caplog.clear()
        return model.generate(ids, max_new_tokens=NEW, **settings)

    assert torch.equal(written(draft="prompt", decoupled=True), decoupled)
    assert said not in caplog.text
    for drafts in ({"draft": smaller}, {"prompt_lookup_num_tokens": 3}):
        assert torch.equal(written(decoupled=True, **drafts), plain)
        assert caplog.text.count(said) == 1
        assert torch.equal(written(decoupled=False, **drafts), plain)
        assert said not in caplog.text


@torch.no_grad()
def test_settings_of_the_head_hold_where_a_call_says_nothing() -> None:
    model, ids = headed("gpt2", "f2"), prompt(2)
    plain, decoupled = (model.generate(ids, max_new_tokens=NEW, decoupled=choice) for choice in (False, True))
    model.configure_head(decoupled=True)
    try:
        assert torch.equal(model.generate(ids, max_new_tokens=NEW), decoupled)
        assert torch.equal(model.generate(ids, max_new_tokens=NEW, decoupled=False), plain)
    finally:
        model.configure_head(decoupled=False)
    assert torch.equal(model.generate(ids, max_new_tokens=NEW), plain)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"class_top_k": 0}, r"generate.class_top_k: must be at least 1 \(0 given\)"),
        ({"class_top_p": 1.5}, r"generate.class_top_p: must be at most 1 \(1.5 given\)"),
        ({"decoupled": "yes"}, "generate.decoupled"),
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        headed("gpt2", "f2").generate(prompt(1), max_new_tokens=1, **settings)


def test_other_heads_do_not_take_them() -> None:
    with pytest.raises(ValueError, match="decoupled"):
        headed("gpt2", "softmax").generate(prompt(1), max_new_tokens=1, decoupled=True)
