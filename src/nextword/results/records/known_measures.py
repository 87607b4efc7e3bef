"""Descriptions of the metrics of runs. Comparisons store them in their records; old records get them from here.

A metric without a description here is still reported: its title is its key, and no value of it is marked as best.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nextword.results.records.comparison_results import Evaluation
from nextword.results.records.measured_values import Goal, Measure

PROMPTED = "prompted"
"""Name of the setting in which models predict a text after a prompt."""

_SETTINGS = {PROMPTED: "with prompt"}
"""Names of settings in reports."""

# The parts of a key such as "cache_only_people_acc@2": the setting, the subset of the cases, and the metric.
_PREFIX = rf"(?:(?P<setting>[a-z]+_only|{PROMPTED})_)?(?:(?P<subset>[A-Za-z0-9_-]+)_)?"


def _known(title: str, group: str, goal: Goal | None, decimals: int, meaning: str) -> Measure:
    return Measure(title=title, group=group, unit="", goal=goal, decimals=decimals, meaning=meaning)


# fmt: off
_MEASURES = {
    r"acc@(?P<k>\d+)": _known("Acc@{k}", "Accuracy", "higher", 1,
        "Acc@k: share of prompts whose correct words are all among the k most probable; Acc@1: the most probable "
        "word is one of "
        "them."),
    "(?<!mean_)perplexity": _known("perplexity", "Likelihood", "lower", 2,
        "Perplexity: exp of the negative log-likelihood per token of the test text; only comparable with the same "
        "tokenizer."),
    "mean_perplexity": _known("mean perplexity", "Likelihood", "lower", 2,
        "Mean perplexity: the mean of the texts' own perplexities (He, Chen and Kim 2020); perplexity is that of "
        "all texts together."),
    "bits_per_byte": _known("bits per byte", "Likelihood", "lower", 3,
        "Bits per byte: negative log-likelihood in bits divided by the bytes of the text; comparable between "
        "tokenizers."),
    "nll": _known("NLL", "Likelihood", "lower", 3,
        "NLL: negative log-likelihood of the correct tokens."),
    "steering": _known("steering", "Steering", "higher", 3,
        "Steering: nats per token by which a text is less likely with the auxiliary text of another; 0: the "
        "auxiliary text "
        "has no effect."),
    "copy_recall": _known("copy recall", "Copying", "higher", 3,
        "Copy recall: of the source words that the reference contains, the share that the output contains too."),
    "copy_precision": _known("copy precision", "Copying", "higher", 3,
        "Copy precision: of the source words that the output contains, the share that the reference contains too."),
    "copied_mass": _known("mass", "Listed words", "higher", 3,
        "Mass: probability of the words that the prompt lists, if the correct next word is one of them."),
    "copied_spread": _known("spread", "Listed words", "higher", 3,
        "Spread: normalised entropy of this mass over the listed words; 1: equal probabilities, 0: one word has all."),
    "repeated_mass": _known("repeated", "Listed words", "lower", 3,
        "Repeated: probability of the words that the prompt lists, if the correct next word is none of them."),
    # A high rank shows that there is no bottleneck, but not that predictions are good: a random matrix has full rank.
    "rank@(?P<k>[^@]+)": _known("at {k}", "Rank of log-probabilities", None, 0,
        "Rank: singular values of the log-probability matrix above the threshold times the largest one (default: "
        "the usual tolerance of float32). It shows the expressiveness of a head; neither a higher nor a lower rank "
        "is better by itself."),
    "left_out": _known("left out", "Prompts", None, 0,
        "Left out: prompts that are not measured, because two of their four words begin with the same token."),
    "rank_undefined": _known("undefined", "Rank of log-probabilities", None, 0,
        "Undefined: rows in which a token has probability 0; their log-probabilities have no rank."),
}
# fmt: on
_GROUPS = list(dict.fromkeys(known.group for known in _MEASURES.values()))


def known_measure(key: str, unit: str = "") -> Measure:
    """Return the description of the metric ``key``, whose values have the unit ``unit``.

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
    """Map the metric keys in ``evaluations`` to descriptions: first those ``recorded``, then others in report order."""
    units = {key: value.unit for one in evaluations for key, value in one.metrics.items()}
    found = {key: measure for key, measure in (recorded or {}).items() if key in units}
    return found | {key: known_measure(key, units[key]) for key in sorted(units.keys() - found.keys(), key=_order)}


def _matched(key: str) -> tuple[str | None, dict[str, str | None]]:
    for pattern in _MEASURES:
        if match := re.fullmatch(_PREFIX + pattern, key):
            return pattern, match.groupdict()
    return None, {}


def _order(key: str) -> tuple[int, str, bool, str, int, float, str]:
    """Sort key. The joint distribution comes before other settings, and a metric's k goes from low to high."""
    pattern, parts = _matched(key)
    if pattern is None:
        return len(_GROUPS), "", False, "", 0, 0.0, key
    setting, k = parts["setting"] or "joint", parts.get("k") or ""
    group, place = _GROUPS.index(_MEASURES[pattern].group), list(_MEASURES).index(pattern)
    return group, parts["subset"] or "", setting != "joint", setting, place, float(k) if k.isdigit() else 0.0, key
