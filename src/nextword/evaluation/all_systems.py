"""``nw.evaluate``: computes metrics of the texts that one or several systems (models) generated."""

from __future__ import annotations

import re
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
from nextword.evaluation.samples import PlainText, counted_texts, read_samples
from nextword.evaluation.system_statistics import recorded
from nextword.functional.frequency.counts import TokenCounts
from nextword.results.records import EvaluationResults
from nextword.runtime.pretrained import load_tokenizer
from nextword.settings.call_forms import RECIPE, CallForms
from nextword.settings.config import validated
from nextword.settings.setting_names import either, named

HUMAN = "human"


def _has_config(args: Sequence[Any]) -> bool:
    """Whether the arguments have the form of earlier versions: a whole config, then a progress function."""
    first = args[0] if args else None
    names_systems = isinstance(first, Mapping) and isinstance(first.get("systems"), Mapping)
    return names_systems or isinstance(first, EvaluateConfig) or len(args) > 1


@CallForms(
    renamed={"config": RECIPE, "watch": "progress"},
    positions=["progress", "command"],
    is_config=_has_config,
    read=lambda path: {"systems": path},
)
def evaluate(  # noqa: PLR0913  (its options)
    systems: Mapping[str, str | Path | Sequence[str | Path]] | str | Path,
    *,
    metrics: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = ("all",),
    draws: int = 1,
    tokenizer: str | None = None,
    special: Sequence[int] = (),
    fields: Mapping[str, str] | None = None,
    plain_text: PlainText | None = None,
    references: str | Path | None = None,
    features: str | Path | None = None,
    human: bool = True,
    paired: bool = True,
    wins: Sequence[str] | None = None,
    resamples: int = 2000,
    permutations: int = 10_000,
    seed: int = 0,
    device: str = "cpu",
    batch_size: int = 32,
    processes: int | None = None,
    progress: Watch | None = None,
    command: str = "",
) -> EvaluationResults:
    r"""Compute metrics of generated texts in samples files (``docs/file-formats.md``), with intervals and paired tests.

    The outputs of the models that metrics run are stored, so that an interrupted evaluation does not compute them
    again. By default they are next to each samples file, in a folder with the file's name and the ending ``.features``.

    Args:
        systems: Mapping from the name of each system to its samples file or files, one file per seed. A single path is
            one system, named after the file. A system is a model, or models trained with different seeds.
        metrics: Specs such as ``"self-bleu:2,3"``, or mappings of settings with the metric's name under ``"metric"``.
            ``"all"`` means every metric for which the samples have all fields and the packages are installed, except
            metrics that must be named, for instance because they run a large model.
        draws: Number of consecutive files of a system that come from the same trained model, with different sampling
            seeds. If a system has several models, its interval is over them, and a model's value is the mean of its
            files. A system with one model has an interval over its files, or over the samples of its only file.
        tokenizer: Path or hub name of the tokenizer whose tokens are counted. None: count the samples' own token ids,
            or words if the first sample has no ids.
        special: Ids of special tokens in the samples (padding, start, end). A text begins after leading special tokens
            and ends before the next one. They may not be given with ``tokenizer``, which knows its special tokens.
        fields: Mapping from field of a sample to its key in the files. With ``{"text": "prediction"}``, the generated
            text is read from the key ``"prediction"``.
        plain_text: How plain-text files are split: ``"lines"`` (one text per line) or ``"blocks"`` (separated by blank
            lines). None: blocks if the file has a blank line between texts, otherwise lines. Blank lines at the
            beginning and the end of a file are ignored.
        references: File with one human reference per text, in the order of the texts (plain text, or JSON lines with
            the key ``"text"``). It is used for all systems, whose samples must have no references then. None: the
            references in the samples, if there are any.
        features: Folder for the outputs of the models that metrics run; None: next to each samples file.
        human: Whether to score human text too: the first reference of each sample, as if a system had generated it.
        paired: Whether to run paired tests between systems. The tests need the same prompts in the same order.
        wins: Keys of the values by which systems are ranked, such as ``"perplexity"``; None: each metric's default
            keys.
        resamples: Number of bootstrap resamples, 100 or more.
        permutations: Number of permutations per paired test, 100 or more.
        seed: Random seed of the bootstrap and of the permutation tests.
        device: Device on which model-based metrics run their models, such as ``"cuda"``.
        batch_size: Texts per forward pass of a metric's model.
        processes: Number of processes, each of which evaluates one samples file at a time; None: this process only.
        progress: Function that is called with the name of a stage, its number of finished items and its number of all
            items (0: unknown).
        command: Command line that repeats the evaluation; it is stored in the results.

    Returns:
        All values with intervals, the human baseline, paired tests and the ranking.

    Raises:
        ValueError: If a setting is wrong, a line is not a sample, a sample lacks a field of a metric, no metric can be
            computed, or ``paired`` is true and the files have different examples.

    Examples:
        >>> import json, tempfile
        >>> import nextword as nw
        >>> path = Path(tempfile.mkdtemp(), "mine.jsonl")
        >>> lines = [{"text": "there was a king", "reference": "there was a queen"}, {"text": "he was a king"}]
        >>> lines[1]["reference"] = "she saw the sea"
        >>> written = path.write_text("\n".join(map(json.dumps, lines)))
        >>> results = nw.evaluate({"mine": path}, metrics=["distinct:1"], resamples=100)
        >>> results.systems[0].values["distinct-1"].value, results.human.values["distinct-1"].value
        (1.0, 1.0)
    """
    if isinstance(systems, str | Path):
        systems = {Path(systems).stem: str(systems)}
    if not isinstance(systems, Mapping):
        raise ValueError(
            "evaluate: systems must name the files of each system, such as {'a': ['a.jsonl'], 'b': ['b.jsonl']} "
            f"({type(systems).__name__} given)"
        )
    _expect_files(systems)
    settings = {
        "systems": systems,
        "metrics": metrics,
        "draws": draws,
        "tokenizer": tokenizer,
        "special": special,
        "fields": {} if fields is None else fields,
        "plain_text": plain_text,
        "references": references,
        "features": features,
        "human": human,
        "paired": paired,
        "wins": wins,
        "resamples": resamples,
        "permutations": permutations,
        "seed": seed,
        "device": device,
        "batch_size": batch_size,
        "processes": processes,
    }
    return evaluate_systems(validated(EvaluateConfig, settings), progress, command)


def evaluate_systems(config: EvaluateConfig, progress: Watch | None = None, command: str = "") -> EvaluationResults:
    """Evaluate as ``evaluate`` does. ``config`` has the arguments of ``evaluate`` that are not listed here."""
    watch = progress or _unwatched
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
            f"{difference}. Paired tests need the same examples{_of_plain_text(every)}; to compare without tests, "
            f"give {unpaired}"
        )
    passes = {
        name: [Pass(one, one.system.result(told(watch, name))) for one in runs] for name, runs in readings.items()
    }
    if not any(one.measured.scores for runs in passes.values() for one in runs):
        reasons = dict.fromkeys(
            why for runs in passes.values() for one in runs for why in one.measured.undefined.values()
        )
        raise ValueError(
            f"no metric can be computed of {', '.join(str(one.path) for one in every)}: {'; '.join(reasons)}"
        )
    human = None
    if difference is not None:
        given = bool(every[0].human.samples) or not config.human
        without = f"no references were given ({named('references', 'FILE')})"
        left_out["human"] = "the systems have different references" if given else without
    elif every[0].human.samples:
        human = Pass(every[0], every[0].human.result(told(watch, HUMAN)))
    return recorded(config, passes, human, left_out, unit.name, metrics, command)


def _expect_files(systems: Mapping[str, Any]) -> None:
    """Raise ValueError if texts are given instead of samples files."""
    for name, files in systems.items():
        for file in files if isinstance(files, list | tuple) else ():
            # a file name has an ending without white space; without an ending, it rarely has several words
            is_text = isinstance(file, str) and " " in file and not re.search(r"\.\w+$", file)
            if isinstance(file, Mapping) or (is_text and not (len(file) < 200 and Path(file).exists())):
                raise ValueError(
                    f"systems: '{name}' must name samples files, not texts ({str(file)[:40]!r} given); write the "
                    "texts to a file, one per line, or samples as JSON lines (.jsonl)"
                )


def _unwatched(stage: str, done: int, total: int) -> None: ...


def _of_plain_text(readings: Sequence[ReadSamples]) -> str:
    """Advice for a mixture of plain-text and samples files."""
    plain = [str(one.path) for one in readings if one.plain_text is not None]
    if not plain or len(plain) == len(readings):
        return ""
    return f", and {', '.join(plain)} is plain text, which has no prompts: write all files in the same format"


def _expect_different_seeds(readings: Mapping[str, list[ReadSamples]], draws: int) -> None:
    """Raise ValueError if files of two models of a system are identical. Two files of one model may be identical."""
    for name, runs in readings.items():
        seen: dict[tuple[str, ...], Path] = {}
        for begin in range(0, len(runs), draws):
            path, written = runs[begin].path, tuple(one.sha256 for one in runs[begin : begin + draws])
            if written in seen:
                raise ValueError(
                    f"{name}: {path} must differ from {seen[written]} (same content); give a different file for "
                    f"each seed"
                )
            seen[written] = path


def _different_prompts(readings: Sequence[ReadSamples]) -> str | None:
    """The first difference between the examples of the files; None if all have the same examples in the same order."""
    first = readings[0]
    for other in readings[1:]:
        if len(other.prompts) != len(first.prompts):
            counts = [counted_texts(one.path, len(one.prompts), one.plain_text) for one in (other, first)]
            return ", ".join(counts)
        for line, (a, b) in enumerate(zip(first.prompts, other.prompts, strict=True), 1):
            if a != b:
                fields = ", ".join(field for field, x, y in zip(ASKED, a, b, strict=True) if x != y)
                order = " (the same examples in another order)" if set(first.prompts) == set(other.prompts) else ""
                return f"{other.path}, line {line}: {fields} must be the same as in {first.path}, line {line}{order}"
    return None


# -- The unit of an evaluation: token ids of the samples, tokens of a tokenizer, or words.


class UnitTokens(Unit):
    """Splits texts into tokens of the Hugging Face tokenizer ``path`` (folder or hub name), without special tokens.

    Raises:
        ValueError: If the tokenizer cannot be loaded.
    """

    def __init__(self, path: str) -> None:
        self._tokenizer = tokenizer = load_tokenizer(path, "tokenizer")
        self.name = f"tokens of {path.rstrip('/').rpartition('/')[2]}"
        self.size = len(tokenizer)
        # These three tokens are not text. An unknown or masked token stands for text.
        ends = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
        self.special = frozenset(token for token in ends if token is not None)

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The token ids of ``text``."""
        # verbose=False: no warning about texts longer than a model's limit, because no model reads them here
        return as_ids(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def expect_counts_of_it(self, counts: TokenCounts, where: str) -> None:
        """Raise ValueError, naming the setting ``where``, if ``counts`` are known to come from another tokenizer."""
        counts.expect_tokenizer(self._tokenizer, where)


def unit_for(sample: Sample, tokenizer: str | None, special: Collection[int] = ()) -> Unit:
    """The ``Unit`` that splits the texts of an evaluation into tokens, given the first ``sample`` of the evaluation.

    If ``tokenizer`` is named, the tokens are those of this tokenizer. Token ids in the samples must then come from it,
    which is not checked. Otherwise the tokens are the samples' own token ids if ``sample`` has any, else words.
    ``special`` are the ids of special tokens among the samples' own token ids.
    """
    if tokenizer is not None:
        return UnitTokens(tokenizer)
    has_ids = sample.token_ids is not None or sample.reference_token_ids is not None
    return GivenIds(special) if has_ids else Words()
