"""Entity precision: the matching rules by hand, and spaCy pipelines made of rulers, as folders like trained ones."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.lang.en.stop_words import STOP_WORDS

from nextword.evaluation.judges.entities import Recogniser, entity_precision, found_in
from nextword.evaluation.metrics import MissingFieldError, Sample, Score, Setup, UndefinedError, parse_metric, registry
from tests.helpers.real_data import real_data

PATTERNS = [
    ("PERSON", "Ann Lee"), ("PERSON", "Bob"), ("GPE", "Rome"), ("GPE", "US"), ("ORG", "The Who"), ("DATE", "Monday"),
    ("GPE", "서울"), ("PERSON", "홍길동"),
]  # fmt: skip


def saved(folder: Path, language: str = "en", patterns: Sequence[tuple[str, str]] = PATTERNS) -> str:
    nlp = spacy.blank(language)
    if patterns:
        ruler = nlp.add_pipe("entity_ruler")
        ruler.add_patterns([{"label": label, "pattern": text} for label, text in patterns])
    nlp.to_disk(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("pipeline"))


def measured(samples: list[Sample], pipeline: str, **config: Any) -> dict[str, Score]:
    told: list[tuple[str, int, int]] = []
    setup = Setup(batch_size=2, progress=lambda *what: told.append(what))
    metric = registry.get("entities")(parse_metric({"metric": "entities", "pipeline": pipeline, **config}), setup)
    for sample in samples:
        metric.add(sample)
    scores = metric.result()
    assert told[-1] == ("entities", len(samples), len(samples))
    return scores


@pytest.mark.parametrize(
    ("entity", "document", "expected"),
    [
        ("Barack Obama", "yesterday barack obama spoke", True),  # whole, whatever the case
        ("Barack Hussein Obama", "Barack Obama spoke", True),  # no two neighbours, but one word
        ("Barack Hussein Obama", "Hussein Obama spoke", True),  # two neighbours
        ("Obama", "Obamacare passed", True),  # part of a longer word
        ("Obama", "Barack spoke", False),
        ("The Who", "who is the man", False),  # stop words alone do not count
        ("The Who", "I saw the WHO play", True),  # but together they do
        ("the Bank of England", "the bank of Spain", True),  # "bank", and "the bank" and "bank of" too
        ("the Bank of England", "out of the rain", False),
        ("US", "he told us", True),  # US is no stop word, and matches whatever the case
        ("us", "he told us", False),
        ("New\nYork", "in New York", True),
        ("", "anything", False),
        ("Rome", "", False),
    ],
)
def test_matching_by_hand(entity: str, document: str, expected: bool) -> None:
    assert found_in(entity, document, STOP_WORDS) is expected


def longest_first(entity: str, document: str) -> bool:
    """The rule word for word: the longest neighbouring words that occur, else any single word that is no stop word."""
    words = entity.split()
    for length in range(len(words), 1, -1):
        for start in range(len(words) - length + 1):
            if re.search(re.escape(" ".join(words[start : start + length])), document, re.IGNORECASE):
                return True
    single = [word for word in words if word == "US" or word.lower() not in STOP_WORDS]
    return any(re.search(re.escape(word), document, re.IGNORECASE) for word in single)


words = st.lists(st.sampled_from(["the", "The", "of", "US", "us", "Ann", "ann", "Lee", "Annie"]), max_size=6).map(
    " ".join
)


@given(words, words)
def test_neighbours_find_what_longer_spans_find(entity: str, document: str) -> None:
    assert found_in(entity, document, STOP_WORDS) == longest_first(entity, document)


def test_counts() -> None:
    names = [["Ann Lee", "Rome", "Rome"], [], ["Bob"]]
    assert entity_precision(names, ["Ann left", "Rain", "bob"], STOP_WORDS).tolist() == [[1, 3], [0, 0], [1, 1]]
    assert entity_precision([], [], STOP_WORDS).shape == (0, 2)


def test_mean_and_pooled_by_hand(pipeline: str) -> None:
    samples = [
        Sample(text="Ann Lee left Rome on Monday.", source="Ann Lee left Paris."),  # 1 of 2; a date does not count
        Sample(text="It rained.", source="It rained."),  # none: skipped
        Sample(text="", source="Rome"),
        Sample(text="Bob, Bob and Bob.", source="bob was here"),  # 3 of 3, each mention counts
    ]
    found = measured(samples, pipeline)
    assert (found["entity-precision"].value, found["entity-precision"].n) == (3 / 4, 2)
    assert (found["entity-precision-pooled"].value, found["entity-precision-pooled"].n) == (4 / 5, 5)
    statistic = found["entity-precision"].statistic
    assert statistic is not None
    assert statistic.parts.tolist() == [[0.5, 1], [0, 0], [0, 0], [1, 1]]
    turned = measured(samples[::-1], pipeline)
    assert turned["entity-precision"].value == found["entity-precision"].value


def test_types_decide_what_counts(pipeline: str) -> None:
    samples = [Sample(text="Rome on Monday", source="Rome")]
    assert measured(samples, pipeline)["entity-precision"].value == 1
    assert measured(samples, pipeline, types=("DATE", "GPE"))["entity-precision"].value == 0.5
    with pytest.raises(ValueError, match="name at least one label"):
        measured(samples, pipeline, types=())


def test_prompt_stands_in_for_a_missing_source(pipeline: str) -> None:
    assert measured([Sample(text="Rome", prompt="rome")], pipeline)["entity-precision"].value == 1
    assert measured([Sample(text="Rome", prompt="rome", source="Oslo")], pipeline)["entity-precision"].value == 0
    with pytest.raises(MissingFieldError, match="no 'source', which entities needs"):
        measured([Sample(text="Rome")], pipeline)
    with pytest.raises(MissingFieldError, match="no 'text', which entities needs"):
        measured([Sample(source="Rome")], pipeline)


def test_the_human_row_is_judged_alike(pipeline: str) -> None:
    sample = Sample(text="Rome", source="Ann Lee in Oslo", references=["Ann Lee"])
    assert measured([sample.as_human()], pipeline)["entity-precision"].value == 1


def test_a_text_that_copies_its_document_is_perfect(pipeline: str) -> None:
    texts = ["Ann Lee met Bob in Rome.", "The Who toured the US."]
    found = measured([Sample(text=text, source=text) for text in texts], pipeline)
    assert [score.value for score in found.values()] == [1, 1]


def test_without_any_entity_there_is_no_value(pipeline: str) -> None:
    with pytest.raises(UndefinedError, match="no sample has a value"):
        measured([Sample(text="nothing", source="Rome")], pipeline)


def test_korean(tmp_path: Path) -> None:
    pipeline = saved(tmp_path / "ko", "xx")  # spaCy's Korean needs a morphological analyser to cut words
    samples = [Sample(text="홍길동 은 서울 에 갔다 .", source="홍길동은 부산에 갔다.")]
    found = measured(samples, pipeline)["entity-precision"]
    assert found.value == 0.5  # a name is found with its particle attached
    assert "xx_" in found.measure.unit


def test_korean_reviews(tmp_path: Path) -> None:
    lines = real_data("korean/nsmc_raw_test.tsv").read_text(encoding="utf-8").splitlines()[1:101]
    reviews = [line.split("\t")[3] for line in lines]
    pipeline = saved(tmp_path / "ko", "xx", [("EVENT", "영화"), ("EVENT", "이 영화")])
    found = measured([Sample(text=text, source=text) for text in reviews], pipeline)["entity-precision"]
    assert found.value == 1
    assert 0 < found.n < 100


def test_a_pipeline_that_is_not_there() -> None:
    assert "entities.pipeline" in str(registry.get("entities").on_request())
    with pytest.raises(ValueError, match="'en_core_web_xyz'"):
        measured([], "en_core_web_xyz")


def test_a_pipeline_without_a_recogniser(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "plain")
    with pytest.raises(ValueError, match="sentencizer"):
        Recogniser(str(tmp_path / "plain"))
    with pytest.raises(ValueError, match="its components are none"):
        Recogniser(saved(tmp_path / "blank", patterns=[]))


def test_a_trained_recogniser_runs_without_what_it_does_not_read(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    for name in ("tok2vec", "tagger", "senter", "ner"):
        nlp.add_pipe(name)
    nlp.get_pipe("tagger").add_label("NN")
    nlp.get_pipe("ner").add_label("PERSON")
    nlp.initialize()
    nlp.to_disk(tmp_path / "trained")
    recogniser = Recogniser(str(tmp_path / "trained"))
    assert recogniser._nlp.pipe_names == ["tok2vec", "ner"]
    assert len(list(recogniser.entities(["Ann Lee", ""]))) == 2


def test_a_ruler_keeps_the_components_before_it(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    for name in ("sentencizer", "attribute_ruler", "entity_ruler"):
        nlp.add_pipe(name)
    nlp.get_pipe("attribute_ruler").add(patterns=[[{"ORTH": "Rome"}]], attrs={"TAG": "NNP"})
    nlp.get_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": [{"TAG": "NNP"}]}])
    nlp.to_disk(tmp_path / "ruled")
    assert list(Recogniser(str(tmp_path / "ruled")).entities(["in Rome"])) == [["Rome"]]


def test_config_of_the_folder_is_the_one_read(pipeline: str) -> None:
    meta = json.loads((Path(pipeline) / "meta.json").read_text(encoding="utf-8"))
    named = f"spaCy {meta['lang']}_{meta['name']} {meta['version']}"
    assert Recogniser(pipeline, ("GPE", "ORG")).found_by == f"{named}; GPE, ORG"


def test_capital_letters_stand_in_for_a_pipeline() -> None:
    samples = [Sample(text="Yesterday Bob left Rome for Oslo.", source="Bob left Rome.")]
    found = measured(samples, "capitals")["entity-precision-pooled"]
    assert (found.value, found.n) == (2 / 3, 3)
    assert found.measure.unit == "fraction of entities (runs of capitalised words)"
