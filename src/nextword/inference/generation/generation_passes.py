"""Generation passes: one pass over all prompts for each decoding strategy and seed."""

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
"""Title of texts that are generated with the model's own generation_config."""
ASSISTANT = "assistant_model"
REFUSED = (
    "output_",
    "return_dict_in_generate",
    "is_assistant",
    "continuous_batching_config",
    "watermarking_config",
    "compile_config",
)
"""Prefixes of arguments that users may not give: they change what ``generate`` returns, or nextword sets them."""
ROWWISE = (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)


@dataclass(frozen=True)
class GenerationPass:
    """One decoding strategy with one seed.

    Attributes:
        title: Name of the decoding strategy in tables.
        arguments: Arguments of ``generate``, including the maximum length.
        mode: Decoding loop that ``generate`` uses (greedy search, sampling, beam search, ...).
        seed: Random seed; None if decoding is deterministic.
        samples: Number of texts per prompt; 1 if decoding is deterministic.
    """

    title: str
    arguments: Mapping[str, Any]
    mode: GenerationMode
    seed: int | None
    samples: int

    @property
    def is_rowwise(self) -> bool:
        """Whether the loop is greedy search or sampling, in which the rows of a batch are independent."""
        return self.mode in ROWWISE

    @property
    def is_single(self) -> bool:
        """Whether ``generate`` accepts only one text at a time, as with an assistant model."""
        return self.mode == GenerationMode.ASSISTED_GENERATION

    @property
    def new_tokens(self) -> int:
        """Maximum number of new tokens."""
        return int(self.arguments["max_new_tokens"])

    def file_name(self) -> str:
        """Name of the samples file, for instance ``top-k-3-seed-0.jsonl``.

        If decoding is deterministic, the name has no seed.
        """
        name = re.sub(r"[^\w.]+", "-", self.title).strip("-")
        return f"{name}.jsonl" if self.seed is None else f"{name}-seed-{self.seed}.jsonl"


def generation_passes(opened: OpenedModel, settings: GenerationSettings) -> list[GenerationPass]:
    """Makes a pass for each sampling strategy and seed, and one pass for each deterministic strategy.

    Raises:
        ValueError: If neither ``generate`` nor the model's head knows an argument, if transformers no longer has the
            decoding loop that an argument selects, if ``settings.draft`` does not fit the model or the strategy, or if
            the minimum number of new tokens is above the maximum.
    """
    extra = _arguments(opened, settings)
    passes: list[GenerationPass] = []
    for title, arguments in [(one.title, one.arguments()) for one in settings.decodings] or [(MODEL_DEFAULT, {})]:
        asked = {**arguments, **extra}
        config = effective_config(opened.model, asked)
        mode = config.get_generation_mode(extra.get(ASSISTANT))
        _expect_possible(opened, settings, title, mode)
        complete = {**asked, **_lengths(opened, config, settings)}
        if config.pad_token_id is None:  # padding is masked, so any token can be padding
            complete["pad_token_id"] = next(iter(end_ids(config)), 0)
        draws = bool(config.do_sample)
        for seed in settings.seeds if draws else [None]:
            passes.append(GenerationPass(title, complete, mode, seed, settings.samples if draws else 1))
    return passes


def _arguments(opened: OpenedModel, settings: GenerationSettings) -> dict[str, Any]:
    """Further arguments of ``generate``, including the loaded draft model."""
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
            f"{named('arguments')}: {mode.value.replace('_', ' ')} is no longer part of transformers; it would run "
            f"code from https://hf.co/{place}. Choose another decoding"
        )
    if settings.draft is not None and mode not in (*ROWWISE, GenerationMode.ASSISTED_GENERATION):
        raise ValueError(
            f"{named('draft')}: must be used with greedy search or sampling ('{title}' given), which generate "
            "token by token; leave out one of the two"
        )
    if settings.draft is not None and settings.draft in drafters:
        drafters.get(settings.draft)().expect_fit(opened.model)


def effective_config(model: NextWordModel, arguments: Mapping[str, Any]) -> Any:
    """The ``GenerationConfig`` of ``arguments``, completed by the model's generation_config and transformers' defaults.

    Raises:
        ValueError: If an argument is unknown.
    """
    config: Any = GenerationConfig()  # type: ignore[no-untyped-call]
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
        most = opened.model.generation_config.max_length - 1  # the model's default includes the start token
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
    """Ids of the tokens that end a text according to ``config``, a generation configuration."""
    return _listed(config.eos_token_id)


def stop_strings(config: Any) -> list[str]:
    """Strings that end a text according to ``config``, a generation configuration."""
    return _listed(config.stop_strings)


def _listed(value: Any) -> list[Any]:
    return [] if value is None else [value] if isinstance(value, str | int) else list(value)


def pass_path(out: Path, one: GenerationPass, count: int) -> Path:
    """Path of the samples file of the pass ``one``: in the folder ``out``, or ``out`` itself if it ends in ``.jsonl``.

    Raises:
        ValueError: If ``out`` ends in ``.jsonl`` and ``count``, the number of passes, is above 1.
    """
    if out.suffix != ".jsonl":
        return out / one.file_name()
    if count > 1:
        raise ValueError(
            f"{named('out', out)}: {count} samples files are written, one for each decoding and seed; give a folder"
        )
    return out


# -- The settings of generated texts: decoding strategies, seeds, lengths, arguments of ``generate``.

HAVE_A_SETTING = {
    "max_new_tokens": "max_new_tokens",
    "max_length": "max_new_tokens",
    "min_new_tokens": "min_new_tokens",
    "min_length": "min_new_tokens",
    "stop_strings": "stop",
    "num_return_sequences": "samples",
}
"""Arguments of ``generate`` for which nextword has a setting."""


class GenerationSettings(Settings):
    """Settings of generation."""

    decodings: list[Decoding] = Field(default=[])
    """Decoding strategies, such as "greedy", "top-k:3" or a table of settings; empty: the model's generation_config."""
    arguments: dict[str, JsonValue] = Field(default={})
    """Further arguments of generate, for all decoding strategies, for instance {repetition_penalty = 1.2}."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Maximum number of new tokens per text; by default the value of the model's generation_config, or 100."""
    min_new_tokens: int | None = Field(default=None, ge=0)
    """Minimum number of new tokens per text; no end token is generated before, but stop strings still end the text."""
    stop: list[str] = Field(default=[])
    """Strings that end a text; they stay in the text."""
    seeds: list[Seed] = Field(default=[0], min_length=1)
    """Random seeds. With each seed, every sampling strategy generates a samples file."""
    samples: int = Field(default=1, ge=1)
    """Number of texts per prompt and seed, for sampling strategies."""
    batch_size: int = Field(default=16, ge=1)
    """Number of texts generated at a time."""
    draft: str | None = None
    """Source of draft tokens, which one pass then verifies: "head", "prompt", or the folder of a model; none: no draft
    tokens."""
    remember: int = Field(default=0, ge=0)
    """Only for the head knn, which can retrieve this many of the most recent tokens of finished prompts and texts with
    the same decoding and seed. Texts are then generated one at a time, in the order of the prompts. 0: none."""
    sources: bool = False
    """Whether to write, for each token, the share of each head component in the token's probability, and the positions
    with the largest shares."""
    positions: int = Field(default=3, ge=0, validation_alias=AliasChoices("positions", "places"))  # its old name
    """Number of positions listed per token, with ``sources``."""

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
