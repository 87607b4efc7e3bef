"""Decodings times seeds: each is one pass over the prompts, with the arguments that ``generate`` gets for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import AliasChoices, Field, JsonValue, field_validator, model_validator
from transformers.generation.configuration_utils import GenerationConfig, GenerationMode
from transformers.generation.utils import GENERATION_MODES_MAPPING

from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.opened_model import OpenedModel, open_model
from nextword.model.speculative_decoding.drafter import drafters
from nextword.settings.config import Seed, Settings
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import either, named

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel

DEFAULT_NEW_TOKENS = 100
MODEL_DEFAULT = "model's default"
"""Title of what is written as the model's own generation_config says."""
ASSISTANT = "assistant_model"
REFUSED = (
    "output_",
    "return_dict_in_generate",
    "is_assistant",
    "continuous_batching_config",
    "watermarking_config",
    "compile_config",
)
"""Beginnings of arguments that change what ``generate`` returns, or that it sets itself."""
ROWWISE = (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)


@dataclass(frozen=True)
class GenerationPass:
    """One way to write with one seed.

    Attributes:
        title: What tables call the decoding.
        arguments: Arguments of ``generate``, what was asked for and what lengths follow from it.
        mode: Which of its loops ``generate`` takes.
        seed: Seed of the sampling; None: nothing is sampled.
    """

    title: str
    arguments: Mapping[str, Any]
    mode: GenerationMode
    seed: int | None
    samples: int

    @property
    def is_rowwise(self) -> bool:
        """Whether rows of a batch have nothing to do with each other: greedy search and sampling."""
        return self.mode in ROWWISE

    @property
    def is_single(self) -> bool:
        """Whether ``generate`` takes one text at a time only, as it does with an assistant."""
        return self.mode == GenerationMode.ASSISTED_GENERATION

    @property
    def new_tokens(self) -> int:
        """Most tokens of a text."""
        return int(self.arguments["max_new_tokens"])

    def file_name(self) -> str:
        """Name of its samples file, for instance ``top-k-3-seed-0.jsonl``; what samples nothing has no seed in it."""
        name = re.sub(r"[^\w.]+", "-", self.title).strip("-")
        return f"{name}.jsonl" if self.seed is None else f"{name}-seed-{self.seed}.jsonl"


def generation_passes(opened: OpenedModel, settings: GenerationSettings) -> list[GenerationPass]:
    """Every decoding with every seed; a decoding that samples nothing once, with one text per prompt.

    Raises:
        ValueError: An argument that neither ``generate`` nor the model's head knows, or a loop that transformers no
            longer has.
    """
    extra = _arguments(opened, settings)
    passes: list[GenerationPass] = []
    for title, arguments in [(one.title, one.arguments()) for one in settings.decodings] or [(MODEL_DEFAULT, {})]:
        asked = {**arguments, **extra}
        config = effective_config(opened.model, asked)
        mode = config.get_generation_mode(extra.get(ASSISTANT))
        _expect_possible(opened, settings, title, mode)
        complete = {**asked, **_lengths(opened, config, settings)}
        if config.pad_token_id is None:  # masked wherever it is read, so any does
            complete["pad_token_id"] = next(iter(end_ids(config)), 0)
        draws = bool(config.do_sample)
        for seed in settings.seeds if draws else [None]:
            passes.append(GenerationPass(title, complete, mode, seed, settings.samples if draws else 1))
    return passes


def _arguments(opened: OpenedModel, settings: GenerationSettings) -> dict[str, Any]:
    """Further arguments of ``generate``, with the model that drafts, opened, among them."""
    asked: dict[str, Any] = dict(settings.arguments)
    if settings.draft is not None and settings.draft not in drafters:
        if ASSISTANT in asked:
            raise ValueError(
                f"{named('draft')}: must be the only model that assists ({_argument(ASSISTANT)} given); leave out one"
            )
        if not Path(settings.draft).exists():
            known = ", ".join(drafters.names())
            near = did_you_mean(settings.draft, drafters.names())
            raise ValueError(
                f"{named('draft')}: must be {known} or the folder of a model ('{settings.draft}' given).{near}"
            )
        asked[ASSISTANT] = settings.draft
    if ASSISTANT in asked:
        assistant = open_model(str(asked[ASSISTANT]), str(opened.model.device))
        if assistant.tokenizer.get_vocab() != opened.tokenizer.get_vocab():
            raise ValueError(
                f"{_argument(ASSISTANT)}: must have the model's tokenizer ('{assistant.name}' has another); give "
                "another model"
            )
        asked[ASSISTANT] = assistant.model
    return asked


def _expect_possible(opened: OpenedModel, settings: GenerationSettings, title: str, mode: GenerationMode) -> None:
    place = GENERATION_MODES_MAPPING[mode]
    if "/" in place:
        raise ValueError(
            f"{named('arguments')}: {mode.value.replace('_', ' ')} is no longer part of transformers; it is code to "
            f"be downloaded from https://hf.co/{place} and run. Choose another decoding"
        )
    if settings.draft is not None and mode not in (*ROWWISE, GenerationMode.ASSISTED_GENERATION):
        raise ValueError(
            f"{named('draft')}: must go with greedy search or sampling ('{title}' given), where one word follows "
            "the other; leave out one of the two"
        )
    if settings.draft is not None and settings.draft in drafters:
        drafters.get(settings.draft)().expect_fit(opened.model)


def effective_config(model: NextWordModel, arguments: Mapping[str, Any]) -> Any:
    """What ``generate`` would do with these arguments, the model's own settings and transformers' defaults.

    Raises:
        ValueError: Nobody knows one of the arguments.
    """
    config: Any = GenerationConfig()  # type: ignore[no-untyped-call]  # of transformers
    public = [name for name in vars(config) if not name.startswith(("_", "transformers_version", *REFUSED))]
    known = sorted({*public, *model.next_word_head.generate_takes, ASSISTANT})
    for name in arguments:
        if name not in known:
            near = did_you_mean(name, known)
            raise ValueError(f"{_argument(name)}: generate knows no such argument.{near} Known: {', '.join(known)}.")
    told = {name: value for name, value in arguments.items() if name != ASSISTANT}
    config, _ = model._prepare_generation_config(None, **told)
    return config


def _argument(name: str) -> str:
    return either(f"--set {name}", f"arguments['{name}']")


def _lengths(opened: OpenedModel, config: Any, settings: GenerationSettings) -> dict[str, Any]:
    most = settings.max_new_tokens or config.max_new_tokens
    if most is None and opened.has_encoder and opened.model.generation_config.max_length is not None:
        most = opened.model.generation_config.max_length - 1  # a default that counts the start token
    lengths: dict[str, Any] = {"max_new_tokens": most or DEFAULT_NEW_TOKENS, "max_length": None}
    if settings.min_new_tokens is not None:
        if settings.min_new_tokens > lengths["max_new_tokens"]:
            raise ValueError(
                f"{named('min_new_tokens')}: must be at most {named('max_new_tokens')}, {lengths['max_new_tokens']} "
                f"({settings.min_new_tokens} given)"
            )
        lengths |= {"min_new_tokens": settings.min_new_tokens, "min_length": None}
    return lengths


def end_ids(config: Any) -> list[int]:
    """Tokens that end a text."""
    return _listed(config.eos_token_id)


def stop_strings(config: Any) -> list[str]:
    """Texts that do."""
    return _listed(config.stop_strings)


def _listed(value: Any) -> list[Any]:
    return [] if value is None else [value] if isinstance(value, str | int) else list(value)


def pass_path(out: Path, one: GenerationPass, count: int) -> Path:
    """Where the samples of a pass go: into the folder ``out``, or into the file where ``out`` is one.

    Raises:
        ValueError: Several passes cannot go into one file.
    """
    if out.suffix != ".jsonl":
        return out / one.file_name()
    if count > 1:
        raise ValueError(
            f"{named('out', out)}: {count} samples files are written, one for each decoding and seed; give a folder"
        )
    return out


# -- What can be set of the texts that a model writes: decodings, seeds, lengths, arguments of ``generate``.

HAVE_A_SETTING = {
    "max_new_tokens": "max_new_tokens",
    "max_length": "max_new_tokens",
    "min_new_tokens": "min_new_tokens",
    "min_length": "min_new_tokens",
    "stop_strings": "stop",
    "num_return_sequences": "samples",
}
"""Arguments of ``generate`` that settings stand for."""


class GenerationSettings(Settings):
    """How texts are written."""

    decodings: list[Decoding] = Field(default=[])
    """Ways to write, as "greedy", "top-k:3" or settings in full; none: as the model's own generation_config says."""
    arguments: dict[str, JsonValue] = Field(default={})
    """Further arguments of generate, for all of them, for instance {repetition_penalty = 1.2}."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a text; by default what the model's generation_config says, else 100."""
    min_new_tokens: int | None = Field(default=None, ge=0)
    """Least tokens of a text: until then no end token is written."""
    stop: list[str] = Field(default=[])
    """Strings that end a text, which keeps them."""
    seeds: list[Seed] = Field(default=[0], min_length=1)
    """Seeds of the sampling; one samples file each."""
    samples: int = Field(default=1, ge=1)
    """Samples per prompt."""
    batch_size: int = Field(default=16, ge=1)
    """Texts written at a time."""
    draft: str | None = None
    """Source of draft tokens, which one pass then verifies: "head", "prompt", or the folder of a model; none: no
    drafts."""
    remember: int = Field(default=0, ge=0)
    """With the head knn: of the finished prompts and texts of a pass, so many of the last tokens can be retrieved by
    those that follow; texts are then written one at a time, in the order of the prompts. 0: none."""
    sources: bool = False
    """Whether each token's share by source and its strongest positions are worked out and written beside it."""
    positions: int = Field(default=3, ge=0, validation_alias=AliasChoices("positions", "places"))  # its old name
    """Number of positions named of each token, with ``sources``."""

    @field_validator("arguments")
    @classmethod
    def _not_settings(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        for name in arguments:
            if name in HAVE_A_SETTING:
                raise ValueError(f"'{name}' has a setting of its own; give {named(HAVE_A_SETTING[name])}")
        return arguments

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        for name, values in (("decodings", [one.title for one in self.decodings]), ("seeds", self.seeds)):
            twice = [value for number, value in enumerate(values) if value in values[:number]]
            if twice:
                raise ValueError(f"{name}: '{twice[0]}' is given twice")
        if "" in self.stop:
            raise ValueError("stop: must be a text ('' given)")
        return self
