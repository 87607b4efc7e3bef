"""Loss and gradients of one batch, in one process or shared by several: run as a script by ``torchrun``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor

import nextword as nw
from nextword import processes
from nextword.training.sharding import shard, share_vocabulary

TOKENS = {"vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LENGTHS = (12, 5, 9, 12, 3, 7, 12, 10)
HEADS = ("softmax", "cache", "softmax+cpr:3,5", "softmax+mi:2x3", "softmax+r:3", "softmax+proj", "mos:2")
HEADS += ("sigsoftmax", "pg", "ps", "copynet", "f2")
TIED = ("softmax", "cache", "softmax+cpr:3,5")
CASES = [("llama", head, "mle") for head in HEADS]
CASES += [(name, head, "mle") for name in ("gpt2", "t5") for head in TIED]
CASES += [("llama", "cache", "histalign"), ("gpt2", "cache", "histalign"), ("llama", "mos:2", "unlikelihood")]
CASES += [("gpt2", "f2", "mle")]
CASES += [("t5", "softmax", "face"), ("llama", "softmax", "face")]
CANNOT_SHARE = ("gpt2", "cache", "histalign")
"""It compares words by their input embeddings, which are tied to the output embedding there."""


def gpt2() -> Any:
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**TOKENS, **dropout, n_embd=16, n_layer=2, n_head=2, n_positions=16))


def llama() -> Any:
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**TOKENS, **sizes))


def t5() -> Any:
    sizes = {"d_model": 16, "d_ff": 16, "num_layers": 2, "d_kv": 8, "num_heads": 2, "dropout_rate": 0.0}
    config = hf.T5Config(**TOKENS, **sizes, decoder_start_token_id=0, tie_word_embeddings=True)
    return hf.T5ForConditionalGeneration(config)


BACKBONES = {"gpt2": gpt2, "llama": llama, "t5": t5}


def batch() -> dict[str, Tensor]:
    """Eight texts of different lengths, in which words come again."""
    ids = torch.randint(3, 50, (len(LENGTHS), 12), generator=torch.Generator().manual_seed(1))
    ids[:, 6:] = ids[:, :6]
    kept = torch.arange(12) < torch.tensor(LENGTHS)[:, None]
    return {
        "input_ids": ids * kept,
        "labels": ids.masked_fill(~kept, -100),
        "attention_mask": kept.long(),
    }


def whole(gradient: Any) -> Tensor:
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def gradients(
    case: tuple[str, str, str], way: str, counts: str, passes: int, dtype: torch.dtype
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of the whole batch and its gradients, when every process has read its share.

    Args:
        case: Backbone, head, objective.
        way: ``one``, ``ddp``, ``fsdp``, or ``vocabulary``: then every process reads the whole batch.
        counts: File of token counts.
        passes: In how many forward passes a process reads its share.
        dtype: Of the model.
    """
    backbone, head, objective = case
    torch.manual_seed(0)
    spec: Any = {"head": "f2", "counts": counts} if head == "f2" else head
    model = nw.attach(BACKBONES[backbone](), spec, objective=objective).to(dtype).train()
    apart = way in ("ddp", "fsdp")
    several, here = (processes.count(), distributed.get_rank()) if apart else (1, 0)
    texts = batch()
    first = 0 if backbone == "t5" else 1
    total = int((texts["labels"][:, first:] != -100).sum())
    called: Any = model
    if way == "ddp":
        called = nn.parallel.DistributedDataParallel(model)
    elif way == "fsdp":
        shard(model)
    elif way == "vocabulary":
        share_vocabulary(model)
    rows = len(LENGTHS) // several // passes
    summed = torch.zeros((), dtype=dtype)
    for turn in range(passes):
        begin = (here * passes + turn) * rows
        part = {name: values[begin : begin + rows] for name, values in texts.items()}
        loss = called(**part, num_items_in_batch=total, return_logits=False).loss
        (loss * several).backward()  # as Trainer does, since gradients are averaged over processes
        summed += loss.detach()
    if apart:
        distributed.all_reduce(summed)
    found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return summed, {name: whole(grad) for name, grad in found.items()}


@torch.no_grad()
def logits(way: str, counts: str) -> dict[str, Tensor]:
    """What a model tells of every token, by head; ``way`` as above."""
    found = {}
    for head in ("softmax", "softmax+cpr:3,5", "mos:2", "f2"):
        torch.manual_seed(0)
        spec: Any = {"head": "f2", "counts": counts} if head == "f2" else head
        model = nw.attach(llama(), spec).double().eval()
        if way == "vocabulary":
            share_vocabulary(model)
        found[head] = model(input_ids=batch()["input_ids"], attention_mask=batch()["attention_mask"]).logits
    return found


def every_case(way: str, counts: str, passes: int = 1, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """Loss and gradients by case; FACE, which counts words after each forward pass, only where there is one."""
    cases = [case for case in CASES if passes == 1 or case[2] != "face"]
    cases = [case for case in cases if way != "vocabulary" or case != CANNOT_SHARE]
    return {" ".join(case): gradients(case, way, counts, passes, dtype) for case in cases}


if __name__ == "__main__":
    folder, out = Path(sys.argv[1]), {}
    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    for way, passes in (("ddp", 1), ("ddp", 2), ("fsdp", 1)):
        out[f"{way} {passes}"] = every_case(way, str(folder / "counts.npz"), passes)
    for dtype in (torch.float64, torch.float32):
        out[f"vocabulary {dtype}"] = every_case("vocabulary", str(folder / "counts.npz"), dtype=dtype)
    out["logits"] = logits("vocabulary", str(folder / "counts.npz"))
    if processes.is_main():
        torch.save(out, folder / f"{processes.count()}.pt")
    distributed.destroy_process_group()
