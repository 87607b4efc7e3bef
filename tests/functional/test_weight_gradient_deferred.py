"""Gradients that come last: the same numbers as autograd's own, whoever asks for them and how often."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nextword.functional.chunked_loss import sum_with_gradient
from nextword.functional.products import dense_products
from nextword.functional.weight_gradient import FusedBackward, GradientCollector, defer_gradient

N, D, V = 5, 8, 30
CHUNKS = [slice(0, 3), slice(3, N)]


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def sum_of_sines(states: Tensor, weight: Tensor, chunks: list[slice] = CHUNKS) -> Tensor:
    """``(states @ weight.T).sin().sum()``, chunk by chunk."""

    def sines(_: slice, rows: list[Tensor], fused_backward: FusedBackward | None) -> Tensor:
        return dense_products(weight, None, rows, fused_backward)[0].sin().sum()

    return sum_with_gradient(sines, chunks, [states], [weight])


class Graph:
    """A tied model: an embedding, something after it, and a sum of products with the embedding."""

    def __init__(self, chunks: list[slice] = CHUNKS) -> None:
        self.weight, self.map = randn(V, D, seed=0), randn(D, D, seed=1)
        self.alias = defer_gradient(self.weight)
        self.states = (self.weight[:N] @ self.map).tanh()
        self.chunks = chunks

    def loss(self, states: Tensor | None = None) -> Tensor:
        return sum_of_sines(self.states if states is None else states, self.alias, self.chunks)

    def expected(self) -> Tensor:
        return ((self.weight[:N] @ self.map).tanh() @ self.weight.T).sin().sum()

    def gradients(self) -> tuple[Tensor, ...]:
        return torch.autograd.grad(self.expected(), [self.weight, self.map])


def same(found: Tensor | None, expected: Tensor) -> None:
    assert found is not None
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("chunks", [CHUNKS, [slice(0, N)], [slice(i, i + 1) for i in range(N)]])
def test_gradients_of_a_tied_weight(chunks: list[slice]) -> None:
    graph = Graph(chunks)
    (graph.loss() * 3).backward()
    of_weight, of_map = graph.gradients()
    same(graph.weight.grad, of_weight * 3)
    same(graph.map.grad, of_map * 3)


def test_they_come_after_everything_else() -> None:
    graph, order = Graph(), []
    graph.states.register_hook(lambda gradient: order.append("states"))
    graph.map.register_hook(lambda gradient: order.append("map"))
    graph.alias.grad_fn.register_hook(lambda *gradients: order.append("weight"))
    graph.loss().backward()
    assert order == ["states", "map", "weight"]


class Sizes(TorchDispatchMode):
    """Number of elements of every tensor that is made, views of ``known`` left out."""

    def __init__(self, known: Tensor) -> None:
        super().__init__()
        self.known, self.seen = known.untyped_storage().data_ptr(), [0]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]
        self.seen += [leaf.numel() for leaf in tensors if leaf.untyped_storage().data_ptr() != self.known]
        return made


@pytest.mark.parametrize(("rows", "waits"), [(N, True), (4 * D, False)])
def test_nothing_as_large_as_the_weight_is_made_before_unless_its_factors_are_larger(rows: int, waits: bool) -> None:
    weight, scale = randn(V, D, seed=0), randn(D, seed=1)
    alias, sizes = defer_gradient(weight), Sizes(weight)
    until: list[int] = []
    scale.register_hook(lambda gradient: until.append(len(sizes.seen)))
    states = randn(rows, D, seed=2).detach() * scale
    chunks = [slice(at, min(at + 4, rows)) for at in range(0, rows, 4)]
    with sizes:
        sum_of_sines(states, alias, chunks).backward()
    assert until
    assert (max(sizes.seen[: until[0]]) < V * D) == waits
    assert max(sizes.seen) == max(V * D, rows * D)
    same(weight.grad, torch.autograd.grad((states @ weight.T).sin().sum(), weight)[0])


@pytest.mark.parametrize("chunks", [CHUNKS, [slice(i, i + 1) for i in range(N)]])
@pytest.mark.parametrize("backward", [True, False])
def test_nothing_of_it_is_left_without_a_collector(chunks: list[slice], backward: bool) -> None:
    """Circles of Python's objects and torch's are never collected: they must not be there."""

    def sums() -> int:
        return sum(type(one) is GradientCollector for one in gc.get_objects())

    gc.collect()
    before = sums()
    gc.disable()
    try:
        graph = Graph(chunks)
        loss = graph.loss()
        assert sums() > before
        if backward:
            loss.backward()
        del graph, loss
        assert sums() == before
    finally:
        gc.enable()


def test_other_uses_of_the_alias_count_as_well() -> None:
    graph = Graph()
    (graph.loss() + (graph.alias**2).sum()).backward()
    same(graph.weight.grad, graph.gradients()[0] + 2 * graph.weight.detach())


def test_a_sum_without_the_weight_takes_no_other_gradient_away() -> None:
    graph = Graph()
    without = sum_with_gradient(lambda _, rows, __: rows[0].sin().sum(), CHUNKS, [graph.states], [graph.alias])
    (without + (graph.alias**2).sum()).backward()
    of_states = torch.autograd.grad((graph.weight[:N] @ graph.map).tanh().sin().sum(), graph.weight)[0]
    same(graph.weight.grad, of_states + 2 * graph.weight.detach())


def test_two_sums_of_one_alias_alone_and_together() -> None:
    graph = Graph()
    first, second = graph.loss(), graph.loss(graph.states * 2)
    reference = (graph.states * 2 @ graph.weight.T).sin().sum()
    of_second = torch.autograd.grad(reference, graph.weight, retain_graph=True)[0]
    same(torch.autograd.grad(second, graph.weight, retain_graph=True)[0], of_second)
    same(torch.autograd.grad(first, graph.weight, retain_graph=True)[0], graph.gradients()[0])
    same(torch.autograd.grad(first - second, graph.weight)[0], graph.gradients()[0] - of_second)


def test_passes_that_want_nothing_of_the_weight_leave_nothing_behind() -> None:
    graph = Graph()
    loss, of_weight = graph.loss(), graph.gradients()[0]
    for _ in range(2):
        torch.autograd.grad(loss, graph.states, retain_graph=True)
    same(torch.autograd.grad(loss, graph.weight, retain_graph=True)[0], of_weight)
    same(torch.autograd.grad(loss, graph.weight)[0], of_weight)


@pytest.mark.parametrize("chunks", [CHUNKS, [slice(i, i + 1) for i in range(N)]])
def test_half_precision_weights_get_gradients_of_their_own(chunks: list[slice]) -> None:
    weight = torch.randn(V, D, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    alias = defer_gradient(weight)
    states = torch.randn(N, D, generator=torch.Generator().manual_seed(1)).bfloat16()

    def total(_: slice, rows: list[Tensor], fused_backward: FusedBackward | None) -> Tensor:
        return dense_products(alias, None, rows, fused_backward)[0].float().sum()

    sum_with_gradient(total, chunks, [states], [alias]).backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.bfloat16
    torch.testing.assert_close(weight.grad.float(), states.float().sum(0).expand(V, D), rtol=1e-2, atol=1e-2)


def test_a_frozen_weight_is_itself() -> None:
    weight = torch.ones(V, D)
    assert defer_gradient(weight) is weight
    with torch.no_grad():
        own = weight.clone().requires_grad_()
        assert defer_gradient(own) is own


def test_two_threads_go_backwards_through_one_graph_at_once() -> None:
    """Each backward pass takes its own part of the weight's gradient, whichever reaches the weight first."""
    graph, meeting = Graph(), Barrier(2, timeout=30)

    def meet(_: Tensor) -> None:  # each has left its part of the gradient, and none has reached the weight
        meeting.wait()

    hook = graph.map.register_hook(meet)
    losses = [graph.loss(), graph.loss(graph.states * 2)]

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, [graph.weight, graph.map], retain_graph=True)[0]

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(gradient, losses))
    hook.remove()
    twice = (graph.weight[:N] @ graph.map).tanh() * 2
    same(found[0], graph.gradients()[0])
    same(found[1], torch.autograd.grad((twice @ graph.weight.T).sin().sum(), graph.weight)[0])


def test_torch_still_numbers_its_backward_passes() -> None:
    assert hasattr(torch._C, "_current_graph_task_id"), (
        f"torch {torch.__version__} no longer has _C._current_graph_task_id. Training gives the same gradients, but "
        "makes that of the output embedding while all activations are alive. Look up how register_multi_grad_hook "
        "(torch/autograd/graph.py) tells backward passes apart now, and return that from _backward_pass in "
        "src/nextword/functional/weight_gradient.py."
    )


def test_without_that_number_gradients_are_the_same_and_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_current_graph_task_id")
    graph = Graph()
    assert "Deferred" not in type(graph.alias.grad_fn).__name__  # nothing of ours between autograd and the weight
    graph.loss().backward()
    same(graph.weight.grad, graph.gradients()[0])
    same(graph.map.grad, graph.gradients()[1])


@pytest.mark.parametrize("numbered", [True, False])
def test_what_all_rows_share_may_be_made_of_the_weight(monkeypatch: pytest.MonkeyPatch, numbered: bool) -> None:
    """A cache's keys are states, and states are made of the embedding that is tied to the output layer."""
    if not numbered:
        monkeypatch.delattr(torch._C, "_current_graph_task_id")
    graph = Graph()
    keys = graph.states.tanh()

    def scores(states: Tensor, weight: Tensor) -> Tensor:
        return (states @ keys.T).sin().sum() + (states @ weight.T).sin().sum()

    total = sum_with_gradient(
        lambda rows, leaves, _: scores(leaves[0], graph.alias), CHUNKS, [graph.states], [graph.alias, keys]
    )
    expected = torch.autograd.grad(scores(graph.states, graph.weight), [graph.weight, graph.map], retain_graph=True)
    total.backward()
    same(graph.weight.grad, expected[0])
    same(graph.map.grad, expected[1])
