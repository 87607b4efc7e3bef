"""Training never holds an (N, V) tensor: every tensor of a step is watched as it is made, backward pass included."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.functional.weight_gradient import GradientCollector
from nextword.heads import pointer_generator as additive
from tests.helpers.counted import counts_file

V, D, B, T = 5000, 16, 2, 33
POSITIONS = B * (T - 1)


class LargestTensor(TorchDispatchMode):
    """Number of elements of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor)]
        sizes = [(leaf._values() if leaf.is_sparse else leaf).numel() for leaf in tensors]
        self.elements = max(self.elements, *sizes, 0)
        return made


def largest_in_a_step(
    head: Any, objective: str, mebibytes: float, *, vocabulary: int = V, width: int = D, length: int = T
) -> int:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=vocabulary,
        n_embd=width,
        n_layer=2,
        n_head=2,
        n_positions=length,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = nw.attach(GPT2LMHeadModel(config), head, objective).train()
    ids = torch.randint(0, 50, (B, length))
    watched = LargestTensor()
    with nw.score_memory(mebibytes), watched:
        model(input_ids=ids, labels=ids).loss.backward()
    return watched.elements


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("head", "objective"),
    [
        ("softmax", "mle"),
        ("softmax+mi:2x3", "mle"),
        ("sigsoftmax", "mle"),
        ("mos:3", "mle"),
        ("cache", "mle"),
        ("cache", "histalign"),
        ("softmax+c", "mle"),
        ("softmax+p", "mle"),
        ("softmax+r:20,100", "mle"),
        ("softmax+cpr:20,100+mi:2x3", "mle"),
        ("mos:3+cpr:20,100", "mle"),
        ("copynet", "mle"),
        ("pg", "mle"),
        ("ps+mi:2x3", "mle"),
        ({"head": "f2", "counts": counts_file()}, "mle"),
        ("softmax", "unlikelihood"),
        ("softmax", "face:opr,cp"),
        ("softmax", "mle+seq:1,8x16"),
    ],
)
def test_no_tensor_is_positions_times_vocabulary(head: Any, objective: str) -> None:
    assert largest_in_a_step(head, objective, mebibytes=0.5) < POSITIONS * V / 2


def test_the_watch_sees_one_where_the_budget_allows_it() -> None:
    assert largest_in_a_step("softmax", "mle", mebibytes=256) >= POSITIONS * V


@pytest.mark.parametrize("head", ["cache", "softmax+cp", "softmax+p", "copynet", "pg", "ps"])
def test_no_tensor_is_positions_times_places_times_width(head: str) -> None:
    small = {"vocabulary": 100, "width": 64, "length": 128}
    assert largest_in_a_step(head, "mle", mebibytes=0.1, **small) < B * 128 * 128 * 64 / 8


def test_the_watch_sees_the_sums_of_additive_attention_where_a_chunk_holds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(additive._CHUNK_BYTES, "cpu", 2**30)
    assert (
        largest_in_a_step("pg", "mle", 0.1, vocabulary=100, width=64, length=128) >= B * 127 * 126 * 64
    )  # the last of them sees 126 places


@pytest.mark.few(2)
@pytest.mark.parametrize("head", ["softmax", "mos:3", "softmax+cpr:20,100", {"head": "f2", "counts": counts_file()}])
@pytest.mark.parametrize("mebibytes", [0.05, 256], ids=["chunks", "one chunk"])
@pytest.mark.parametrize("dropped", [False, True], ids=["step", "loss dropped"])
def test_a_step_leaves_nothing_behind(
    head: Any, mebibytes: float, dropped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's collector does not see circles that go through torch's graphs, so a step must make none."""
    sums: list[weakref.ref[GradientCollector]] = []
    made = GradientCollector.__init__

    def watched(self: GradientCollector, weight: torch.Tensor) -> None:
        sums.append(weakref.ref(self))
        made(self, weight)

    monkeypatch.setattr(GradientCollector, "__init__", watched)
    if dropped:
        monkeypatch.setattr(torch.Tensor, "backward", lambda self: None)
    gc.collect()
    gc.disable()
    try:
        largest_in_a_step(head, "mle", mebibytes, vocabulary=500, width=128)  # more than positions: products wait
    finally:
        gc.enable()
    assert sums
    assert [own for own in sums if own() is not None] == []
