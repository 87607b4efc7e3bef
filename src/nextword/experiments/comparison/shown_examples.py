"""A few prompts with what people and every method wrote after them, and what marks say of it (F2-Softmax, table 4)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from nextword.evaluation.all_systems import HUMAN
from nextword.evaluation.metrics.frequency_groups import NAMES, frequency_groups
from nextword.experiments.comparison.one_run import Setting
from nextword.functional.frequency import TokenCounts
from nextword.inference.generation.samples_files import decoded
from nextword.results.records import WITH_PROMPT, RunRecord, Span, WrittenExample, WrittenText
from nextword.runtime.corpora.copied_words import copied_stretches

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HALF_CHARACTER = "\N{REPLACEMENT CHARACTER}"
"""What decoding shows for the bytes of a character that is not whole yet."""

WORD = re.compile(r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}-][^\W\d_]+)*")
"""A word, "Boulter's" and "co-starred" as a whole: whether it is a name, its first letter says."""


def written_examples(setting: Setting, records: Sequence[RunRecord]) -> list[WrittenExample]:
    """What was written after the first prompts: first seed, first decoding that draws tokens, first draw of it.

    Where the methods wrote so both without and with a prompt, both are shown. Which prompts these are does not depend
    on what was written.
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
    rare = _very_rare(setting.start.counts, len(tokenizer))
    examples = []
    for decoding in (title for title in (way, way + WITH_PROMPT) if title in titles):
        samples = [_first_lines(setting.folder.path / record.samples[decoding][0], texts.examples) for record in first]
        examples += _examples(decoding, first, samples, rare, tokenizer)
    return examples


def _very_rare(counts: Path | None, size: int) -> Bool[np.ndarray, "V"]:
    """Which tokens are very rare in the training text; none where nothing asked for its counts."""
    if counts is None:
        return np.zeros(size, dtype=bool)
    return frequency_groups(TokenCounts.load(counts).counts) == len(NAMES) - 1


def _examples(
    decoding: str,
    records: Sequence[RunRecord],
    samples: Sequence[Sequence[dict[str, Any]]],
    rare: Bool[np.ndarray, "V"],
    tokenizer: PreTrainedTokenizerBase,
) -> list[WrittenExample]:
    """The first prompts with what people and every run wrote; ``samples`` has the lines of each run."""
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
    """A text in stretches of which the same is told, as F2-Softmax's table 4 tells it.

    Args:
        author: Who wrote it.
        ids: Its tokens.
        rare: Which token ids are very rare; ids beyond were never counted, and are.
        tokenizer: Decodes them.
        source: The text that it may have copied from.
    """
    is_rare = [token >= len(rare) or bool(rare[token]) for token in ids]
    is_repeated = [token in ids[:place] for place, token in enumerate(ids)]
    whole = decoded(tokenizer, ids)
    lower_case = [match.span() for match in WORD.finditer(whole) if match[0][0].islower()]
    copied = [] if source is None else copied_stretches(whole, source)
    pieces: list[Span] = []
    for letters, tokens in _pieces(ids, whole, tokenizer):
        of_rare = [place for place in tokens if is_rare[place]]
        piece = Span(
            text=whole[letters.start : letters.stop],
            very_rare=bool(of_rare),
            repeated=bool(of_rare) and all(is_repeated[place] for place in of_rare),
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
    """Whether any of these places lies in one of the stretches, which begin and end with a letter."""
    return any(first < letters.stop and letters.start < end for first, end in stretches)


def _pieces(ids: Sequence[int], whole: str, tokenizer: PreTrainedTokenizerBase) -> Iterator[tuple[range, range]]:
    """The places of each token's characters in the whole text, and its place among the tokens.

    Tokens that share a character are one piece. Longer and longer beginnings are decoded, since a token's text may
    depend on what stands before it.
    """
    begin = written = 0
    for end in range(1, len(ids) + 1):
        text = whole if end == len(ids) else decoded(tokenizer, ids[:end])
        if end < len(ids) and (text.endswith(HALF_CHARACTER) or not whole.startswith(text)):
            continue
        if len(text) > written:
            yield range(written, len(text)), range(begin, end)
        begin, written = end, len(text)
