"""Samples files to a survey and its key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from nextword.evaluation.judges.parts.sentence_encoder import SentenceEncoder
from nextword.evaluation.metrics import Setup
from nextword.evaluation.metrics.parts.units import Words
from nextword.evaluation.survey.aligned_samples import AlignedSamples, aligned
from nextword.evaluation.survey.attention_checks import check_item
from nextword.evaluation.survey.forms import blocks_of, dealt
from nextword.evaluation.survey.kinds import Kind, registry
from nextword.evaluation.survey.kinds.kind import DraftItem
from nextword.evaluation.survey.power import statement
from nextword.results.records.survey_files import DIGEST, Form, KeyItem, Survey, SurveyItem, SurveyKey, SurveyUnit
from nextword.settings.config import validated

LONGEST_SENTENCE = 384
"""Tokens of a sentence that its encoder reads."""


@dataclass(frozen=True)
class MadeSurvey:
    """A survey with its key, before it is written."""

    survey: Survey
    key: SurveyKey
    page_url: str
    """Where the page will lie."""
    notes: list[str]
    """What was left out, and what the survey can show."""


@dataclass(frozen=True)
class _Hidden:
    """An item whose writers are hidden, and what the key says of it."""

    item: SurveyItem
    key: KeyItem
    groups: list[str]
    """In the order of the systems."""


def make_survey(
    asks: str,
    systems: Mapping[str, str | Path],
    recipe: Mapping[str, Any] | None = None,
    fields: Mapping[str, str] | None = None,
    command: str = "",
) -> MadeSurvey:
    """Makes a survey of texts.

    Args:
        asks: "pairwise", "faithfulness" or "rating".
        systems: By name, a samples file.
        recipe: Settings of the kind, for example ``{"items": 50}``.
        fields: Names that the files use for fields of a sample.
        command: The command line that repeats this, for the key.

    Raises:
        ValueError: No such kind, a wrong setting, files without common prompts, a missing field, too few prompts.
    """
    kind = registry.get(asks)
    config = validated(kind.Config, recipe or {})
    maker = kind(config)
    maker.check_systems(list(systems))
    samples = aligned({name: Path(path) for name, path in systems.items()}, fields)
    rng = np.random.default_rng(config.seed)
    drafts, notes = maker.drafts(samples.prompts, _encoder(config), rng)
    if samples.lacking:
        notes.append(f"{samples.lacking:,} prompts left out: not in every file")
    blocks = blocks_of(len(drafts), config.items_per_form)
    checks, known = _checks(maker, drafts, blocks, rng), maker.known()
    hidden, ids = _hidden([*drafts, *(item for item, _, _ in checks), *(item for item, _ in known)], rng)
    first = ids[len(drafts) + len(checks) :]
    dealt_blocks = [[ids[place] for place in block] for block in blocks]
    right = {item: answers for (_, answers), item in zip(known, first, strict=True)}
    for (_, answers, block), item in zip(checks, ids[len(drafts) : len(drafts) + len(checks)], strict=True):
        dealt_blocks[block].append(item)
        right[item] = answers
    items = {one: hidden[one].item for one in sorted(hidden)}
    forms = dealt(dealt_blocks, config.judges, items, {one: hidden[one].groups for one in hidden}, rng, first)
    survey = _survey(asks, maker, list(items.values()), forms)
    key = _key(survey.id, samples, {one: hidden[one].key for one in ids[: len(drafts)]}, right, config, command)
    return MadeSurvey(survey, key, config.page_url, [*notes, *statement(config, maker.difference)])


def _checks(
    maker: Kind, drafts: Sequence[DraftItem], blocks: Sequence[Sequence[int]], rng: np.random.Generator
) -> list[tuple[DraftItem, dict[str, str], int]]:
    """The checks of each block, made of items of other blocks where there are others."""
    made = []
    for number, block in enumerate(blocks):
        donors = [draft for place, draft in enumerate(drafts) if place not in set(block)] or list(drafts)
        for _ in range(maker.config.checks):
            donor = donors[int(rng.integers(len(donors)))]
            item, right = check_item(donor, maker.questions(), maker.config.check_text, rng)
            made.append((item, right, number))
    return made


def _hidden(drafts: Sequence[DraftItem], rng: np.random.Generator) -> tuple[dict[str, _Hidden], list[str]]:
    """The items by ids that say nothing, and the id of each draft."""
    width = len(str(len(drafts)))
    ids = [f"i{number + 1:0{width}}" for number in rng.permutation(len(drafts))]
    found = {}
    for name, draft in zip(ids, drafts, strict=True):
        groups = [""] * len(draft.groups)
        units: list[SurveyUnit] = []
        keys: dict[str, dict[str, str]] = {}
        for place, at in enumerate(rng.permutation(len(draft.groups))):
            groups[at] = f"g{place + 1}"
            for unit in draft.groups[at].units:
                number = f"u{len(units) + 1}"
                units.append(SurveyUnit(id=number, group=groups[at], texts=unit.texts, near=unit.near))
                keys[number] = draft.groups[at].writers
        item = SurveyItem(id=name, passages=draft.passages, units=units)
        found[name] = _Hidden(item, KeyItem(prompt=draft.prompt, units=keys), groups)
    return found, ids


def _survey(asks: str, maker: Kind, items: list[SurveyItem], forms: list[Form]) -> Survey:
    config = maker.config
    digests = {item.id: item.digest for item in items}
    pages = [(form.id, page.item, page.order) for form in forms for page in form.pages]
    name = hashlib.sha256(repr((asks, config.seed, sorted(digests.items()), pages)).encode()).hexdigest()[:DIGEST]
    return Survey(
        id=name,
        asks=asks,
        title=config.title,
        consent=config.consent,
        instructions=config.instructions or maker.instructions,
        hand_back=config.hand_back,
        completion_url=config.completion_url,
        group_title=maker.group_title,
        questions=maker.questions(),
        marking=maker.marking(),
        items=items,
        digests=digests,
        forms=forms,
    )


def _key(
    survey: str,
    samples: AlignedSamples,
    items: dict[str, KeyItem],
    right: dict[str, dict[str, str]],
    config: Any,
    command: str,
) -> SurveyKey:
    return SurveyKey(
        survey=survey,
        command=command,
        seed=config.seed,
        allowed_failures=config.allowed_failures,
        files=samples.files,
        items=dict(sorted(items.items())),
        checks=dict(sorted(right.items())),
    )


def _encoder(config: Any) -> Any:
    """Sentence vectors by the recipe's encoder, which is loaded when first asked."""
    loaded: list[SentenceEncoder] = []

    def encode(texts: Sequence[str]) -> Float[np.ndarray, "N D"]:
        if not loaded:
            loaded.append(SentenceEncoder(config.encoder, None, LONGEST_SENTENCE, Setup(Words())))
        return loaded[0].embed(texts)

    return encode
