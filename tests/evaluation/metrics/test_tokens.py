"""Every public function over texts takes them as they stand and as token ids, and says so where it gets neither."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import nextword.evaluation.metrics
from nextword.evaluation.metrics.bleu import bleu, bleu_logicnlg
from nextword.evaluation.metrics.cider import cider_d
from nextword.evaluation.metrics.rouge import rouge
from nextword.evaluation.metrics.tokens import token_texts

TEXTS = ["so it is , so it is", "it was so", "no ! no ! no ! no !"]
OTHERS = ["so it was , it was so", "it is", "no !"]


def numbered(texts: list[str], numbers: dict[str, int]) -> list[list[int]]:
    """Numbers that are not those which the library gives."""
    return [[numbers.setdefault(word, 1000 - len(numbers)) for word in text.split()] for text in texts]


NUMBERS: dict[str, int] = {}
IDS, OTHER_IDS = numbered(TEXTS, NUMBERS), numbered(OTHERS, NUMBERS)

ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "distinct": [(TEXTS, 2), (IDS, 2)],
    "seq_rep": [(TEXTS, 1), (IDS, 1)],
    "diversity_mean": [(TEXTS, (1, 2)), (IDS, (1, 2))],
    "diversity_product": [(TEXTS, (1, 2)), (IDS, (1, 2))],
    "self_bleu": [(TEXTS,), (IDS,)],
    "ms_jaccard": [(TEXTS, OTHERS), (IDS, OTHER_IDS)],
    "ends_in_loop": [(TEXTS[2],), (IDS[2],)],
    "copies_at_end": [(TEXTS[2], 4), (IDS[2], 4)],
    "cider_d": [
        (TEXTS, [[one] for one in OTHERS], 2, 6.0, "spaces"), (IDS, [[one] for one in OTHER_IDS], 2, 6.0, "spaces")
    ],
}  # fmt: skip
"""Of each function over texts: the same as text and as ids."""


def functions() -> Iterator[Callable[..., Any]]:
    for module in pkgutil.iter_modules(nextword.evaluation.metrics.__path__):
        found = importlib.import_module(f"nextword.evaluation.metrics.{module.name}")
        for name, function in inspect.getmembers(found, inspect.isfunction):
            if function.__module__ == found.__name__ and not name.startswith("_") and module.name != "tokens":
                yield function


def kinds(function: Callable[..., Any]) -> set[str]:
    return {str(one.annotation) for one in inspect.signature(function).parameters.values()}


OVER_TEXTS = {
    one.__name__: one for one in functions() if any("Text]" in k or k in ("Text", "Texts") for k in kinds(one))
}
SEQUENCES = ("Iterable[Sequence[int]]", "Sequence[Sequence[int]]", "TokenTexts")


def test_every_function_over_sequences_of_tokens_takes_texts() -> None:
    assert set(OVER_TEXTS) == set(ARGUMENTS)
    rest = {one.__name__: kinds(one) for one in functions() if one.__name__ not in OVER_TEXTS}
    assert {name for name, found in rest.items() if any(mark in kind for kind in found for mark in SEQUENCES)} == {
        "distinct_by_length",  # what two metrics share, of texts already cut
        "tokens_per_group",  # of ids that have counts
    }


@pytest.mark.parametrize("name", ARGUMENTS)
def test_texts_and_ids_have_equal_values(name: str) -> None:
    function = OVER_TEXTS[name]
    as_text, as_ids = (np.asarray(function(*given)) for given in ARGUMENTS[name])
    np.testing.assert_array_equal(as_text, as_ids)
    as_arrays = [
        [np.array(one) for one in value] if value is IDS or value is OTHER_IDS else value
        for value in ARGUMENTS[name][1]
    ]
    np.testing.assert_array_equal(np.asarray(function(*as_arrays)), as_ids)


@pytest.mark.parametrize(
    "name", ["distinct", "seq_rep", "diversity_mean", "diversity_product", "self_bleu", "ms_jaccard"]
)
def test_what_is_no_list_of_texts_is_refused(name: str) -> None:
    function, (_, *rest) = OVER_TEXTS[name], ARGUMENTS[name][0]
    for given, message in (
        ("so it is", r"must be a list of texts \(one text given, 'so it is'\); write \[text\]"),
        ([], "must have at least one text"),
        (3, r"must be a list of texts \(int given"),
        (["so it is", [1, 2]], "some are texts and some are token ids; give all as texts, or all as ids"),
        ([["so", "it"]], r"number 1: must be a text or a list of token ids, whole numbers \(\['so', 'it'\] given"),
        ([[1.0, 2.5]], r"number 1: must be a text or a list of token ids, whole numbers \(\[1.0, 2.5\] given"),
        ([1, 2, 3], r"number 1: must be a text or a list of token ids, whole numbers \(1 given"),
        ([[True, False]], r"number 1: must be .* \(\[True, False\] given"),
        ([None], r"number 1: must be .* \(None given"),
    ):
        with pytest.raises(ValueError, match=message):
            function(given, *rest)


def test_references_that_would_be_read_letter_by_letter_are_refused() -> None:
    for call in (
        lambda: bleu(["the cat"], ["the cat"]),
        lambda: bleu_logicnlg(["the cat"], ["the cat"]),
        lambda: cider_d(["the cat", "a dog"], ["the cat", "a dog"]),
        lambda: rouge("the cat", "the cat"),
    ):
        with pytest.raises(ValueError, match="references"):
            call()


def test_ways_to_cut() -> None:
    def cut(tokenize: Any) -> list[int]:
        return token_texts(["aB b-"], tokenize=tokenize)[0].tokens.tolist()

    assert [cut("words"), cut("spaces"), cut("characters"), cut(lambda text: text.lower().split("b"))] == [
        [0, 1, 2], [0, 1], [0, 1, 2, 3, 4], [0, 1, 2]
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"tokenize:.*\('gpt2' given"):
        cut("gpt2")
    assert token_texts([torch.tensor([3, 4])])[0].tokens.tolist() == [3, 4]
