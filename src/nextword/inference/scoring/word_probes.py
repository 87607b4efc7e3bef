"""Probes: prompts that list several words, all of which or none of which should be likely next words.

    "There are plates, keys, scissors, toys, and balloons in front of me, and I pick up the"
    the five words should be equally likely, and no other word should be likely

    "I like tennis, baseball, golf, basketball, and"
    none of the four words should be repeated

>>> {probe.name: len(probe.words) for probe in read_probes()}
{'choices': 5, 'sports': 4, 'jester': 2}

Any decoder-only model can be tested, for example with ``answers("runs/m", read_probes())``.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch
from pydantic import Field, model_validator

from nextword.inference.scoring.likelihood import ask
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, batches
from nextword.inference.scoring.text_tokens import encode_answer, encode_prompt
from nextword.model.training_modes import inference_mode_of
from nextword.settings.config import Settings, validated

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


PAPERS = "paper_probes.toml"


@dataclass(frozen=True)
class WordProbe:
    """A prompt and the words that it lists."""

    name: str
    """Name of the set of probes that this probe belongs to."""
    prompt: str
    words: tuple[str, ...]
    copied: bool
    """True if the next word should be one of the listed words, False if it should be none of them."""


class ProbeTemplate(Settings):
    """An entry of a probe file: a prompt with gaps, and lists of words that fill the gaps."""

    name: str = Field(pattern="^[A-Za-z0-9-]+$")
    """Name of the set of probes. Entries with the same name are evaluated together."""
    text: str = Field(min_length=1)
    """The prompt, with {} for each word."""
    words: list[list[str]] = Field(min_length=1)
    """Lists of words for the slots {}. Every rotation of each list makes one probe."""
    copied: bool
    """True if the next word should be one of the listed words, False if it should be none of them."""

    @model_validator(mode="after")
    def _words_fill_the_slots(self) -> Self:
        slots = self.text.count("{}")
        for words in self.words:
            if len(words) != slots or len(set(words)) < 2 or len(set(words)) < slots:
                raise ValueError(
                    f"words: must be {max(2, slots)} different words for the slots of '{self.text}' "
                    f"({', '.join(words)} given)"
                )
        return self

    def probes(self) -> list[WordProbe]:
        """Makes one probe for each rotation of each list in ``words``, so that each word of a list is once the last."""
        rotations = [tuple(words[n:] + words[:n]) for words in self.words for n in range(len(words))]
        return [WordProbe(self.name, self.text.format(*words), words, self.copied) for words in rotations]


class ProbeFile(Settings):
    """A file of probes."""

    probes: list[ProbeTemplate] = Field(min_length=1)


@dataclass(frozen=True)
class ProbeAnswer:
    """A model's predictions after one probe."""

    probe: WordProbe
    probabilities: tuple[float, ...]
    """Probability of each listed word's first token."""

    @property
    def mass(self) -> float:
        """Probability that the next token begins a listed word."""
        return math.fsum(self.probabilities)

    @property
    def spread(self) -> float | None:
        """Entropy of the words' shares of ``mass``, divided by the entropy of equal shares; None if ``mass`` is 0."""
        if not self.mass:
            return None
        shares = [one / self.mass for one in self.probabilities if one]
        return -math.fsum(share * math.log(share) for share in shares) / math.log(len(self.probabilities))


def read_probes(path: str | Path | None = None) -> list[WordProbe]:
    """Reads probes from a TOML file in the format of ``src/nextword/inference/scoring/paper_probes.toml``.

    Args:
        path: The file. ``None``: the probes of two papers, about five objects and four sports (Softmax-CPR's poster),
            and about a king and a woman (HistAlign, figure 1).

    Raises:
        ValueError: If the file cannot be read or is not a file of probes.
    """
    file, where = (resources.files(__package__) / PAPERS, PAPERS) if path is None else (Path(path).expanduser(), path)
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"{where}: must be TOML ({problem}); correct it") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise ValueError(f"{where}: must be a file of probes ({reason}); give the path of a TOML file") from None
    return [probe for template in validated(ProbeFile, content, str(where)).probes for probe in template.probes()]


def answers(
    model: AnyModel,
    probes: Sequence[WordProbe],
    tokenizer: PreTrainedTokenizerBase | None = None,
    mode: str = "joint",
    batch_size: int = 32,
) -> list[ProbeAnswer]:
    """Returns, for each of ``probes``, the probability of the first token of each listed word.

    The model must be decoder-only, with or without a nextword head. Give a tokenizer unless ``model`` includes one.
    ``mode`` is one of the ``modes`` of the model's head. A forward pass has ``batch_size`` probes.

    Raises:
        ValueError: If ``first_tokens`` raises it, or the model is an encoder-decoder model.
    """
    opened = OpenedModel.of(model, tokenizer)
    if opened.has_encoder:
        raise ValueError(f"model: must be decoder-only ('{opened.name}' given); a probe is text to continue with")
    pad = opened.tokenizer.pad_token_id if opened.tokenizer.pad_token_id is not None else opened.tokenizer.eos_token_id
    found = []
    with inference_mode_of(opened.model):
        for part in batches(probes, batch_size):
            rows = [encode_prompt(opened.tokenizer, probe.prompt) for probe in part]
            dist, _ = ask(opened.model, rows, int(pad or 0), mode)
            tokens = [first_tokens(opened.tokenizer, probe) for probe in part]
            most = max(map(len, tokens))
            asked = torch.tensor([row + row[:1] * (most - len(row)) for row in tokens], device=opened.model.device)
            said = dist.log_prob(asked).double().exp().tolist()
            found += [ProbeAnswer(probe, tuple(row[: len(probe.words)])) for probe, row in zip(part, said, strict=True)]
    return found


def first_tokens(tokenizer: PreTrainedTokenizerBase, probe: WordProbe) -> list[int]:
    """Returns the id of the first token of each listed word when it follows the prompt of ``probe``.

    Raises:
        ValueError: If two words begin with the same token, or the tokenizer merges a word with the prompt.
    """
    firsts = [encode_answer(tokenizer, probe.prompt, word)[0] for word in probe.words]
    if len(set(firsts)) < len(firsts):
        raise ValueError(
            f"probe '{probe.name}': with tokenizer '{tokenizer.name_or_path}' two of the words "
            f"{', '.join(probe.words)} begin with the same token; use one of words or word parts"
        )
    return firsts
