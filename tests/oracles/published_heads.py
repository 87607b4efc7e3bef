"""Heads of the library with the parameters of a golden file, on its hidden states."""

from __future__ import annotations

import torch
from torch import Tensor

from nextword.context import Source
from nextword.heads import Head
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context
from tests.oracles.published import Published


def load(spec: object, published: Published, names: dict[str, str]) -> tuple[Head, dict[str, Tensor]]:
    """A head in float64 with the published parameters; and those of its own by their published names.

    Args:
        spec: The head.
        published: Where the parameters are.
        names: Our name of each published projection or parameter; weights and biases are found by their endings.
    """
    head = build_head(spec, width=16, vocab_size=120, source=16 if published.is_t5 else None)
    own = dict(head.named_parameters())
    endings = {"_W": ".weight", "_b": ".bias"}
    used = {}
    for leaf, value in published.leaves.items():
        if leaf.startswith("param_"):
            name = leaf.removeprefix("param_")
            mapped = names[name] if name in names else names[name[:-2]] + endings[name[-2:]]
            with torch.no_grad():
                own[mapped].copy_(value.reshape(own[mapped].shape))
            used[leaf] = own[mapped]
    return head, used


def log_probs(head: Head, published: Published, padding_counts: bool) -> Tensor:
    """What the head makes of the published states, (B, T, V).

    Args:
        head: From :func:`load`.
        published: Its states and ids.
        padding_counts: Whether padding of the source is shown to the head as words, as the published heads take it.
    """
    source = None
    if published.is_t5:
        ids, mask = published.data["encoder_ids"], published.data["encoder_mask"].bool()
        valid = torch.ones_like(mask) if padding_counts else mask
        source = Source(ids, valid, published.leaves["encoder_hidden"])
    vocabulary = LinearVocabulary(published.weight)
    context = decoder_context(
        head, published.layers[0], published.ids, vocabulary, layers=published.layers, source=source
    )
    return head(context).log_probs().unflatten(0, published.ids.shape)


def gradients(loss: Tensor, published: Published, used: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gradients by the names of :attr:`Published.leaves`."""
    names = ["hidden_all", "out_emb"] + (["encoder_hidden"] if published.is_t5 else [])
    leaves = {**{name: published.leaves[name] for name in names}, **used}
    found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return {name: gradient.reshape(published.leaves[name].shape) for name, gradient in zip(leaves, found, strict=True)}
