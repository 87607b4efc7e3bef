"""A cache that looks back beyond the window: its textbook form over all that is remembered, borders, one pass."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.likelihood import span_log_probs, text_answers
from nextword.inference.scoring.long_text import (
    ScoringWindow,
    TargetSpan,
    Window,
    WindowMemory,
    window_spans,
    windows_after,
)
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.scored_texts import scored_text, scoring_window_of
from nextword.inference.scoring.opened_model import batches
from nextword.inference.scoring.token_facts import TextFacts, span_facts
from nextword.model.head_cache.kv_cache import LongMemory
from tests.helpers import opened_models, text_tokenizers

V, TEMPERATURE = 30, 0.5
IDS = torch.cat(
    [torch.zeros(1, dtype=torch.long), torch.randint(1, V, (70,), generator=torch.Generator().manual_seed(1))]
)


def attached(head: str, *, reads_context: bool = True) -> Any:
    """A model that sees 16 places; where its states depend on each token alone, 100."""
    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": V, "n_positions": 16 if reads_context else 100}
    gpt2 = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, initializer_range=0.8))
    if not reads_context:
        for weight in [gpt2.transformer.wpe, *(layer.attn.c_proj for layer in gpt2.transformer.h)]:
            weight.weight.data.zero_()
    return nw.attach(gpt2.double().eval(), head)


def head(long: int, **settings: Any) -> str:
    said = {"temperature": TEMPERATURE, "long": long, "weight": None, **settings}
    return "cache:" + ",".join(f"{name}={value}".lower() for name, value in said.items())


@torch.no_grad()
def log_probs_of(model: Any, ids: Tensor, spans: list[Window], batch_size: int = 3, first: int = 1) -> Tensor:
    read, some = WindowMemory(model), batches(list(window_spans(ids.numpy(), spans, first)), batch_size)
    asked = [(distribution, targets) for distribution, targets, _ in map(read, some)]
    return torch.cat([distribution.log_prob(targets[:, None])[:, 0] for distribution, targets in asked if len(targets)])


@torch.no_grad()
def textbook(model: Any, ids: Tensor, spans: list[Window], long: int, weight: float | None) -> Tensor:
    """One token at a time, over all remembered places, each with the state of the window that scored after it."""
    states = torch.cat(
        [model.backbone.transformer(ids[None, one.begin : one.begin + one.size])[0][0, -one.scored :] for one in spans]
    )
    found = []
    for t in range(len(states)):
        scores = [float(value) for value in model.get_output_embeddings().weight @ states[t]]
        total = math.fsum(map(math.exp, scores))
        seen = [
            (int(ids[j + 1]), math.exp(float(states[t] @ states[j]) / (math.sqrt(states.shape[1]) * TEMPERATURE)))
            for j in range(max(0, t - long), t)
        ]
        of_word, of_all = math.fsum(s for word, s in seen if word == ids[t + 1]), math.fsum(s for _, s in seen)
        plain = math.exp(scores[int(ids[t + 1])])
        if weight is None:
            found.append(math.log((plain + of_word) / (total + of_all)))
        else:
            share = weight if seen else 0.0
            found.append(math.log((1 - share) * plain / total + (share * of_word / of_all if seen else 0.0)))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.few(3)
@pytest.mark.parametrize("weight", [None, 0.3])
@pytest.mark.parametrize("long", [1, 7, 40, 1000])
def test_each_probability_is_the_textbook_form_over_all_that_is_remembered(long: int, weight: float | None) -> None:
    model = attached(head(long, **({} if weight is None else {"weight": weight})))
    spans = windows_after(1, len(IDS), 16, 6)
    found = log_probs_of(model, IDS, spans)
    torch.testing.assert_close(found, textbook(model, IDS, spans, long, weight), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("long", [1, 7, 40, 1000])
@pytest.mark.parametrize(("size", "stride"), [(16, 16), (16, 5), (9, 1)])
def test_segments_with_memory_are_one_pass_where_states_do_not_depend_on_the_window(
    long: int, size: int, stride: int
) -> None:
    model = attached(head(long), reads_context=False)
    with torch.no_grad():
        whole = model.distribution(IDS[None, :-1]).log_prob(IDS[1:, None])[:, 0]
    for batch_size in (1, 4):
        found = log_probs_of(model, IDS, windows_after(1, len(IDS), size, stride), batch_size)
        torch.testing.assert_close(found, whole, rtol=0, atol=1e-10)


def test_a_window_that_is_the_whole_text_is_the_cache_without_long() -> None:
    text, found = TargetSpan(IDS[:1].tolist(), IDS[1:17].tolist()), []
    for name, long in ((f"cache:temperature={TEMPERATURE},weight=none", None), (head(1000), 1000)):
        with torch.no_grad():
            ((log_probs,),) = text_answers(attached(name), [text], ScoringWindow(16, 16, long), 1, span_log_probs)
        found.append(log_probs)
    expected, found = found
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_every_row_sums_to_one_and_sees_no_future() -> None:
    model, spans = attached(head(50)), windows_after(1, len(IDS), 16, 6)
    read = WindowMemory(model)
    for some in batches(list(window_spans(IDS.numpy(), spans, 1)), 2):
        distribution, targets, _ = read(some)
        torch.testing.assert_close(distribution.probs().sum(-1), torch.ones(len(targets)).double())
    other = torch.cat([IDS[:40], (IDS[40:] + 5) % V])
    # the token at 40 is the first that is another one, so all before are as probable as they were
    same = log_probs_of(model, IDS, spans)[:39] - log_probs_of(model, other, spans)[:39]
    assert same.abs().max() < 1e-12


def test_the_tokens_of_a_prompt_are_remembered_and_not_scored() -> None:
    model = attached(head(60))
    spans = windows_after(1, 30, 16, 6) + windows_after(30, len(IDS), 16, 6)
    found = log_probs_of(model, IDS, spans, first=30)
    every = textbook(model, IDS, spans, 60, None)
    torch.testing.assert_close(found, every[29:], rtol=0, atol=1e-10)


@torch.no_grad()
def test_a_start_token_begins_a_document_that_sees_nothing_of_the_one_before() -> None:
    model, parts = attached(head(1000), reads_context=False), (IDS[:25], IDS[24:60])
    second = torch.cat([IDS[:1], parts[1]])
    alone = [model.distribution(part[None]).log_probs() for part in (parts[0], second)]
    rows, memory = torch.cat([parts[0], second]), LongMemory(start=0)
    pieces = [model.distribution(some[None], memory=memory).log_probs() for some in rows.split(11)]
    torch.testing.assert_close(torch.cat(pieces), torch.cat(alone), rtol=0, atol=1e-12)
    without = model.distribution(rows[None], memory=LongMemory()).log_probs()
    assert (without - torch.cat(alone)).abs().max() > 1e-3


def test_no_text_sees_the_one_before_it_and_places_are_those_of_the_text() -> None:
    opened = opened_models.decoder(text_tokenizers.byte_level(), "cache:temperature=0.1,weight=none,long=80")
    written = ["one two three two one two three " * 8, "three two one " * 9]
    scoring_window = scoring_window_of(opened, ScoreSettings(window=20, stride=8))
    texts = [
        scored_text(opened, Example(text, "two one " * 20, id=str(number)), scoring_window)
        for number, text in enumerate(written)
    ]
    with torch.no_grad():
        together = list(text_answers(opened.model, texts, scoring_window, 2, span_log_probs))
        for text, found in zip(texts, together, strict=True):
            (alone,) = text_answers(opened.model, [text], scoring_window, 2, span_log_probs)
            assert (torch.cat(found) == torch.cat(alone)).all()
        (parts,) = text_answers(opened.model, texts[:1], scoring_window, 2, partial(span_facts, positions=2))
    positions = TextFacts.joined(parts).facts.positions["cache"].moved(1 - texts[0].tokens_before)
    pointed = [
        (texts[0].token_at("text", at), token)
        for row, shares, token in zip(
            positions.at.tolist(), positions.share.tolist(), texts[0].target.tolist(), strict=True
        )
        for at, share in zip(row, shares, strict=True)
        if share > 0
    ]
    assert len(pointed) > 20
    assert all(there == token for there, token in pointed)


@pytest.mark.parametrize("name", ["softmax", "mos:2"])
def test_a_head_that_remembers_nothing_is_told_so(name: str) -> None:
    model = attached(name)
    with pytest.raises(ValueError, match=r"memory:.*whose head"):
        model.distribution(IDS[None, :5], memory=LongMemory())


def test_what_is_asked_must_be_new() -> None:
    model, new = attached(head(9)), torch.tensor([[False, True]])
    with pytest.raises(ValueError, match=r"positions:.*new_positions"):
        model.distribution(IDS[None, :2], memory=LongMemory(), new_positions=new, positions=~new)
    with pytest.raises(ValueError, match=r"new_positions: must be \(1, 2\)"):
        model.distribution(IDS[None, :2], memory=LongMemory(), new_positions=new[:, :1])
