"""Generate texts from prompts, for tasks whose methods generate texts."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.conditioning.auxiliary_encoder import fingerprint
from nextword.experiments.tasks.task import Writes
from nextword.experiments.tasks.writing import SeededDecoding, Texts
from nextword.inference.generation.generator import Generator
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.samples_files import (
    UnfinishedSamples,
    decoded,
    sample_line,
    target_columns,
    texts_and_tokens,
)
from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.likelihood import Inputs, no_inputs, target_log_probs
from nextword.inference.scoring.opened_model import Progress, batches, progress_within
from nextword.model.generation import unconstrained_generation
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import TopWord
from nextword.runtime.pretrained import token_label
from nextword.settings.version import __version__

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


class PromptedTexts(Writes):
    """Generates one text per prompt, either as long as the human references or until the model ends the text.

    Args:
        texts: Decodings and metrics of the texts.
        prompts: Function that returns, for a tokenizer, a mapping from kind of prompts (``PromptedDecoding.prompts``)
            to prompts.
        batch_size: Number of texts generated at a time.
        score_batch: Number of targets scored at a time.
        inputs: Function that makes further model inputs, from model and tokenizer.
        longest: Maximum tokens of a text, which the model may end earlier. ``None``: each text has the length of the
            human references, which must all be equally long.
        search: Arguments of ``generate`` that are the same for all methods, such as length limits.
    """

    def __init__(
        self,
        texts: Texts,
        prompts: Callable[[PreTrainedTokenizerBase], Mapping[str, Sequence[Prompt]]],
        batch_size: int,
        score_batch: int,
        inputs: Callable[[Any, PreTrainedTokenizerBase], Inputs] = lambda model, tokenizer: no_inputs,
        longest: int | None = None,
        search: Mapping[str, Any] | None = None,
    ) -> None:
        self.texts, self._search = texts, dict(search or {})
        self._prompts, self._inputs = prompts, inputs
        self._batch_size, self._score_batch, self._longest = batch_size, score_batch, longest

    def write(
        self,
        model: NextWordModel,
        tokenizer: PreTrainedTokenizerBase,
        files: Mapping[Path, SeededDecoding],
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """Generate the samples files in ``files``, which maps each path to its decoding and seed.

        ``arguments`` are further arguments of ``generate``. An unfinished file is resumed after its last written batch.
        The log-probabilities of the human references are computed once per kind of prompts. If the model may end a
        text, the texts and references in the files have no special tokens.

        Raises:
            ValueError: If all texts must have the same length, and ``arguments`` set another length.
        """
        generator = Generator(model, {**self._search, **arguments}, self._inputs(model, tokenizer))
        prompts, left_out = self._prompts(tokenizer), self._left_out(tokenizer)
        with inference_mode_of(model):
            scored = {
                kind: target_log_probs(model, prompts[kind], self._score_batch, generator.inputs)
                for kind in dict.fromkeys(drawn.way.prompts for drawn in files.values())
            }
            for number, (path, drawn) in enumerate(files.items()):
                contexts = prompts[drawn.way.prompts]
                rows = [*enumerate(zip(contexts, scored[drawn.way.prompts], strict=True))]
                share = progress_within(progress, number / len(files), (number + 1) / len(files))
                file = self._begun(path, drawn, generator, contexts)
                done = file.done
                torch.manual_seed(drawn.seed)
                if file.random is not None:
                    _go_on_drawing(file.random, model.device)
                length, ends = self._longest or len(contexts[0].target), self._longest is not None
                with as_decoding_says(model, drawn.way.decoding, length, ends=ends):
                    for part in batches(rows, self._batch_size, share):
                        if all(row in done for row, _ in part):
                            continue
                        texts = generator.write([prompt for _, (prompt, _) in part])
                        if not ends and len(texts[0]) != length:
                            title = drawn.way.decoding.title
                            raise ValueError(
                                f"decoding '{title}': must generate {length} tokens ({len(texts[0])} generated); "
                                f"remove length limits from its arguments"
                            )
                        lines = (
                            (row, _line(tokenizer, prompt, text, log_probs, left_out))
                            for text, (row, (prompt, log_probs)) in zip(texts, part, strict=True)
                        )
                        file.append(lines, _drawing_state(model.device))
                file.finish()

    def _begun(
        self, path: Path, drawn: SeededDecoding, generator: Generator, prompts: Sequence[Prompt]
    ) -> UnfinishedSamples:
        read = json.dumps([(prompt.context, prompt.target, prompt.source, prompt.auxiliary) for prompt in prompts])
        run = {
            "nextword": __version__,
            "weights": fingerprint(generator.model),
            "head": generator.model.next_word_head.config.model_dump(mode="json"),
            "prompts": hashlib.sha256(read.encode()).hexdigest()[:16],
            "decoding": drawn.way.decoding.arguments(),
            "arguments": {name: str(value) for name, value in generator.arguments.items()},
            "seed": drawn.seed,
            "batch_size": self._batch_size,
        }
        try:
            return UnfinishedSamples(path, run)
        except ValueError:  # the unfinished file is of another model, version or setting
            path.with_name(f"{path.name}.partial").unlink()
            return UnfinishedSamples(path, run)

    def _left_out(self, tokenizer: PreTrainedTokenizerBase) -> Set[int]:
        if self._longest is None:
            return frozenset()
        # the unknown token stands for a word, unless it also ends texts, as in GPT-2
        return set(tokenizer.all_special_ids) - ({tokenizer.unk_token_id} - {tokenizer.eos_token_id})


def _line(
    tokenizer: PreTrainedTokenizerBase, prompt: Prompt, ids: Sequence[int], log_probs: Tensor, left_out: Set[int]
) -> dict[str, Any]:
    text, reference = ([token for token in some if token not in left_out] for some in (ids, prompt.target))
    if prompt.references:
        people = texts_and_tokens(tokenizer, prompt.references)
    else:
        people = {"references": [decoded(tokenizer, reference)], "reference_token_ids": [reference]}
    columns = {**people, **target_columns(prompt, log_probs), **prompt.columns}
    return sample_line(tokenizer, prompt, decoded(tokenizer, text), text, columns)


def _drawing_state(device: torch.device) -> list[str]:
    # the states of torch's generators that sampling on this device uses, as text
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return [base64.b85encode(state.numpy().tobytes()).decode() for state in states]


def _go_on_drawing(kept: Sequence[str], device: torch.device) -> None:
    states = [torch.frombuffer(bytearray(base64.b85decode(state)), dtype=torch.uint8) for state in kept]
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[-1], device)


def as_decoding_says(
    model: NextWordModel, decoding: Decoding, length: int, *, ends: bool
) -> AbstractContextManager[None]:
    """In the ``with`` block, ``model`` generates with the arguments of ``decoding`` and without its generation_config.

    If ``ends`` is true, a text has at most ``length`` tokens and may end earlier. If false, it has exactly ``length``.
    """
    # an encoder-decoder model has one start token more; if its default is max_length, max_new_tokens gives one too many
    longest = {"max_length": length + 1} if model.config.is_encoder_decoder else {"max_new_tokens": length}
    return unconstrained_generation(model, stops=ends, **longest, **decoding.arguments())


# -- The most probable tokens at a position, for example predictions in a report.


def top_words(distribution: Any, row: int, k: int, tokenizer: PreTrainedTokenizerBase) -> list[TopWord]:
    """The top ``k`` tokens at position ``row``, with the contribution of each part of the head (such as a cache).

    Tokens of probability 0 are left out.
    """
    log_probs, ids = distribution.top_k(k)
    sources = {name: shares[row].tolist() for name, shares in distribution.sources(ids).items()}
    return [
        TopWord(
            word=token_label(tokenizer, token),
            probability=math.exp(log_prob),
            sources={name: shares[rank] for name, shares in sources.items()},
        )
        for rank, (log_prob, token) in enumerate(zip(log_probs[row].tolist(), ids[row].tolist(), strict=True))
        if log_prob > -math.inf
    ]
