"""Heads of the library with the parameters of a golden file, on its hidden states, against its numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from nextword.heads import Head
from nextword.heads.context import Source
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context
from tests.oracles.published import Published

AS_PUBLISHED = 1e-6
"""Of values and gradients in float64: the published code adds up to 1e-8 to numbers that it divides by."""
AS_TEXTBOOK = 1e-10
"""Of two formulas in float64 that add nothing."""

LOCAL_EMBEDDINGS = {
    "proj_PD_query": "local.query",
    "proj_LD_localemb": "local.key",
    "proj_PE0_query": "local.query",
    "proj_LE0_localemb": "local.key",
}
"""Our names of the published local embeddings, of the decoder's past and of the source."""


class PublishedHead:
    """A head in float64 with the parameters of a golden file.

    Args:
        name: The file, such as ``gpt2_CP``.
        spec: The head.
        names: Our name of each published projection or parameter; weights and biases are found by their endings. What
            is not named must have no gradient there: it is not used.
        left: Parameters of ours that the published head lacks. They are left at their start.
    """

    def __init__(self, name: str, spec: object, names: dict[str, str], left: frozenset[str] = frozenset()) -> None:
        self.published = published = Published(name)
        self.head: Head = build_head(spec, width=16, vocab_size=120, source=16 if published.is_t5 else None)
        own = dict(self.head.named_parameters())
        endings = {"_W": ".weight", "_b": ".bias"}
        self.used: dict[str, Tensor] = {}
        """Our parameters by their published names."""
        for leaf, value in published.leaves.items():
            if not leaf.startswith("param_"):
                continue
            theirs = leaf.removeprefix("param_")
            if theirs not in names and theirs[:-2] not in names:
                assert not published.gradient(leaf).any(), f"{leaf} is used by the published head"
                continue
            ours = names[theirs] if theirs in names else names[theirs[:-2]] + endings[theirs[-2:]]
            with torch.no_grad():
                own[ours].copy_(value.reshape(own[ours].shape))
            self.used[leaf] = own.pop(ours)
        assert own.keys() == left, "a parameter of ours was left at its start"

    def log_probs(self, *, padding_counts: bool) -> Tensor:
        """What the head makes of the published states, (B, T, V).

        Args:
            padding_counts: Whether padding of the source is shown to the head as words, as the published heads take it.
        """
        published, source = self.published, None
        if published.is_t5:
            ids, mask = published.data["encoder_ids"], published.data["encoder_mask"].bool()
            valid = torch.ones_like(mask) if padding_counts else mask
            source = Source(ids, valid, published.leaves["encoder_hidden"])
        vocabulary = LinearVocabulary(published.weight)
        context = decoder_context(
            self.head, published.layers[0], published.ids, vocabulary, layers=published.layers, source=source
        )
        return self.head(context).log_probs().unflatten(0, published.ids.shape)

    def gradients(self, loss: Tensor) -> dict[str, Tensor]:
        """Gradients by the names of :attr:`Published.leaves`."""
        published = self.published
        names = ["hidden_all", "out_emb"] + (["encoder_hidden"] if published.is_t5 else [])
        leaves = {**{name: published.leaves[name] for name in names}, **self.used}
        found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        shapes = [published.leaves[name].shape for name in leaves]
        return {name: one.reshape(shape) for name, one, shape in zip(leaves, found, shapes, strict=True)}

    def check_values_and_gradients(self) -> None:
        """Log-probabilities, the loss and its gradients, with padding of the source taken for words, as published."""
        published, log_probs = self.published, self.log_probs(padding_counts=True)
        torch.testing.assert_close(log_probs, published.log_probs, rtol=0, atol=AS_PUBLISHED)
        loss = published.loss(log_probs)
        torch.testing.assert_close(loss, published.data["loss_f64"], rtol=0, atol=AS_PUBLISHED)
        for leaf, gradient in self.gradients(loss).items():
            torch.testing.assert_close(gradient, published.gradient(leaf), rtol=0, atol=AS_PUBLISHED)

    def check_without_padding(self, expected: Tensor) -> None:
        """Where we differ: the row without padding is as published, the other as the textbook form without padding."""
        published, log_probs = self.published, self.log_probs(padding_counts=False)
        torch.testing.assert_close(log_probs[0], published.log_probs[0], rtol=0, atol=AS_PUBLISHED)
        assert (log_probs[1] - published.log_probs[1]).abs().max() > 1e-2
        torch.testing.assert_close(log_probs, expected, rtol=0, atol=AS_TEXTBOOK)
        wanted = torch.autograd.grad(published.loss(expected), list(published.leaves.values()), materialize_grads=True)
        found = self.gradients(published.loss(log_probs))
        for leaf, gradient in zip(published.leaves, wanted, strict=True):
            ours = found.get(leaf, torch.zeros_like(gradient))
            torch.testing.assert_close(ours, gradient, rtol=0, atol=AS_TEXTBOOK)

    def check_mass(self) -> None:
        """Each position sums to one."""
        mass = self.log_probs(padding_counts=False).exp().sum(-1)
        torch.testing.assert_close(mass, torch.ones_like(mass), rtol=0, atol=1e-12)
