"""Measures the peak memory of a call to the byte, reproducibly.

On a CPU the resident size of the process is not informative, because the allocator keeps freed memory. Instead, torch's
allocator reports every allocation and release to the profiler, with the total of allocated memory. Memory outside
torch's allocator is not measured: Python objects and the scratch space of BLAS and oneDNN. On a GPU the caching
allocator counts in the same way.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's notes on its own start and end


class Allocation(NamedTuple):
    """One report of the allocator."""

    time: int
    """When, in nanoseconds."""
    size: int
    """Bytes; negative where they are given back."""
    held: int
    """Bytes held after it, counted from an arbitrary start."""


def peak_bytes(run: Callable[[], object], device: str = "cpu") -> int:
    """The most bytes held at once during a call, above what was held when it began."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    found = allocations(run, device)
    if not found:
        return 0
    first = min(found)
    return max(one.held for one in found) - (first.held - first.size)


def largest_bytes(run: Callable[[], object], device: str = "cpu") -> int:
    """Size of the largest single tensor made during a call, temporary ones included."""
    gc.collect()
    return max((one.size for one in allocations(run, device)), default=0)


def allocations(run: Callable[[], object], device: str = "cpu") -> list[Allocation]:
    """Every allocation and release on a device during a call, in no order."""
    # nothing that the call returns outlives it unobserved
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    kind = torch.device(device).type
    events = profiler.profiler.kineto_results.experimental_event_tree()
    return [
        Allocation(event.start_time_ns, event.extra_fields.alloc_size, event.extra_fields.total_allocated)
        for event in _every(events)
        if event.name == "[memory]" and event.extra_fields.device.type == kind
    ]


def _every(events: Any) -> Iterator[Any]:
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        yield event
        waiting.extend(event.children)
