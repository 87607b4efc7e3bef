"""Short texts of every head and family, in every way to generate: their tokens, and the scores of each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

import nextword as nw
from nextword.model.speculative_decoding.speculative_decoding import FixedLength
from tests.helpers.batched import batching, greedy, prompts, single
from tests.helpers.conditioned_generating_models import FEW, auxiliary, model_of
from tests.helpers.conditioned_models import COPYING
from tests.helpers.generating_models import (
    DECODERS,
    ENCODER_DECODERS,
    HYBRIDS,
    MODES,
    assistant,
    headed,
    left_padded,
    prompt,
)
from tests.helpers.golden.digests import digest, or_refusal
from tests.helpers.recomputation import generated

NEW = 6
"""Tokens to generate."""
OWN = {"gpt2": ["f2 decoupled", "sigsoftmax", "softmax+r:3"], "llama": ["f2+mi", "f2 decoupled"]}
"""Further heads of a family, beside those that every one has."""
CONDITIONED = FEW + [
    ("gpt2", conditioner, head)
    for conditioner in ("lmh", "dau", "bergpt", "prefix:3")
    for head in ("softmax", "cache", "softmax+mi:2x3", *COPYING)
    if ("gpt2", conditioner, head) not in FEW
]
RULES: dict[str, dict[str, Any]] = {
    "cut": {"do_sample": True, "top_k": 6, "top_p": 0.9, "temperature": 0.8},
    "penalised": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 3},
    "ended": {"eos_token_id": [5, 7, 9, 11, 13], "min_new_tokens": 2},
}
UNCACHED = {f"{name} without cache": MODES[name] | {"use_cache": False} for name in ("greedy", "sampling", "beams")}
BATCHED = (("gpt2", "softmax"), ("gpt2", "cache"), ("gpt2", "softmax+cpr:3,8+mi"), ("gpt2", "pg"), ("llama", "cache"))
"""Families and heads that answer requests through continuous batching."""


def jobs() -> Iterator[tuple[str, Any]]:
    """Name of each file with what makes its content."""
    for family in {**DECODERS, **HYBRIDS}:
        for head in [*DECODERS["gpt2"], *OWN.get(family, [])]:
            yield f"generations/{family}/{head}", partial(of_pair, family, head)
    for family in ENCODER_DECODERS:
        for head in {**dict.fromkeys(ENCODER_DECODERS["t5"]), **dict.fromkeys(ENCODER_DECODERS["bart"])}:
            yield f"generations/{family}/{head}", partial(of_pair, family, head)
    for case in CONDITIONED:
        yield f"generations/conditioned/{' '.join(case)}", partial(of_conditioned, *case)
    for family, head in BATCHED:
        yield f"generations/batched/{family} {head}", partial(of_batch, family, head)


def of_pair(family: str, head: str) -> dict[str, Any]:
    return {name: or_refusal(way) for name, way in ways(family, head).items()}


def ways(family: str, head: str) -> dict[str, Callable[[], Any]]:
    """What is generated, by name."""
    model, ids, one = headed(family, head), prompt(), prompt(1).repeat(1, 2)
    write = partial(written, model)
    found = {name: partial(write, ids, **mode) for name, mode in (MODES | UNCACHED | RULES).items()}
    padded, mask = left_padded(prompt(3), [0, 4, 7])
    if model.config.is_encoder_decoder:
        mask = (torch.arange(9) < torch.tensor([[9], [5], [2]])).long()
        padded = prompt(3) * mask
        start = prompt(2, 5, seed=4)
        found["begun"] = partial(write, ids, decoder_input_ids=start, num_beams=4)
    for name in ("greedy", "sampling", "beams", "samples"):
        found[f"{name}, padded"] = partial(write, padded, attention_mask=mask, **MODES[name])
    if head.startswith("f2"):
        found["decoupled"] = partial(write, ids, decoupled=True, do_sample=True)
    found["one token"] = partial(write, prompt(2, 1), num_beams=2)
    found["static"] = partial(write, ids, cache_implementation="static")
    found["looked up"] = partial(write, one, prompt_lookup_num_tokens=3)
    for name, helper in {"plain": None, "headed": head}.items():
        for mode in ("greedy", "sampling"):
            found[f"{mode}, {name} assistant"] = partial(_assisted, model, family, helper, MODES[mode])
    for by in ("places", "prompt"):
        for mode in ("greedy", "sampling"):
            found[f"{mode}, drafts by {by}"] = partial(_drafted, model, prompt(3).repeat(1, 2), by, MODES[mode])
    return found


def written(model: Any, ids: torch.Tensor, **settings: Any) -> dict[str, Any]:
    """Token ids of the texts, and what the model said at each step."""
    out = generated(model, ids, max_new_tokens=NEW, **settings)
    said = {} if out.logits is None else {"logits": digest(torch.stack(list(out.logits)))}
    scores = getattr(out, "sequences_scores", None)
    beams = {} if scores is None else {"scores": digest(scores)}
    return {"tokens": str(out.sequences.tolist()), **said, **beams}


def _assisted(model: Any, family: str, helper: str | None, mode: dict[str, Any]) -> dict[str, Any]:
    return written(model, prompt(1), assistant_model=assistant(family, helper), **mode)


def _drafted(model: Any, ids: torch.Tensor, by: str, mode: dict[str, Any], **given: Any) -> dict[str, Any]:
    """The length of drafts is fixed: by default it follows from how long passes take. Scores are not kept of them."""
    decoding = nw.SpeculativeDecoding(by, FixedLength(4))
    torch.manual_seed(7)
    tokens = model.generate(ids, max_new_tokens=NEW, draft=decoding, **mode, **given)
    return {"tokens": str(tokens.tolist()), "judged": str([(one.row, one.accepted) for one in decoding.verified])}


def of_conditioned(family: str, conditioner: str, head: str) -> dict[str, Any]:
    model = model_of(family, conditioner, head)
    ids, mask = left_padded(prompt(3), [0, 4, 7])
    given = auxiliary(model, 3)
    found = {
        name: or_refusal(partial(written, model, ids, attention_mask=mask, **given, **mode))
        for name, mode in (MODES | UNCACHED | RULES).items()
    }
    drafted = partial(_drafted, model, prompt(3).repeat(1, 2), "places", MODES["greedy"], **given)
    return found | {"drafts": or_refusal(drafted)}


def of_batch(family: str, head: str) -> dict[str, str]:
    """Tokens of requests that share passes; which do depends on a thread, and with it the rounding of their scores."""
    results = single(family, head).generate_batch(prompts(), greedy(), batching())
    return {str(number): str(result.generated_tokens) for number, result in enumerate(results.values())}
