"""Measures the texts of one system or several: samples files in, a record of every value out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from nextword.evaluation.evaluation_settings import EvaluateConfig
from nextword.evaluation.metrics.metric import Setup
from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import GivenIds, Unit, Words, as_ids
from nextword.evaluation.sample_passes import ASKED, Pass, ReadSamples, Watch, chosen, read_files, told
from nextword.evaluation.samples import read_samples
from nextword.evaluation.system_statistics import recorded
from nextword.functional.frequency.counts import TokenCounts
from nextword.results.records import EvaluationResults
from nextword.runtime.pretrained import load_tokenizer
from nextword.settings.config import validated
from nextword.settings.setting_names import either

HUMAN = "human"


def evaluate(
    config: EvaluateConfig | Mapping[str, Any] | str | Path,
    watch: Watch = lambda stage, done, total: None,
    command: str = "",
) -> EvaluationResults:
    """Measures samples; see ``docs/file-formats.md`` for what a samples file holds.

    Features of models are kept beside each samples file, in a folder of its name with ``.features`` behind it, so that
    an interrupted evaluation continues where it was; ``config.features`` names another folder, for all files.

    Args:
        config: What to measure; as a mapping for instance
            ``{"systems": {"gpt2": ["samples.jsonl"]}, "metrics": ["self-bleu:3"]}``. A path is one system with the name
            of its file.
        watch: Told about progress: a name, how much of it is done, of how much (0: not known).
        command: The command line that repeats this, for the record.

    Returns:
        Every value with its interval, the human row, paired tests and wins.

    Raises:
        ValueError: A wrong setting, a line that is not a sample, a missing field, nothing that any metric could
            measure, systems with different prompts.
    """
    if isinstance(config, str | Path):
        config = {"systems": {Path(config).stem: [str(config)]}}
    if not isinstance(config, EvaluateConfig | Mapping):
        raise ValueError(
            "evaluate: config must name the files of each system, such as {'systems': {'a': ['a.jsonl'], 'b': "
            f"['b.jsonl']}}}} ({type(config).__name__} given)"
        )
    config = config if isinstance(config, EvaluateConfig) else validated(EvaluateConfig, config)
    files = {name: [Path(file) for file in paths] for name, paths in config.systems.items()}
    references = None if config.references is None else Path(config.references)
    each = [(name, path) for name, paths in files.items() for path in paths]
    firsts = [
        next(read_samples(path, Words(), config.fields, plain_text=config.plain_text, references=references))
        for _, path in each
    ]
    unit = unit_for(firsts[0], config.tokenizer, config.special)
    metrics, left_out = chosen(config.metrics, firsts)
    setup = Setup(unit, device=config.device, batch_size=config.batch_size)
    titled = [(f"{name}, {path.name}" if len(files[name]) > 1 else name, path) for name, path in each]
    readings: dict[str, list[ReadSamples]] = {}
    for (name, _), reading in zip(each, read_files(titled, metrics, setup, config, watch), strict=True):
        readings.setdefault(name, []).append(reading)
    _expect_different_seeds(readings, config.draws)
    every = [one for runs in readings.values() for one in runs]
    difference = _different_prompts(every)
    if config.paired and difference is not None:
        unpaired = either("--set paired=false", "paired=False")
        raise ValueError(
            f"{difference}. Paired tests need the same examples{_of_plain_text(every)}; {unpaired} compares without "
            "tests."
        )
    passes = {
        name: [Pass(one, one.system.result(told(watch, name))) for one in runs] for name, runs in readings.items()
    }
    if not any(one.measured.scores for runs in passes.values() for one in runs):
        reasons = dict.fromkeys(
            why for runs in passes.values() for one in runs for why in one.measured.undefined.values()
        )
        raise ValueError(f"nothing to measure in {', '.join(str(one.path) for one in every)}: {'; '.join(reasons)}")
    human = None
    if difference is not None:
        left_out["human"] = "the systems have different references"
    elif every[0].human.samples:
        human = Pass(every[0], every[0].human.result(told(watch, HUMAN)))
    return recorded(config, passes, human, left_out, unit.name, metrics, command)


def _of_plain_text(readings: Sequence[ReadSamples]) -> str:
    """What to do where files of both kinds stand beside each other."""
    plain = [str(one.path) for one in readings if one.plain_text is not None]
    if not plain or len(plain) == len(readings):
        return ""
    return f", and {', '.join(plain)} is plain text, which has nothing but texts: write it as the other file is"


def _expect_different_seeds(readings: Mapping[str, list[ReadSamples]], draws: int) -> None:
    """Raises ValueError where two models of a system wrote the same; draws of one that is always sure are the same."""
    for name, runs in readings.items():
        seen: dict[tuple[str, ...], Path] = {}
        for begin in range(0, len(runs), draws):
            path, written = runs[begin].path, tuple(one.sha256 for one in runs[begin : begin + draws])
            if written in seen:
                raise ValueError(f"{name}: {path} holds the same as {seen[written]}; seeds are different files")
            seen[written] = path


def _different_prompts(readings: Sequence[ReadSamples]) -> str | None:
    """What shows that the files do not hold the same examples in the same order; None where they do."""
    first = readings[0]
    for other in readings[1:]:
        if len(other.prompts) != len(first.prompts):
            return f"{other.path} has {len(other.prompts)} samples, {first.path} has {len(first.prompts)}"
        for line, (a, b) in enumerate(zip(first.prompts, other.prompts, strict=True), 1):
            if a != b:
                fields = ", ".join(field for field, x, y in zip(ASKED, a, b, strict=True) if x != y)
                order = " (the same examples in another order)" if set(first.prompts) == set(other.prompts) else ""
                return f"{other.path}, line {line}: another {fields} than in {first.path}, line {line}{order}"
    return None


# -- The unit of an evaluation: token ids of the samples, tokens of a tokenizer, or words.


class UnitTokens(Unit):
    """Tokens of a Hugging Face tokenizer, without special tokens.

    Raises:
        ValueError: It cannot be loaded.
    """

    def __init__(self, path: str) -> None:
        self._tokenizer = tokenizer = load_tokenizer(path, "tokenizer")
        self.name = f"tokens of {path.rstrip('/').rpartition('/')[2]}"
        self.size = len(tokenizer)
        # An unknown or masked token stands for text; these three do not.
        ends = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
        self.special = frozenset(token for token in ends if token is not None)

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The token ids of ``text``."""
        # verbose=False: a text longer than a model's limit is not an error where only its tokens are counted.
        return as_ids(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def expect_counts_of_it(self, counts: TokenCounts, where: str) -> None:
        """Counts say which tokenizer made them."""
        counts.expect_tokenizer(self._tokenizer, where)


def unit_for(sample: Sample, tokenizer: str | None, special: Collection[int] = ()) -> Unit:
    """The unit: that of the tokenizer where one is named, the samples' own ids where they have some, else words.

    Ids that the samples bring along must be those of the tokenizer, where one is named; they are used as they are.
    """
    if tokenizer is not None:
        return UnitTokens(tokenizer)
    has_ids = sample.token_ids is not None or sample.reference_token_ids is not None
    return GivenIds(special) if has_ids else Words()
