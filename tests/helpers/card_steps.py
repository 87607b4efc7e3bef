"""Steps of training that need a process of their own; run by ``tests/gpu/test_training.py``.

python -m tests.helpers.card_steps fsdp | vocabulary | compiled HEAD
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch import Tensor, distributed

from nextword.experiments.training.sharding import shard, share_vocabulary
from tests.helpers.families import inputs, labels
from tests.helpers.head_specs import specs, with_head
from tests.helpers.on_card import BFLOAT16, DEVICE, FLOAT32, furthest, learned, moved, on_card

HEADS = ("softmax", "softmax+cpr:3,8+mi", "cache:published", "mos:3", "f2")


def built(head: str, dtype: torch.dtype) -> tuple[Any, dict[str, Tensor]]:
    model = with_head("gpt2", specs().get(head, head), dtype=dtype).eval()
    given = inputs(model)
    return moved(model), on_card(given | {"labels": labels(given)})


def sharded(way: Any) -> None:
    """Loss and gradients of a model that one process shares with nobody are those of the model."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}  # any free port
    os.environ["LOCAL_RANK"] = "0"
    distributed.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")
    try:
        for head in HEADS:
            model, given = built(head, torch.float32)
            right = learned(model, given)
            model.zero_grad()
            way(model)
            loss = model(**given, use_cache=False).loss
            loss.backward()
            found = {"loss": loss.detach().double().cpu()}
            for name, weight in model.named_parameters():
                if weight.grad is not None:
                    grad: Any = weight.grad
                    whole = grad.full_tensor() if hasattr(grad, "full_tensor") else grad.to_dense()
                    found[name] = whole.double().cpu()
            error, name = furthest(found, right)
            print(head, error)
            assert error < 1e-4, (head, name, error)
    finally:
        distributed.destroy_process_group()


def compiled(head: str) -> None:
    """A compiled step, with the compiler's own kernels, is as near to float64 as the uncompiled one.

    In bfloat16; a head with candidates in float32, since two programs that round otherwise take other candidates.
    """
    dtype, allowed = (torch.float32, FLOAT32) if "+cpr" in head else (torch.bfloat16, BFLOAT16)
    model, given = built(head, dtype)
    right = learned(moved(model, torch.float64), given)
    eager, _ = furthest(learned(model, given), right)
    step = torch.compile(model)
    for _ in range(2):
        model.zero_grad()
        loss = step(**given, use_cache=False).loss
        loss.backward()
        gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
        found = {name: one.to_dense().double().cpu() for name, one in gradients.items()}
        error, name = furthest({"loss": loss.detach().double().cpu(), **found}, right)
        print(head, eager, error)
        assert error <= max(allowed, 2 * eager), (name, error, eager)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    if sys.argv[1] == "compiled":
        compiled(sys.argv[2])
    else:
        sharded({"fsdp": shard, "vocabulary": share_vocabulary}[sys.argv[1]])
