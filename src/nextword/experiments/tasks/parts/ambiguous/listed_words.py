"""Prompts that list several words, and what is measured of them: is one of the words to come next, or none?"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from nextword.evaluation.metrics.parts.intervals import bootstrap_ratio
from nextword.experiments.tasks.parts.ambiguous.lexicon import Lexicon, PairSplit, data_text
from nextword.experiments.tasks.parts.top_words import top_words
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.prompt_distributions import ask
from nextword.inference.scoring.prompt_encoding import encode_prompt
from nextword.inference.scoring.word_probes import ProbeAnswer, WordProbe, answers, first_tokens, read_probes
from nextword.results.records import ExamplePrediction, MetricValue
from nextword.runtime.pretrained import token_label

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PAPERS = "papers"
"""Names the probes of the papers, where a file could be given."""
LISTS = 50
"""Lists of words that each template of ours is filled with."""


def probes(named: str | None, lexicon: Lexicon, splits: dict[str, PairSplit], seed: int) -> list[WordProbe]:
    """The probes that a setting names: those of the papers, of a file, or lists of the lexicon's test words."""
    if named is None:
        return list(_of_lexicon(lexicon, splits, seed))
    return read_probes(None if named == PAPERS else named)


def usable(asked: Sequence[WordProbe], tokenizer: PreTrainedTokenizerBase) -> list[WordProbe]:
    """The probes that have no unknown word, and whose listed words begin with different tokens.

    Raises:
        ValueError: There is none.
    """
    found = [probe for probe in asked if _is_usable(probe, tokenizer)]
    if not found:
        raise ValueError(
            f"task.probes: must have words that tokenizer '{tokenizer.name_or_path}' knows and tells apart (none of "
            f"{len(asked)} prompts has); give start.model a model that knows them, or leave the key out"
        )
    return found


def _is_usable(probe: WordProbe, tokenizer: PreTrainedTokenizerBase) -> bool:
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in encode_prompt(tokenizer, probe.prompt)[1:]:
        return False
    try:
        return bool(first_tokens(tokenizer, probe))
    except ValueError:
        return False


def probe_metrics(
    model: Any, tokenizer: PreTrainedTokenizerBase, asked: Sequence[WordProbe], mode: str, batch_size: int
) -> dict[str, MetricValue]:
    """Of each set: mass and spread of the listed words where one is to come, their mass where none is."""
    by_name: dict[str, list[ProbeAnswer]] = {}
    for answer in answers(OpenedModel("", model, tokenizer), asked, mode=mode, batch_size=batch_size):
        by_name.setdefault(answer.probe.name, []).append(answer)
    prefix = "" if mode == "joint" else f"{mode}_"
    metrics = {}
    for name, said in by_name.items():
        masses = [answer.mass for answer in said]
        if not said[0].probe.copied:
            metrics[f"{prefix}{name}_repeated_mass"] = _mean(masses, "probability of the listed words, none right")
            continue
        metrics[f"{prefix}{name}_copied_mass"] = _mean(masses, "probability of the listed words, all right")
        spreads = [answer.spread for answer in said if answer.spread is not None]
        if spreads:
            metrics[f"{prefix}{name}_copied_spread"] = _mean(spreads, "entropy over that of equal shares")
    return metrics


def probe_examples(
    model: Any, tokenizer: PreTrainedTokenizerBase, asked: Sequence[WordProbe], modes: Sequence[str]
) -> list[ExamplePrediction]:
    """The first tokens after one prompt of each set in each setting, as many as the prompt lists words."""
    first: dict[str, WordProbe] = {}
    for probe in asked:
        first.setdefault(probe.name, probe)
    examples = []
    for probe in first.values():
        right = [token_label(tokenizer, token) for token in first_tokens(tokenizer, probe)] if probe.copied else []
        for mode in modes:
            dist, _ = ask(model, [encode_prompt(tokenizer, probe.prompt)], 0, mode)
            top = top_words(dist, 0, len(probe.words), tokenizer)
            examples.append(ExamplePrediction(prompt=probe.prompt, expected=right, setting=mode, top=top))
    return examples


def _mean(values: Sequence[float], unit: str) -> MetricValue:
    low, high = bootstrap_ratio(np.array(values), np.ones(len(values))) or (None, None)
    return MetricValue(value=float(np.mean(values)), unit=unit, n=len(values), low=low, high=high)


def _of_lexicon(lexicon: Lexicon, splits: dict[str, PairSplit], seed: int) -> Iterator[WordProbe]:
    words: dict[str, set[str]] = {}
    for relation in lexicon.relations:
        words.setdefault(relation.group, set()).update(chain.from_iterable(splits[relation.name].test))
    for entry in tomllib.loads(data_text("lists.toml"))["lists"]:
        rng, available = random.Random(f"{seed}/{entry['text']}"), sorted(words.get(entry["group"], ()))
        slots = entry["text"].count("{}")
        for _ in range(LISTS if len(available) >= slots else 0):
            listed = tuple(rng.sample(available, slots))
            yield WordProbe(entry["name"], entry["text"].format(*listed), listed, entry["copied"])
