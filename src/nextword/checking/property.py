"""What a property is to the checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from nextword.checking.probe_texts import Batch, Sample, Words
from nextword.checking.ways_of_reading import Reader

Finding = tuple[str, float]
"""A variant that was tried, and the deviation it showed."""


@dataclass(frozen=True, eq=False)
class Case:
    """One sample under check.

    Args:
        model: The wrapped model.
        words: Random tokens for changed texts.
        sample: The sequences.
    """

    model: Any
    words: Words
    sample: Sample

    @cached_property
    def batch(self) -> Batch:
        """The sequences padded on the right, which every model can read."""
        return self.sample.batch()

    @cached_property
    def left(self) -> Batch:
        """The sequences padded on the left."""
        return self.sample.batch("left")


@dataclass(frozen=True)
class Property:
    """Something that must hold for every distribution.

    Args:
        name: Short name.
        meaning: What holds if it passes.
        look_at: What to look at where it fails.
        measure: Gives a deviation for every variant tried on one sample in one mode.
        applies: Says why the property has no meaning for a model; empty where it has.
        nothing: What the report says where there was nothing to measure.
        single: Whether one answer is looked at by itself; all others compare two, whose scores were computed twice, and
            in half precision no two products of different shapes agree.
        reruns: Whether the backbone ran twice for it, too.
        of_the_cache: Whether it is about going on from a cache. Some backbones go on to other scores than they give in
            one pass (Mamba in chunks); then nothing can be said of the head.
    """

    name: str
    meaning: str
    look_at: str
    measure: Callable[[Reader, Case], Iterator[Finding]]
    applies: Callable[[Any], str] = lambda model: ""
    nothing: str = "nothing to compare"
    single: bool = False
    reruns: bool = False
    of_the_cache: bool = False


EXACT = {torch.float64: 1e-10, torch.float32: 1e-5}
"""Largest deviation that passes, by precision."""
EXACT_IN_HALF = 1e-2

LIMIT = {torch.float64: 1e-8, torch.float32: 1e-3}
"""Rounding in the backbone can excuse no more than this."""
LIMIT_IN_HALF = 0.3

SHARE_OF_ROUNDING = 8.0
"""How many times the bare backbone's own deviation a head may deviate: it adds up and divides what rounding left."""
