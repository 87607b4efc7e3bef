"""Makes a survey, and its key with the system of each text, from samples files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from nextword.evaluation.judges.sentence_encoder import SentenceEncoder
from nextword.evaluation.metrics import Sample, Setup
from nextword.evaluation.metrics.tokens import Words
from nextword.evaluation.samples import read_samples
from nextword.evaluation.survey.kinds import Kind, registry
from nextword.evaluation.survey.kinds.kind import DraftGroup, DraftItem, DraftUnit, Encode
from nextword.evaluation.survey.survey_settings import SurveyConfig
from nextword.results.records.survey_files import (
    DIGEST,
    Form,
    FormPage,
    KeyFile,
    KeyItem,
    Passage,
    Question,
    Survey,
    SurveyItem,
    SurveyKey,
    SurveyUnit,
)
from nextword.settings.config import validated

LONGEST_SENTENCE = 384
"""Maximum number of tokens per sentence for the encoder."""


@dataclass(frozen=True)
class MadeSurvey:
    """A survey with its key, before both are written to a folder."""

    survey: Survey
    key: SurveyKey
    page_url: str
    """Address of the survey page."""
    notes: list[str]
    """Notes on prompts that were left out, and on statistical power."""


@dataclass(frozen=True)
class _Hidden:
    """An anonymised item, and its entry in the key."""

    item: SurveyItem
    key: KeyItem
    groups: list[str]
    """The names of the groups, in the order of the systems."""


def make_survey(
    asks: str,
    systems: Mapping[str, str | Path],
    recipe: Mapping[str, Any] | None = None,
    fields: Mapping[str, str] | None = None,
    command: str = "",
) -> MadeSurvey:
    """Make a survey in which judges compare or rate the systems' texts, and its key, which has the system of each text.

    ``asks`` is a kind of survey such as "pairwise". ``systems`` maps the systems' names to their samples files.
    ``recipe`` has settings such as ``{"items": 50}``. ``fields`` maps fields of a sample to keys in the files.
    ``command`` is the command line, which is stored in the key.

    Raises:
        ValueError: If the kind is unknown, a setting is wrong, a field is missing, or the files have too few common
            prompts.
    """
    kind = registry.get(asks)
    config = validated(kind.Config, recipe or {})
    maker = kind(config)
    maker.check_systems(list(systems))
    prompts, files, lacking = aligned({name: Path(path) for name, path in systems.items()}, fields)
    rng = np.random.default_rng(config.seed)
    drafts, notes = maker.drafts(prompts, _encoder(config), rng)
    if lacking:
        notes.append(f"{lacking:,} prompts left out, because they are not in every file")
    blocks = blocks_of(len(drafts), config.items_per_form)
    checks, known = _checks(maker, drafts, blocks, rng), maker.known()
    hidden = iter(_hidden([*drafts, *(item for item, _, _ in checks), *(item for item, _ in known)], rng))
    asked = list(islice(hidden, len(drafts)))
    checking = list(islice(hidden, len(checks)))
    first = list(hidden)
    dealt_blocks = [[asked[place] for place in block] for block in blocks]
    for (_, _, block), one in zip(checks, checking, strict=True):
        dealt_blocks[block].append(one)
    right = {one.item.id: answers for (_, answers), one in zip(known, first, strict=True)}
    right |= {one.item.id: answers for (_, answers, _), one in zip(checks, checking, strict=True)}
    items = sorted((one.item for one in (*asked, *checking, *first)), key=lambda item: item.id)
    survey = _survey(asks, maker, items, dealt(dealt_blocks, config.judges, rng, first))
    key = SurveyKey(
        survey=survey.id,
        command=command,
        seed=config.seed,
        allowed_failures=config.allowed_failures,
        files=files,
        items={one.item.id: one.key for one in sorted(asked, key=lambda one: one.item.id)},
        checks=dict(sorted(right.items())),
    )
    return MadeSurvey(survey, key, config.page_url, [*notes, *statement(config, maker.difference)])


def _checks(
    maker: Kind, drafts: Sequence[DraftItem], blocks: Sequence[Sequence[int]], rng: np.random.Generator
) -> list[tuple[DraftItem, dict[str, str], int]]:
    """The attention checks of each block. If there are other blocks, the checks are made from their items."""
    made = []
    for number, block in enumerate(blocks):
        donors = [draft for place, draft in enumerate(drafts) if place not in set(block)] or list(drafts)
        for _ in range(maker.config.checks):
            donor = donors[int(rng.integers(len(donors)))]
            item, right = check_item(donor, maker.questions(), maker.config.check_text, rng)
            made.append((item, right, number))
    return made


def _hidden(drafts: Sequence[DraftItem], rng: np.random.Generator) -> list[_Hidden]:
    """The items, with random ids."""
    width = len(str(len(drafts)))
    found = []
    for number, draft in zip(rng.permutation(len(drafts)), drafts, strict=True):
        groups = [""] * len(draft.groups)
        units: list[SurveyUnit] = []
        writers: dict[str, dict[str, str]] = {}
        for place, at in enumerate(rng.permutation(len(draft.groups))):
            groups[at] = f"g{place + 1}"
            for unit in draft.groups[at].units:
                name = f"u{len(units) + 1}"
                units.append(SurveyUnit(id=name, group=groups[at], texts=unit.texts, near=unit.near))
                writers[name] = draft.groups[at].writers
        item = SurveyItem(id=f"i{number + 1:0{width}}", passages=draft.passages, units=units)
        found.append(_Hidden(item, KeyItem(prompt=draft.prompt, units=writers), groups))
    return found


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


def _encoder(config: Any) -> Encode:
    """A function that returns sentence vectors from the recipe's encoder. It loads the encoder when first called."""

    @cache
    def loaded() -> SentenceEncoder:
        return SentenceEncoder(config.encoder, None, LONGEST_SENTENCE, Setup(Words()))

    return lambda texts: loaded().embed(texts)


# -- Grouping the samples of several systems by prompt.


def aligned(
    systems: Mapping[str, Path], fields: Mapping[str, str] | None = None
) -> tuple[dict[str, dict[str, Sample]], list[KeyFile], int]:
    """Read the systems' files, and group samples of the same prompt by ``id``, or by line if samples have no id.

    Returns:
        A mapping from each prompt (id or line number) that is in all files to a mapping from system to sample; the
        files; the number of prompts that are not in all files.

    Raises:
        ValueError: If a file cannot be read, a prompt differs between files, or no prompt is in all files.
    """
    found: dict[str, dict[str, Sample]] = {}
    files = []
    for name, path in systems.items():
        digest = hashlib.sha256()
        for number, sample in enumerate(read_samples(path, Words(), fields, digest), 1):
            texts = found.setdefault(str(number if sample.id is None else sample.id), {})
            _expect_same_prompt(sample, next(iter(texts.values()), sample))
            texts[name] = sample
        files.append(KeyFile(system=name, file=path.name, sha256=digest.hexdigest()))
    complete = {prompt: texts for prompt, texts in found.items() if len(texts) == len(systems)}
    if not complete:
        given = ", ".join(str(path) for path in systems.values())
        raise ValueError(
            f"samples files: must have prompts in common ({given} given); give texts after the same prompts"
        )
    return complete, files, len(found) - len(complete)


def _expect_same_prompt(sample: Sample, other: Sample) -> None:
    for field in ("prompt", "source", "auxiliary"):
        one, two = getattr(sample, field), getattr(other, field)
        if one is not None and two is not None and one != two:
            raise ValueError(
                f"{sample.place}: must have the {field} of {other.place} (another one given); give texts after the "
                "same prompts, or an id to each"
            )


# -- Attention checks, whose correct answer is in their text.


def check_item(
    donor: DraftItem, questions: Sequence[Question], sentence: str, rng: np.random.Generator
) -> tuple[DraftItem, dict[str, str]]:
    """Make an attention check: the first unit of ``donor``, with ``sentence`` added to the last text of the unit.

    Random answers replace ``{answers}`` in ``sentence``. The second result maps each question to its requested answer.
    """
    right = {question.name: question.choices[int(rng.integers(len(question.choices)))] for question in questions}
    wanted = " and ".join(f'"{right[one.name].label}" for {one.name}' for one in questions)
    unit = donor.groups[0].units[0]
    *others, last = unit.texts
    asking = f"{last.lines[-1]} {sentence.format(answers=wanted)}"
    texts = [*others, Passage(title=last.title, lines=[*last.lines[:-1], asking])]
    item = DraftItem(donor.prompt, donor.passages, [DraftGroup({}, [DraftUnit(texts, unit.near)])])
    return item, {name: choice.value for name, choice in right.items()}


# -- Which items each judge gets, and in which order.


def blocks_of(items: int, most: int) -> list[list[int]]:
    """Split the indices of ``items`` items into the fewest blocks of at most ``most`` indices, of nearly equal size.

    >>> blocks_of(5, 2)
    [[0, 1], [2, 3], [4]]
    """
    return [block.tolist() for block in np.array_split(np.arange(items), -(-items // most))]


def dealt(
    blocks: Sequence[Sequence[_Hidden]], judges: int, rng: np.random.Generator, first: Sequence[_Hidden] = ()
) -> list[Form]:
    """Make ``judges`` forms for each block of items. Each form begins with the items ``first``.

    The other items are in random order in each form. The systems' texts in an item are in the order of a row of
    ``balanced_orders``. The rows take turns, so each system is in each position about equally often.
    """
    turn = count()
    forms: list[Form] = []
    for block in blocks:
        for _ in range(judges):
            pages = []
            for one in [*first, *(block[place] for place in rng.permutation(len(block)))]:
                rows = balanced_orders(len(one.groups))
                row = rows[next(turn) % len(rows)] if len(one.groups) > 1 else rows[0]
                units = [unit.id for at in row for unit in one.item.units if unit.group == one.groups[at]]
                pages.append(FormPage(item=one.item.id, order=units))
            forms.append(Form(id=str(len(forms) + 1), pages=pages))
    return forms


# -- Latin squares: each element is equally often in each position, and equally often after each other element.


def balanced_orders(size: int) -> list[list[int]]:
    """Williams' design (1949): balanced orders of ``size`` elements, one per row.

    Each element is in each position equally often, and follows each other element equally often. There are ``size``
    rows, or twice as many if ``size`` is odd and above 1.

    >>> balanced_orders(4)
    [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]]
    >>> len(balanced_orders(7)), balanced_orders(1)
    (14, [[0]])
    """
    first = [0]
    for step in range(1, size):
        first.append((first[-1] + (step if step % 2 else -step)) % size)
    rows = [[(thing + shift) % size for thing in first] for shift in range(size)]
    return rows if size % 2 == 0 or size == 1 else rows + [row[::-1] for row in rows]


# -- The smallest difference that a planned survey can show, which is reported before the survey is run.

LEVEL = 0.05
"""Significance level of the two-sided test."""


def detectable_difference(config: SurveyConfig, items: int | None = None, judges: int | None = None) -> float:
    """The smallest true difference between two systems that the survey detects with the power ``config.power.power``.

    The difference that a judge sees on an item is the sum of a part that all judges of the item share and a part of
    this judge alone. With n items and J judges per item, the mean difference has the variance ``spread^2 (agreement / n
    + (1 - agreement) / (n J))``, where spread is ``spread_of(config)`` and agreement is ``config.power.agreement``.
    ``items`` and ``judges`` replace those of ``config``.

    >>> round(detectable_difference(SurveyConfig(items=100, judges=3)), 3)
    0.205
    """
    from scipy.stats import norm

    n, each = items or config.items, judges or config.judges
    spread, shared = spread_of(config), config.power.agreement
    error = spread * math.sqrt(shared / n + (1 - shared) / (n * each))
    return float((norm.ppf(1 - LEVEL / 2) + norm.ppf(config.power.power)) * error)


def spread_of(config: SurveyConfig) -> float:
    """The assumed standard deviation of a difference: ``config.power.spread``, or the default of the kind of survey."""
    return config.typical_spread if config.power.spread is None else config.power.spread


def statement(config: SurveyConfig, unit: str) -> Iterator[str]:
    """Yield sentences about the difference that the survey can detect. ``unit`` is the unit of this difference."""
    power = f"{config.power.power:.0%}".replace("%", " %")
    yield (
        f"{config.items} items with {config.judges} judges each can detect a difference of "
        f"{detectable_difference(config):.2f} ({unit}) with a power of {power}, at p < {LEVEL}."
    )
    others = [
        (2 * config.items, config.judges),
        (config.items, config.judges + 2),
        (max(config.items // 2, 2), config.judges),
    ]
    told = (f"{items} x {judges}: {detectable_difference(config, items, judges):.2g}" for items, judges in others)
    yield f"Other sizes (items x judges): {'; '.join(told)}."
    yield (
        f"Assumed: a standard deviation of {spread_of(config):.2g} between answers, of whose variance judges share "
        f"{config.power.agreement:.0%} (power.spread, power.agreement)."
    ).replace("%", " %")
