"""ROUGE against rouge-score, which is slower and drops what is not a-z."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

from nextword.evaluation.metrics import Sample, Score, Setup, UndefinedError, parse_metric, registry
from nextword.evaluation.metrics.rouge import KINDS, RougeTokenizer, rouge, split_sentences
from tests.helpers.real_data import real_data

PUBLISHED = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
WORDS = [
    "the",
    "cats",
    "running",
    "ran",
    "The",
    "U.S.",
    "it's",
    "3rd",
    "on",
    "café",
    "--",
    "\n",
    "mat.\n",
    "relational",
]
texts = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


def measured(samples: list[tuple[str, list[str]]], **config: Any) -> dict[str, Score]:
    metric = registry.get("rouge")(parse_metric({"metric": "rouge", **config}), Setup())
    for text, references in samples:
        metric.add(Sample(text=text, references=references))
    return metric.result()


@settings(max_examples=150, deadline=None)
@given(texts, st.lists(texts, min_size=1, max_size=3), st.booleans())
def test_equals_rouge_score(text: str, references: list[str], stemmer: bool) -> None:
    expected = RougeScorer(PUBLISHED, use_stemmer=stemmer).score_multi(references, text)
    found = rouge(text, references, tokenizer=RougeTokenizer(stemmer))
    assert {
        f"rouge{kind}".replace("lsum", "Lsum").replace("el", "eL"): score for kind, score in found.items()
    } == expected


def test_equals_rouge_score_on_summaries_with_a_line_for_each_sentence() -> None:
    import json

    lines = real_data("cnn_dailymail/pairs.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:400]]
    pairs = [(split_sentences(row["article"][:600]), "\n".join(row["bullets"])) for row in rows if row["bullets"]][:15]
    scorer = RougeScorer(PUBLISHED, use_stemmer=True)
    assert pairs
    for text, reference in pairs:
        assert list(rouge(text, [reference]).values()) == list(scorer.score(reference, text).values())


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=40))
def test_ascii_is_cut_alike_with_and_without_other_letters(text: str) -> None:
    expected = DefaultTokenizer(use_stemmer=True).tokenize(text)
    assert RougeTokenizer().tokenize(text) == RougeTokenizer(unicode=True).tokenize(text) == expected


def test_by_hand() -> None:
    # text: a b c d (4 words), reference: a c b e f (5).
    # 1-grams in common: a, b, c: P = 3/4, R = 3/5, F1 = 2 * 3 / (4 + 5) = 6/9.
    # 2-grams: ab, bc, cd against ac, cb, be, ef: none. Longest common subsequence: a b (or a c): F1 = 2 * 2 / 9.
    found = measured([("a b c d", ["a c b e f"])], kinds=("1", "2", "l"))
    assert [score.value for score in found.values()] == pytest.approx([6 / 9, 0, 4 / 9])
    assert measured([("a b c d", ["a c b e f"])], value="recall")["rouge-1"].value == pytest.approx(3 / 5)
    assert measured([("a b c d", ["a c b e f"])], value="precision")["rouge-1"].value == pytest.approx(3 / 4)


def test_union_over_lines_by_hand() -> None:
    # The example of Lin (2004), section 3.2: reference w1 w2 w3 w4 w5, lines w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5.
    # The union is w1 w2 w3 w5: R = 4/5, P = 4/10.
    found = rouge("w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", ["w1 w2 w3 w4 w5"], ("lsum",))["lsum"]
    assert (found.recall, found.precision) == (4 / 5, 4 / 10)


def test_best_reference_by_f1_is_chosen_for_each_kind() -> None:
    found = measured([("a b c", ["a b c d d d d", "c b a"])])
    # ROUGE-1: 2 * 3 / (3 + 7) = 0.6 against 1; ROUGE-2: 2 * 2 / (2 + 6) = 0.5 against 0.
    assert (found["rouge-1"].value, found["rouge-2"].value) == (1, 0.5)


def test_the_mean_counts_samples_that_have_a_reference() -> None:
    found = measured([("a b", ["a b"]), ("", ["a"]), ("a", ["", "..."]), ("a", ["a"])])["rouge-1"]
    # An empty text has nothing in common and counts; without a word in any reference there is no value.
    assert (found.value, found.n) == (2 / 3, 3)
    assert found.statistic is not None
    assert found.statistic.parts.tolist() == [[1, 1], [0, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("samples", [[], [("a", [""])]])
def test_nothing_to_compare_with_has_no_value(samples: list[tuple[str, list[str]]]) -> None:
    with pytest.raises(UndefinedError, match="no sample has a value"):
        measured(samples)


def test_one_token_texts() -> None:
    found = measured([("cats", ["cat"]), ("dog", ["cat"])])
    assert [found[f"rouge-{kind}"].value for kind in KINDS] == [0.5, 0, 0.5, 0.5]
    assert measured([("cats", ["cat"])], stemmer=False)["rouge-1"].value == 0


KOREAN = ["이 영화는 정말 재미있게 봤습니다", "이 영화는 정말 지루했다"]


def test_korean_is_not_silently_zero() -> None:
    with pytest.raises(UndefinedError, match=r"references' letters .*unicode=true keeps"):
        measured([(KOREAN[0], [KOREAN[1]])])
    found = measured([(KOREAN[0], [KOREAN[1]])], unicode=True)
    # 3 of 5 and of 4 words in common, in order: F1 = 6/9; 2 of 4 and of 3 pairs: 4/7.
    assert [found[f"rouge-{kind}"].value for kind in ("1", "2", "l")] == pytest.approx([6 / 9, 4 / 7, 6 / 9])


def test_korean_reviews() -> None:
    lines = real_data("korean/nsmc_raw_test.tsv").read_text(encoding="utf-8").splitlines()[1:101]
    reviews = [line.split("\t")[3] for line in lines]
    samples = [(text, [text]) for text in reviews]
    with pytest.raises(UndefinedError, match="letters are outside a-z"):
        measured(samples)
    assert measured(samples, unicode=True)["rouge-l"].value == 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=2)), min_size=1, max_size=4))
def test_range_identity_and_order_of_samples(samples: list[tuple[str, list[str]]]) -> None:
    samples = [*samples, ("a", ["a"])]
    found, turned = measured(samples), measured(samples[::-1])
    for key, score in found.items():
        assert 0 <= score.value <= 1
        assert score.value == pytest.approx(turned[key].value, abs=1e-12)
    same = measured([(text, [text]) for text, _ in samples])
    assert same["rouge-1"].value == same["rouge-l"].value == same["rouge-lsum"].value == 1


def test_marks_that_belong_to_letters_do_not_cut_words() -> None:
    assert RougeTokenizer(unicode=True).tokenize("हिन्दी, cafe\u0301 x_y") == ["हिन्दी", "cafe\u0301", "x", "y"]


def test_sentences_split_by_request() -> None:
    text, reference = "Rome fell. Troy burned.", "Troy burned. Rome fell."
    # As lines, both sentences are found whatever their order; as one text, only one of them.
    assert measured([(text, [reference])], split_sentences=True)["rouge-lsum"].value == 1
    assert measured([(text, [reference])])["rouge-lsum"].value == 0.5


@pytest.mark.parametrize("spec", ["rouge:3", "rouge:1,w"])
def test_unknown_kind(spec: str) -> None:
    with pytest.raises(ValueError, match=r"kinds\.\d must be '1', '2', 'l'"):
        parse_metric(spec)


def test_spec_names_kinds() -> None:
    assert parse_metric("rouge").arguments() == []
    with pytest.raises(ValueError, match=r"rouge\.kinds:.*1, 2, l, lsum"):
        measured([], kinds=())
    config = parse_metric("rouge:1,L")
    assert list(config.arguments()) == ["1", "l"]
    metric = registry.get("rouge")(config, Setup())
    metric.add(Sample(text="a", references=["a"]))
    assert list(metric.result()) == ["rouge-1", "rouge-l"]


def test_no_reference_is_an_error() -> None:
    with pytest.raises(ValueError, match="'references'"):
        measured([("a", [])])
    with pytest.raises(ValueError, match="each text must have a reference"):
        rouge("a", [])


def test_units_name_the_choices() -> None:
    units = {key: score.measure.unit for key, score in measured([("a", ["a"])], stemmer=False, unicode=True).items()}
    assert units["rouge-2"] == "fraction (F1, no stems, all letters)"
    assert units["rouge-lsum"] == "fraction (F1, no stems, all letters, lines as given)"
    assert np.isfinite([score.value for score in measured([("a", ["a"])]).values()]).all()
