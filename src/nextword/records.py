"""What a run writes and the report reads: plain numbers and text, no model and no tensor.

Every class is a frozen, strict pydantic model that refuses unknown keys, so that a file either means exactly what it
says or is refused with the place that is wrong. Likelihoods are in nats per token unless a unit says otherwise.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

SCHEMA_VERSION = 1
"""Version of the format of results.json; docs/report.md says when it is raised."""


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8 so that ``path`` holds either its old content or all of the new, never a part.

    The text goes to a temporary file in the same folder (made where missing), which then takes the place of ``path``.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile: its files are readable by their owner only, and results are meant to be passed around.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class Record(BaseModel):
    """Base of everything that is written: frozen, strict, unknown keys are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record as JSON, [atomically][nextword.records.write_atomically]."""
        # allow_nan=False is the last guard: the JSON standard has no NaN, and other readers choke on it.
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, allow_nan=False, indent=2)
        write_atomically(path, text + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a record that [`save`][nextword.records.Record.save] wrote.

        Raises:
            ValueError: No such file, not JSON (for example half-written), of a newer schema, or not of this kind;
                the message names the file and each wrong place.
        """
        content = _read_json(Path(path))
        try:
            # Through JSON text, because strictness of JSON knows that an array may be a tuple and 1 a float.
            return cls.model_validate_json(json.dumps(content))
        except ValidationError as error:
            wrong = "\n".join(f"  {_place(line['loc'], content)}{_plain(line['msg'])}" for line in error.errors())
            raise ValueError(f"{path} is no valid {cls.__name__} record:\n{wrong}") from None


class MetricValue(Record):
    """One measured number, with its unit, how many cases it comes from and its interval."""

    value: float
    """The number itself; finite (a run with a value that is not is refused by `RunRecord`, which can name the run)."""
    unit: str
    """What one of it is, for example "fraction", "nats per token", "bits per byte", "count"."""
    n: int = Field(ge=0)
    """How many cases (prompts, tokens, bytes, rows) the value was measured on."""
    low: float | None = None
    """Lower end of the 95 % interval; None where none was estimated."""
    high: float | None = None
    """Upper end of the 95 % interval; None where none was estimated."""

    @model_validator(mode="after")
    def _interval_is_one(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"interval needs both ends or none, got low={self.low}, high={self.high}")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"interval is upside down: low={self.low} is above high={self.high}")
        return self


class Cost(Record):
    """What a run cost."""

    parameters: int = Field(ge=0)
    """Parameters of the whole model, shared weights counted once."""
    trained_parameters: int = Field(ge=0)
    """Of these, the ones that training changed; 0 for a head that only acts at test time."""
    ms_per_step: float | None = None
    """Milliseconds per optimiser step; None where nothing was trained."""
    peak_memory_mib: float | None = None
    """Highest memory use in MiB; None where it was not measured."""
    train_seconds: float | None = None
    """Seconds of training in all; None where nothing was trained."""


class CurvePoint(Record):
    """One point of a learning curve."""

    step: int = Field(ge=0)
    """Optimiser steps done."""
    loss: float
    """Training loss at that step, nats per token; for an objective of several terms, their weighted sum."""


class TopWord(Record):
    """One of a method's most probable next words."""

    word: str
    """The token as text."""
    probability: float = Field(ge=0)
    """Its probability."""
    sources: dict[str, float]
    """Share of the probability by where it came from (softmax, cache, context, ...); they add up to it."""


class ExamplePrediction(Record):
    """What a method says after one prompt, to be read by a person."""

    prompt: str
    """The text before the predicted word."""
    expected: list[str]
    """The words that would be right."""
    setting: str
    """Which distribution was asked: "joint" or "cache_only"."""
    top: list[TopWord]
    """The most probable words, best first."""


class Evaluation(Record):
    """Everything measured of one trained model."""

    metrics: dict[str, MetricValue]
    """By name: "acc@1", "cache_only_acc@2", "rank@1e-3", "rank@default", "perplexity", "bits_per_byte", "nll", ..."""
    spectrum: list[float] | None = None
    """Singular values of the log-probability matrix, relative to the largest, in falling order; None: not taken."""
    examples: list[ExamplePrediction] = []
    """A few predictions to read."""
    tuned: dict[str, float | None] = {}
    """Evaluation-time settings chosen on validation data, for example the cache's temperature and weight."""


class RunRecord(Record):
    """One method trained and measured with one seed."""

    method: str
    """Label of the method in the comparison."""
    head: str
    """Head spec, for example "softmax+cpr:20,100+mi"."""
    objective: str
    """Objective spec, for example "mle"."""
    seed: int
    """Seed of this run."""
    evaluation: Evaluation
    """What was measured."""
    cost: Cost
    """What it cost."""
    curve: list[CurvePoint] = []
    """Training loss over steps; empty where nothing was trained."""
    settings: dict[str, JsonValue] = {}
    """Everything needed to repeat the run: head, objective and training settings in full."""
    note: str | None = None
    """What a reader must know, for example "the paper's broken baseline"."""

    @model_validator(mode="after")
    def _all_finite(self) -> Self:
        wrong = "; ".join(_non_finite(self.model_dump()))
        if wrong:
            raise ValueError(f"run '{self.method}' (seed {self.seed}): {wrong}; only finite numbers are recorded")
        return self


class Environment(Record):
    """Where and when a comparison ran."""

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
    """Name of the CPU, and of the GPU where one is used."""
    threads: int
    """CPU threads PyTorch may use."""
    commit: str | None
    """Commit of the nextword checkout, ending in "-dirty" where it had changes; None for an installed package."""
    date: str
    """When the record was made, ISO 8601, UTC."""

    @classmethod
    def collect(cls) -> Self:
        """The environment of this process; imports neither torch nor transformers."""
        return cls(
            nextword=_version("nextword"),
            python=platform.python_version(),
            torch=_version("torch"),
            transformers=_version("transformers"),
            platform=platform.platform(),
            processor=_processor(),
            threads=_threads(),
            commit=_commit(),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )


class Results(Record):
    """A whole comparison: the content of results.json."""

    schema_version: int = SCHEMA_VERSION
    """Version of the file format."""
    kind: Literal["compare"] = "compare"
    """What sort of run this is."""
    task: str
    """Name of the task."""
    task_version: int
    """Version of the task; numbers of different versions must not be compared."""
    command: str
    """The command that makes these results again."""
    data: dict[str, int | float | str]
    """Sizes, split, sources and checksums of the data."""
    start: dict[str, JsonValue]
    """The model all methods started from."""
    seeds: list[int]
    """Seeds every method was run with."""
    runs: list[RunRecord]
    """One per method and seed."""
    environment: Environment
    """Where and when."""
    settings: dict[str, JsonValue] = {}
    """The comparison's own settings in full."""

    @model_validator(mode="before")
    @classmethod
    def _schema_is_known(cls, content: Any) -> Any:
        # Before all fields, so that a newer file is called newer instead of wrong in thirty places.
        version = content.get("schema_version", SCHEMA_VERSION) if isinstance(content, dict) else SCHEMA_VERSION
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"schema_version is {version!r}, expected a whole number from 1 to {SCHEMA_VERSION}")
        if version > SCHEMA_VERSION:
            raise ValueError(
                f"schema_version is {version}, this nextword reads up to {SCHEMA_VERSION}: "
                "it was written by a newer nextword; upgrade to read it"
            )
        return content

    @model_validator(mode="after")
    def _runs_are_distinct(self) -> Self:
        wrong = "; ".join(_non_finite({"data": self.data, "start": self.start, "settings": self.settings}))
        if wrong:
            raise ValueError(f"{wrong}; only finite numbers are recorded")
        seen: set[tuple[str, int]] = set()
        for run in self.runs:
            key = (run.method, run.seed)
            if key in seen:
                raise ValueError(f"two runs are called '{run.method}' with seed {run.seed}: give one another label")
            seen.add(key)
        return self


def _read_json(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}); is it half-written or another file?") from None


def _place(loc: tuple[int | str, ...], content: Any) -> str:
    """Where an error is, with the run called by its name instead of its index."""
    if len(loc) > 1 and loc[0] == "runs" and isinstance(loc[1], int):
        run = content["runs"][loc[1]]
        if isinstance(run, dict):
            inner = ".".join(str(part) for part in loc[2:])
            # A message about a run as a whole already names it.
            return f"run '{run.get('method')}' (seed {run.get('seed')}), {inner}: " if inner else ""
    return f"{'.'.join(str(part) for part in loc)}: " if loc else ""


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


def _non_finite(value: Any, where: str = "") -> Iterator[str]:
    """Messages for every number in nested dicts and lists that is NaN or infinite."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{where} is {value}"
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _non_finite(inner, f"{where}.{key}" if where else str(key))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    name = _cpu_name() or platform.processor() or platform.machine() or "unknown"
    torch = sys.modules.get("torch")  # asked only where the process already uses it
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
    """Commit of the repository this very file is tracked in; a virtual environment inside another project is not it."""
    here = Path(__file__)
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    return _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
