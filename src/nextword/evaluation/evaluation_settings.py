"""Settings of an evaluation of generated texts."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from nextword.evaluation.metrics.statistics import MOST_DRAWS, PERMUTATIONS, RESAMPLES
from nextword.evaluation.samples import PlainText
from nextword.settings.config import Seed, Settings
from nextword.settings.setting_names import either, named

ALL = "all"
"""Entry of ``metrics`` for every metric whose fields are in the samples and that need not be named."""


class EvaluateConfig(Settings):
    """Settings of an evaluation: systems, metrics, intervals and tests."""

    systems: dict[str, list[str]] = Field(min_length=1)
    """Samples files of each system by its name, one file per seed."""
    draws: int = Field(default=1, ge=1)
    """Number of consecutive files of a system that come from the same trained model, with different sampling seeds. The
    interval of a system is over its models if it has several, each with the mean of its files; over the files of its
    only model if these are several; and over the samples if the system has one file."""
    metrics: list[str | dict[str, Any]] = [ALL]  # noqa: RUF012  (pydantic copies it)
    """Specs such as "self-bleu:2,3", or mappings of settings with the metric's name under "metric". "all" means every
    metric whose fields are in the samples and whose packages are installed, except metrics that must be named, for
    instance because they run a large model."""
    tokenizer: str | None = None
    """Path or hub name of the tokenizer whose tokens are counted; none: the samples' own token ids, or words if the
    first sample has no ids."""
    special: list[int] = Field(default=[])
    """Ids of special tokens in the samples (padding, start, end), before which a text ends; only without tokenizer."""
    fields: dict[str, str] = Field(default={})
    """For fields of a sample, their keys in the files, for instance {"text": "prediction"}."""
    plain_text: PlainText | None = None
    """How plain-text files are split: "lines" (one text per line) or "blocks" (separated by blank lines); none: blocks
    if the file has a blank line between texts, otherwise lines."""
    references: str | None = None
    """File with one human reference per text, in the order of the texts, for all systems; none: the references in the
    samples, if there are any."""
    features: str | None = None
    """Folder for the outputs of the models that metrics run; none: next to each samples file."""
    human: bool = True
    """Whether to score human text too: the first reference of each sample, as if a system had generated it."""
    paired: bool = True
    """Whether to run paired tests between systems. The tests need the same prompts in the same order."""
    wins: list[str] | None = None
    """Keys of the values by which systems are ranked, such as "perplexity"; none: each metric's default keys."""
    resamples: int = Field(default=RESAMPLES, ge=100, le=MOST_DRAWS)
    """Number of bootstrap resamples. Time and memory grow with this number."""
    permutations: int = Field(default=PERMUTATIONS, ge=100, le=MOST_DRAWS)
    """Number of permutations per paired test. Time and memory grow with this number."""
    seed: Seed = 0
    """Random seed of the bootstrap and of the permutation tests."""
    device: str = "cpu"
    """Device on which model-based metrics run their models, such as "cuda"."""
    batch_size: int = Field(default=32, ge=1)
    """Texts per forward pass of a metric's model."""
    processes: int | None = Field(default=None, ge=1, le=1024)
    """Number of processes. Each evaluates one samples file at a time; none: this process only."""

    @field_validator("systems", mode="before")
    @classmethod
    def _one_file(cls, systems: Any) -> Any:
        if not isinstance(systems, dict):
            return systems
        return {name: [files] if isinstance(files, str) else files for name, files in systems.items()}

    @field_validator("metrics", mode="before")
    @classmethod
    def _one_metric(cls, metrics: Any) -> Any:
        return [metrics] if isinstance(metrics, str | dict) else metrics

    @model_validator(mode="after")
    def _named(self) -> Self:
        for name, files in self.systems.items():
            if not files:
                raise ValueError(f"system '{name}': must have at least one samples file (none given); give its path")
            if not name.strip():
                raise ValueError("system: must have a name (an empty one given)")
            if len(files) % self.draws:
                raise ValueError(f"draws: must divide the {len(files)} files of system '{name}' ({self.draws} given)")
        if self.tokenizer is not None and self.special:
            raise ValueError(
                "special: must be left out if 'tokenizer' is given, because the tokenizer knows its special tokens"
            )
        if "human" in self.systems and self.human:
            raise ValueError(
                "system 'human': this name is reserved for the references; give references as "
                f"{named('references', 'FILE')}, rename the system, or give "
                f"{either('--set human=false', 'human=False')}"
            )
        return self
