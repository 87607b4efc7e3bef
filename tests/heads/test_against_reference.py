"""Every head against its float64 textbook form: values and gradients, whole and in chunks, with padding and repeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import nextword as nw
from nextword.context import Source
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context, seq2seq_context
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import memory as stored

B, T, D, V, LAYERS = 3, 9, 6, 17, 3
TINY = 2e-3
"""MiB: a few rows of V = 17 scores, so that every question is answered in several chunks."""


class Case:
    """Random inputs, one row padded on the left and one on the right, with repeated tokens."""

    def __init__(self, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.layers = tuple(self._randn(generator, B, T, D) for _ in range(LAYERS))
        self.weight = self._randn(generator, V, D)
        self.ids = torch.randint(0, 5, (B, T), generator=generator)
        self.mask = torch.ones(B, T, dtype=torch.bool)
        self.mask[1, :3] = False
        self.mask[2, -2:] = False
        self.encoder = self._randn(generator, B, T + 2, D)
        self.source_ids = torch.randint(0, V, (B, T + 2), generator=generator)
        self.source_mask = torch.ones(B, T + 2, dtype=torch.bool)
        self.source_mask[0, -4:] = False

    @staticmethod
    def _randn(generator: torch.Generator, *shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        return (*self.layers, self.weight, self.encoder)


def randomised(spec: object, **kwargs: object):
    head = build_head(spec, D, V, **kwargs)
    generator = torch.Generator().manual_seed(1)
    for parameter in head.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return head


def inputs_of(head, case: Case) -> Tensor:
    if not head.layers:
        return case.layers[0]
    block = head.inputs
    return textbook.multi_input(
        case.layers[: head.layers], block.merge.weight, block.merge.bias, block.window, case.mask
    )


def softmax_form(head, case: Case) -> Tensor:
    if head.is_identity:
        return textbook.log_softmax(textbook.scores(case.layers[0], case.weight))
    states = textbook.project(inputs_of(head, case), head.project.weight, head.project.bias)
    return textbook.log_softmax(textbook.scores(states, case.weight))


def sigsoftmax_form(head, case: Case) -> Tensor:
    states = textbook.project(inputs_of(head, case), head.project.weight, head.project.bias)
    return textbook.log_sigsoftmax(textbook.scores(states, case.weight))


def mixture_form(head, case: Case) -> Tensor:
    inputs = inputs_of(head, case)
    if head.config.gate == "dynamic":
        weights = textbook.dynamic_gate(inputs, head.gate.linear.weight, head.gate.linear.bias)
    elif head.config.gate == "static":
        weights = textbook.static_gate(head.gate.scores, (B, T))
    else:
        weights = textbook.uniform_gate(head.config.components, inputs)
    parts = [(project.weight, project.bias) for project in head.project]
    return textbook.log_mixture_of_softmaxes(inputs, parts, case.weight, weights)


def cache_form(head, case: Case) -> Tensor:
    logits = textbook.scores(case.layers[0], case.weight)
    temperature, weight = head.config.temperature, head.config.weight
    if head.reads_source:
        memory = stored.source_memory(case.layers[0], case.encoder, case.source_ids, case.source_mask, temperature)
    else:
        memory = stored.decoder_memory(case.layers[0], case.ids, case.mask, temperature)
    if head.config.mode == "cache_only" or weight == 1.0:  # the textbook blend has log 0, and no gradient, at weight 1
        return stored.log_cache_only(logits, memory)
    if head.config.mode == "lm_only":
        return stored.log_lm_only(logits)
    return stored.log_joint(logits, memory) if weight is None else stored.log_linear(logits, memory, weight)


CASES: dict[str, tuple[object, Callable[..., Tensor]]] = {
    "softmax": ("softmax", softmax_form),
    "softmax+proj": ("softmax+proj", softmax_form),
    "softmax+mi": ("softmax+mi", softmax_form),
    "softmax+mi:2x4": ("softmax+mi:2x4", softmax_form),
    "sigsoftmax": ("sigsoftmax", sigsoftmax_form),
    "sigsoftmax+mi": ("sigsoftmax+mi:1x3", sigsoftmax_form),
    "mos dynamic": ("mos:3", mixture_form),
    "mos static": ("mos:2,static", mixture_form),
    "mos uniform": ("mos:4,uniform", mixture_form),
    "mos+mi": ("mos:3+mi", mixture_form),
    "cache": ("cache", cache_form),
    "cache flat": ({"head": "cache", "temperature": 2.5}, cache_form),
    "cache linear": ({"head": "cache", "weight": 0.3}, cache_form),
    "cache none": ({"head": "cache", "weight": 0.0}, cache_form),
    "cache all": ({"head": "cache", "weight": 1.0}, cache_form),
    "cache only": ({"head": "cache", "mode": "cache_only"}, cache_form),
    "lm only": ({"head": "cache", "mode": "lm_only"}, cache_form),
    "source cache": ("cache source", cache_form),
    "source cache only": ("cache source only", cache_form),
}


def make(name: str):
    spec, form = CASES[name]
    if isinstance(spec, str) and spec.startswith("cache source"):
        mode = "cache_only" if spec.endswith("only") else "joint"
        return randomised({"head": "cache", "mode": mode}, source=D), form
    return randomised(spec), form


def context_of(head, case: Case):
    if head.reads_source:
        source = Source(case.source_ids, case.source_mask, case.encoder)
        return seq2seq_context(case.layers[0], LinearVocabulary(case.weight), source)
    return decoder_context(
        head, case.layers[0], case.ids, LinearVocabulary(case.weight), layers=case.layers, mask=case.mask
    )


@pytest.mark.parametrize("mebibytes", [256, TINY], ids=["whole", "chunked"])
@pytest.mark.parametrize("name", CASES)
def test_log_probs(name: str, mebibytes: float) -> None:
    case = Case()
    head, form = make(name)
    expected = form(head, case).flatten(0, 1)
    with nw.score_memory(mebibytes):
        found = head(context_of(head, case)).log_probs()
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(B * T, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize("mebibytes", [256, TINY], ids=["whole", "chunked"])
@pytest.mark.parametrize("columns", [1, 12])
@pytest.mark.parametrize("name", CASES)
def test_log_prob_and_gradient(name: str, columns: int, mebibytes: float) -> None:
    asked = torch.randint(0, V, (B * T, columns), generator=torch.Generator().manual_seed(2))
    asked[::2, 0] = 1  # a token that is often in memory
    results = []
    for textbook_form in (True, False):
        case = Case()
        head, form = make(name)
        with nw.score_memory(mebibytes):
            if textbook_form:
                values = form(head, case).flatten(0, 1).gather(1, asked)
            else:
                values = head(context_of(head, case)).log_prob(asked)
            finite = values != -torch.inf
            leaves = [*case.leaves, *head.parameters()]
            gradients = torch.autograd.grad(values[finite].sum(), leaves, allow_unused=True)
        filled = [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True)]
        results.append((values.detach(), filled))
    (expected, expected_gradients), (found, gradients) = results
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_questions_agree(name: str) -> None:
    case = Case()
    head, _ = make(name)
    distribution = head(context_of(head, case))
    log_probs = distribution.log_probs().detach()
    every_id = torch.arange(V).expand(B * T, -1)
    shares = distribution.sources(every_id)
    torch.testing.assert_close(sum(shares.values()), log_probs.exp(), rtol=1e-10, atol=1e-12)
    values, ids = distribution.top_k(4)
    torch.testing.assert_close(values, log_probs.topk(4).values)
    torch.testing.assert_close(log_probs.gather(1, ids), values)
    plogp = torch.where(log_probs == -torch.inf, 0.0, log_probs.exp() * log_probs)
    torch.testing.assert_close(distribution.entropy(), -plogp.sum(-1))


@pytest.mark.parametrize("name", CASES)
def test_some_positions_are_those_of_all(name: str) -> None:
    case = Case()
    head, _ = make(name)
    if head.reads_source:
        pytest.skip("picked the same way; the decoder-only heads show it")
    counted = torch.rand(B, T, generator=torch.Generator().manual_seed(3)) < 0.4
    vocabulary = LinearVocabulary(case.weight)
    some = decoder_context(
        head, case.layers[0], case.ids, vocabulary, layers=case.layers, mask=case.mask, counted=counted
    )
    every = head(context_of(head, case)).log_probs().unflatten(0, (B, T))
    torch.testing.assert_close(head(some).log_probs(), every[counted], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spec", ["softmax+proj", "softmax+mi", "mos:3", "mos:2,static", "mos:2,uniform+mi"])
def test_untrained_head_changes_nothing(spec: str) -> None:
    case = Case()
    head = build_head(spec, D, V)
    expected = textbook.log_softmax(textbook.scores(case.layers[0], case.weight)).flatten(0, 1)
    torch.testing.assert_close(head(context_of(head, case)).log_probs(), expected, rtol=1e-12, atol=1e-12)


def test_rank_bound_of_softmax_is_width_plus_one_and_others_exceed_it() -> None:
    case = Case(seed=4)
    ranks = {
        name: int(torch.linalg.matrix_rank(head(context_of(head, case)).log_probs().detach()))
        for name in ("softmax", "softmax+mi", "mos dynamic", "sigsoftmax", "cache")
        for head in [make(name)[0]]
    }
    assert ranks["softmax"] == ranks["softmax+mi"] == D + 1
    assert min(ranks["mos dynamic"], ranks["sigsoftmax"], ranks["cache"]) > D + 1
