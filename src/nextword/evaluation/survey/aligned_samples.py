"""The same prompts in the samples files of several systems."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nextword.evaluation.metrics import Sample
from nextword.evaluation.metrics.parts.units import Words
from nextword.evaluation.samples import read_samples
from nextword.results.records.survey_files import KeyFile


@dataclass(frozen=True)
class AlignedSamples:
    """What several systems wrote after the same prompts."""

    prompts: dict[str, dict[str, Sample]]
    """By id of the prompt: system to sample; only prompts that every system has."""
    files: list[KeyFile]
    """What was read."""
    lacking: int
    """Prompts that some system lacks."""


def aligned(systems: Mapping[str, Path], fields: Mapping[str, str] | None = None) -> AlignedSamples:
    """Reads the files and puts texts after the same prompt together: by ``id``, or by place where samples have none.

    Args:
        systems: By name, the samples file.
        fields: Names that the files use for fields of a sample.

    Raises:
        ValueError: A file cannot be read, a prompt differs between files, or no prompt is in all of them.
    """
    found: dict[str, dict[str, Sample]] = {}
    files = []
    for name, path in systems.items():
        digest = hashlib.sha256()
        for number, sample in enumerate(read_samples(path, Words(), fields, digest), 1):
            texts = found.setdefault(str(number if sample.id is None else sample.id), {})
            _expect_same_prompt(sample, next(iter(texts.values()), sample))
            texts[name] = sample
        files.append(KeyFile(system=name, file=path.name, sha256=digest.hexdigest()))
    complete = {prompt: texts for prompt, texts in found.items() if len(texts) == len(systems)}
    if not complete:
        given = ", ".join(str(path) for path in systems.values())
        raise ValueError(
            f"samples files: must have prompts in common ({given} given); give texts after the same prompts"
        )
    return AlignedSamples(complete, files, len(found) - len(complete))


def _expect_same_prompt(sample: Sample, other: Sample) -> None:
    for field in ("prompt", "source", "auxiliary"):
        one, two = getattr(sample, field), getattr(other, field)
        if one is not None and two is not None and one != two:
            raise ValueError(
                f"{sample.place}: must have the {field} of {other.place} (another one given); give texts after the "
                "same prompts, or an id to each"
            )
