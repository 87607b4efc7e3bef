"""Writes a model card, which describes a model, how to load it, how it was trained, and its metrics."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from pydantic import Field, JsonValue

from nextword.conditioning import registry as conditioners
from nextword.heads import modifiers as head_modifiers
from nextword.heads import parse_head
from nextword.heads import registry as heads
from nextword.objectives import modifiers as objective_modifiers
from nextword.objectives import parse_objective
from nextword.objectives import registry as objectives
from nextword.results.records import MetricValue, Record
from nextword.results.report.formats import number
from nextword.settings.plugins import brought_by
from nextword.settings.registry import Registry
from nextword.settings.version import __version__


def card_text(config: Any, facts: CardFacts, title: str) -> str:
    """Returns the text of a model card in Markdown, with the metadata block for the Hub.

    Args:
        config: Configuration of a nextword model.
        facts: Facts that are not in ``config``; unknown facts are left out of the card.
        title: Model name to use if ``facts`` has no ``title``, for instance the name of the folder.
    """
    title = facts.title or title
    sections = [_what_it_is(config, facts), *_how_to_load_it(config, title), *_measured(facts), *_made_by(facts)]
    return "\n\n".join([f"---\n{hub_metadata(config, facts, title).strip()}\n---", f"# {title}", *sections]) + "\n"


def _what_it_is(config: Any, facts: CardFacts) -> str:
    base = facts.base_model or config.text_config.name_or_path
    beginning = f"`{base}`" if base else f"A {config.text_config.model_type} model"
    lines = [f"{beginning} with a head of nextword, in short `{config.spec}`:", ""]
    described = {
        heads.kind: head_modifiers.described(parse_head(config.head)),
        objectives.kind: objective_modifiers.described(parse_objective(config.objective)),
    }
    for kind, name, part in _parts(config):
        paragraph = (inspect.getdoc(part) or "").partition("\n\n")[0]
        lines.append(f"- {kind.capitalize()} `{name}`: {' '.join(paragraph.split()).replace('``', '`')}")
        lines += [f"- With `{written}`: {meaning}" for written, meaning in described.get(kind, ())]
    return "\n".join(lines)


def _parts(config: Any) -> Iterator[tuple[str, str, type]]:
    """Kind, name and class of each registered component of a model."""
    registries: list[Registry[Any]] = [heads, objectives, conditioners]
    for registry in registries:
        settings = getattr(config, registry.kind)
        if settings is not None:
            name = settings[registry.kind]
            yield registry.kind, name, registry.get(name)


def _how_to_load_it(config: Any, title: str) -> Iterator[str]:
    auto = "AutoModelForSeq2SeqLM" if config.is_encoder_decoder else "AutoModelForCausalLM"
    others = [plugin for _, _, part in _parts(config) if (plugin := brought_by(part.__module__)) is not None]
    packages = dict.fromkeys(plugin.package for plugin in others if plugin.package is not None)
    modules = dict.fromkeys(plugin.module for plugin in others if plugin.package is None)
    needs = "".join(f"import {module}\n" for module in modules)
    yield "## How to load it"
    install = f"`{' '.join(['pip install nextword', *packages])}`"
    yield f"With {install}; `{title}` stands for this folder, or for its name on the Hub:"
    yield _fenced(f'import nextword as nw\n{needs}\nmodel = nw.load("{title}")', "python")
    if modules:
        named = ", ".join(f"`{module}`" for module in modules)
        options = " ".join(f"--import {module}" for module in modules)
        yield (
            f"Parts of this model are defined in {named}, which is not part of nextword: keep that file with the "
            f"model. The command line reads it with `nextword {options} COMMAND`."
        )
    without = "" if modules else ", without importing nextword, which must be installed all the same"
    yield f"Through transformers{without}:"
    yield _fenced(
        f"{needs}from transformers import {auto}, AutoTokenizer\n\n"
        f'model = {auto}.from_pretrained("{title}", trust_remote_code=True)\n'
        f'tokenizer = AutoTokenizer.from_pretrained("{title}", trust_remote_code=True)',
        "python",
    )
    if config.conditioner is not None:
        yield (
            "It follows an auxiliary text, given with each call. The folder `encoder_tokenizer` holds the tokenizer "
            "for these texts: `nw.AuxiliaryTokenizer(FOLDER)` makes inputs of them."
        )


def _measured(facts: CardFacts) -> Iterator[str]:
    if facts.results:
        yield "## What it measures"
        head = "| measure | on | value | 95 % interval | unit | cases |\n| --- | --- | ---: | ---: | --- | ---: |"
        yield "\n".join([head, *map(_row, facts.results)])
    if facts.checks:
        yield "## What the checker says"
        yield _fenced("\n".join(facts.checks), "text")


def _row(result: CardResult) -> str:
    found = result.measured
    interval = "" if found.low is None or found.high is None else f"{number(found.low)} to {number(found.high)}"
    on = f"{_linked(result.data)}, {result.split}"
    cells = [result.title or result.metric, on, number(found.value), interval, found.unit, f"{found.n:,}"]
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _made_by(facts: CardFacts) -> Iterator[str]:
    yield "## How it was made"
    if facts.data:
        yield "\n".join(f"- {_linked(data)}{f': {data.note}' if data.note else ''}" for data in facts.data)
    if facts.command:
        yield _fenced(facts.command, "console")
    if facts.settings:
        yield _fenced(json.dumps(facts.settings, ensure_ascii=False, indent=2), "json")
    yield f"With nextword {__version__}."


def _linked(data: CardData) -> str:
    return data.name if data.hub_name is None else f"[{data.name}](https://huggingface.co/datasets/{data.hub_name})"


def _fenced(text: str, language: str) -> str:
    """A code block whose fence is longer than any fence inside."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


# -- The YAML block at the top of a model card. The Hub uses it to filter, link and rank models.


def hub_metadata(config: Any, facts: CardFacts, title: str) -> str:
    """Returns the metadata of the card as YAML, without the lines ``---`` around it. ``title`` is the model name."""
    task = "text2text-generation" if config.is_encoder_decoder else "text-generation"
    return ModelCardData(
        base_model=hub_name(facts.base_model or config.text_config.name_or_path),
        datasets=[name for data in facts.data if (name := hub_name(data.hub_name))] or None,
        eval_results=[_evaluation(result, task) for result in facts.results] or None,
        language=list(facts.language) or None,
        library_name="transformers",  # its Auto classes load the model, and the Hub then shows the lines to load it
        license=facts.license,
        model_name=title if facts.results else None,
        pipeline_tag=task,
        tags=["nextword", *(name for _, name, _ in _parts(config))],
    ).to_yaml()


def _evaluation(result: CardResult, task: str) -> EvalResult:
    return EvalResult(
        task_type=task,
        dataset_type=result.data.hub_name or result.data.name,
        dataset_name=result.data.name,
        dataset_split=result.split,
        metric_type=result.metric,
        metric_name=result.title or result.metric,
        metric_value=result.measured.value,
    )


# -- Facts for a model card that are not in the model's configuration: where the model comes from, and how good it is.


class CardData(Record):
    """Data that the model was trained or evaluated on."""

    name: str
    """Name for readers, for example "WikiText-2" or a file name."""
    hub_name: str | None = None
    """Name on the Hub; None if the data are not on the Hub."""
    note: str | None = None
    """Use and amount, for example "training, 2.1 million tokens"."""


class CardResult(Record):
    """One measured metric."""

    metric: str
    """Identifier of the metric, for example "perplexity"."""
    data: CardData
    """Data that the metric was measured on."""
    measured: MetricValue
    """The value with its unit, interval and number of cases."""
    title: str | None = None
    """Metric name for readers; None: the identifier."""
    split: str = "test"
    """Split of the data."""


class CardFacts(Record):
    """Facts of a model card; unknown facts are left out."""

    title: str | None = None
    """Name of the model; None: the name of its folder."""
    base_model: str | None = None
    """Folder or hub name of the initial checkpoint; None: the name in the backbone's configuration."""
    data: tuple[CardData, ...] = ()
    """Data that the model was trained on."""
    language: tuple[str, ...] = ()
    """ISO 639-1 codes of the texts' languages, for example "en"."""
    license: str | None = None
    """License identifier of the Hub, for example "apache-2.0"."""
    command: str | None = None
    """Command that made the model."""
    settings: dict[str, JsonValue] = Field(default={})
    """Training settings."""
    results: tuple[CardResult, ...] = ()
    """Measured metrics."""
    checks: tuple[str, ...] = ()
    """Lines printed by ``nextword check``."""


def hub_name(name: str | None) -> str | None:
    """``name`` if it can be a name on the Hub; None if it is an existing path or an invalid name.

    >>> hub_name("openai-community/gpt2"), hub_name("../models/mine"), hub_name(None)
    ('openai-community/gpt2', None, None)
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    if not name or Path(name).exists():
        return None
    try:
        validate_repo_id(name)
    except HFValidationError:
        return None
    return name
