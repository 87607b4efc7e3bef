"""Classifier metrics against transformers asked by hand, one pair at a time."""

from __future__ import annotations

import json
import math
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from nextword.evaluation.judges.classifier import Classifier, consistent_label
from nextword.evaluation.judges.sentences import sentences_of
from nextword.evaluation.judges.tables import sentence_form, tapex_form
from nextword.evaluation.metrics import Sample, Setup, UndefinedError
from nextword.evaluation.metrics.sample import MissingFieldError
from tests.helpers.tiny_judges import ENGLISH, GAMES, KOREAN, MakeFolder, metric, parts, sample, scores

DOCUMENTS = [*ENGLISH, "word " * 100, *KOREAN]
CLAIMS = ["a cat.", "it rained", KOREAN[0], "The dog was not in the city.", "won", "2012", "of", "is not"]


@cache
def loaded(folder: str) -> tuple[Any, Any]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()


def by_hand(folder: str, evidence: str, claim: str, limit: int = 64) -> list[float]:
    """Probabilities of one pair, no padding."""
    tokenizer, model = loaded(folder)
    with torch.no_grad():
        encoded = tokenizer(evidence, claim, truncation="only_first", max_length=limit, return_tensors="pt")
        return [float(one) for one in model(**encoded).logits[0].softmax(-1)]


def pairs() -> list[Sample]:
    lines = enumerate(zip(DOCUMENTS, CLAIMS, strict=False), 1)
    return [sample(line, source=document, text=claim) for line, (document, claim) in lines]


@pytest.mark.parametrize("batch_size", [1, 3, 50])
@pytest.mark.parametrize(("name", "consistent"), [("factcc", 0), ("nli", 2)])
def test_share_and_probability_are_those_of_single_pairs(
    request: pytest.FixtureRequest, name: str, consistent: int, batch_size: int
) -> None:
    folder = request.getfixturevalue(f"{name}_folder")
    found = scores(name, pairs(), Setup(batch_size=batch_size), model=folder)
    wanted = np.array([by_hand(folder, one.source, one.text) for one in pairs()])  # type: ignore[arg-type]
    np.testing.assert_allclose(parts(found[f"{name}-probability"]), wanted[:, consistent], atol=2e-5)
    right = wanted.argmax(axis=1) == consistent
    assert 0 < right.sum() < len(right)  # the random model says both
    assert parts(found[name]) == right.tolist()
    assert found[name].value == pytest.approx(right.mean())
    assert found[name].n == len(right)
    assert (found[name].measure.goal, found[name].measure.unit) == ("higher", "fraction of texts")


def test_evidence_comes_first(factcc_folder: str) -> None:
    there = by_hand(factcc_folder, "The cat sat.", "A dog.")[0]
    back = by_hand(factcc_folder, "A dog.", "The cat sat.")[0]
    assert abs(there - back) > 1e-3
    found = scores("factcc", [sample(source="The cat sat.", text="A dog.")], model=factcc_folder)
    assert found["factcc-probability"].value == pytest.approx(there, abs=2e-5)


@pytest.mark.parametrize(("asked", "limit"), [(512, 64), (20, 20)])
def test_only_the_document_is_cut(factcc_folder: str, asked: int, limit: int) -> None:
    claim = "the cat sat in the city"  # 6 tokens; 3 special ones
    room = limit - 6 - 3
    document = "dog " * room
    values = [
        scores("factcc", [sample(source=text, text=claim)], model=factcc_folder, max_length=asked)
        for text in (document, document + "city " * 50, document[:-4] + "city")
    ]
    first, longer, other = (one["factcc-probability"].value for one in values)
    assert longer == pytest.approx(first, abs=1e-6)
    assert abs(other - first) > 1e-4
    assert first == pytest.approx(by_hand(factcc_folder, document, claim, limit)[0], abs=2e-5)


def test_long_claim_is_left_whole(factcc_folder: str) -> None:
    document, claim = "dog " * 40, "the cat sat in " * 10
    found = scores("factcc", [sample(source=document, text=claim)], model=factcc_folder)
    wanted = by_hand(factcc_folder, document, claim)[0]
    assert found["factcc-probability"].value == pytest.approx(wanted, abs=2e-5)


def test_claim_that_fills_the_model_is_cut_as_well(factcc_folder: str) -> None:
    found = scores("factcc", [sample(source="the cat", text="dog " * 500)], model=factcc_folder)
    assert 0 <= found["factcc-probability"].value <= 1


def test_special_tokens_in_a_text_are_text(factcc_folder: str) -> None:
    """[SEP] in a text would move the boundary between document and claim."""
    one = scores("factcc", [sample(source="the cat [SEP] dog", text="a mat")], model=factcc_folder)
    tokenizer, model = loaded(factcc_folder)
    encoded = tokenizer("the cat [SEP] dog", "a mat", return_tensors="pt", split_special_tokens=True)
    assert (encoded["input_ids"] == tokenizer.sep_token_id).sum() == 2
    with torch.no_grad():
        wanted = model(**encoded).logits[0].softmax(-1)[0]
    assert one["factcc-probability"].value == pytest.approx(float(wanted), abs=2e-5)


@pytest.mark.parametrize("name", ["factcc", "nli"])
def test_empty_texts_are_wrong_and_empty_documents_do_not_count(request: pytest.FixtureRequest, name: str) -> None:
    """A system that writes nothing half the time is wrong half the time."""
    folder = request.getfixturevalue(f"{name}_folder")
    fields = [("The cat.", "A cat."), ("The cat.", ""), ("", "A cat."), ("The cat.", " \n"), ("", "")]
    found = scores(name, [sample(source=one, text=two) for one, two in fields], model=folder)
    for score in found.values():
        one, *others = parts(score)
        np.testing.assert_array_equal(others, [0, math.nan, 0, math.nan])
        assert (score.n, score.value) == (3, pytest.approx(one / 3))
        assert score.note == "empty texts, which count as wrong: 2 of 5"
    with pytest.raises(UndefinedError, match="no sample has a value"):
        scores(name, [sample(source="", text="")], model=folder)


def test_official_factcc_says_correct_with_its_first_output(bert_classifier: MakeFolder) -> None:
    """Its file has no names for the outputs."""
    folder = bert_classifier("LABEL_0", "LABEL_1")
    found = scores("factcc", pairs(), model=folder)["factcc-probability"]
    wanted = [by_hand(folder, one.source, one.text)[0] for one in pairs()]  # type: ignore[arg-type]
    np.testing.assert_allclose(parts(found), wanted, atol=2e-5)
    with pytest.raises(ValueError, match=r"nli\.label:.*output of the model"):
        metric("nli", model=folder)


def test_every_sentence_may_be_a_claim(factcc_folder: str) -> None:
    text, document = " ".join(ENGLISH[:4]), ENGLISH[3]
    each = np.array([by_hand(factcc_folder, document, claim) for claim in ENGLISH[:4]])
    assert 0 < (each.argmax(axis=1) == 0).sum() < len(each)  # one wrong sentence makes a wrong text
    found = scores("factcc", [sample(source=document, text=text)], model=factcc_folder, sentences=True)
    assert found["factcc"].value == float((each.argmax(axis=1) == 0).all())
    assert found["factcc-probability"].value == pytest.approx(each[:, 0].min(), abs=2e-5)
    assert "each sentence as the claim" in found["factcc"].measure.meaning


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n ", []),
        ("no end", ["no end"]),
        ('He left. "Why?" she asked.', ["He left.", '"Why?" she asked.']),
        ("It cost 3.50 e.g. here. Yes", ["It cost 3.50 e.g. here.", "Yes"]),
        ("정말 좋았다. 또 볼 것이다!\n끝", ["정말 좋았다.", "또 볼 것이다!", "끝"]),
        ("真的。很好！", ["真的。", "很好！"]),
        ("Mr. Smith and Dr. Lee met Sen. Harkin.", ["Mr. Smith and Dr. Lee met Sen. Harkin."]),
        ("John F. Kennedy left the U.S. Senate. He won.", ["John F. Kennedy left the U.S. Senate.", "He won."]),
        ("See No. 5 on Jan. 3. No. He did.", ["See No. 5 on Jan. 3.", "No.", "He did."]),
        ("So do I. He left St. Louis.\nMr.\nX", ["So do I.", "He left St. Louis.", "Mr.", "X"]),
        ('He said "made in the U.S." Then he left.', ['He said "made in the U.S."', "Then he left."]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


def test_table_is_the_premise_where_there_is_one(nli_folder: str) -> None:
    text = "athens was in 1896"
    one = sample(table=GAMES, source="The cat.", text=text)
    wanted = {
        None: sentence_form(GAMES),
        "table": sentence_form(GAMES),
        "source": "The cat.",
    }
    for evidence, premise in wanted.items():
        found = scores("nli", [one], model=nli_folder, evidence=evidence)
        expected = by_hand(nli_folder, premise, text)[2]
        assert found["nli-probability"].value == pytest.approx(expected, abs=2e-5)
    found = scores("nli", [one], model=nli_folder, table_form="tapex")
    assert found["nli-probability"].value == pytest.approx(by_hand(nli_folder, tapex_form(GAMES), text)[2], abs=2e-5)
    with pytest.raises(MissingFieldError, match="'source'"):
        scores("nli", [sample(text=text)], model=nli_folder)


def test_second_run_asks_nothing(factcc_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(cache=tmp_path)
    first = scores("factcc", [*pairs(), *pairs()], setup, model=factcc_folder)
    assert len(list(tmp_path.rglob("*.npz"))) == 1
    monkeypatch.setattr(Classifier, "_load", lambda self: pytest.fail("the model was loaded"))
    again = scores("factcc", pairs(), setup, model=factcc_folder)
    assert parts(again["factcc-probability"]) == parts(first["factcc-probability"])[: len(pairs())]
    # The other output is in the same rows.
    other = scores("factcc", pairs(), setup, model=factcc_folder, label="incorrect")
    np.testing.assert_allclose(
        np.add(parts(other["factcc-probability"]), parts(again["factcc-probability"])), 1, atol=1e-6
    )


def test_other_length_or_model_asks_again(factcc_folder: str, bert_classifier: MakeFolder, tmp_path: Path) -> None:
    setup = Setup(cache=tmp_path)
    for settings in ({}, {"max_length": 20}, {"model": bert_classifier("x", "correct")}):
        scores("factcc", pairs(), setup, **{"model": factcc_folder, **settings})
    assert len(list(tmp_path.iterdir())) == 3


def test_equal_questions_are_asked_once(factcc_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = Classifier._read
    monkeypatch.setattr(
        Classifier, "_read", lambda self, questions, missing: asked.extend(missing) or read(self, questions, missing)
    )
    scores("factcc", [*pairs(), *pairs()], model=factcc_folder)
    assert asked == list(range(len(pairs())))


@pytest.mark.parametrize(
    ("labels", "asked", "default", "number"),
    [
        (["CORRECT", "INCORRECT"], None, None, 0),
        (["contradiction", "neutral", "entailment"], None, None, 2),
        (["Refused", "Entailed"], None, None, 1),
        (["SUPPORTED", "REFUTED"], None, None, 0),
        (["LABEL_0", "LABEL_1"], None, 1, 1),
        (["LABEL_0", "LABEL_1"], 0, 1, 0),
        (["LABEL_0", "LABEL_1"], "label_0", None, 0),
        (["no", "yes"], "YES", None, 1),
        (["no", "yes"], "0", None, 0),
        (["entailment", "correct"], "correct", None, 1),
    ],
)
def test_label_is_found_by_its_name(
    labels: list[str], asked: str | int | None, default: int | None, number: int
) -> None:
    assert consistent_label(dict(enumerate(labels)), asked, default, "x.label") == number


@pytest.mark.parametrize(
    ("labels", "asked", "default", "message"),
    [
        (["yes", "no"], None, 1, r"x\.label: no output .* Its outputs are 0 = yes, 1 = no; name one of them"),
        (["LABEL_0", "LABEL_1"], None, None, "no output of the model can be identified by name"),
        (["entailment", "correct"], None, None, "several outputs of the model can be identified"),
        (["CORRECT", "WRONG"], "corect", None, r"no output 'corect'\. Did you mean 'correct'\?"),
        (["CORRECT", "WRONG"], 2, None, "no output '2'"),
    ],
)
def test_label_that_cannot_be_told(
    labels: list[str], asked: str | int | None, default: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        consistent_label(dict(enumerate(labels)), asked, default, "x.label")


def test_names_of_outputs_win_over_their_numbers_file(factcc_folder: str, tmp_path: Path) -> None:
    """As in the published TAPEX checkpoint, whose label2id is still the generic one."""
    shutil.copytree(factcc_folder, tmp_path / "copy")
    path = tmp_path / "copy" / "config.json"
    config = json.loads(path.read_text())
    config["label2id"] = {"LABEL_0": 0, "LABEL_1": 1}
    path.write_text(json.dumps(config))
    found = scores("factcc", pairs(), model=str(path.parent))
    assert parts(found["factcc"]) == parts(scores("factcc", pairs(), model=factcc_folder)["factcc"])


def test_checkpoint_without_a_classifier_is_refused(bert_folder: str) -> None:
    with pytest.raises(ValueError, match="classifier"):
        scores("factcc", pairs(), model=bert_folder, label=0)


def test_broken_weights_are_refused(factcc_folder: str, tmp_path: Path) -> None:
    model = transformers.AutoModelForSequenceClassification.from_pretrained(factcc_folder)
    model.classifier.bias.data[:] = torch.nan
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(factcc_folder).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"factcc:.*infinity for 8 of 8 texts"):
        scores("factcc", pairs(), model=str(tmp_path))


def test_bad_settings(factcc_folder: str, bert_classifier: MakeFolder) -> None:
    with pytest.raises(ValueError, match=r"nli\.model:.*'models/nli'\}"):
        metric("nli")
    with pytest.raises(ValueError, match=r"factcc\.model: 'manueldeprada/FactCC'"):
        metric("factcc")
    with pytest.raises(ValueError, match=r"factcc\.label:.*'entailed'"):
        metric("factcc", model=factcc_folder, label="entailed")
    with pytest.raises(ValueError, match="several labels"):
        metric("factcc", model=bert_classifier("score"))
    with pytest.raises(ValueError, match=r"factcc\.max_length"):
        metric("factcc", model=factcc_folder, max_length=0)
    with pytest.raises(MissingFieldError, match="'source'"):
        scores("factcc", [sample(text="a")], model=factcc_folder)


def test_decoder_without_padding_reads_single_texts(gpt2_folder: str, tmp_path: Path) -> None:
    config = transformers.AutoConfig.from_pretrained(gpt2_folder)
    config.id2label = {0: "supported", 1: "refuted"}
    torch.manual_seed(1)
    transformers.GPT2ForSequenceClassification(config).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(gpt2_folder).save_pretrained(tmp_path)
    found = scores("factcc", pairs(), model=str(tmp_path))["factcc-probability"]
    wanted = [by_hand(str(tmp_path), one.source, one.text, 48)[0] for one in pairs()]  # type: ignore[arg-type]
    np.testing.assert_allclose(parts(found), wanted, atol=2e-5)
