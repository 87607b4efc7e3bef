"""Log-probabilities of targets, each after its context: a prompt, or the source of an encoder-decoder model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.evaluation.metrics.likelihood import LikelihoodSum
from nextword.functional.padding import IGNORED_LABEL, padded, stacked
from nextword.inference.scoring.opened_model import Progress, batches

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class TokenPair:
    """A target, and what a model reads before it.

    Attributes:
        context: At least one token: a start token, a prompt; for an encoder-decoder model the source.
        target: The tokens that are scored, or that another text is written in place of.
        target_bytes: UTF-8 bytes of the text that they cover.
    """

    context: list[int]
    target: list[int]
    target_bytes: int


Inputs = Callable[[Sequence[Any]], Mapping[str, Any]]
"""Further inputs of a model for a batch of pairs, such as an auxiliary text for each."""


def no_inputs(pairs: Sequence[Any]) -> Mapping[str, Any]:
    """Of a model that reads nothing but the pairs."""
    return {}


def target_log_probs(
    model: NextWordModel,
    pairs: Sequence[TokenPair],
    batch_size: int,
    inputs: Inputs = no_inputs,
    progress: Progress | None = None,
) -> list[Float[Tensor, "T"]]:
    """Log-probability of each token of each target after all right ones before it, in float64 on the CPU.

    The model is as in evaluation, and reads ``batch_size`` pairs at a time.
    """
    rows: list[Float[Tensor, "T"]] = []
    for part in batches(pairs, batch_size, progress):
        distribution, targets = distribution_at_targets(model, part, inputs(part))
        log_probs = distribution.log_prob(targets[:, None])[:, 0].double().cpu()
        rows += log_probs.split([len(pair.target) for pair in part])
    return rows


def distribution_at_targets(
    model: NextWordModel, pairs: Sequence[TokenPair], inputs: Mapping[str, Any] | None = None
) -> tuple[Any, Int[Tensor, "N"]]:
    """Distribution before every target token, N of all pairs one after the other, and these tokens."""
    ask = _after_sources if model.config.is_encoder_decoder else _after_prompts
    return ask(model, pairs, inputs or {})


def likelihood_sum(pairs: Sequence[TokenPair], nats: Iterable[float]) -> LikelihoodSum:
    """The sum of targets, each of which is one block of the interval; ``nats`` has the sum of each target."""
    total = LikelihoodSum()
    for pair, value in zip(pairs, nats, strict=True):
        total.add(value, len(pair.target), pair.target_bytes)
    return total


def fill_id(model: NextWordModel) -> int:
    """A token for positions that a mask leaves out."""
    pad = model.generation_config.pad_token_id
    return 0 if pad is None else int(pad)


def _after_prompts(
    model: NextWordModel, pairs: Sequence[TokenPair], inputs: Mapping[str, Any]
) -> tuple[Any, Int[Tensor, "N"]]:
    rows = [[*pair.context, *pair.target] for pair in pairs]
    ids, mask = (tensor.to(model.device) for tensor in padded(rows, fill_id(model)))
    before, after, is_real = ids[:, :-1], ids[:, 1:], mask[:, 1:].bool()
    begins = torch.tensor([len(pair.context) - 1 for pair in pairs], device=model.device)
    scored = is_real & (torch.arange(before.shape[1], device=model.device)[None, :] >= begins[:, None])
    distribution = model.distribution(before, attention_mask=mask[:, :-1], positions=scored, **inputs)
    return distribution, after[scored]


def _after_sources(
    model: NextWordModel, pairs: Sequence[TokenPair], inputs: Mapping[str, Any]
) -> tuple[Any, Int[Tensor, "N"]]:
    ids, mask = (tensor.to(model.device) for tensor in padded([pair.context for pair in pairs], fill_id(model)))
    labels = stacked([pair.target for pair in pairs], IGNORED_LABEL).to(model.device)
    scored = labels != IGNORED_LABEL
    decoder = model.prepare_decoder_input_ids_from_labels(labels)
    distribution = model.distribution(ids, attention_mask=mask, decoder_input_ids=decoder, positions=scored, **inputs)
    return distribution, labels[scored]


# -- The next-token distribution of a model after each of several rows of ids.


def ask(
    model: NextWordModel, rows: Sequence[Sequence[int]], pad: int, mode: str = "joint", everywhere: bool = False
) -> tuple[Any, Bool[Tensor, "B T"]]:
    """Distribution after each row of ids (or at every real position), and the chosen positions."""
    ids, mask = padded(rows, pad)  # on the right; what fills has no effect, because the mask leaves it out
    positions = mask.bool() if everywhere else last_positions(mask)
    on = model.device
    return model.distribution(ids.to(on), attention_mask=mask.to(on), positions=positions.to(on), mode=mode), positions


def last_positions(mask: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """True at each row's last real token."""
    return torch.arange(mask.shape[1])[None, :] == mask.sum(dim=1, keepdim=True) - 1
