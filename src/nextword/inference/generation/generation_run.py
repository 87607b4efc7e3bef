"""One generation run over prompts: it yields texts, or writes samples files and resumes them after an interruption."""

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
from nextword.inference.generation.samples_files import PartialSamples, sample_line, target_columns, texts_and_tokens
from nextword.inference.scoring.example_encoding import auxiliary_inputs, encode_example
from nextword.inference.scoring.likelihood import target_log_probs
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, Progress, expect_tokenizer
from nextword.model.speculative_decoding.drafter import drafters
from nextword.model.speculative_decoding.speculative_decoding import SpeculativeDecoding
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import locked
from nextword.settings.call_forms import CallForms
from nextword.settings.config import validated
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


UNTOLD = ("transformers_version", "_from_model_config")
"""Entries of a generation configuration that do not affect the generated texts."""


@dataclass(frozen=True)
class GenerationRun:
    """A checked generation run. ``encoded`` has the tokenised prompts; each of ``passes`` reads all prompts."""

    opened: OpenedModel
    prompts: Sequence[TextPrompt]
    settings: GenerationSettings
    encoded: Sequence[Prompt]
    passes: Sequence[GenerationPass]

    @classmethod
    def planned(
        cls, opened: OpenedModel, prompts: Sequence[TextPrompt], settings: GenerationSettings, chat: bool = False
    ) -> GenerationRun:
        """Makes a run, and checks everything that can be checked before generation.

        If ``chat`` is true, each prompt becomes a user message in the tokenizer's chat template.

        Raises:
            ValueError: If there are no prompts, a prompt is too long or incomplete for the model, two prompts have the
                same id, or a setting does not fit the model.
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
        """Groups ``rows``, texts to generate in the pass ``one``, into batches. Equal rows give equal batches."""
        if self.settings.remember:  # each text may retrieve from all earlier texts
            return [[row] for row in rows]
        return length_batches(rows, 1 if one.is_single else self.settings.batch_size)

    def written(
        self,
        one: GenerationPass,
        batches: Sequence[Sequence[PromptRow]],
        said: Iterable[Sequence[int]] = (),
        streamer: Any = None,
    ) -> abc.Generator[list[GeneratedText]]:
        """Generates the texts of the pass ``one``, and yields them batch by batch.

        Torch's global random state is not changed. ``said`` has, for each finished text of this pass, the token ids of
        the prompt and the text together. With the setting ``remember``, the head can retrieve these tokens. In greedy
        search and sampling, a ``streamer`` receives every new token; each batch must then have one row.

        Raises:
            ValueError: If ``generate`` rejects its arguments.
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
        # one object for all batches, because it learns how many tokens to draft
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
        """All values that determine the texts of the pass ``one``. Only a file with equal values is resumed."""
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


@CallForms(renamed={"places": "positions"})
def generate(  # noqa: PLR0913  (its options)
    model: AnyModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    prompts: str | TextPrompt | Sequence[str | TextPrompt] = "",
    *,
    decodings: Sequence[str | Mapping[str, Any]] = (),
    max_new_tokens: int | None = None,
    min_new_tokens: int | None = None,
    stop: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    samples: int = 1,
    batch_size: int = 16,
    draft: str | None = None,
    remember: int = 0,
    sources: bool = False,
    positions: int = 3,
    arguments: Mapping[str, Any] | None = None,
    auxiliary_tokenizer: AuxiliaryTokenizer | None = None,
) -> list[dict[str, Any]]:
    """Generates texts that continue prompts.

    Args:
        model: A model of nextword or transformers, or its folder or hub name.
        tokenizer: Tokenizer of the model; None for a folder, which has its own.
        prompts: One prompt or several. A ``TextPrompt`` can also have a source or an auxiliary text. The default is an
            empty prompt: the model begins after the start token.
        decodings: Decoding strategies, each ``"greedy"``, ``"sample"``, ``"top-k:3"``, ``"top-p:0.9,0.7"`` (temperature
            last), ``"beam:4"`` or a dictionary of settings. If empty, the model's generation_config decides.
        max_new_tokens: Maximum number of new tokens; None: the value of the model's generation_config, or 100.
        min_new_tokens: Minimum number of new tokens, before which only ``stop`` can end a text. None: no minimum.
        stop: Strings that end a text. The text keeps the string that ended it.
        seeds: Random seeds; each sampling strategy generates texts with every seed.
        samples: Number of texts per prompt and seed, for sampling strategies.
        batch_size: Number of texts generated at a time.
        draft: Source of draft tokens for speculative decoding: ``"head"`` (a head that copies), ``"prompt"`` (n-gram
            lookup) or the folder of a smaller model. The texts stay the same, but texts sampled with a smaller model or
            with the head ``f2`` only keep their distribution. With a smaller model, ``f2`` uses its full distribution
            instead of choosing a class first. None: one token per pass.
        remember: Only for the head ``knn``, which can retrieve in each text the ``remember`` most recent tokens of
            finished prompts and texts with the same decoding and seed. Texts are then generated one at a time, in the
            order of the prompts. 0: the head retrieves none of these tokens.
        sources: Whether to return, for each token, the share of each component of the head in the token's probability,
            and the positions with the largest shares.
        positions: Number of positions listed per token if ``sources`` is true.
        arguments: Further arguments of transformers' ``generate``, for all decodings, for instance
            ``{"repetition_penalty": 1.2}``.
        auxiliary_tokenizer: Tokenizer of auxiliary texts, for a model in memory that has a conditioner.

    Returns:
        One dictionary per text, as in a samples file (docs/file-formats.md): ``text``, ``token_ids``, ``prompt``, ...
        The texts of one decoding strategy and seed come together, in the order of the prompts.

    Raises:
        ValueError: If one of ``prompts`` is too long for the model or lacks the auxiliary text that the model reads, or
            if a setting is invalid.

    Examples:
        >>> import nextword as nw
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"<eos>": 0, "the": 1, "king": 2, "sat": 3}))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>")
        >>> config = GPT2Config(vocab_size=4, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
        >>> model = nw.attach(GPT2LMHeadModel(config), "cache")
        >>> found = nw.generate(
        ...     model,
        ...     tokenizer,
        ...     "the king",
        ...     decodings=["greedy", "top-p:0.9"],
        ...     min_new_tokens=3,
        ...     max_new_tokens=3,
        ...     sources=True,
        ... )
        >>> [(one["decoding"], len(one["token_ids"])) for one in found]
        [('greedy', 3), ('top-p 0.9', 3)]
        >>> sorted(found[0]["shares"])
        ['cache', 'softmax']
    """
    given = [prompts] if isinstance(prompts, str | TextPrompt) else list(prompts)
    asked = [TextPrompt(one, id=number) if isinstance(one, str) else one for number, one in enumerate(given)]
    if not callable(tokenizer):  # a text in its place, or several
        expect_tokenizer(None if tokenizer is None else str(tokenizer))
    opened = OpenedModel.of(model, tokenizer, auxiliary_tokenizer)
    settings = {
        "decodings": decodings,
        "max_new_tokens": max_new_tokens,
        "min_new_tokens": min_new_tokens,
        "stop": stop,
        "seeds": seeds,
        "samples": samples,
        "batch_size": batch_size,
        "draft": draft,
        "remember": remember,
        "sources": sources,
        "positions": positions,
        "arguments": {} if arguments is None else arguments,
    }
    run = GenerationRun.planned(opened, asked, validated(GenerationSettings, settings))
    references = reference_columns(opened, run.encoded, False, run.settings.batch_size)
    return [_line(run, text, one, references) for one, text in in_order(run)]


def in_order(run: GenerationRun) -> list[tuple[GenerationPass, GeneratedText]]:
    """All texts of a run, each with its pass: pass by pass, and within a pass in the order of the prompts."""
    return sorted(generated_texts(run), key=lambda found: (run.passes.index(found[0]), found[1].row.number))


def generated_texts(run: GenerationRun, streamer: Any = None) -> Iterator[tuple[GenerationPass, GeneratedText]]:
    """Generates all texts of a run, and yields each text with its pass. In a pass, the longest prompts are first.

    With the setting ``remember``, prompts keep their order. If the run has only one text, by greedy search or sampling,
    a transformers ``streamer`` receives each new token, but not the prompt.
    """
    for one in run.passes:
        for texts in run.written(one, run.batches(rows_of(run.encoded, one), one), streamer=streamer):
            for text in texts:
                yield one, text


def write_samples_files(
    run: GenerationRun, out: Path, scored: bool = False, progress: Progress | None = None, command: str = "generate"
) -> list[Path]:
    """Writes a samples file for each pass; resumes an interrupted run.

    ``out`` is a folder or, if the run has only one pass, a ``.jsonl`` file. If ``scored`` is true, the first reference
    of each prompt is scored too. ``progress`` receives the finished share of all texts, from 0 to 1. ``command`` names
    this call in the error of another process that wants to write to ``out``.

    Raises:
        ValueError: If a file belongs to another run, another process writes to ``out``, only some prompts have
            references, or ``scored`` is true and no prompt has a reference.
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
            # whole batches, because only the same batch gives the same sampled texts
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
    # if a prompt has several texts, the id of each text after the first contains its number
    return {**line, "id": f"{prompt.number}#{sample}"} if sample else line


def reference_columns(
    opened: OpenedModel, prompts: Sequence[Prompt], scored: bool, batch_size: int
) -> dict[str | int, dict[str, Any]]:
    """A mapping from the id of each prompt to the columns of its references in a samples file.

    The mapping is empty if no prompt has references. The references are given as texts and as token ids. If ``scored``
    is true, the log-probability of each token of the first reference is added.

    Raises:
        ValueError: If ``scored`` is true and a prompt has no reference, or if only some prompts have references.
    """
    missing = [prompt.number for prompt in prompts if not prompt.references]
    if len(missing) == len(prompts) and not scored:
        return {}
    if missing:
        raise ValueError(
            f"prompt {missing[0]}: has no reference, but others have or {named('score_references')} needs one; give one"
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
