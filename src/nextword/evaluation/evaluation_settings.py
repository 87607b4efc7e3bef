"""Settings of an evaluation."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from nextword.evaluation.metrics.statistics import MOST_DRAWS, PERMUTATIONS, RESAMPLES
from nextword.evaluation.samples import PlainText
from nextword.settings.config import Seed, Settings
from nextword.settings.setting_names import either, named

ALL = "all"
"""In the place of metrics: all that the samples have fields for."""


class EvaluateConfig(Settings):
    """Which samples are measured, by what, and how."""

    systems: dict[str, list[str]] = Field(min_length=1)
    """Samples files of each system by its name, one file a seed."""
    draws: int = Field(default=1, ge=1)
    """Files in a row that one trained model wrote, drawn with seeds of their own. The interval of a system is over its
    models, each with the mean of its files; over the files, where they are all of one model."""
    metrics: list[str | dict[str, Any]] = [ALL]  # noqa: RUF012  (pydantic copies it)
    """Specs such as "self-bleu:2,3", or settings in full with the name under "metric"; "all" stands for every metric
    that the samples have fields for and that asks no model."""
    tokenizer: str | None = None
    """Path or hub name of the tokenizer whose tokens are counted; none: the samples' own token ids, else words."""
    special: list[int] = Field(default=[])
    """Token ids of the samples that are not text (padding, beginning and end), where no tokenizer says which."""
    fields: dict[str, str] = Field(default={})
    """Names that the files use for fields of a sample, for instance {"text": "prediction"}."""
    plain_text: PlainText | None = None
    """Division of plain-text files: "lines" (one text per line) or "blocks" (a text between blank lines); none:
    blocks where a blank line stands between two texts, else lines."""
    references: str | None = None
    """File of human references for the texts: as many, in the same order, for all systems; none: the
    samples bring their references along, or there are none."""
    features: str | None = None
    """Folder in which features of models are kept; none: beside each samples file."""
    human: bool = True
    """Whether the first references are scored as if a system had written them."""
    paired: bool = True
    """Whether systems are tested against each other, which needs the same prompts in the same order."""
    wins: list[str] | None = None
    """Keys that vote in the table of wins; none: the first of each metric, or those it names."""
    resamples: int = Field(default=RESAMPLES, ge=100, le=MOST_DRAWS)
    """Draws of the bootstrap; each reads all samples once more, and keeps a number for every measure."""
    permutations: int = Field(default=PERMUTATIONS, ge=100, le=MOST_DRAWS)
    """Draws of the permutation test, which cost as much."""
    seed: Seed = 0
    """Seed of the bootstrap and of the permutation test."""
    device: str = "cpu"
    """Device of the models that a metric uses."""
    batch_size: int = Field(default=32, ge=1)
    """Texts that such a model sees at once."""
    processes: int | None = Field(default=None, ge=1, le=1024)
    """So many processes, which read and measure a samples file each at a time; none: this one, file after file."""

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
                raise ValueError(f"system '{name}' has no samples file")
            if not name.strip():
                raise ValueError("a system needs a name")
            if len(files) % self.draws:
                raise ValueError(f"draws: must divide the {len(files)} files of system '{name}' ({self.draws} given)")
        if self.tokenizer is not None and self.special:
            raise ValueError("the tokenizer says which tokens are special; give 'tokenizer' or 'special', not both")
        if "human" in self.systems and self.human:
            raise ValueError(
                f"'human' is the row of the references: give human references as {named('references', 'FILE')}, the "
                f"system another name, or {either('--set human=false', 'human=False')}"
            )
        return self
