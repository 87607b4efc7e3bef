"""Cost of a training. Callbacks of ``transformers.Trainer`` measure time and memory of steps."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.profiler_util import MEMORY_EVENT_NAME
from torch.distributed.tensor import DTensor
from torch.profiler import ProfilerActivity, profile

from nextword.experiments.training.resume import StatefulCallback

MEASURED_STEP = 2
"""The step whose memory is measured on a CPU. It is the first step in which the optimiser's state exists."""
MIB = 2**20


class StepClock(StatefulCallback):
    """Callback that times each optimiser step. Checkpoints include the times, so a resumed training has all times."""

    checkpointed = ("total", "seconds")

    def __init__(self) -> None:
        self.seconds: list[float] = []
        """Seconds of each step, without the first step (on a CPU: the first two) of each call."""
        self._resumed = 0.0
        self._training_began = self._step_began = 0.0
        self._warming_up = 0

    @property
    def total(self) -> float:
        """Seconds of training so far, without steps that an interruption lost (those after the last checkpoint)."""
        return self._resumed + (time.perf_counter() - self._training_began if self._training_began else 0.0)

    @total.setter
    def total(self, seconds: float) -> None:
        self._resumed = seconds

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Restore the times from the checkpoint, if there is one."""
        super().on_train_begin(args, state, control)
        self._warming_up = MEASURED_STEP if args.device.type == "cpu" else 1
        self._training_began = time.perf_counter()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start timing a step."""
        self._step_began = _now(args.device)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop timing the step."""
        seconds = _now(args.device) - self._step_began
        if self._warming_up:
            self._warming_up -= 1
        else:
            self.seconds.append(seconds)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop counting the seconds of ``total``."""
        self._resumed, self._training_began = self.total, 0.0

    @property
    def median_ms(self) -> float | None:
        """Median milliseconds per step in ``seconds``; ``None`` if ``seconds`` is empty."""
        return 1000 * statistics.median(self.seconds) if self.seconds else None


class PeakMemory(StatefulCallback):
    """Callback that measures the peak memory of tensors: parameters, gradients, optimiser state and activations.

    On a GPU it is the peak of torch's allocator over the whole training. On a CPU, the resident size of the process
    would include freed memory and libraries. So there the allocations of one step are recorded, and their peak is added
    to the memory used between steps.
    """

    checkpointed = ("mib",)

    def __init__(self) -> None:
        self._before: float | None = None
        self._device: torch.device | None = None
        self._profile: profile | None = None
        self._silence = contextlib.ExitStack()
        self._until_measured = 0
        self._between_steps = 0

    @property
    def mib(self) -> float | None:
        """Peak memory so far in MiB; ``None`` if it has not been measured yet."""
        if self._device is None or self._device.type != "cuda":
            return self._before
        return max(self._before or 0.0, torch.cuda.max_memory_allocated(self._device) / MIB)

    @mib.setter
    def mib(self, mib: float | None) -> None:
        self._before = mib

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Reset the GPU's peak, and choose the step to measure on a CPU."""
        super().on_train_begin(args, state, control)
        self._device = args.device
        if args.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(args.device)
        elif args.device.type == "cpu" and self._before is None:
            self._until_measured = min(MEASURED_STEP, state.max_steps - state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin recording, if this is the step to measure."""
        self._until_measured -= 1
        if self._until_measured == 0:
            self._between_steps = _living_bytes(kwargs["model"], kwargs["optimizer"])
            self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
            self._silence.enter_context(_stderr_silenced())  # the profiler also warns of memory allocated before
            self._profile.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End recording."""
        recorded = self._profile
        if recorded is not None:
            self.stop_recording()
            self.mib = (self._between_steps + _peak_bytes(recorded)) / MIB

    def stop_recording(self) -> None:
        """End a recording that an error or Ctrl-C left open, because torch allows only one recording at a time."""
        if self._profile is not None:
            with self._silence:
                self._profile.__exit__(None, None, None)
            self._profile = None


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # otherwise only the launch of the kernels would be timed
    return time.perf_counter()


def _living_bytes(model: torch.nn.Module, optimizer: Any) -> int:
    tensors = [*model.parameters(), *model.buffers()]
    tensors += [
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)
    ]
    tensors += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    here = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)  # FSDP2: a shard
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in here}
    return sum(storages.values())


def _peak_bytes(recorded: profile) -> int:
    # the highest running sum of allocations (positive) and releases (negative), in the order of the events
    results: Any = recorded.profiler.kineto_results if recorded.profiler is not None else None
    events = [event for event in results.events() if event.name() == MEMORY_EVENT_NAME] if results is not None else []
    living = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        living += event.nbytes()
        peak = max(peak, living)
    return peak


@contextlib.contextmanager
def _stderr_silenced() -> Iterator[None]:
    # the profiler's C++ code prints a message on file descriptor 2, which would interrupt the progress bar
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
