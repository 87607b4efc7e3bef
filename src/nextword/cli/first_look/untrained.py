"""The quickstart's first numbers: a GPT-2 that nobody trained goes on with a list, alone and with a cache."""

from __future__ import annotations

from typing import Any

import nextword as nw

VOCABULARY, LISTED, WRITTEN = 1000, 20, 5
"""Tokens that there are, tokens of the list, and tokens that each writes."""


def untrained_line() -> str:
    """What a cache does for random weights where a text repeats itself; README's first example, in one sentence."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes: dict[str, Any] = {"n_layer": 2, "n_head": 4, "n_embd": 64, "vocab_size": VOCABULARY}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        gpt2: Any = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
        held, ids = torch.randint(1, VOCABULARY, (2, LISTED)).repeat(1, 3)[:, None]
    losses, agree = [], []
    with torch.no_grad():
        for head in ("softmax", "cache"):
            model = nw.attach(gpt2.eval(), head)
            if head == "cache":
                nw.calibrate(model, held)
            losses.append(float(model(input_ids=ids, labels=ids).loss))
            written = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=WRITTEN, do_sample=False, pad_token_id=0
            )
            agree.append(int((written[0, 3 * LISTED :] == ids[0, :WRITTEN]).sum()))
    return (
        f"A GPT-2 with random weights reads a list of {LISTED} random tokens three times. Alone: {losses[0]:.1f} nats "
        f"per token, and it goes on with {agree[0]} of {WRITTEN} tokens of the list. With a cache, nothing trained: "
        f"{losses[1]:.1f}, and {agree[1]} of {WRITTEN}."
    )
