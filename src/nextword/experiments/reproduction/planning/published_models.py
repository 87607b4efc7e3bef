"""Configurations of published models: of a folder, of what was downloaded, or by their sizes, without a network."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from nextword.runtime.pretrained import GgufError, from_pretrained
from nextword.settings.config import Settings, validated
from nextword.settings.overrides import parsed

if TYPE_CHECKING:
    from transformers import PretrainedConfig

FILE = resources.files("nextword.experiments.reproduction.planning") / "published_models.toml"


class PublishedModel(Settings):
    """What must be known of a model to build it without weights."""

    type: str
    """Name of the architecture in transformers."""
    settings: dict[str, JsonValue]
    """Its sizes, under transformers' names."""

    def config(self) -> PretrainedConfig:
        """The configuration."""
        from transformers import AutoConfig

        config: PretrainedConfig = AutoConfig.for_model(self.type, **self.settings)
        return config


@cache
def published_models() -> dict[str, PublishedModel]:
    """All of them, by the last part of their name on the hub."""
    tables = parsed(FILE.read_bytes(), FILE.name)
    return {name: validated(PublishedModel, table, name) for name, table in tables.items()}


def model_config(name: str, where: str) -> PretrainedConfig:
    """The configuration of a folder, of a published model, or of a model of the hub that was downloaded.

    >>> model_config("openai-community/gpt2", "start.model").n_layer
    12

    Args:
        name: Folder, GGUF file or hub name.
        where: The setting that names it, for the message.

    Raises:
        ValueError: There is no such folder, or nothing here says how large the model is.
    """
    from transformers import AutoConfig

    known = published_models().get(name.rpartition("/")[2])
    folder = Path(name).expanduser()
    try:
        if known is not None and not folder.exists():
            return known.config()
        config: PretrainedConfig = from_pretrained(
            AutoConfig, folder if folder.exists() else name, local_files_only=True
        )
        return config
    except GgufError as problem:
        raise ValueError(f"{where}: {problem}") from None
    except (OSError, ValueError) as problem:
        first = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise ValueError(
            f"{where}: must be a folder with a model, a downloaded model or one of {', '.join(published_models())} "
            f"('{name}' given); download it where there is a network, or give the path of a folder ({first})"
        ) from None
