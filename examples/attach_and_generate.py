"""Attach a head, check it, generate with it, save it and load it again.

Run this script offline on a tiny random model, or on your own model:

    python examples/attach_and_generate.py
    python examples/attach_and_generate.py gpt2 mos:3
"""

from __future__ import annotations

import sys
import tempfile

import torch
from tiny import encode, model_and_tokenizer

import nextword as nw

PROMPT = "Between the king and the queen I first talked to the"


def main(name: str | None = None, head: str = "cache") -> None:
    """Attaches ``head`` to the model ``name`` and puts it through its paces."""
    backbone, tokenizer = model_and_tokenizer(name, [PROMPT])
    model = nw.attach(backbone, head)
    print(f"head: {head}, {sum(p.numel() for p in model.next_word_head.parameters()):,} new parameters")

    result = nw.check(model)
    print(f"every distribution is a distribution: {result.passed}")

    ids = encode(tokenizer, [PROMPT])
    settings = {"max_new_tokens": 8, "attention_mask": torch.ones_like(ids), "pad_token_id": tokenizer.eos_token_id}
    for title, mode in {
        "greedy": {"do_sample": False},
        "4 beams": {"num_beams": 4, "do_sample": False},
        "sampled": {"do_sample": True, "top_p": 0.9},
    }.items():
        found = model.generate(ids, **settings, **mode)
        print(f"{title:8}: {tokenizer.decode(found[0, ids.shape[1] :])}")

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = nw.load(folder)
    same = torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)
    print(f"saved and loaded, the same to the last bit: {same}")


if __name__ == "__main__":
    main(*sys.argv[1:])
