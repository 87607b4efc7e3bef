"""Golden files of HistAlign and TRIME, as heads that store tokens and contexts with gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from nextword.heads.context import Context, Source
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context, seq2seq_context
from tests.oracles import golden

DOUBLE = 1e-9
"""The published numbers are float64, sums over many terms in another order."""


class PublishedGpt2:
    """``histalign_gpt2_lm``: a cache over the past of a decoder; ``context`` is that of positions with a target."""

    def __init__(self) -> None:
        self.numbers = golden.load("objectives/histalign_gpt2_lm")
        self.hidden: Tensor = self.numbers["hidden"].clone().requires_grad_()
        self.weight: Tensor = self.numbers["emb_out"].clone().requires_grad_()
        self.head = build_head("cache", width=8, vocab_size=13)
        targets = torch.nn.functional.pad(self.numbers["labels"][:, 1:], (0, 1), value=-100)
        self.targets = targets[targets != -100]
        self.context = decoder_context(
            self.head,
            self.hidden,
            self.numbers["input_ids"],
            LinearVocabulary(self.weight),
            counted=targets != -100,
            embedding=self.numbers["emb_in"],
            labels=self.numbers["labels"],
        )

    def everywhere(self) -> Context:
        """All positions."""
        return decoder_context(self.head, self.hidden, self.numbers["input_ids"], LinearVocabulary(self.weight))


class PublishedBart:
    """``histalign_bart``: a cache over a padded source; ``context`` is that of positions with a target."""

    def __init__(self) -> None:
        self.numbers = golden.load("objectives/histalign_bart")
        self.encoder: Tensor = self.numbers["enc_hidden"].clone().requires_grad_()
        self.decoder: Tensor = self.numbers["dec_hidden"].clone().requires_grad_()
        self.weight: Tensor = self.numbers["emb_out"].clone().requires_grad_()
        self.head = build_head("cache", width=8, vocab_size=15, source=8)
        ids, labels = self.numbers["input_ids"], self.numbers["labels"]
        self.source = Source(ids, ids != self.numbers["pad_id"], self.encoder)
        self.vocabulary = LinearVocabulary(self.weight, self.numbers["final_logits_bias"][0])
        self.targets = labels[labels != -100]
        embedding = self.numbers["emb_shared"]
        self.context = seq2seq_context(
            self.decoder, self.vocabulary, self.source, counted=labels != -100, embedding=embedding
        )

    def everywhere(self) -> Context:
        """All positions."""
        return seq2seq_context(self.decoder, self.vocabulary, self.source)
