"""Evaluate the generated texts of all methods, one decoding at a time, and store the results."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from nextword.evaluation import EvaluateConfig
from nextword.evaluation.all_systems import HUMAN, evaluate_systems
from nextword.evaluation.metrics.frequency_groups import NAMES, frequency_groups
from nextword.evaluation.metrics.metric import parse_metric
from nextword.experiments.comparison.folder import ComparisonFolder, stored
from nextword.experiments.comparison.method import slug
from nextword.experiments.comparison.one_run import Setting
from nextword.experiments.comparison.preflight import AGAINST, asks_for_test_data
from nextword.experiments.tasks.head_counts import FIELD
from nextword.experiments.tasks.writing import PromptedDecoding
from nextword.functional.frequency import TokenCounts
from nextword.inference.generation.samples_files import decoded
from nextword.results.records import (
    WITH_PROMPT,
    EvaluationResults,
    Record,
    RunRecord,
    Span,
    WrittenExample,
    WrittenText,
)
from nextword.runtime.corpora.words import copied_stretches
from nextword.settings.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.experiments.tasks import Texts


CORPUS = "corpus"
"""Setting of a metric that names a text whose tokens are counted."""
MODEL, START = "model", "start"
"""Setting with which a metric names a model, and its value for the initial checkpoint: ``model = "start"``."""


class MeasuredTexts(Record):
    """Evaluation of all texts of one decoding, with a checksum of their files and the settings."""

    key: str
    """Checksum of files, settings and library version."""
    results: EvaluationResults
    """The evaluation."""


def measured_texts(setting: Setting, records: Sequence[RunRecord], command: str) -> dict[str, EvaluationResults]:
    """Evaluate the generated texts of all runs. Returns a mapping from each decoding's title to an evaluation.

    In an evaluation, each method is one system, with the samples files of all training seeds and sampling seeds. If an
    untrained method generates equal texts with several training seeds, only one of these seeds is used.
    """
    if setting.task.writes is None or not records:
        return {}
    texts = setting.task.writes.texts
    return {
        way.title: _measure(way.title, _evaluate_config(texts, way, setting, records), setting, command)
        for way in texts.decodings
    }


def _evaluate_config(
    texts: Texts, way: PromptedDecoding, setting: Setting, records: Sequence[RunRecord]
) -> EvaluateConfig:
    models: dict[str, list[list[Path]]] = {}
    for record in records:
        files = [setting.folder.path / file for file in record.samples[way.title]]
        models.setdefault(record.method, []).append(files)
    ordered = {
        method.title: models[method.title] if method.trained else _distinct(models[method.title])
        for method in setting.config.methods
        if method.title in models  # a method is missing if all of its runs have failed
    }
    tokenizer = setting.start.tokenizer
    special = {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id} - {None}
    return EvaluateConfig(
        systems={title: [str(file) for files in of for file in files] for title, of in ordered.items()},
        draws=len(texts.draws_of(way)),
        metrics=[_with_files_of_start(one, setting) for one in texts.metrics],
        special=sorted(special),
        wins=None if texts.wins is None else list(texts.wins),
    )


def _distinct(models: Sequence[list[Path]]) -> list[list[Path]]:
    # without models whose texts equal an earlier model's: a method without training writes the same with every seed
    return list({tuple(file.read_bytes() for file in files): files for files in reversed(models)}.values())[::-1]


def _with_files_of_start(metric: str | dict[str, Any], setting: Setting) -> str | dict[str, Any]:
    # Fills in files of the initial checkpoint's folder: the checkpoint itself for a model named "start", the counts of
    # the training text for a metric that needs counts and has none, or the counts of the test text.
    config, start = parse_metric(metric), setting.start
    if getattr(config, MODEL, None) == START:
        return {**config.model_dump(mode="json"), MODEL: str(setting.folder.start / "model")}
    if asks_for_test_data(metric):
        return {**config.model_dump(mode="json"), AGAINST: str(start.test_counts)}
    wants = FIELD in type(config).model_fields and all(getattr(config, name, None) is None for name in (FIELD, CORPUS))
    if wants and start.counts is not None:
        return {**config.model_dump(mode="json"), FIELD: str(start.counts)}
    return metric


def _measure(title: str, config: EvaluateConfig, setting: Setting, command: str) -> EvaluationResults:
    path, key = setting.folder.texts / f"{slug(title)}.json", _key(config, setting)
    earlier = stored(MeasuredTexts, path, "the texts are measured again")
    if earlier is not None and earlier.key == key:
        return earlier.results
    with setting.stages("texts", title) as advanced:
        results = evaluate_systems(config, _Share(config, advanced), command)
    results = results.model_copy(update={"settings": _with_relative_paths(results.settings, setting.folder)})
    MeasuredTexts(key=key, results=results).save(path)
    return results


def _key(config: EvaluateConfig, setting: Setting) -> str:
    files = [Path(file) for paths in config.systems.values() for file in paths]
    counts = [path for path in (setting.start.counts, setting.start.test_counts) if path is not None]
    sums = [hashlib.sha256(file.read_bytes()).hexdigest() for file in [*files, *counts]]
    settings = _with_relative_paths(config.model_dump(mode="json"), setting.folder)
    content = json.dumps([__version__, settings, sums], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _with_relative_paths(value: Any, folder: ComparisonFolder) -> Any:
    # paths relative to the folder of results.json
    if isinstance(value, dict):
        return {key: _with_relative_paths(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_relative_paths(inner, folder) for inner in value]
    inside = f"{folder.path}/"
    return value.removeprefix(inside) if isinstance(value, str) else value


class _Share:
    """Converts the progress of an evaluation to one share from 0 to 1.

    Reading samples is one half. Computing the metrics of each file and of the human references is the other half.
    """

    def __init__(self, config: EvaluateConfig, advanced: Callable[[float], None]) -> None:
        files = [file for paths in config.systems.values() for file in paths]
        self._samples = sum(len(Path(file).read_bytes().splitlines()) for file in files)
        self._results = (len(files) + 1) * len(config.metrics)
        self._read = self._done = 0
        self._advanced = advanced

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage.endswith(": reading"):
            self._read += 1
        elif total:
            self._done += 1
        share = self._read / max(self._samples, 1) + self._done / self._results
        self._advanced(min(share / 2, 1.0))


# -- A few prompts with the human reference and every method's text, with marks as in F2-Softmax, table 4.

HALF_CHARACTER = "\N{REPLACEMENT CHARACTER}"
"""The replacement character, which decoding inserts for an incomplete character."""

WORD = re.compile(r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}-][^\W\d_]+)*")
"""Pattern of a word, such as "Boulter's" or "co-starred"."""


def written_examples(setting: Setting, records: Sequence[RunRecord]) -> list[WrittenExample]:
    """For each of the first prompts, the human reference and the texts that the methods generated.

    The texts are those of the first training seed and the first sampling seed, with the first decoding that samples
    (the first of all if none samples). If this decoding is used with and without prompts, there are examples of both.
    The choice of examples does not depend on the texts.
    """
    writes = setting.task.writes
    if writes is None or not writes.texts.examples:
        return []
    texts = writes.texts
    way = next((one for one in texts.decodings if one.is_sampled), texts.decodings[0]).title.removesuffix(WITH_PROMPT)
    titles = {one.title for one in texts.decodings}
    seed = setting.config.seeds[0]
    first = [record for record in records if record.seed == seed]
    tokenizer = setting.start.tokenizer
    counts, rare = setting.start.counts, np.zeros(len(tokenizer), dtype=bool)
    if counts is not None:
        rare = frequency_groups(TokenCounts.load(counts).counts) == len(NAMES) - 1
    examples = []
    for decoding in (title for title in (way, way + WITH_PROMPT) if title in titles):
        samples = [_first_lines(setting.folder.path / record.samples[decoding][0], texts.examples) for record in first]
        examples += _examples(decoding, first, samples, rare, tokenizer)
    return examples


def _examples(
    decoding: str,
    records: Sequence[RunRecord],
    samples: Sequence[Sequence[dict[str, Any]]],
    rare: Bool[np.ndarray, "V"],
    tokenizer: PreTrainedTokenizerBase,
) -> list[WrittenExample]:
    examples = []
    for lines in zip(*samples, strict=True):
        prompt, source = lines[0]["prompt"], lines[0].get("source")
        written = [(HUMAN, lines[0]["reference_token_ids"][0])]
        written += [(record.method, line["token_ids"]) for record, line in zip(records, lines, strict=True)]
        example = WrittenExample(
            prompt=prompt,
            decoding=decoding,
            seed=records[0].seed,
            texts=[marked_text(author, ids, rare, tokenizer, source) for author, ids in written],
            source=source,
        )
        examples.append(example)
    return examples


def _first_lines(path: Path, count: int) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in itertools.islice(file, count)]


def marked_text(
    author: str,
    ids: Sequence[int],
    rare: Bool[np.ndarray, "V"],
    tokenizer: PreTrainedTokenizerBase,
    source: str | None = None,
) -> WrittenText:
    """Split a text, given as token ``ids``, into spans with equal marks, as in F2-Softmax, table 4.

    The marks are: very rare, repeated, lower-case and copied. ``rare`` (V,) says whether each token id is very rare;
    ids of V or more count as very rare. ``source`` is the text from which tokens may have been copied.
    """
    is_rare = [token >= len(rare) or bool(rare[token]) for token in ids]
    is_repeated = [token in ids[:position] for position, token in enumerate(ids)]
    whole = decoded(tokenizer, ids)
    lower_case = [match.span() for match in WORD.finditer(whole) if match[0][0].islower()]
    copied = [] if source is None else copied_stretches(whole, source)
    pieces: list[Span] = []
    for letters, tokens in _pieces(ids, whole, tokenizer):
        of_rare = [position for position in tokens if is_rare[position]]
        piece = Span(
            text=whole[letters.start : letters.stop],
            very_rare=bool(of_rare),
            repeated=bool(of_rare) and all(is_repeated[position] for position in of_rare),
            lower_case=bool(of_rare) and _reaches_into(lower_case, letters),
            copied=_reaches_into(copied, letters),
        )
        pieces.append(piece)
    spans = [
        marks.model_copy(update={"text": "".join(piece.text for piece in members)})
        for marks, members in itertools.groupby(pieces, key=lambda piece: piece.model_copy(update={"text": ""}))
    ]
    return WrittenText(author=author, spans=spans, very_rare=sum(is_rare) / max(len(ids), 1))


def _reaches_into(stretches: Sequence[tuple[int, int]], letters: range) -> bool:
    # every stretch begins and ends with a letter
    return any(first < letters.stop and letters.start < end for first, end in stretches)


def _pieces(ids: Sequence[int], whole: str, tokenizer: PreTrainedTokenizerBase) -> Iterator[tuple[range, range]]:
    # The range of each token's characters in the whole text, and its position among the tokens. Tokens that share a
    # character are one piece. Ever longer beginnings of the text are decoded, because a token's text may depend on the
    # text before it.
    begin = written = 0
    for end in range(1, len(ids) + 1):
        text = whole if end == len(ids) else decoded(tokenizer, ids[:end])
        if end < len(ids) and (text.endswith(HALF_CHARACTER) or not whole.startswith(text)):
            continue
        if len(text) > written:
            yield range(written, len(text)), range(begin, end)
        begin, written = end, len(text)
