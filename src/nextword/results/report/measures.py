"""How the metrics of a record are named, grouped and judged in a report.

A metric that no rule below knows is still reported, under its own name and without a best value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class ReportedMeasure:
    """A metric as the report presents it."""

    key: str
    """Its name in the record, for example "cache_only_acc@2"."""
    title: str
    group: str
    setting: str
    """Which distribution was asked: "joint", "cache_only", "prompted" (a prompt stood before the text), ..."""
    subset: str
    """The part of the cases it was measured on, for example "people"; empty: all of them."""
    better: Better | None
    """Which way is good; None where neither is, so that nothing is called best."""
    decimals: int | None
    """Digits after the point; None: four significant digits."""
    order: tuple[int, int, float]
    """Place among the other columns: of its group, in the group, and by the k of an Acc@k."""
    meaning: str
    """One sentence for a reader who does not know it; empty for a metric no rule knows."""


@dataclass(frozen=True)
class _Rule:
    pattern: str
    title: str
    group: str
    better: Better | None
    decimals: int | None
    meaning: str


PROMPTED = "prompted"
"""The setting in which a prompt stood before the text."""

# "cache_only_people_acc@2": the setting, the subset of the cases, the metric.
_PREFIX = rf"(?:(?P<setting>[a-z]+_only|{PROMPTED})_)?(?:(?P<subset>[A-Za-z0-9_-]+)_)?"

# fmt: off
_RULES = (
    _Rule(r"acc@(?P<k>\d+)", "Acc@{k}", "Accuracy", "higher", 1,
          "Acc@k: share of prompts whose right words are all among the k most probable words; Acc@1: the most "
          "probable word is one of them."),
    _Rule("(?<!mean_)perplexity", "perplexity", "Likelihood", "lower", 2,
          "Perplexity: exp of the negative log-likelihood per token of the test text; only comparable with the same "
          "tokenizer."),
    _Rule("mean_perplexity", "mean perplexity", "Likelihood", "lower", 2,
          "Mean perplexity: the mean of the texts' own perplexities (He, Chen and Kim 2020); perplexity is that of "
          "all texts together."),
    _Rule("bits_per_byte", "bits per byte", "Likelihood", "lower", 3,
          "Bits per byte: negative log-likelihood over the bytes of the text; comparable between tokenizers."),
    _Rule("nll", "NLL", "Likelihood", "lower", 3,
          "NLL: negative log-likelihood of the right tokens."),
    _Rule("steering", "steering", "Steering", "higher", 3,
          "Steering: by how many nats per token a text is less likely given the auxiliary text of another; 0: the "
          "auxiliary text is not heard."),
    _Rule("copy_recall", "copy recall", "Copying", "higher", 3,
          "Copy recall: of the source's words that the reference contains, the share that the output contains too."),
    _Rule("copy_precision", "copy precision", "Copying", "higher", 3,
          "Copy precision: of the source's words that the output contains, the share that the reference contains "
          "too."),
    _Rule("copied_mass", "mass", "Listed words", "higher", 3,
          "Mass: probability that the next word is one of those that the prompt lists, where it is to be one of "
          "them."),
    _Rule("copied_spread", "spread", "Listed words", "higher", 3,
          "Spread: entropy of that mass over the listed words; 1: they have equal shares, 0: one has it all."),
    _Rule("repeated_mass", "repeated", "Listed words", "lower", 3,
          "Repeated: probability that the next word is one of those that the prompt lists, where none is to come "
          "again."),
    # A high rank shows that a bottleneck is left, not that predictions are good: a random matrix has full rank.
    _Rule("rank@(?P<k>[^@]+)", "at {k}", "Rank of log-probabilities", None, 0,
          "Rank: singular values of the log-probability matrix above the threshold times the largest one (default: "
          "the usual tolerance of float32). It shows what a head can express; neither more nor less is better by "
          "itself."),
    _Rule("left_out", "left out", "Prompts", None, 0,
          "Left out: prompts that are not measured, since two of their four words begin with the same token."),
    _Rule("rank_undefined", "undefined", "Rank of log-probabilities", None, 0,
          "Undefined: rows in which a word has probability 0; their log-probabilities have no rank."),
)
# fmt: on

_GROUPS = list(dict.fromkeys(rule.group for rule in _RULES))

_SETTINGS = {PROMPTED: "with prompt"}
"""Settings that are told in other words than their own."""


def measure(key: str) -> ReportedMeasure:
    """The presentation of the metric called ``key`` in the records.

    >>> measure("cache_only_acc@2").title, measure("cache_only_acc@2").group
    ('Acc@2', 'Accuracy, cache only')
    >>> measure("people_acc@2").subset, measure("perplexity").better
    ('people', 'lower')
    """
    for place, rule in enumerate(_RULES):
        match = re.fullmatch(_PREFIX + rule.pattern, key)
        if match:
            parts = {name: text or "" for name, text in match.groupdict().items()}
            k = parts.get("k", "")
            setting, subset = (
                _SETTINGS.get(name, name.replace("_", " ")) for name in (parts["setting"], parts["subset"])
            )
            group = ", ".join(part for part in (rule.group, setting, subset) if part)
            return ReportedMeasure(
                key=key,
                title=rule.title.format(k=k),
                group=group,
                setting=parts["setting"] or "joint",
                subset=parts["subset"],
                better=rule.better,
                decimals=rule.decimals,
                order=(_GROUPS.index(rule.group), place, float(k) if k.isdigit() else 0.0),
                meaning=rule.meaning,
            )
    return ReportedMeasure(key, key, "Other", "joint", "", None, None, (len(_GROUPS), 0, 0.0), "")


def measures(keys: set[str]) -> list[ReportedMeasure]:
    """The presentations of several metrics, in reading order: the joint distribution before special settings."""
    found = [measure(key) for key in keys]
    return sorted(found, key=lambda m: (m.order[0], m.subset, m.setting != "joint", m.setting, m.order[1:], m.key))
