"""Train two conditioners that let a small GPT-2 follow a summary, and test whether the model follows the summary.

python examples/follow_a_summary.py
"""

from __future__ import annotations

import random

import torch
from tiny import model_and_tokenizer
from transformers import BertConfig, BertModel

import nextword as nw
from nextword.experiments.tasks.tokenizers import word_tokenizer

PLACES = {
    "harbour": ("ships", "sailors", "ropes", "storms", "cranes"),
    "kitchen": ("cooks", "knives", "onions", "ovens", "guests"),
    "stadium": ("runners", "fans", "goals", "coaches", "whistles"),
    "library": ("readers", "shelves", "maps", "poems", "lamps"),
}


def pairs(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Summaries such as "news from the harbour", and texts about what is there."""
    chance = random.Random(seed)
    places = [chance.choice(list(PLACES)) for _ in range(count)]
    texts = ["we saw " + " and ".join(chance.sample(PLACES[place], 3)) + " today" for place in places]
    return [f"news from the {place}" for place in places], texts


def main(steps: int = 80) -> None:
    """Prints how likely texts are with the right summary and with another one, and what is written after each."""
    summaries, texts = pairs(256, seed=0)
    torch.manual_seed(0)
    reader = word_tokenizer([f"news from the {place}" for place in PLACES])
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    encoder = BertModel(BertConfig(vocab_size=len(reader), **sizes)).eval()

    for conditioner, head in (("dau", "softmax"), ("bergpt", "softmax"), ("bergpt", "pg:published")):
        backbone, tokenizer = model_and_tokenizer(None, [*texts, *summaries])
        settings = {"conditioner": conditioner, "trains": "decoder"}  # nothing here was trained before
        model = nw.attach(backbone, head, conditioner=settings, encoder=encoder).train()
        auxiliary = nw.AuxiliaryTokenizer(reader, tokenizer)(summaries)
        ids = tokenizer(texts, return_tensors="pt").input_ids
        optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=3e-3)
        for _ in range(steps):
            rows = torch.randperm(len(ids))[:32]
            beside = {name: given[rows] for name, given in auxiliary.items()}
            model(ids[rows], labels=ids[rows], **beside).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        others = torch.randperm(len(ids))
        with torch.no_grad():
            right = model.eval()(ids, labels=ids, **auxiliary).loss
            wrong = model(ids, labels=ids, **{name: given[others] for name, given in auxiliary.items()}).loss
        print(f"\n{conditioner} + {head}: {right:.2f} nats per word with the right summary, {wrong:.2f} with any")
        asked = [f"news from the {place}" for place in ("harbour", "kitchen")]
        start = tokenizer(["we saw"] * len(asked), return_tensors="pt")
        auxiliary = nw.AuxiliaryTokenizer(reader, tokenizer)(asked)
        written = model.generate(start.input_ids, attention_mask=start.attention_mask, **auxiliary, max_new_tokens=6)
        for summary, text in zip(asked, tokenizer.batch_decode(written), strict=True):
            print(f"  {summary}: {text}")


if __name__ == "__main__":
    main()
