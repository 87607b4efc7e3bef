"""Prompts times decodings: what one model writes, one samples file for each (docs/file-formats.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.functional.padding import padded
from nextword.inference.generation.generation_passes import end_ids
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding, SeededDecoding
from nextword.inference.scoring.opened_model import Progress, batches, progress_within
from nextword.inference.scoring.target_likelihood import Inputs, TokenPair, fill_id, no_inputs, target_log_probs
from nextword.model.generation import unconstrained_generation
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import write_atomically

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


DIGITS = 6
"""Log-probabilities in samples files are rounded to so many."""


def write_samples(
    writer: Writer,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Mapping[str, Sequence[Prompt]],
    files: Mapping[Path, SeededDecoding],
    score_batch: int,
    progress: Progress | None = None,
    longest: int | None = None,
) -> None:
    """Writes each file as a whole or not at all; each starts from its seed anew.

    The log-probabilities of what people wrote after a prompt stand beside each text; ``score_batch`` of them are
    computed at a time. Prompts are given by the kind that a decoding names.

    Where there is a ``longest``, the model may end a text, which has at most so many tokens; special tokens are no part
    of texts and references then. Where there is none, every text has as many tokens as the targets, which are all of
    one length.
    """
    with inference_mode_of(writer.model):
        scored = {
            kind: target_log_probs(writer.model, prompts[kind], score_batch, writer.inputs)
            for kind in dict.fromkeys(drawn.way.prompts for drawn in files.values())
        }
        left_out: Set[int] = frozenset()
        if longest is not None:
            # an unknown word is a word, unless its token also ends texts, as in GPT-2
            left_out = set(tokenizer.all_special_ids) - ({tokenizer.unk_token_id} - {tokenizer.eos_token_id})
        for number, (path, drawn) in enumerate(files.items()):
            contexts = prompts[drawn.way.prompts]
            share = progress_within(progress, number / len(files), (number + 1) / len(files))
            torch.manual_seed(drawn.seed)
            length = len(contexts[0].target) if longest is None else longest
            texts = writer.write(contexts, drawn.way.decoding, length, ends=longest is not None, progress=share)
            rows = zip(contexts, texts, scored[drawn.way.prompts], strict=True)
            lines = (_line(tokenizer, prompt, text, row.tolist(), left_out) for prompt, text, row in rows)
            write_atomically(path, "".join(lines))


def decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """What the ids say, special tokens included; a character of which bytes are missing becomes U+FFFD."""
    text = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return str(text)


def _line(
    tokenizer: PreTrainedTokenizerBase,
    prompt: Prompt,
    text: list[int],
    log_probs: list[float],
    left_out: Set[int],
) -> str:
    shown = prompt.context[prompt.start :]
    text, reference = ([token for token in ids if token not in left_out] for ids in (text, prompt.target))
    source = {} if prompt.source is None else {"source": prompt.source}
    if prompt.references:
        people = list(prompt.references)
        their_ids = tokenizer(people, add_special_tokens=False, verbose=False)["input_ids"]
    else:
        people, their_ids = [decoded(tokenizer, reference)], [reference]
    content = {
        "id": prompt.number,
        "prompt": decoded(tokenizer, shown) if prompt.source is None else prompt.source,
        **source,
        "prompt_token_ids": shown,
        "text": decoded(tokenizer, text),
        "token_ids": text,
        "references": people,
        "reference_token_ids": their_ids,
        "target_token_ids": prompt.target,
        "target_bytes": prompt.target_bytes,
        "log_probs": [round(value, DIGITS) for value in log_probs],
        **prompt.columns,
    }
    return json.dumps(content, ensure_ascii=False) + "\n"


# -- Prompts in batches through ``generate``, without any constraint that a model's own settings ask for.


@dataclass(frozen=True)
class Writer:
    """Writes token ids with an attached model; ``arguments`` are further ones of ``generate``."""

    model: NextWordModel
    batch_size: int
    inputs: Inputs = no_inputs
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def write(
        self,
        pairs: Sequence[TokenPair],
        decoding: Decoding,
        length: int,
        ends: bool = False,
        progress: Progress | None = None,
    ) -> list[list[int]]:
        """What the model writes after each context, or from each source.

        Where it ``ends`` a text by the end token, which is left out, this has at most ``length`` tokens; otherwise
        every text has exactly so many.

        Raises:
            ValueError: Texts are to be of one length and are not, because ``arguments`` ask for another.
        """
        texts: list[list[int]] = []
        for part in batches(pairs, self.batch_size, progress):
            texts += self._batch(part, decoding, length, ends)
        return texts

    def _batch(self, pairs: Sequence[TokenPair], decoding: Decoding, length: int, ends: bool) -> list[list[int]]:
        model, has_encoder = self.model, self.model.config.is_encoder_decoder
        contexts = [pair.context for pair in pairs]
        ids, mask = padded(contexts, fill_id(model), side="right" if has_encoder else "left")
        # a decoder of its own begins with one token; max_new_tokens would give one more where a model has a default
        longest = {"max_length": length + 1} if has_encoder else {"max_new_tokens": length}
        arguments = {**self.inputs(pairs), **self.arguments}
        with unconstrained_generation(model, stops=ends, **longest, **decoding.arguments()):
            written = model.generate(ids.to(model.device), attention_mask=mask.to(model.device), **arguments)
        rows: list[list[int]] = written[:, 1 if has_encoder else ids.shape[1] :].tolist()
        if ends:
            ends_with = end_ids(model.generation_config)
            return [list(takewhile(lambda token: token not in ends_with, row)) for row in rows]
        if len(rows[0]) != length:
            raise ValueError(f"decoding '{decoding.title}' wrote {len(rows[0])} tokens instead of {length}")
        return rows
