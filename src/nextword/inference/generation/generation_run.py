"""One run over prompts: its texts as an iterator, or in samples files that continue after an interruption."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.conditioning.auxiliary_encoder import fingerprint
from nextword.conditioning.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.inference.datastore import expect_growing, remembering
from nextword.inference.generation.generation_passes import (
    ASSISTANT,
    GenerationPass,
    GenerationSettings,
    generation_passes,
    pass_path,
    stop_strings,
)
from nextword.inference.generation.generator import (
    GeneratedText,
    Generator,
    PromptRow,
    SourceColumns,
    StopStrings,
    length_batches,
    rows_of,
    source_columns,
)
from nextword.inference.generation.prompts import Prompt, TextPrompt, encode_prompts, expect_room
from nextword.inference.generation.row_sampling import batch_seed, rowwise_loop, uniform_numbers
from nextword.inference.generation.samples_files import sample_line, target_columns, texts_and_tokens
from nextword.inference.scoring.example_encoding import auxiliary_inputs, encode_example
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, Progress, expect_tokenizer
from nextword.inference.scoring.target_likelihood import target_log_probs
from nextword.model.speculative_decoding.drafter import drafters
from nextword.model.speculative_decoding.speculative_decoding import SpeculativeDecoding
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import disk_full_explained, locked, write_atomically
from nextword.runtime.resumable import OLD_KEYS, expect_same, set_ones
from nextword.settings.config import validated
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


UNTOLD = ("transformers_version", "_from_model_config")
"""Entries of a generation configuration that decide nothing."""


@dataclass(frozen=True)
class GenerationRun:
    """What is to be written, checked before anything is: ``passes`` are decodings times seeds."""

    opened: OpenedModel
    prompts: Sequence[TextPrompt]
    settings: GenerationSettings
    encoded: Sequence[Prompt]
    passes: Sequence[GenerationPass]

    @classmethod
    def planned(
        cls, opened: OpenedModel, prompts: Sequence[TextPrompt], settings: GenerationSettings, chat: bool = False
    ) -> GenerationRun:
        """The run, with everything checked that can be before the model writes.

        In a ``chat``, prompts are put into the tokenizer's chat template.

        Raises:
            ValueError: No prompt, one that is too long or lacks what the model reads, two with one id, or an argument
                that ``generate`` does not know.
        """
        if not prompts:
            raise ValueError("prompts: must be at least one (none given)")
        ids = [prompt.id for prompt in prompts]
        twice = {one for one in ids if ids.count(one) > 1} if len(set(ids)) < len(ids) else set()
        if twice:
            raise ValueError(f"prompts: id {next(iter(twice))!r} comes twice; give each its own")
        encoded = encode_prompts(opened, prompts, chat)
        passes = generation_passes(opened, settings)
        if settings.remember:
            expect_growing(opened)
        expect_room(opened, encoded, passes[0].new_tokens)
        return cls(opened, prompts, settings, encoded, passes)

    def batches(self, rows: Sequence[PromptRow], one: GenerationPass) -> list[list[PromptRow]]:
        """The batches in which the rows of a pass are written, the same each time."""
        if self.settings.remember:  # each may retrieve from all before it
            return [[row] for row in rows]
        return length_batches(rows, 1 if one.is_single else self.settings.batch_size)

    def written(
        self,
        one: GenerationPass,
        batches: Sequence[Sequence[PromptRow]],
        said: Iterable[Sequence[int]] = (),
        streamer: Any = None,
    ) -> abc.Generator[list[GeneratedText]]:
        """The texts of each batch of a pass, in its order. What torch draws elsewhere is not changed.

        Where texts are remembered, finished prompts and texts of the same pass were ``said`` before, in tokens. A
        ``streamer`` is handed every token of a single row as it is chosen.

        Raises:
            ValueError: ``generate`` refuses its arguments.
        """
        model, settings, most = self.opened.model, self.settings, self.settings.remember
        strings = [*settings.stop, *stop_strings(model.generation_config)]
        stops = StopStrings(self.opened.tokenizer, strings) if strings else None
        generator = Generator(model, one.arguments, auxiliary_inputs(self.opened), stops)
        growing: contextlib.AbstractContextManager[Callable[[Sequence[int]], int]] = (
            remembering(self.opened, most) if most else contextlib.nullcontext(len)
        )
        with inference_mode_of(model), growing as grow:
            for ids in said:
                grow(ids)
            for rows in batches:
                loop = self._loop(one, rows, streamer) if one.is_rowwise else None
                with torch.random.fork_rng([model.device] if model.device.type == "cuda" else []):
                    torch.manual_seed(batch_seed([row.key for row in rows]))
                    written = generator.write([row.prompt for row in rows], loop)
                texts = self._told(rows, written)
                yield texts
                for text in texts:
                    grow(text.said)

    def _loop(self, one: GenerationPass, rows: Sequence[PromptRow], streamer: Any) -> Any:
        drawn = None if one.seed is None else uniform_numbers([row.key for row in rows], one.new_tokens)
        return rowwise_loop(drawn, self._drafting, streamer)

    @cached_property
    def _drafting(self) -> SpeculativeDecoding | None:
        # kept, because it learns how many tokens to draft
        draft = self.settings.draft
        return SpeculativeDecoding(draft) if draft is not None and draft in drafters else None

    def _told(self, rows: Sequence[PromptRow], written: Sequence[list[int]]) -> list[GeneratedText]:
        texts = [str(self.opened.tokenizer.decode(ids, skip_special_tokens=True)) for ids in written]
        sources: Sequence[SourceColumns | None] = [None] * len(rows)
        if self.settings.sources:
            targets = [replace(row.prompt, target=ids) for row, ids in zip(rows, written, strict=True)]
            inputs = auxiliary_inputs(self.opened)(targets)
            sources = source_columns(self.opened, targets, inputs, self.settings.positions)
        return [GeneratedText(*columns) for columns in zip(rows, written, texts, sources, strict=True)]

    def identity(self, one: GenerationPass) -> dict[str, Any]:
        """What makes the texts of a pass what they are, as plain values."""
        settings, model, parts = self.settings, self.opened.model, self.opened.parts
        usual = model.generation_config.to_diff_dict()
        content = json.dumps([asdict(prompt) for prompt in self.prompts], ensure_ascii=False)
        read = json.dumps([prompt.context for prompt in self.encoded])
        return {
            "model": self.opened.name,
            "weights": fingerprint(model),
            "head": parts["head"],
            "conditioner": parts["conditioner"],
            "generation_config": {key: value for key, value in usual.items() if key not in UNTOLD},
            "dtype": str(model.dtype).removeprefix("torch."),
            "prompts": f"{len(self.prompts)}, checksum {hashlib.sha256((content + read).encode()).hexdigest()[:16]}",
            "decoding": one.title,
            "arguments": {
                **one.arguments,
                **{key: settings.arguments.get(key, settings.draft) for key in [ASSISTANT] if key in one.arguments},
            },
            **({} if settings.draft is None else {"draft": settings.draft}),
            **({"remember": settings.remember} if settings.remember else {}),
            "stop": settings.stop,
            "seed": one.seed,
            "samples": one.samples,
            "batch_size": settings.batch_size,
            "positions": settings.positions if settings.sources else None,
        }


def generate(
    model: AnyModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    prompts: str | TextPrompt | Sequence[str | TextPrompt] = "",
    *,
    auxiliary_tokenizer: AuxiliaryTokenizer | None = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """What a model writes after prompts.

    Args:
        model: A model, ours or any of transformers, or the folder or hub name of one.
        tokenizer: Its tokenizer; None for a folder, which has its own.
        prompts: What it reads, one or several; a ``TextPrompt`` has a source or an
            auxiliary text too. By default nothing but the start token.
        auxiliary_tokenizer: Makes inputs of auxiliary texts, for a model in memory that follows them.
        **settings: Settings of ``GenerationSettings``: ``decodings=["top-p:0.9"]``,
            ``max_new_tokens``, ``seeds``, ``samples``, ``stop``, ``sources``, ``arguments``, ...

    Returns:
        One text each, as in a samples file (docs/file-formats.md): ``text``, ``token_ids``, ``prompt``, ...;
        in the order of the prompts, one decoding and seed after the other.

    Raises:
        ValueError: A prompt that the model cannot read, or a setting that does not fit.

    Examples:
        >>> nw.generate("runs/m", prompts="The king", decodings=["top-p:0.9"])[0]["text"]  # doctest: +SKIP
    """
    given = [prompts] if isinstance(prompts, str | TextPrompt) else list(prompts)
    asked = [TextPrompt(one, id=number) if isinstance(one, str) else one for number, one in enumerate(given)]
    if not callable(tokenizer):  # a text in its place, or several
        expect_tokenizer(None if tokenizer is None else str(tokenizer))
    opened = OpenedModel.of(model, tokenizer, auxiliary_tokenizer)
    run = GenerationRun.planned(opened, asked, validated(GenerationSettings, settings))
    references = reference_columns(opened, run.encoded, False, run.settings.batch_size)
    return [_line(run, text, one, references) for one, text in in_order(run)]


def in_order(run: GenerationRun) -> list[tuple[GenerationPass, GeneratedText]]:
    """All texts of a run: one pass after the other, in each the prompts as they were given."""
    return sorted(generated_texts(run), key=lambda found: (run.passes.index(found[0]), found[1].row.number))


def generated_texts(run: GenerationRun, streamer: Any = None) -> Iterator[tuple[GenerationPass, GeneratedText]]:
    """Every text of a run with its pass, in the order in which they are written: the longest prompts first.

    A ``streamer`` of transformers is handed each token of the only row, and not the prompt.
    """
    for one in run.passes:
        for texts in run.written(one, run.batches(rows_of(run.encoded, one), one), streamer=streamer):
            for text in texts:
                yield one, text


def write_samples_files(
    run: GenerationRun, out: Path, scored: bool = False, progress: Progress | None = None, command: str = "generate"
) -> list[Path]:
    """Writes a samples file for each pass; what an interrupted run has written already is not written again.

    They go into the folder ``out``, or the one file (``.jsonl``) of a run with one pass. ``progress`` receives the
    share that is done, first that of an earlier run; the message that another process gets names the command.

    Raises:
        ValueError: A file there is of another run, another process writes there, or references are missing.
    """
    paths = [pass_path(out, one, len(run.passes)) for one in run.passes]
    folder = out if out.suffix != ".jsonl" else out.parent
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{named('out', out)}: {folder} is a file; give a folder")
    tell = progress or (lambda share: None)
    with locked(folder, command):
        files = [
            PartialSamples(path, {**run.identity(one), "references scored": scored})
            for path, one in zip(paths, run.passes, strict=True)
        ]
        rows = [rows_of(run.encoded, one) for one in run.passes]
        every = sum(len(part) for part in rows)
        finished = sum(
            len(part) if file.is_finished else len(file.done) for file, part in zip(files, rows, strict=True)
        )
        tell(finished / every)
        if all(file.is_finished for file in files):
            return paths
        columns = reference_columns(run.opened, run.encoded, scored, run.settings.batch_size)
        for file, part, one in zip(files, rows, run.passes, strict=True):
            if file.is_finished:
                continue
            done = file.done
            # whole batches: what is sampled for a batch together comes out the same
            batches = [some for some in run.batches(part, one) if any(row.number not in done for row in some)]
            said = [[*row.prompt.context, *file.token_ids(row.number)] for row in part if row.number in done]
            with contextlib.closing(run.written(one, batches, said)) as written:
                for texts in written:
                    finished += sum(text.row.number not in done for text in texts)
                    file.append((text.row.number, _line(run, text, one, columns)) for text in texts)
                    tell(finished / every)
            file.finish()
    return paths


def _line(
    run: GenerationRun,
    text: GeneratedText,
    one: GenerationPass,
    references: Mapping[str | int, Mapping[str, Any]],
) -> dict[str, Any]:
    prompt, sample = text.row.prompt, text.row.sample
    columns = {
        "decoding": one.title,
        "seed": one.seed,
        "sample": sample,
        **({} if text.sources is None else text.sources.columns()),
        **references.get(prompt.number, {}),
    }
    line = sample_line(run.opened.tokenizer, prompt, text.text, text.token_ids, columns)
    # of several texts after one prompt, each but the first has its number in the id
    return {**line, "id": f"{prompt.number}#{sample}"} if sample else line


def reference_columns(
    opened: OpenedModel, prompts: Sequence[Prompt], scored: bool, batch_size: int
) -> dict[str | int, dict[str, Any]]:
    """By the prompt's id: the references as they came, and in tokens of the model; empty where there are none.

    Where they are ``scored``, the log-probability of each token of the first one stands beside it.

    Raises:
        ValueError: References are to be scored and some prompt has none, or some prompts have some and others none.
    """
    missing = [prompt.number for prompt in prompts if not prompt.references]
    if len(missing) == len(prompts) and not scored:
        return {}
    if missing:
        raise ValueError(
            f"prompt {missing[0]}: has no reference, and others or {named('score_references')} need one; give one"
        )
    columns = {prompt.number: texts_and_tokens(opened.tokenizer, prompt.references) for prompt in prompts}
    if not scored:
        return columns
    examples = [encode_example(opened, replace(prompt.example, text=prompt.references[0])) for prompt in prompts]
    with inference_mode_of(opened.model):
        values = target_log_probs(opened.model, examples, batch_size, auxiliary_inputs(opened))
    for prompt, example, row in zip(prompts, examples, values, strict=True):
        columns[prompt.number] |= target_columns(example, row)
    return columns


# -- A samples file that is written line by line and continues after it was interrupted, whenever that was.
#
# Beside ``NAME.jsonl`` stands ``NAME.jsonl.partial`` while it is written. Its first line says what is written into
# it, each further one is a finished text. A line that was cut off is dropped, and its text is written again. When all
# are there, the samples file is made of them, in the order of the prompts, and takes its place as a whole.

RUN = "run"
"""Key of the first line of a samples file, which says how all its texts were written."""


class PartialSamples:
    """The file of one pass of a run.

    Raises:
        ValueError: The file, or its unfinished part, is of another run, with the differences named, or is none of ours.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.path, self.run = path, json.loads(json.dumps(run))
        self.partial = path.with_name(f"{path.name}.partial")
        self.is_finished = path.exists()
        if self.is_finished:
            _expect_same(path, _first_run(path), self.run)
            return
        self._lines: dict[int, dict[str, Any]] = {}
        if self.partial.exists():
            self._read()

    def _read(self) -> None:
        content = self.partial.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        head, *lines = whole.splitlines() or [b"{}"]
        if not whole:  # killed before the first line was whole
            self.partial.unlink()
            return
        _expect_same(self.partial, json.loads(head), self.run)
        if len(whole) < len(content):
            with self.partial.open("r+b") as file:
                file.truncate(len(whole))
        read: list[tuple[int, dict[str, Any]]] = [json.loads(line) for line in lines]
        self._lines = {n: {OLD_KEYS.get(key, key): value for key, value in line.items()} for n, line in read}

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the texts that are written."""
        return frozenset(self._lines)

    def token_ids(self, number: int) -> list[int]:
        """Columns of a generated text."""
        ids: list[int] = self._lines[number]["token_ids"]
        return ids

    def append(self, lines: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Writes finished texts, numbered by their row in the samples file; those that are there stay as they are."""
        new = {number: dict(line) for number, line in lines if number not in self._lines}
        written = "".join(f"{_json([number, line])}\n" for number, line in new.items())
        with disk_full_explained(self.path):
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            head = "" if self.partial.exists() else f"{_json(self.run)}\n"
            with self.partial.open("a", encoding="utf-8", newline="") as file:
                file.write(head + written)
        self._lines |= new

    def finish(self) -> None:
        """Puts the samples file in its place."""
        first, *others = [self._lines[number] for number in sorted(self._lines)]
        lines = [{**first, RUN: self.run}, *others]
        write_atomically(self.path, "".join(f"{_json(line)}\n" for line in lines))
        self.partial.unlink(missing_ok=True)


def _expect_same(path: Path, before: Any, now: Mapping[str, Any]) -> None:
    if not isinstance(before, dict) or not before:
        raise ValueError(f"{path} is there and was not written by nextword generate; choose another {named('out')}")
    expect_same(path, "run", set_ones(before), set_ones(now))


def _first_run(path: Path) -> Any:
    try:
        with path.open(encoding="utf-8") as file:
            return json.loads(file.readline()).get(RUN)
    except (OSError, ValueError, AttributeError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
