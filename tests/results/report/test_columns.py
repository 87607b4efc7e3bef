"""Every key that any metric gives has a column, or is named among those that are told otherwise."""

from __future__ import annotations

import re

import pytest

from nextword.evaluation.metrics import registry
from nextword.results.records import Measure
from nextword.results.report.columns import (
    CONTINUATIONS,
    EXPANSIONS,
    LAYOUTS,
    SAID_OTHERWISE,
    STORIES,
    SUMMARIES,
    TABLE_TEXTS,
    TableLayout,
    layout_of,
    text_columns,
)
from tests.helpers.tiny_judges import ENGLISH, sample, scores

OF_TEXTS = {
    "bleu": ("bleu-1", "bleu-2", "bleu-3", "bleu-4"),
    "bleu-logicnlg": ("bleu-logicnlg-1", "bleu-logicnlg-2", "bleu-logicnlg-3"),
    "cider": ("cider-d",),
    "copying": ("copy_recall", "copy_precision"),
    "distinct": ("distinct-1", "distinct-2", "distinct-3"),
    "diversity": ("diversity-mean", "diversity-product"),
    "frequency-groups": ("share-frequent", "share-medium", "share-rare", "share-very-rare", "vr"),
    "likelihood": ("perplexity", "nll", "bits_per_byte"),
    "ms-jaccard": ("ms-jaccard-1", "ms-jaccard-2", "ms-jaccard-3"),
    "rep": ("rep",),
    "rouge": ("rouge-1", "rouge-2", "rouge-l", "rouge-lsum"),
    "self-bleu": ("self-bleu-1", "self-bleu-2", "self-bleu-3"),
    "seq-rep": ("seq-rep-1", "seq-rep-4"),
    "unigram-kl": ("kl-human-generated", "kl-generated-human"),
    "uniq-seq": ("uniq-seq",),
    "zipf": ("zipf",),
}
"""Keys of the metrics that need neither a model nor what a model predicted; the test below measures them."""
OTHERS = {
    "acc": ("acc@1", "acc@2"),
    "accuracy": ("accuracy", "hits@5"),
    "coherence": ("coherence",),
    "dae": ("dae", "dae-arcs"),
    "entities": ("entity-precision", "entity-precision-pooled"),
    "factcc": ("factcc", "factcc-probability"),
    "mauve": ("mauve",),
    "nli": ("nli", "nli-probability"),
    "sp": ("sp", "sp-parsed"),
    "tapas": ("tapas", "tapas-probability"),
    "tapex": ("tapex", "tapex-probability"),
    "token-repetition": ("rep/16", "rep/128", "wrep/128"),
    "topics": ("topics-jsd",),
    "uniq": ("uniq",),
}
ALL = [key for keys in [*OF_TEXTS.values(), *OTHERS.values()] for key in keys]


def measures(*keys: str) -> dict[str, Measure]:
    return {
        key: Measure(title=key, group="Other", unit="fraction", goal="higher", meaning=f"{key}: explained.")
        for key in keys
    }


def keys_of(*asked: str) -> list[str]:
    return [column.key for column in text_columns(measures(*asked))]


def test_keys_are_those_of_every_registered_metric() -> None:
    assert sorted([*OF_TEXTS, *OTHERS]) == sorted(registry.names())
    for name in registry.names():
        assert set(registry.get(name).votes) <= {*OF_TEXTS.get(name, ()), *OTHERS.get(name, ())}


@pytest.mark.parametrize("name", OF_TEXTS)
def test_keys_are_what_is_measured(name: str) -> None:
    written = [
        sample(line, text=text, references=[other], source=f"{text} {other}", log_probs=[-1.0], target_bytes=4)
        for line, (text, other) in enumerate(zip(ENGLISH, [*ENGLISH[1:], ENGLISH[0]], strict=True), 1)
    ]
    assert tuple(scores(name, written)) == OF_TEXTS[name]


def test_no_key_is_without_a_column() -> None:
    told_otherwise = {"nll", "bits_per_byte", "share-frequent", "share-medium", "share-rare", "share-very-rare", "vr"}
    assert {key for key in ALL if re.fullmatch(SAID_OTHERWISE, key)} == told_otherwise
    assert sorted(keys_of(*ALL)) == sorted(set(ALL) - told_otherwise)
    for key in set(ALL) - told_otherwise:
        assert keys_of(key) == [key]
        assert set(keys_of(key, "rep")) == {key, "rep"}


@pytest.mark.parametrize(
    ("asked", "layout", "first"),
    [
        (("rep", "coherence", "mauve", "diversity-mean", "diversity-product", "seq-rep-4"), STORIES,
         ["diversity-product", "mauve", "coherence", "seq-rep-4", "rep", "diversity-mean"]),
        (("mauve", "factcc", "factcc-probability", "cider-d", "rouge-1"), SUMMARIES,
         ["rouge-1", "cider-d", "factcc", "mauve", "factcc-probability"]),
        (("copy_precision", "copy_recall", "entity-precision", "dae", "rouge-l", "rouge-2", "rouge-1"), SUMMARIES,
         ["rouge-1", "rouge-2", "rouge-l", "dae", "entity-precision", "copy_recall", "copy_precision"]),
        (("tapas", "tapex", "sp", "nli", "bleu-logicnlg-3", "bleu-logicnlg-1", "bleu-logicnlg-2"), TABLE_TEXTS,
         ["bleu-logicnlg-1", "bleu-logicnlg-2", "bleu-logicnlg-3", "nli", "sp", "tapex", "tapas"]),
        (("mean_perplexity", "perplexity", "rouge-l", "rouge-2", "rouge-1", "topics-jsd"), EXPANSIONS,
         ["perplexity", "mean_perplexity", "rouge-1", "rouge-2", "rouge-l", "topics-jsd"]),
        (("uniq-seq", "rep", "perplexity"), CONTINUATIONS, ["perplexity", "rep", "uniq-seq"]),
    ],
)  # fmt: skip
def test_what_a_paper_measured_is_laid_out_as_there(
    asked: tuple[str, ...], layout: TableLayout, first: list[str]
) -> None:
    assert layout_of(measures(*asked)) is layout
    assert keys_of(*asked) == first


def test_every_rule_has_a_metric_that_gives_its_keys() -> None:
    """A pattern that no key fits would be an empty promise, and a wrong metric would hide why a value is missing."""
    owners = {key: name for known in (OF_TEXTS, OTHERS) for name, keys in known.items() for key in keys}
    owners |= {"mean_perplexity": "likelihood"}  # where it is asked for
    for layout in LAYOUTS:
        for rule in layout.rules:
            assert {owner for key, owner in owners.items() if re.fullmatch(rule.pattern, key)} == {rule.metric}
