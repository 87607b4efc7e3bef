"""Interleaves timed runs, so that background load affects all of them equally."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Timed = Mapping[str, Callable[[], float]]
"""What is timed, by name: each call gives the seconds that it took."""


def interleaved(timed: Timed, rounds: int) -> dict[str, list[float]]:
    """Seconds of each round, by name; one round to warm up is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for number in range(rounds + 1):
        for name, run in timed.items():
            taken = run()
            if number:
                seconds[name].append(taken)
    return seconds


def beside(timed: Timed, baseline: str, rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of each round, by name, and those of the baseline, which runs again before every one of the others.

    A long round lets the machine change its speed between the baseline and the last of many; here the two are
    neighbours.
    """
    pairs = [(name, {baseline: timed[baseline], name: run}) for name, run in timed.items() if name != baseline]
    if not pairs:
        alone = interleaved(timed, rounds)[baseline]
        return {baseline: (alone, alone)}
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name, _ in pairs}
    for number in range(rounds + 1):
        for name, pair in pairs:
            theirs, own = pair[baseline](), pair[name]()
            if number:
                found[name][0].append(own)
                found[name][1].append(theirs)
    every = [seconds for _, theirs in found.values() for seconds in theirs]
    return {baseline: (every, every), **found}


def ratio(own: Sequence[float], baseline: Sequence[float]) -> float:
    """Median of the ratios of single rounds."""
    return statistics.median(ratios(own, baseline))


def ratios(own: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """The ratio of each round."""
    return [a / b for a, b in zip(own, baseline, strict=True)]


def finished(device: str) -> float:
    """The time on the clock once ``device`` has done all that it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()


def seconds_of(run: Callable[[], object], device: str = "cpu") -> float:
    """Seconds of one call."""
    start = finished(device)
    run()
    return finished(device) - start


def training_step(model: Any, **inputs: Any) -> float:
    """Seconds of one forward and backward pass."""
    seconds = seconds_of(lambda: model(**inputs).loss.backward(), str(model.device))
    model.zero_grad(set_to_none=True)
    return seconds
