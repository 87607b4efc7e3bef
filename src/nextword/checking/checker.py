"""The checker: is what a model answers a distribution, and does it depend on what it may depend on only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nextword.checking.auxiliary_properties import AUXILIARY
from nextword.checking.distribution_properties import ANSWERS
from nextword.checking.findings import CheckFailedError, CheckReport, Row
from nextword.checking.invariance_properties import INVARIANCES
from nextword.checking.probe_texts import Words, given_sample
from nextword.checking.property import (
    EXACT,
    EXACT_IN_HALF,
    LIMIT,
    LIMIT_IN_HALF,
    SHARE_OF_ROUNDING,
    Case,
    Property,
)
from nextword.checking.ways_of_reading import BackboneReader, Reader
from nextword.conditioning import conditioner_spec
from nextword.heads import head_spec
from nextword.model.modeling import NextWordModel

__all__ = ["CheckFailedError", "CheckReport", "Row", "check"]

PROPERTIES: tuple[Property, ...] = (*ANSWERS, *INVARIANCES, *AUXILIARY)
"""Everything that is checked, in the order of the report."""


def check(
    model: NextWordModel,
    texts_or_ids: Sequence[str] | Sequence[Sequence[int]] | Tensor | str | None = None,
    *,
    tokenizer: Any = None,
    seed: int = 0,
    lengths: Sequence[int] = (1, 6, 17),
    max_length: int = 64,
) -> CheckReport:
    """Checks that a model's next-word distributions are distributions, in every mode of its head.

    They sum to one, are finite, agree with themselves however they are asked, see neither the future nor other
    sequences nor padding, and are the same with and without a KV cache; those of a conditioned model depend on the
    auxiliary text of their own sequence. ``docs/checker.md`` says what each row proves. Training mode and random state
    are left as they were.

    Args:
        model: A model with a head, from ``nextword.attach`` or ``nextword.load``.
        texts_or_ids: Texts or token ids to check on beside random tokens; for an encoder-decoder model they are source
            and target at once. For a conditioned model each has a random auxiliary text.
        tokenizer: Turns texts into ids.
        seed: Of the random tokens.
        lengths: Lengths of the random texts; each is checked as a batch of three sequences.
        max_length: Given texts are cut to so many tokens.

    Returns:
        A row for each property. ``report.raise_if_failed()`` turns failures into an exception.

    Raises:
        ValueError: Not a model with a head, texts without a tokenizer, or token ids outside the vocabulary.

    Examples:
        >>> import nextword as nw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2))
        >>> nw.check(nw.attach(gpt2, "cache"), lengths=[4]).passed
        True
    """
    if not isinstance(model, NextWordModel):
        raise ValueError(
            f"check: must be given a model with a head ({type(model).__name__} given); attach one first, "
            "for example nw.attach(model, 'softmax')"
        )
    words = Words(model, seed)
    samples = [words.random_sample(length) for length in _fitting(lengths, words.longest)]
    if texts_or_ids is not None:
        (longest,) = _fitting([max_length], words.longest)
        samples.append(given_sample(words, texts_or_ids, tokenizer, longest))
    cases = [Case(model, words, sample) for sample in samples]
    with _as_it_was(model), torch.no_grad():
        readers = [Reader(model, mode) for mode in model.next_word_head.modes]
        rows = tuple(_row(one, readers, cases) for one in PROPERTIES)
    name = type(model.backbone).__name__
    dtype = str(model.dtype).removeprefix("torch.")
    conditioner = None if model.conditioner is None else conditioner_spec(model.conditioner.config)
    return CheckReport(name, head_spec(model.next_word_head.config), dtype, rows, conditioner)


_ROOM = 4
"""Places to leave free in a model with few, for padding."""


def _fitting(lengths: Iterable[int], longest: int | None) -> list[int]:
    wanted = list(lengths)
    if not wanted or min(wanted) < 1:
        raise ValueError(f"check: lengths must be one or more positive numbers ({wanted} given)")
    limit = max(1, longest - _ROOM) if longest is not None else max(wanted)
    return list(dict.fromkeys(min(length, limit) for length in wanted))


def _row(one: Property, readers: list[Reader], cases: list[Case]) -> Row:
    model = cases[0].model
    reason = one.applies(model)
    tolerance = EXACT.get(_answers_in(model) if one.single else model.dtype, EXACT_IN_HALF)
    if reason:
        return Row(one.name, one.meaning, None, tolerance, reason, one.look_at)
    try:
        found = _worst(one, readers, cases)
        if found is None:
            return Row(one.name, one.meaning, None, tolerance, one.nothing, one.look_at)
        worst, where = found
        if one.reruns and tolerance < worst < torch.inf:
            # judged by what rounding does to the backbone itself, up to a limit that no rounding excuses
            rounding, _ = _worst(one, [BackboneReader(model)], cases) or (0.0, "")
            allowed, limit = tolerance + SHARE_OF_ROUNDING * rounding, LIMIT.get(model.dtype, LIMIT_IN_HALF)
            if one.of_the_cache and allowed > limit:
                reason = f"{type(model.backbone).__name__} itself does not do so: alone it deviates by {rounding:.3g}"
                return Row(one.name, one.meaning, None, tolerance, reason, one.look_at)
            tolerance = min(allowed, limit)
            where += f"; the bare backbone deviates by {rounding:.3g}"
    except Exception as fault:  # whatever a head raises is a finding about it, and the other rows still count
        return Row(one.name, one.meaning, torch.inf, tolerance, "the call failed", one.look_at, fault)
    return Row(one.name, one.meaning, worst, tolerance, where, one.look_at)


def _worst(one: Property, readers: list[Reader], cases: list[Case]) -> tuple[float, str] | None:
    """The largest deviation and where it was found; None where there was nothing to measure."""
    worst: tuple[float, str] | None = None
    for reader in readers:
        for case in cases:
            for variant, found in one.measure(reader, case):
                if worst is None or found >= worst[0]:
                    worst = found, ", ".join(part for part in (reader.name, case.sample.name, variant) if part)
    return worst


def _answers_in(model: Any) -> torch.dtype:
    """Precision of log-probabilities: no less than float32, whatever the model's."""
    return torch.float64 if model.dtype == torch.float64 else torch.float32


@contextmanager
def _as_it_was(model: Any) -> Iterator[None]:
    """Evaluation mode inside; training mode of every module and torch's random state as before afterwards."""
    training = {module: module.training for module in model.modules()}
    with torch.random.fork_rng():
        model.eval()
        try:
            yield
        finally:
            for module, was in training.items():
                module.training = was
