"""Measures the time of tracing every token of a text, relative to a plain forward pass of the same model.

Run: ``python benchmarks/trace_cost.py --size gpt2 --heads softmax cache softmax+cpr:20,100 --rounds 3``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from interleaved import interleaved, ratio
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import nextword as nw
from nextword.inference.scoring.token_facts import token_facts

SIZES = {"small": {"n_embd": 128, "n_layer": 4, "n_head": 4}, "gpt2": {"n_embd": 768, "n_layer": 12, "n_head": 12}}
TOKENS, CANDIDATES, PLACES = 2000, 10, 8


def timed(run: Callable[[], Any]) -> Callable[[], float]:
    """Seconds of one call."""

    def seconds() -> float:
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    return seconds


def numbered_words(size: int) -> PreTrainedTokenizerFast:
    """A tokenizer whose words are w0, w1, ...: what a real one takes to label tokens, without a file."""
    made = Tokenizer(WordLevel({f"w{number}": number for number in range(size)}, unk_token="w0"))
    made.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="w0")


@torch.no_grad()
def main() -> None:
    """Prints a row for each head."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--heads", nargs="+", default=["softmax", "cache", "pg", "softmax+cpr:20,100", "mos:3"])
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    torch.manual_seed(0)
    plain = GPT2LMHeadModel(GPT2Config(n_positions=2048, **SIZES[chosen.size])).eval()
    ids = torch.randint(0, plain.config.vocab_size, (1, TOKENS + 1))
    before, after = ids[:, :-1], ids[0, 1:]
    tokenizer = numbered_words(plain.config.vocab_size)
    text = tokenizer.decode(after)
    print(
        "head; seconds: plain pass, pass with the head, facts, trace; ratios to the plain pass and to the head's pass"
    )
    for head in chosen.heads:
        model: Any = nw.attach(plain, head).eval()
        runs = {
            "plain": lambda: plain(before).logits,
            "head": lambda model=model: model(before).logits,
            "facts": lambda model=model: token_facts(
                model.distribution(before), after, candidates=CANDIDATES, positions=PLACES
            ),
            "trace": lambda model=model: nw.trace(model, tokenizer, text, candidates=CANDIDATES, positions=PLACES),
        }
        seconds = interleaved({name: timed(run) for name, run in runs.items()}, chosen.rounds)
        medians = " ".join(f"{statistics.median(of):.2f}" for of in seconds.values())
        against = [
            " ".join(f"{ratio(seconds[ours], seconds[baseline]):.2f}" for ours in ("facts", "trace"))
            for baseline in ("plain", "head")
        ]
        print(f"{head}: {medians}; {'; '.join(against)}", flush=True)


if __name__ == "__main__":
    main()
