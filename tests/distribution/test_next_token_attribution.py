"""From which places the probability of one token came, against the formulas of the heads, place by place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from nextword.heads import Head
from tests.oracles import head_forms
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import memory, pointers
from tests.oracles.textbook_cases import AMPLE, TINY, Case, V, randomised

Shares = dict[str, dict[int, float]]
"""By component, what came from each place."""
Form = Callable[[Head, Case, int, int, int, float], Shares]
"""Head, case, sequence, position, token and its probability to the places of the token."""


def _cache(head: Head, case: Case, b: int, t: int, token: int, probability: float) -> Shares:
    states = case.layers[0]
    source = case.source(head)
    if source is None:
        stored = memory.decoder_memory(states, case.ids, case.mask)
        shift = 1
    else:
        stored = memory.source_memory(states, case.encoder, case.source_ids, case.source_mask)
        shift = 0
    logits = textbook.scores(states, case.weight)[b, t]
    scores, seen = stored.scores[b, t], stored.visible[b, t]
    weight = head.config.as_published().weight
    if weight is None:
        total = torch.cat([logits, scores[seen]]).logsumexp(0)
        part = (scores - total).exp()
    else:
        part = weight * (scores - scores[seen].logsumexp(0)).exp()
    positions = [place for place in range(len(seen)) if seen[place] and stored.values[b, place] == token]
    return {"cache": {place + shift: float(part[place]) for place in positions}}


def _pointer(head: Head, case: Case, b: int, t: int, token: int, probability: float) -> Shares:
    queries, positions = head_forms.pointed_at(head, case)
    logits, seen = head_forms.projected_scores(head, case)[b, t], positions.visible[b, t]
    if head.config.head == "pg":
        vector = head.attention_vector, head.attention_bias
        scores = pointers.additive_scores(queries, positions, *vector)[b, t]
        rest = torch.sigmoid(-head_forms.pointer_gate(head, case)[b, t])
        part = rest * (scores - scores[seen].logsumexp(0)).exp()
    else:
        scores, beside = pointers.product_scores(queries, positions)[b, t], logits
        if head.config.head == "copynet":
            scores = scores + head.bias[0]
        else:
            beside = head_forms.pointer_gate(head, case)[b, t, None]
        part = (scores - torch.cat([beside, scores[seen]]).logsumexp(0)).exp()
    at = [place for place in range(len(seen)) if seen[place] and positions.ids[b, place] == token]
    return {"pointer": {place: float(part[place]) for place in at}}


def _partition(head: Head, case: Case, b: int, t: int, token: int, probability: float) -> Shares:
    """The whole probability is that of the last partition that scored the token, divided among its places."""
    part, inputs, config = head.partition, case.text(head).inputs, head.config.partition
    context = [s for s in range(t) if case.mask[b, s] and case.ids[b, s] == token]
    source = [s for s in range(case.source_ids.shape[1]) if case.source_mask[b, s] and case.source_ids[b, s] == token]
    shares: Shares = {"encoder": {}} if config.encoder else {}
    if config.context or (config.pointer and not config.encoder):
        name = "context" if config.context else "pointer"
        shares[name] = _divided(part.local, inputs[b, t], inputs[b], context, probability)
        if context:
            return shares
    if config.encoder:
        shares["encoder"] = _divided(part.source_local, inputs[b, t], case.encoder[b], source, probability)
    return shares


def _divided(local: Any, query: Tensor, states: Tensor, positions: list[int], probability: float) -> dict[int, float]:
    if local is None or not positions:
        return {place: probability / len(positions) for place in positions}
    pointing = textbook.project(query, local.query.weight, local.query.bias)
    fits = [
        math.exp(float(pointing @ textbook.project(states[s], local.key.weight, local.key.bias))) for s in positions
    ]
    return {place: probability * fit / sum(fits) for place, fit in zip(positions, fits, strict=True)}


CASES: dict[str, tuple[Any, bool, Form]] = {
    "cache": ("cache", False, _cache),
    "cache of a source": ("cache", True, _cache),
    "cache, weighed": ({"head": "cache", "weight": 0.3}, False, _cache),
    "copynet": ("copynet", False, _pointer),
    "copynet of a source": ("copynet", True, _pointer),
    "pg": ("pg+mi", False, _pointer),
    "ps": ("ps", False, _pointer),
    "ps of a source": ("ps", True, _pointer),
    "c": ("softmax+c", False, _partition),
    "p": ("softmax+p", False, _partition),
    "e": ("softmax+e", True, _partition),
    "ep": ("softmax+ep", True, _partition),
    "cpr": ("softmax+cpr:3,5", False, _partition),
    "cepr": ("softmax+cepr:3", True, _partition),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_textbook_form(name: str) -> None:
    spec, over_source, form = CASES[name]
    head, case = randomised(spec, over_source=over_source), Case(length=16)
    distribution = head(case.context(head))
    ids = torch.randint(0, 5, (case.ids.numel(),), generator=torch.Generator().manual_seed(3))
    probability = distribution.log_prob(ids[:, None])[:, 0].exp()
    found = distribution.token_positions(ids)
    pointed = 0
    for n, (b, t) in enumerate((b, t) for b in range(len(case.ids)) for t in range(case.ids.shape[1])):
        wanted = form(head, case, b, t, int(ids[n]), float(probability[n]))
        assert set(found) == set(wanted)
        for component, positions in wanted.items():
            expected = torch.zeros_like(found[component][n])
            for place, share in positions.items():
                expected[place] = share
            torch.testing.assert_close(found[component][n], expected, rtol=1e-10, atol=1e-12)
            pointed += len(positions)
    assert pointed > 10
    with nw.score_memory(TINY):
        chunked = distribution.token_positions(ids)
    with nw.score_memory(AMPLE):
        sources = distribution.sources(ids[:, None])
    for component, positions in found.items():
        torch.testing.assert_close(chunked[component], positions, rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(positions.sum(-1), sources[component][:, 0], rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_places_of_a_part_of_a_mixture_are_weighed() -> None:
    head, case = randomised("mos:2+c"), Case()
    distribution = head(case.context(head))
    ids = case.ids.flatten()
    positions, sources = distribution.token_positions(ids), distribution.sources(ids[:, None])
    assert set(positions) == set(distribution.positions_in()) == {"context"}
    torch.testing.assert_close(positions["context"].sum(-1), sources["context"][:, 0], rtol=1e-10, atol=1e-12)
    assert distribution.token_positions(ids)["context"].sum() > 0


def test_texts_that_places_are_of() -> None:
    def positions_in(spec: Any, over_source: bool) -> dict[str, str]:
        head, case = randomised(spec, over_source=over_source), Case()
        return dict(head(case.context(head)).positions_in())

    assert positions_in("softmax+cpr:3,5", False) == {"context": "text"}
    assert positions_in("softmax+cepr:3", True) == {"encoder": "source", "context": "text"}
    assert positions_in("softmax+p", False) == {"pointer": "text"}
    for head, component in (("cache", "cache"), ("copynet", "pointer"), ("pg", "pointer"), ("ps", "pointer")):
        assert positions_in(head, False) == {component: "text"}
        assert positions_in(head, True) == {component: "source"}
    assert positions_in("softmax+r:3", False) == positions_in("mos:2", False) == positions_in("softmax", False) == {}


def test_ids_that_are_not_one_a_position_are_refused() -> None:
    head, case = randomised("cache"), Case()
    distribution = head(case.context(head))
    with pytest.raises(ValueError, match=f"token id {V} is outside"):
        distribution.token_positions(torch.full((len(distribution),), V))
    with pytest.raises(ValueError, match="ids: must be"):
        distribution.token_positions(torch.zeros(3, dtype=torch.long))
