"""What a training step and a decoding step of each head do: counted by operation, not timed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import nextword as nw

V, T = 97, 12


class Operations(TorchDispatchMode):
    """Name of every operation, with the size of the last dimension of its first tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        width = args[0].shape[-1] if args and isinstance(args[0], Tensor) and args[0].ndim else 0
        self.seen.append((func.overloadpacket.__name__, width))
        return func(*args, **(kwargs or {}))

    def count(self, name: str, width: int) -> int:
        return sum(own.startswith(name) and size == width for own, size in self.seen)


def gpt2() -> Any:
    torch.manual_seed(0)
    special = {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=16, n_layer=3, n_head=2, n_positions=256, **special)).eval()


def t5() -> Any:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(vocab_size=V, decoder_start_token_id=0, **sizes)).eval()


def training_step(head: str, batch: int = 2) -> Operations:
    model = nw.attach(gpt2(), head).train()
    ids = torch.randint(3, V, (batch, T), generator=torch.Generator().manual_seed(1))
    with Operations() as operations:
        model(input_ids=ids, labels=ids).loss.backward()
    return operations


@pytest.mark.few(3)
@pytest.mark.parametrize("head", ["cache", "copynet", "pg", "ps+mi"])
def test_training_lays_no_place_over_the_vocabulary(head: str) -> None:
    """The target's log-probability needs a sum over places, not a scatter into V."""
    seen, softmax = training_step(head), training_step("softmax")
    assert softmax.count("scatter", V) == 1  # the gradient of the target's own score
    assert seen.count("scatter", V) == 1
    assert seen.count("index_put", V) == 0


def test_the_watch_sees_such_a_scatter() -> None:
    model = nw.attach(gpt2(), "copynet")
    with Operations() as operations:
        model.distribution(torch.tensor([[3, 4, 3, 4]])).log_probs()
    assert operations.count("scatter", V) > 0


@pytest.mark.parametrize("head", ["softmax+r:20", "softmax+r:20,40", "softmax+cpr:5,20,40"])
def test_one_top_k_over_the_vocabulary_serves_all_steps(head: str) -> None:
    assert training_step(head).count("topk", V) == 1


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "head", ["softmax+cpr:5,20+mi", "mos:2+cpr:5,20+mi", "copynet+mi", "pg+mi", "ps+mi", "cache:published"]
)
def test_operations_do_not_grow_with_the_batch(head: str) -> None:
    assert len(training_step(head, 2).seen) == len(training_step(head, 5).seen)


def rows_through(model: Any, names: list[str], generate: Any) -> dict[str, list[int]]:
    """Vectors that went through some modules of the head, call by call."""
    rows: dict[str, list[int]] = {name: [] for name in names}
    hooks = [
        model.next_word_head.get_submodule(name).register_forward_hook(
            lambda module, given, out, name=name: rows[name].append(given[0][..., 0].numel())
        )
        for name in names
    ]
    generate()
    for hook in hooks:
        hook.remove()
    return rows


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("softmax+cpr:5,20+mi", ["inputs.merge", "partition.local.key", "partition.context", "project"]),
        ("pg+mi", ["inputs.merge", "local.key", "local.query"]),
        ("copynet", ["local.key"]),
    ],
)
def test_a_step_of_decoding_projects_the_new_place_alone(head: str, names: list[str]) -> None:
    model, ids = nw.attach(gpt2(), head), torch.randint(3, V, (2, T))
    rows = rows_through(model, names, lambda: model.generate(ids, max_new_tokens=4, do_sample=False))
    for name in names:
        assert rows[name][1:] == [2, 2, 2], name
        assert rows[name][0] in (2 * T, 2)  # what earlier places need is made once, the rest at the last place only


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(("head", "name"), [("pg", "local.key"), ("softmax+cepr:5", "partition.source_local.key")])
def test_the_source_is_embedded_once(head: str, name: str, beams: int) -> None:
    model, ids = nw.attach(t5(), head), torch.randint(3, V, (2, T))
    generate = lambda: model.generate(ids, max_new_tokens=5, num_beams=beams, do_sample=False)  # noqa: E731
    assert rows_through(model, [name], generate)[name] == [2 * T * beams]


def test_multiple_inputs_keep_a_window_and_not_the_text() -> None:
    model, ids = nw.attach(gpt2(), "softmax+mi"), torch.randint(3, V, (1, 150))
    out = model.generate(ids, max_new_tokens=3, do_sample=False, return_dict_in_generate=True)
    head_cache = out.past_key_values.head_cache
    assert head_cache.length == 152
    kept = {name: stream.positions.shape[1] for name, stream in (head_cache._streams | head_cache._windows).items()}
    assert kept == {"ids": 152, "valid": 152, "inputs": 66}  # two places before the newest, and 64 that may be cropped
