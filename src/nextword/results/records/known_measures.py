"""What the metrics of runs mean: written into the record of a comparison, and known by key where an older one has none.

A metric that no line below knows is still reported, under its own name and without a best value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nextword.results.records.comparison_results import Evaluation
from nextword.results.records.measured_values import Goal, Measure

PROMPTED = "prompted"
"""The setting in which a prompt stood before the text."""

_SETTINGS = {PROMPTED: "with prompt"}
"""Settings that have words of their own."""

# "cache_only_people_acc@2": the setting, the subset of the cases, the metric.
_PREFIX = rf"(?:(?P<setting>[a-z]+_only|{PROMPTED})_)?(?:(?P<subset>[A-Za-z0-9_-]+)_)?"


def _known(title: str, group: str, goal: Goal | None, decimals: int, meaning: str) -> Measure:
    return Measure(title=title, group=group, unit="", goal=goal, decimals=decimals, meaning=meaning)


# fmt: off
_MEASURES = {
    r"acc@(?P<k>\d+)": _known("Acc@{k}", "Accuracy", "higher", 1,
        "Acc@k: share of prompts whose right words are all among the k most probable words; Acc@1: the most "
        "probable word is one of them."),
    "(?<!mean_)perplexity": _known("perplexity", "Likelihood", "lower", 2,
        "Perplexity: exp of the negative log-likelihood per token of the test text; only comparable with the same "
        "tokenizer."),
    "mean_perplexity": _known("mean perplexity", "Likelihood", "lower", 2,
        "Mean perplexity: the mean of the texts' own perplexities (He, Chen and Kim 2020); perplexity is that of "
        "all texts together."),
    "bits_per_byte": _known("bits per byte", "Likelihood", "lower", 3,
        "Bits per byte: negative log-likelihood over the bytes of the text; comparable between tokenizers."),
    "nll": _known("NLL", "Likelihood", "lower", 3,
        "NLL: negative log-likelihood of the right tokens."),
    "steering": _known("steering", "Steering", "higher", 3,
        "Steering: by how many nats per token a text is less likely given the auxiliary text of another; 0: the "
        "auxiliary text is not heard."),
    "copy_recall": _known("copy recall", "Copying", "higher", 3,
        "Copy recall: of the source's words that the reference contains, the share that the output contains too."),
    "copy_precision": _known("copy precision", "Copying", "higher", 3,
        "Copy precision: of the source's words that the output contains, the share that the reference contains too."),
    "copied_mass": _known("mass", "Listed words", "higher", 3,
        "Mass: probability that the next word is one of those that the prompt lists, where it is to be one of them."),
    "copied_spread": _known("spread", "Listed words", "higher", 3,
        "Spread: entropy of that mass over the listed words; 1: they have equal shares, 0: one has it all."),
    "repeated_mass": _known("repeated", "Listed words", "lower", 3,
        "Repeated: probability that the next word is one of those that the prompt lists, where none is to come "
        "again."),
    # A high rank shows that a bottleneck is left, not that predictions are good: a random matrix has full rank.
    "rank@(?P<k>[^@]+)": _known("at {k}", "Rank of log-probabilities", None, 0,
        "Rank: singular values of the log-probability matrix above the threshold times the largest one (default: "
        "the usual tolerance of float32). It shows what a head can express; neither more nor less is better by "
        "itself."),
    "left_out": _known("left out", "Prompts", None, 0,
        "Left out: prompts that are not measured, since two of their four words begin with the same token."),
    "rank_undefined": _known("undefined", "Rank of log-probabilities", None, 0,
        "Undefined: rows in which a word has probability 0; their log-probabilities have no rank."),
}
# fmt: on
_GROUPS = list(dict.fromkeys(known.group for known in _MEASURES.values()))


def known_measure(key: str, unit: str = "") -> Measure:
    """What the metric called ``key`` means.

    >>> known_measure("cache_only_acc@2").title, known_measure("cache_only_acc@2").group
    ('Acc@2', 'Accuracy, cache only')
    >>> known_measure("people_acc@2").subset, known_measure("perplexity").goal
    ('people', 'lower')
    """
    pattern, parts = _matched(key)
    if pattern is None:
        return Measure(title=key, group="Other", unit=unit, goal=None, meaning="")
    known, setting, subset = _MEASURES[pattern], parts["setting"], parts["subset"]
    of = [_SETTINGS.get(name, name.replace("_", " ")) for name in (setting, subset) if name]
    found = {
        "title": known.title.format(k=parts.get("k")),
        "group": ", ".join([known.group, *of]),
        "unit": unit,
        "setting": setting or "joint",
        "subset": subset or "",
    }
    return known.model_copy(update=found)


def measures_of(evaluations: Iterable[Evaluation], recorded: Mapping[str, Measure] | None = None) -> dict[str, Measure]:
    """What every metric of some runs means, in reading order: as it is ``recorded``, else as it is known by its key."""
    units = {key: value.unit for one in evaluations for key, value in one.metrics.items()}
    found = {key: measure for key, measure in (recorded or {}).items() if key in units}
    return found | {key: known_measure(key, units[key]) for key in sorted(units.keys() - found.keys(), key=_order)}


def _matched(key: str) -> tuple[str | None, dict[str, str | None]]:
    for pattern in _MEASURES:
        if match := re.fullmatch(_PREFIX + pattern, key):
            return pattern, match.groupdict()
    return None, {}


def _order(key: str) -> tuple[int, str, bool, str, int, float, str]:
    """The joint distribution before special settings, and a metric's k from low to high."""
    pattern, parts = _matched(key)
    if pattern is None:
        return len(_GROUPS), "", False, "", 0, 0.0, key
    setting, k = parts["setting"] or "joint", parts.get("k") or ""
    group, place = _GROUPS.index(_MEASURES[pattern].group), list(_MEASURES).index(pattern)
    return group, parts["subset"] or "", setting != "joint", setting, place, float(k) if k.isdigit() else 0.0, key
