"""Train a cache briefly, then print the components of the probability of each of its top tokens.

python examples/where_did_it_come_from.py
python examples/where_did_it_come_from.py gpt2
"""

from __future__ import annotations

import sys

import torch
from compare_heads import sentences, train
from tiny import encode, model_and_tokenizer

import nextword as nw
from nextword.runtime.pretrained import token_label

PROMPT = "Between the king and the woman I talked to the"
WIDTH = 40


def main(name: str | None = None, steps: int = 60) -> None:
    """Prints the top words, each with a bar of its sources, for the whole distribution and for the memory alone."""
    torch.manual_seed(0)
    backbone, tokenizer = model_and_tokenizer(name, sentences())
    model = nw.attach(backbone, "cache:published", objective="histalign")
    train(model, encode(tokenizer, sentences()), steps)

    ids = encode(tokenizer, [PROMPT])
    print(f"{PROMPT} ...")
    for mode in model.next_word_head.modes:
        with torch.no_grad():
            dist = model.distribution(ids, mode=mode)[-1:]
        log_probs, words = dist.top_k(4)
        shares = dist.sources(words)
        print(f"\n{mode}, entropy {dist.entropy().item():.2f} nats")
        for place, word in enumerate(words[0].tolist()):
            parts = {source: share[0, place].item() for source, share in shares.items()}
            bar = "".join(source[0] * round(WIDTH * part) for source, part in parts.items())
            told = ", ".join(f"{source} {part:.3f}" for source, part in parts.items())
            print(f"  {token_label(tokenizer, word):10} {log_probs[0, place].exp().item():.3f}  {bar:{WIDTH}}  {told}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
