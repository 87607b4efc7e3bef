"""Count the tokens of a text, divide them into frequency classes, train F²-Softmax briefly, and generate with it.

python examples/frequency_classes.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from tiny import model_and_tokenizer

import nextword as nw
from nextword.experiments.tasks.ambiguous_prompts import documents
from nextword.experiments.tasks.ambiguous_words import embedded

PROMPT = "The list says"
LENGTH = 24


def main(steps: int = 60) -> None:
    """Prints the classes, how probable each is after the prompt, and texts with and without decoupled decoding."""
    torch.manual_seed(0)
    texts = list(documents(embedded(), 400, seed=0))
    backbone, tokenizer = model_and_tokenizer(None, texts)
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.npz"
        nw.count_tokens(Dataset.from_dict({"text": texts}), tokenizer, out=counts)
        settings = {"head": "f2", "counts": str(counts), "start": "random", "prior": None}
        model = nw.attach(backbone, settings)

    stream = [token for text in texts for token in tokenizer(text)["input_ids"]]
    rows = torch.tensor(stream[: len(stream) // LENGTH * LENGTH]).view(-1, LENGTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        batch = rows[torch.randperm(len(rows))[:16]]
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step:3}: {loss.item():.2f} nats per word")

    prompt = tokenizer(PROMPT, return_tensors="pt").input_ids
    with torch.no_grad():
        p1 = model.distribution(prompt)[-1:].log_class_probs()[0].exp()
    print(f"\nafter '{PROMPT}':")
    for number, (members, probability) in enumerate(zip(model.next_word_head.table.classes().members, p1, strict=True)):
        words = tokenizer.convert_ids_to_tokens(members[:4].tolist())
        print(f"  class {number + 1}: {probability:.3f}  {len(members):3} words, such as {', '.join(words)}")
    for decoupled in (True, False):
        written = model.generate(prompt, do_sample=True, top_k=3, max_new_tokens=20, decoupled=decoupled)
        print(f"\ndecoupled={decoupled}: {tokenizer.decode(written[0])}")


if __name__ == "__main__":
    main()
