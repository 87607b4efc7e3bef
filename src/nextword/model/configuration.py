"""The configuration of a wrapped model: the settings of its backbone, head, objective and conditioner."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import transformers
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from nextword.results.records import write_atomically
from nextword.settings.registry import UnknownNameError
from nextword.settings.version import __version__

# This file in a saved folder makes transformers import this library; ``auto_map`` in config.json names it.
# ``AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)`` runs it in a process that has not imported
# nextword. It has no model code and only imports the classes. transformers reads its imports first. If nextword is not
# installed, transformers says "Run `pip install nextword`".
_REMOTE = "modeling_nextword"
_REMOTE_SOURCE = '''"""This model is loaded by nextword (pip install nextword): transformers finds its classes here."""

from nextword import NextWordConfig, NextWordForCausalLM, NextWordForSeq2SeqLM, NextWordSeq2SeqConfig

__all__ = ["NextWordConfig", "NextWordForCausalLM", "NextWordForSeq2SeqLM", "NextWordSeq2SeqConfig"]
'''


_OWN = frozenset({"text_config", "backbone_class", "head", "objective", "conditioner", "auxiliary_encoder", "auto_map"})
_VERSION = "nextword_version"
# written new into every configuration file, and ignored when a file is read
_ONLY_IN_FILES = ("spec", "auto_map", _VERSION)
_FROM_BACKBONE = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")


def _of_backbone(name: str) -> property:
    """A property that reads and sets the backbone's implementation of attention or experts."""
    everywhere: Any = getattr(PreTrainedConfig, name)

    def get(self: NextWordConfig) -> Any:
        return getattr(self.text_config, name)

    def set_(self: NextWordConfig, value: Any) -> None:
        # None means that nobody chose an implementation; the backbone then keeps its own
        if value is not None:
            everywhere.fset(self, value)

    return property(get, set_)


@contextmanager
def _naming_version(library: str, wrote: str | None, here: str) -> Iterator[None]:
    """Adds the library version that saved the configuration to a ValueError, if the installed version differs."""
    try:
        yield
    except ValueError as fault:
        if wrote in (None, here):
            raise
        raise type(fault)(
            f"{fault} (saved with {library} {wrote}, {here} is installed; install the one that it was saved with)"
        ) from None


class NextWordConfig(PreTrainedConfig):
    """Configuration of ``NextWordForCausalLM``.

    Attributes not defined here (``hidden_size``, ``n_positions``, ...) are read from the backbone's configuration.

    Args:
        text_config: The backbone's configuration, that of any transformers language model; None: the default GPT-2.
        backbone_class: Name of the backbone's class in transformers; None: the Auto class finds it by ``text_config``.
        head: Head spec such as ``"mos:3+mi"``, or a dictionary of settings; None: ``softmax``.
        objective: Objective spec such as ``"mle"``, or a dictionary of settings; None: ``mle``.
        conditioner: Conditioner spec such as ``"bergpt"``, or a dictionary of settings; None: no auxiliary text.
        auxiliary_encoder: Identity of the encoder of auxiliary texts: its ``name``, a ``fingerprint`` of its weights,
            and its ``config``.
        state_scale: Factor by which the decoder's last hidden state is multiplied before the output layer reads it (T5:
            D ** -0.5; most models: 1). None: not measured yet; the model then measures it before its first pass.
    """

    model_type = "nextword_causal_lm"
    sub_configs: ClassVar[dict[str, Any]] = {"text_config": AutoConfig}
    _backbone_type: ClassVar[str] = "gpt2"
    _auto_map: ClassVar[dict[str, str]] = {
        "AutoConfig": f"{_REMOTE}.NextWordConfig",
        "AutoModelForCausalLM": f"{_REMOTE}.NextWordForCausalLM",
    }
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]

    text_config: dict[str, Any] | PreTrainedConfig | None = None
    backbone_class: str | None = None
    head: dict[str, Any] | str | None = None
    objective: dict[str, Any] | str | None = None
    conditioner: dict[str, Any] | str | None = None
    auxiliary_encoder: dict[str, Any] | None = None
    state_scale: float | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Parses ``head``, ``objective`` and ``conditioner``, and copies attributes such as special tokens."""
        # transformers imports this file with its table of configurations. The models, and the modules that a
        # configuration names, are imported only when a configuration is made. The models register themselves.
        import nextword.model.modeling  # noqa: F401
        from nextword.conditioning import parse_conditioner
        from nextword.heads import parse_head
        from nextword.objectives import parse_objective

        if not isinstance(self.text_config, PreTrainedConfig):
            self.text_config = self._backbone_config(self.text_config or {})
        super().__post_init__(**{name: value for name, value in kwargs.items() if name not in _ONLY_IN_FILES})
        backbone: Any = self.text_config
        scale: Any = self.state_scale
        is_number = isinstance(scale, int | float) and not isinstance(scale, bool)
        if scale is not None and not (is_number and 0 < scale < math.inf):
            raise ValueError(f"state_scale: must be a positive number or null ({scale!r} in the configuration)")
        with _naming_version("nextword", kwargs.get(_VERSION), __version__):
            self.head = parse_head("softmax" if self.head is None else self.head).model_dump()
            self.objective = parse_objective("mle" if self.objective is None else self.objective).model_dump()
            if self.conditioner is not None:
                self.conditioner = parse_conditioner(self.conditioner).model_dump()
        self.is_encoder_decoder = backbone.is_encoder_decoder
        self.tie_word_embeddings = getattr(backbone, "tie_word_embeddings", True)
        for key in _FROM_BACKBONE:
            if getattr(self, key, None) is None:
                setattr(self, key, getattr(backbone, key, None))

    def _backbone_config(self, settings: dict[str, Any]) -> PreTrainedConfig:
        kind = settings.get("model_type", self._backbone_type)
        with _naming_version("transformers", self.transformers_version, transformers.__version__):
            if kind not in CONFIG_MAPPING:
                raise UnknownNameError(f"text_config.model_type: transformers has no model '{kind}'")
        return AutoConfig.for_model(**settings | {"model_type": kind})

    _attn_implementation = _of_backbone("_attn_implementation")
    _experts_implementation = _of_backbone("_experts_implementation")

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """The backbone's text configuration, from which transformers reads depth, width and vocabulary size."""
        backbone: Any = self.text_config
        return backbone.get_text_config(decoder=decoder, encoder=encoder)

    def convert_rope_params_to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Converts nothing, because rotary parameters belong to the backbone's configuration."""
        return kwargs

    def validate(self) -> None:
        """Runs the checks of the backbone's configuration, which knows the backbone's kinds of layers."""
        backbone: Any = self.text_config
        backbone.validate()

    def __getattr__(self, name: str) -> Any:
        backbone = self.__dict__.get("text_config")
        if name.startswith("_") or name in _OWN or backbone is None or isinstance(backbone, dict):
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        return getattr(backbone, name)

    def _get_generation_parameters(self) -> dict[str, Any]:
        # only the backbone's configuration declares and allows settings such as BART's forced_eos_token_id
        backbone: Any = self.text_config
        return backbone._get_generation_parameters()

    @property
    def spec(self) -> str:
        """Head, objective and conditioner in one line, for instance ``cache/histalign/bergpt:2``."""
        from nextword.conditioning import conditioner_spec, parse_conditioner
        from nextword.heads import head_spec, parse_head
        from nextword.objectives import objective_spec, parse_objective

        parts: Any = self  # head, objective and conditioner are dictionaries with all settings here
        specs = [head_spec(parse_head(parts.head)), objective_spec(parse_objective(parts.objective))]
        if self.conditioner is not None:
            specs.append(conditioner_spec(parse_conditioner(self.conditioner)))
        return "/".join(specs)

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a dictionary, with a readable ``spec`` and the entries that the Auto classes need."""
        return super().to_dict() | {"spec": self.spec, "auto_map": dict(self._auto_map), _VERSION: __version__}

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Saves as transformers does, adds the file that ``auto_map`` names, and makes paths of head files absolute."""
        from nextword.heads import parse_head

        write_atomically(Path(save_directory) / f"{_REMOTE}.py", _REMOTE_SOURCE)
        head: Any = self.head
        self.head = parse_head(head).located().model_dump()
        try:
            super().save_pretrained(save_directory, *args, **kwargs)
        finally:
            self.head = head

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "AutoConfig") -> None:
        """Does nothing, because saved folders import this library instead of copying its code."""

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Makes the configuration from ``config_dict``, that of a nextword model or of a model without a head.

        For a model without a head, ``kwargs`` may have ``head`` and ``objective``.
        """
        if config_dict.get("model_type", cls.model_type) != cls.model_type:
            parts: dict[str, Any] = {key: kwargs.pop(key) for key in ("head", "objective") if key in kwargs}
            config_dict = {"text_config": config_dict, **parts}
        return super().from_dict(config_dict, **kwargs)


class NextWordSeq2SeqConfig(NextWordConfig):
    """Configuration of ``NextWordForSeq2SeqLM``; see ``NextWordConfig``. The default ``text_config`` is that of T5."""

    model_type = "nextword_seq2seq_lm"
    _backbone_type: ClassVar[str] = "t5"
    _auto_map: ClassVar[dict[str, str]] = {
        "AutoConfig": f"{_REMOTE}.NextWordSeq2SeqConfig",
        "AutoModelForSeq2SeqLM": f"{_REMOTE}.NextWordForSeq2SeqLM",
    }


for _kind in (NextWordConfig, NextWordSeq2SeqConfig):
    AutoConfig.register(_kind.model_type, _kind, exist_ok=True)
