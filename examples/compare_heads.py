"""Train several heads from one initial checkpoint on a small task in which either of two words may come next.

For the real comparison, with seeds, intervals and a report, use `nextword quickstart`.

    python examples/compare_heads.py
    python examples/compare_heads.py gpt2
"""

from __future__ import annotations

import copy
import itertools
import sys

import torch
from tiny import encode, model_and_tokenizer

import nextword as nw

WORDS = ["king", "queen", "man", "woman", "prince", "princess", "uncle", "aunt"]
METHODS = [
    ("softmax", "mle"),
    ("softmax+mi", "mle"),
    ("mos:3", "mle"),
    ("cache:published", "mle"),
    ("cache:published", "histalign"),
]


def sentences() -> list[str]:
    """Every pair of words, continued with the first or the second of them."""
    pairs = itertools.permutations(WORDS, 2)
    return [f"Between the {a} and the {b} I talked to the {c}" for a, b in pairs for c in (a, b)]


def main(name: str | None = None, steps: int = 60) -> None:
    """Prints the loss on the last word, which cannot fall below ln 2 = 0.693 nats, and what each head adds."""
    torch.manual_seed(0)
    texts = sentences()
    backbone, tokenizer = model_and_tokenizer(name, texts)
    ids = encode(tokenizer, texts)
    order = torch.randperm(len(ids))
    held_out, training = ids[order[:16]], ids[order[16:]]
    print(f"{'head':15} {'objective':10} {'new parameters':>15} {'nats, last word':>16}")
    for head, objective in METHODS:
        torch.manual_seed(0)
        model = nw.attach(copy.deepcopy(backbone), head, objective=objective)
        train(model, training, steps)
        nats = last_word_loss(model, held_out)
        added = sum(p.numel() for p in model.next_word_head.parameters())
        print(f"{head:15} {objective:10} {added:15,} {nats:16.3f}")


def train(model: torch.nn.Module, ids: torch.Tensor, steps: int) -> None:
    """A few steps on the last word of each sentence."""
    labels = ids.clone()
    labels[:, :-1] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for step in range(steps):
        batch = slice(16 * step % len(ids), 16 * step % len(ids) + 16)
        optimizer.zero_grad()
        model(input_ids=ids[batch], labels=labels[batch]).loss.backward()
        optimizer.step()
    model.eval()


@torch.no_grad()
def last_word_loss(model: torch.nn.Module, ids: torch.Tensor) -> float:
    """Mean nats of the last word under the head's whole distribution."""
    positions = torch.zeros_like(ids, dtype=torch.bool)
    positions[:, -2] = True
    return -model.distribution(ids, positions=positions).log_prob(ids[:, -1:]).mean().item()


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
