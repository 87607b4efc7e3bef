"""What is measured of a model that was to learn the relations."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.experiments.tasks.ambiguous_measures import completion_accuracy
from nextword.experiments.tasks.tokenizers import word_tokenizer
from nextword.inference.scoring.likelihood import ask
from nextword.inference.scoring.text_tokens import encode_prompt


def test_any_word_that_completes_a_statement_is_right() -> None:
    """A state has several well known cities: one statement of which one word is the first guess."""
    tokenizer = word_tokenizer(["Texas ' s city is Houston Dallas Austin"])
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    model = nw.attach(GPT2LMHeadModel(config).eval(), "softmax")
    words = ["Houston", "Dallas", "Austin", "is"]
    prompt = "Texas ' s city"
    dist, _ = ask(model, [encode_prompt(tokenizer, prompt)], 0)
    guess = tokenizer.decode(dist.top_k(1)[1][0])
    others = [word for word in words if word != guess][:2]

    def known(*completing: str) -> float:
        probes = [("city", prompt, word) for word in completing]
        return completion_accuracy(model, probes, tokenizer, 1)["knows_city"].value

    assert known(guess) == known(others[0], guess) == known(guess, *others) == 1
    assert known(*others) == 0
