"""Loss and gradients of one batch, in one process or shared by several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers as hf
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor

import nextword as nw
from nextword.experiments.training.sharding import shard, share_vocabulary
from nextword.runtime import processes
from tests.helpers.conditioned_models import encoder, texts

TOKENS = {"vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LENGTHS = (12, 5, 9, 12, 3, 7, 12, 10)


class Case(NamedTuple):
    """What is trained."""

    backbone: str
    head: str
    objective: str = "mle"
    conditioner: str | None = None


HEADS = ("softmax", "softmax+proj", "softmax+mi:2x3", "softmax+c", "softmax+p", "softmax+r:3", "softmax+cpr:3,5")
HEADS += ("mos:2", "mos:2+cpr:3,5", "sigsoftmax", "cache", "pg", "ps", "copynet", "f2")
OF_SOURCE = ("softmax+e", "softmax+cepr:3,5")
"""Heads that read the words of an encoder."""

FEW = (
    *(Case("llama", head) for head in ("softmax+mi:2x3", "softmax+proj", "mos:2+cpr:3,5", "pg", "f2")),
    *(Case("gpt2", head) for head in ("softmax+cpr:3,5", "sigsoftmax", "ps", "f2")),
    *(Case("t5", head) for head in ("softmax+cepr:3,5", "cache", "copynet")),
    Case("gpt2", "cache", "histalign"), Case("llama", "mos:2", "unlikelihood"), Case("t5", "pg", "unlikelihood"),
    Case("t5", "softmax", "face"), Case("llama", "cache", "face"), Case("gpt2", "softmax", "mle", "bergpt"),
)  # fmt: skip
"""Every part once: what the ordinary suite has time for."""


def every_case(*backbones: str) -> tuple[Case, ...]:
    """Every head with every objective that it can have, and conditioners; on every backbone, or on these."""
    found = []
    for backbone in backbones or BACKBONES:
        heads = (*HEADS, *OF_SOURCE) if backbone == "t5" else HEADS
        found += [Case(backbone, head, objective) for objective in ("mle", "unlikelihood", "face") for head in heads]
        found += [Case(backbone, "cache", objective) for objective in ("histalign", "histalign:paper")]
        if backbone == "gpt2":
            found += [Case(backbone, "softmax", "mle", name) for name in ("lmh", "dau", "bergpt", "prefix:3")]
    return tuple(found)


IN_DOUBLE = (("ddp", 1), ("ddp", 2), ("fsdp", 1), ("fsdp", 2))
"""How processes share a batch, and in how many forward passes each reads its share."""


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


def made(case: Case, counts: str) -> Any:
    """The model, always the same; its head is no longer where it starts, so that all of it is in play."""
    torch.manual_seed(0)
    spec: Any = {"head": "f2", "counts": counts} if case.head == "f2" else case.head
    read = {"conditioner": case.conditioner, "encoder": encoder(**NO_DROPOUT)} if case.conditioner else {}
    model = nw.attach(BACKBONES[case.backbone](), spec, case.objective, **read)
    for parameter in model.next_word_head.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)
    return model


def gradients(
    case: Case, way: str, counts: str, passes: int = 1, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of the whole batch and its gradients, when every process has read its share.

    Args:
        case: What is trained.
        way: ``one``, ``ddp``, ``fsdp``, or ``vocabulary``: then every process reads the whole batch.
        counts: File of token counts.
        passes: In how many forward passes a process reads its share.
        dtype: Of the model.
    """
    model = made(case, counts).to(dtype).train()
    apart = way in ("ddp", "fsdp")
    several, here = (processes.count(), distributed.get_rank()) if apart else (1, 0)
    read = batch() | (texts(LENGTHS) if case.conditioner else {})
    first = 0 if case.backbone == "t5" else 1
    total = int((read["labels"][:, first:] != -100).sum())
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
        part = {name: values[begin : begin + rows] for name, values in read.items()}
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


def shareable(case: Case) -> bool:
    """Whether the output embedding of a case can be divided over the vocabulary."""
    tied = case.backbone != "llama"
    compared = case.objective == "histalign:paper" or (case.objective == "histalign" and tied)  # words, by its rows
    return not (compared or case.conditioner or (case.backbone, case.head) == ("t5", "f2"))


def whole_once(case: Case) -> bool:
    """Whether reading a batch in two passes is the same: FACE counts words after each."""
    return case.objective != "face"


Found = dict[Case, tuple[Tensor, dict[str, Tensor]]]


def every_way(counts: str, cases: Sequence[Case]) -> Iterator[tuple[str, torch.dtype, Found]]:
    """What processes find together: way, precision, loss and gradients by case."""
    for way, passes in IN_DOUBLE:
        possible = [case for case in cases if passes == 1 or whole_once(case)]
        yield f"{way} {passes}", torch.float64, {case: gradients(case, way, counts, passes) for case in possible}
    for dtype in (torch.float64, torch.float32):
        possible = [case for case in cases if shareable(case)]
        yield "vocabulary", dtype, {case: gradients(case, "vocabulary", counts, dtype=dtype) for case in possible}
    for way in ("ddp", "fsdp"):
        yield way, torch.float32, {case: gradients(case, way, counts, dtype=torch.float32) for case in cases}


def found_together(folder: str, cases: Sequence[Case]) -> None:
    """Called in each process by ``ranks``; the main one writes ``together.pt``."""
    distributed.init_process_group("gloo")
    counts = str(Path(folder) / "counts.npz")
    found = list(every_way(counts, cases))
    asked = logits("vocabulary", counts)
    if processes.is_main():
        torch.save({"losses": found, "logits": asked}, Path(folder) / "together.pt")
