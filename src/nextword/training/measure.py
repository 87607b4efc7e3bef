"""What a training costs, seen by callbacks of ``transformers.Trainer``: time of a step, memory of a step, progress."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd.profiler_util import MEMORY_EVENT_NAME
from torch.profiler import ProfilerActivity, profile
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

MEASURED_STEP = 2
"""The step whose memory is measured on a CPU: the first one at which the optimiser's state already exists."""
MIB = 2**20


class StepClock(TrainerCallback, ExportableState):
    """Times each optimiser step. Checkpoints keep the time, so that a resumed training reports the whole of it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.total = 0.0
        self._resumed = 0.0
        self._training_began = self._step_began = 0.0

    def state(self) -> dict[str, Any]:
        """What Trainer writes into a checkpoint."""
        running = time.perf_counter() - self._training_began if self._training_began else 0.0
        return {"args": {}, "attributes": {"total": self._resumed + running}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Continues from the time in the checkpoint, where there is one."""
        stored = state.stateful_callbacks.get(type(self).__name__, {}) if state.global_step else {}
        stored = stored[-1] if isinstance(stored, list) else stored
        self._resumed = float(stored.get("attributes", {}).get("total", 0.0))
        self._training_began = time.perf_counter()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Starts one step's time."""
        self._step_began = _now(args.device)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ends it."""
        self.seconds.append(_now(args.device) - self._step_began)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Adds up."""
        self.total = self._resumed + time.perf_counter() - self._training_began

    def median_ms(self, leave_out: int) -> float | None:
        """Median milliseconds of a step after the first ``leave_out``, which warm up; ``None`` where none is left."""
        counted = self.seconds[leave_out:]
        return 1000 * statistics.median(counted) if counted else None


class PeakMemory(TrainerCallback):
    """Most memory that tensors took at one time: parameters, gradients, optimiser state and activations.

    On a GPU it is what torch's allocator counts over the whole training. On a CPU the resident size of the process says
    little (it keeps freed memory and holds the libraries), so the allocations of one step are recorded and added to
    what lives between steps.
    """

    def __init__(self) -> None:
        self.mib: float | None = None
        self._profile: profile | None = None
        self._steps = 0
        self._between_steps = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Forgets earlier peaks of the GPU."""
        self._steps = 0
        if args.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(args.device)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins to record, at the measured step."""
        self._steps += 1
        if args.device.type == "cpu" and self._steps == min(MEASURED_STEP, state.max_steps):
            self._between_steps = _living_bytes(kwargs["model"], kwargs["optimizer"])
            self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
            with _stderr_silenced():
                self._profile.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ends the record."""
        if self._profile is not None:
            with _stderr_silenced():
                self._profile.__exit__(None, None, None)
            self.mib = (self._between_steps + _peak_bytes(self._profile)) / MIB
            self._profile = None

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Asks the GPU for its peak."""
        if args.device.type == "cuda":
            self.mib = torch.cuda.max_memory_allocated(args.device) / MIB


class Fraction(TrainerCallback):
    """Passes on the share of steps that are done, from 0 to 1."""

    def __init__(self, progress: Callable[[float], None]) -> None:
        self._progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """One more step is done."""
        self._progress(state.global_step / state.max_steps)


class LastPoint(TrainerCallback):
    """Makes the training curve reach the last step, wherever the logging interval ends."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Asks for a log entry at the last step."""
        if state.global_step == state.max_steps:
            control.should_log = True


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # otherwise only the launch of the kernels is timed
    return time.perf_counter()


def _living_bytes(model: torch.nn.Module, optimizer: Any) -> int:
    tensors = [*model.parameters(), *model.buffers()]
    tensors += [
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)
    ]
    tensors += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def _peak_bytes(recorded: profile) -> int:
    """Highest running sum over allocations (positive) and releases (negative) in the order in which they happened."""
    results: Any = recorded.profiler.kineto_results if recorded.profiler is not None else None
    events = [event for event in results.events() if event.name() == MEMORY_EVENT_NAME] if results is not None else []
    living = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        living += event.nbytes()
        peak = max(peak, living)
    return peak


@contextlib.contextmanager
def _stderr_silenced() -> Iterator[None]:
    """The profiler's C++ side announces itself on file descriptor 2, in the middle of the user's progress bar."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
