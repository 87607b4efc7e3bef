"""Continuations of prompts from a test text: what every method of a comparison writes, one samples file a decoding.

A prompt is the beginning of a block of the test text and the rest of the block is what people wrote after it
(F2-Softmax, section 4.1.5: 50 tokens and 100). All texts have the same number of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field, field_validator, model_validator

from nextword.config import Settings
from nextword.decoding.strategies import Decoding, Texts
from nextword.functional.padding import padded
from nextword.metrics.metric import parse_metric
from nextword.model.unconstrained import unconstrained_generation
from nextword.records import write_atomically
from nextword.scoring.ask import Progress, batches, measuring

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

METRICS = (
    "likelihood", "unigram-kl:test", "ms-jaccard:1,2,3", "self-bleu:1,2,3", "distinct:1,2,3", "rep", "uniq-seq",
    "frequency-groups",
)  # fmt: skip
"""The seven metrics of F2-Softmax, and how frequent the written tokens are (its figure 2)."""

WINS = ("perplexity", "kl-human-generated", "ms-jaccard-3", "self-bleu-3", "distinct-3", "rep", "uniq-seq")
"""The seven that vote in its table 9."""

DIGITS = 6
"""Log-probabilities in samples files are rounded to so many."""


class WritingConfig(Settings):
    """How texts are written, and how they are measured."""

    batch_size: int = Field(default=32, ge=1)
    """Prompts continued at a time."""
    decodings: list[Decoding] = Field(default=[Decoding(), Decoding(top_k=3)], min_length=1)
    """Ways to write: "greedy", "top-k:K", "top-p:P", "sample" (these three also with a temperature: "top-k:3,0.7"),
    "beam:B", or settings in full: {top_k = 3, temperature = 0.7}."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the texts, as for nextword evaluate; may change later."""
    wins: list[str] | None = None
    """Keys that vote in the table of wins; None: one of each metric; may change later."""
    examples: int = Field(default=3, ge=0)
    """Texts shown in the report: those of the first prompts; may change later."""

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, metrics: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        for one in metrics:
            parse_metric(one)
        return metrics

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        titles = [decoding.title for decoding in self.decodings]
        twice = [title for number, title in enumerate(titles) if title in titles[:number]]
        if twice:
            raise ValueError(f"decodings: '{twice[0]}' is given twice")
        return self


MAY_CHANGE = frozenset({"generation.metrics", "generation.wins", "generation.examples"})
"""Those that only say how written texts are measured, as settings of a task."""


class ContinuationConfig(WritingConfig):
    """What is written after prompts from the test text, and how it is measured."""

    prompts: int = Field(default=0, ge=0)
    """Blocks of the test text, from its beginning, that give a prompt each; fewer where it has no more; 0: no texts."""
    prefix: int = Field(default=50, ge=1)
    """Tokens of a prompt: the first ones of its block."""
    continuation: int = Field(default=100, ge=1)
    """Tokens of a text: those of the rest of the block, and as many that a method writes in their place."""
    wins: list[str] | None = None
    """Keys that vote in the table of wins; None: F2-Softmax's seven with the metrics above, else one of each metric;
    may change later."""

    @property
    def block(self) -> int:
        """Tokens of a prompt and its text."""
        return self.prefix + self.continuation

    def texts(self) -> Texts | None:
        """What a comparison must know of it; ``None``: no texts."""
        if not self.prompts:
            return None
        wins = self.wins if self.wins is not None or self.metrics != list(METRICS) else list(WINS)
        return Texts(tuple(self.decodings), tuple(self.metrics), None if wins is None else tuple(wins), self.examples)


@dataclass(frozen=True)
class Prompt:
    """A block of the test text: what is continued, and what people wrote there."""

    number: int
    ids: list[int]
    reference: list[int]
    reference_bytes: int


def prompts(ids: Sequence[int], text_bytes: Int[np.ndarray, "N"], config: ContinuationConfig) -> list[Prompt]:
    """The first blocks of a text, none overlapping another.

    Args:
        ids: Tokens of the text.
        text_bytes: Bytes that each of them covers.
        config: How many, and how long.

    Raises:
        ValueError: The text is shorter than one block.
    """
    found = []
    for number, begin in enumerate(range(0, len(ids) - config.block + 1, config.block)):
        if number == config.prompts:
            break
        cut, end = begin + config.prefix, begin + config.block
        found.append(Prompt(number, list(ids[begin:cut]), list(ids[cut:end]), int(text_bytes[cut:end].sum())))
    if not found:
        raise ValueError(
            f"task.generation: the test text has {len(ids)} tokens, no block of prefix + continuation = {config.block}"
        )
    return found


@dataclass(frozen=True)
class Continuations:
    """Writes the samples files of one model.

    Attributes:
        config: Batch size.
        given: The prompts; what is written after each is as long as what people wrote there.
        tokenizer: The model's.
        score_batch: Prompts whose references are scored at a time.
        guide: Further inputs of the model for some of the prompts.
        about: What a line says of a prompt; None: its text and its tokens.
    """

    config: WritingConfig
    given: Sequence[Prompt]
    tokenizer: PreTrainedTokenizerBase
    score_batch: int
    guide: Callable[[Sequence[Prompt]], Mapping[str, Any]] = lambda given: {}
    about: Callable[[Prompt], Mapping[str, Any]] | None = None

    def write(
        self,
        model: Any,
        files: Mapping[Path, Decoding],
        seed: int,
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """Writes one file for each decoding, as a whole or not at all; each starts from ``seed`` anew.

        Args:
            model: An attached model.
            files: What goes where.
            seed: Of the tokens that are drawn.
            arguments: Further arguments of ``generate``.
            progress: Told the share that is done.
        """
        told = progress or (lambda share: None)
        if not files:
            return
        with measuring(model):
            log_probs = self._scored(model)
            for done, (path, decoding) in enumerate(files.items()):
                torch.manual_seed(seed)
                texts: list[list[int]] = []
                for part in batches(self.given, self.config.batch_size):
                    guided = {**self.guide(part), **arguments}
                    texts += continued(model, part, decoding, len(part[0].reference), guided)
                    told((done + len(texts) / len(self.given)) / len(files))
                lines = [self._line(*one) for one in zip(self.given, texts, log_probs, strict=True)]
                write_atomically(path, "".join(lines))

    def _scored(self, model: Any) -> list[list[float]]:
        parts = batches(self.given, self.score_batch)
        return [row for part in parts for row in reference_log_probs(model, part, self.guide(part))]

    def _line(self, prompt: Prompt, written: list[int], log_probs: list[float]) -> str:
        own = {"prompt": decoded(self.tokenizer, prompt.ids), "prompt_token_ids": prompt.ids}
        content = {
            "id": prompt.number,
            **(own if self.about is None else self.about(prompt)),
            "text": decoded(self.tokenizer, written),
            "token_ids": written,
            "references": [decoded(self.tokenizer, prompt.reference)],
            "reference_token_ids": [prompt.reference],
            "target_token_ids": prompt.reference,
            "target_bytes": prompt.reference_bytes,
            "log_probs": log_probs,
        }
        return json.dumps(content, ensure_ascii=False) + "\n"


def decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """What the ids say, special tokens included; a character of which bytes are missing becomes U+FFFD."""
    text = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return str(text)


def continued(
    model: Any, given: Sequence[Prompt], decoding: Decoding, length: int, arguments: Mapping[str, Any]
) -> list[list[int]]:
    """``length`` tokens that the model writes after each prompt; no token ends a text.

    Args:
        model: An attached model.
        given: Prompts; shorter ones are padded on the left.
        decoding: How it writes.
        length: Tokens to write.
        arguments: Further arguments of ``generate``.
    """
    ids, mask = padded([prompt.ids for prompt in given], _filler(model), side="left")
    with unconstrained_generation(model, stops=False, max_new_tokens=length, **decoding.arguments()):
        made = model.generate(ids.to(model.device), attention_mask=mask.to(model.device), **arguments)
    made = made[:, ids.shape[1] :]
    if made.shape[1] != length:
        raise ValueError(f"decoding '{decoding.title}' wrote {made.shape[1]} tokens instead of {length}")
    found: list[list[int]] = made.tolist()
    return found


def reference_log_probs(
    model: Any, given: Sequence[Prompt], arguments: Mapping[str, Any] | None = None
) -> list[list[float]]:
    """The same as ``log_probs_of_references``, rounded for a file."""
    found = log_probs_of_references(model, given, arguments)
    return [[round(value, DIGITS) for value in row] for row in found]


def log_probs_of_references(
    model: Any, given: Sequence[Prompt], arguments: Mapping[str, Any] | None = None
) -> list[list[float]]:
    """Log-probability of every token of what people wrote, each after all right ones before it.

    Args:
        model: An attached model.
        given: Prompts; shorter rows are padded on the right.
        arguments: Further arguments of ``distribution``.
    """
    rows = [[*prompt.ids, *prompt.reference] for prompt in given]
    ids, mask = (tensor.to(model.device) for tensor in padded(rows, _filler(model)))
    inputs, targets, seen = ids[:, :-1], ids[:, 1:], mask[:, 1:].bool()
    begins = torch.tensor([len(prompt.ids) - 1 for prompt in given], device=model.device)
    asked = seen & (torch.arange(inputs.shape[1], device=model.device)[None, :] >= begins[:, None])
    dist = model.distribution(inputs, attention_mask=mask[:, :-1], positions=asked, **(arguments or {}))
    found = dist.log_prob(targets[asked][:, None])[:, 0].double().cpu()
    parts = found.split([len(prompt.reference) for prompt in given])
    return [part.tolist() for part in parts]


def _filler(model: Any) -> int:
    """A token for places that the mask leaves out."""
    pad = model.generation_config.pad_token_id
    return 0 if pad is None else int(pad)
