"""A measured value, and the description of a metric."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from nextword.runtime.files import Record
from nextword.settings import plugins
from nextword.settings.version import __version__

Goal = Literal["higher", "lower", "human"]
"""Which values are better. "human": values as close as possible to the value of human texts."""


class MetricValue(Record):
    """One measured value, with its unit, its number of cases and its interval."""

    value: float
    """The value, which must be finite."""
    unit: str
    """Unit, for example "fraction", "nats per token", "bits per byte", "count"."""
    n: int = Field(ge=0)
    """Number of cases (prompts, tokens, bytes, rows) from which the value was computed."""
    low: float | None = None
    """Lower end of the 95 % interval; None if there is no interval."""
    high: float | None = None
    """Upper end of the 95 % interval; None if there is no interval."""
    note: str | None = None
    """Note on this value, for example how many texts are empty and count as wrong."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends of the interval; None if there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @model_validator(mode="after")
    def _interval_is_one(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"interval: must have both ends or none (low={self.low}, high={self.high} given)")
        if self.interval is not None and self.interval[0] > self.interval[1]:
            raise ValueError(f"interval: low must not be above high (low={self.low}, high={self.high} given)")
        return self


class Measure(Record):
    """Description of a metric in reports: its name, group and unit, and which values are better."""

    title: str
    """Heading, for example "Self-BLEU-3"."""
    group: str
    """Heading over a group of metrics, such as ``DIVERSITY`` in ``nextword.evaluation.metrics.metric``."""
    unit: str
    """Unit, with details that papers leave open, for example "fraction of 4-grams"."""
    goal: Goal | None
    """Which values are better; None: unknown."""
    decimals: int | None = None
    """Number of decimals in reports, where a fraction is shown as a percentage. None: four significant digits."""
    meaning: str
    """One sentence that explains the metric."""
    setting: str = Field(default="joint", exclude_if=lambda value: value == "joint")
    """What is measured: "joint" (the head's distribution), "cache_only" (its cache alone), "prompted" (texts after a
    prompt), ..."""
    subset: str = Field(default="", exclude_if=lambda value: not value)
    """Subset of the cases, for example "people"; empty: all cases."""


# -- The environment and time of a measurement.


class Environment(Record):
    """Environment and time of a run."""

    nextword: str
    """Version of this library."""
    python: str
    """Version of Python."""
    torch: str
    """Version of PyTorch."""
    transformers: str
    """Version of transformers."""
    platform: str
    """Operating system and machine."""
    processor: str
    """Name of the CPU, and of the GPU if one is used."""
    threads: int
    """Number of CPU threads of PyTorch."""
    commit: str | None
    """Commit of the nextword checkout, ending in "-dirty" if it had changes; None for an installed package."""
    date: str
    """Time of the record, ISO 8601, UTC."""
    plugins: dict[str, str] = Field(default={})
    """Plug-ins: version by package, checksum by module of ``--import``."""

    @classmethod
    def collect(cls) -> Self:
        """Collect the environment of this process, without importing torch or transformers."""
        return cls(
            nextword=__version__,
            python=platform.python_version(),
            torch=_version("torch"),
            transformers=_version("transformers"),
            platform=platform.platform(),
            processor=_processor(),
            threads=_threads(),
            commit=_commit(),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            plugins=plugins.loaded(),
        )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    name = _cpu_name() or platform.processor() or platform.machine() or "unknown"
    torch = sys.modules.get("torch")  # reads the GPU's name only if the process has already imported torch
    if torch is not None and torch.cuda.is_available():
        name = f"{name}, {torch.cuda.get_device_name()}"
    return name


def _cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _threads() -> int:
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else os.cpu_count() or 1


def _commit() -> str | None:
    # the commit of the repository that tracks this file; an enclosing repository of another project does not count
    here = Path(__file__)
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    head = _git(here.parent, "rev-parse", "HEAD")
    # git describe is not used, because it writes the repository's index and leaves a lock if it is killed
    changed = head and _git(here.parent, "status", "--porcelain", "--untracked-files=no")
    return f"{head}-dirty" if changed else head


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
