"""A few prompts with what people and every method wrote after them, very rare words marked (F2-Softmax, table 11)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from nextword.comparison.one_run import Setting
from nextword.decoding.samples_files import decoded
from nextword.evaluation.all_systems import HUMAN
from nextword.frequency import TokenCounts
from nextword.metrics.frequency_groups import NAMES, frequency_groups
from nextword.records import WITH_PROMPT, RunRecord, Span, WrittenExample, WrittenText

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HALF_CHARACTER = "\N{REPLACEMENT CHARACTER}"


def written_examples(setting: Setting, records: Sequence[RunRecord]) -> list[WrittenExample]:
    """What was written after the first prompts: first seed, first decoding that draws tokens, first draw of it.

    Where the methods wrote so both without and with a prompt, both are shown. Which prompts these are does not depend
    on what was written.
    """
    writes = setting.task.writes
    if writes is None or not writes.texts.examples or setting.start.counts is None:
        return []
    texts = writes.texts
    way = next((one for one in texts.decodings if one.is_sampled), texts.decodings[0]).title.removesuffix(WITH_PROMPT)
    titles = {one.title for one in texts.decodings}
    seed = setting.config.seeds[0]
    first = [record for record in records if record.seed == seed]
    rare = frequency_groups(TokenCounts.load(setting.start.counts).counts) == len(NAMES) - 1
    tokenizer = setting.start.tokenizer
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
    """The first prompts with what people and every run wrote; ``samples`` has the lines of each run."""
    examples = []
    for lines in zip(*samples, strict=True):
        human = marked_text(HUMAN, lines[0]["reference_token_ids"][0], rare, tokenizer)
        methods = [
            marked_text(record.method, line["token_ids"], rare, tokenizer)
            for record, line in zip(records, lines, strict=True)
        ]
        prompt, seed = lines[0]["prompt"], records[0].seed
        examples.append(WrittenExample(prompt=prompt, decoding=decoding, seed=seed, texts=[human, *methods]))
    return examples


def _first_lines(path: Path, count: int) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in itertools.islice(file, count)]


def marked_text(
    author: str, ids: Sequence[int], rare: Bool[np.ndarray, "V"], tokenizer: PreTrainedTokenizerBase
) -> WrittenText:
    """A text in stretches of very rare and of other tokens.

    Args:
        author: Who wrote it.
        ids: Its tokens.
        rare: Which token ids are very rare; ids beyond were never counted, and are.
        tokenizer: Decodes them.
    """
    is_rare = [token >= len(rare) or bool(rare[token]) for token in ids]
    spans: list[Span] = []
    for text, very_rare in _pieces(ids, is_rare, tokenizer):
        if spans and spans[-1].very_rare == very_rare:
            spans[-1] = Span(text=spans[-1].text + text, very_rare=very_rare)
        else:
            spans.append(Span(text=text, very_rare=very_rare))
    return WrittenText(author=author, spans=spans, very_rare=sum(is_rare) / max(len(ids), 1))


def _pieces(ids: Sequence[int], is_rare: Sequence[bool], tokenizer: PreTrainedTokenizerBase) -> list[tuple[str, bool]]:
    """The text of each token; those that share a character are one piece, very rare where one of them is.

    Longer and longer beginnings are decoded, since a token's text may depend on what stands before it.
    """
    whole = decoded(tokenizer, ids)
    pieces: list[tuple[str, bool]] = []
    begin, written = 0, ""
    for end in range(1, len(ids) + 1):
        text = whole if end == len(ids) else decoded(tokenizer, ids[:end])
        if end < len(ids) and (text.endswith(HALF_CHARACTER) or not whole.startswith(text)):
            continue
        pieces.append((text[len(written) :], any(is_rare[begin:end])))
        begin, written = end, text
    return [(text, rare) for text, rare in pieces if text]
