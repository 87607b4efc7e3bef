from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextword.evaluation.survey import make_survey
from nextword.evaluation.survey.kinds import registry
from tests.helpers.answered_surveys import made, samples_file, unblinded

SECRET = {"a": "trime-secret", "b": "histalign-secret", "c": "bart-secret"}


@pytest.fixture
def secret_files(tmp_path: Path) -> dict[str, Path]:
    return {name: samples_file(tmp_path / f"{name}.jsonl", letter) for letter, name in SECRET.items()}


@pytest.mark.parametrize("asks", registry.names())
def test_judges_are_never_told_who_wrote_what(asks: str, secret_files: dict[str, Path]) -> None:
    files = dict(list(secret_files.items())[:2]) if asks == "pairwise" else secret_files
    survey = make_survey(asks, files, {"items": 4, "near": 20} if asks == "faithfulness" else {"items": 4})
    assert not [name for name in SECRET.values() if name in unblinded(survey.survey)]
    writers = {name for item in survey.key.items.values() for unit in item.units.values() for name in unit.values()}
    assert set(files) <= writers


@pytest.mark.parametrize("asks", registry.names())
def test_the_place_of_a_unit_says_nothing(asks: str, tmp_path: Path) -> None:
    """No system has the same number, or the same side, in every item."""
    survey = made(tmp_path, asks, items=12, **({"near": 20} if asks == "faithfulness" else {}))
    first = Counter(next(iter(item.units["u1"].values())) for item in survey.key.items.values())
    assert len(first) > 1


def test_sides_are_balanced_and_recorded(tmp_path: Path) -> None:
    survey = made(tmp_path, items=12)
    sides = Counter(item.units["u1"]["a"] for item in survey.key.items.values())
    assert sides == {"a": 6, "b": 6}
    texts = {
        (str(line["id"]), name): line["text"]
        for name in "ab"
        for line in map(json.loads, (tmp_path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
    }
    for item in survey.survey.items:
        if item.id in survey.key.items:
            key = survey.key.items[item.id]
            for passage, side in zip(item.units[0].texts, "ab", strict=True):
                assert passage.lines == [texts[key.prompt, key.units["u1"][side]]]


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    assert made(tmp_path, seed=1) == made(tmp_path, seed=1)
    assert made(tmp_path, seed=1).survey.id != made(tmp_path, seed=2).survey.id


def test_every_item_has_its_judges_and_every_form_its_checks(tmp_path: Path) -> None:
    survey = made(tmp_path, items=7, items_per_form=3, judges=2, checks=2)
    seen = Counter(page.item for form in survey.survey.forms for page in form.pages)
    assert set(seen.values()) == {2}
    assert set(seen) == {item.id for item in survey.survey.items}
    for form in survey.survey.forms:
        assert sum(page.item in survey.key.checks for page in form.pages) == 2
        assert sum(page.item in survey.key.items for page in form.pages) in (2, 3)


def test_texts_stand_in_each_place_equally_often(tmp_path: Path) -> None:
    survey = made(tmp_path, "rating", names="abc", items=8, judges=2, checks=0)
    places: Counter[tuple[int, str]] = Counter()
    for form in survey.survey.forms:
        for page in form.pages:
            writers = survey.key.items[page.item].units
            places.update((place, writers[unit]["text"]) for place, unit in enumerate(page.order))
    assert len(places) == 16
    assert set(places.values()) == {4}


def test_pairs_of_different_length_are_passed_over(tmp_path: Path) -> None:
    for name, texts in (("a", ["x" * 10, "x" * 400, "x" * 300]), ("b", ["y" * 10, "y" * 10, "y" * 110])):
        lines = [json.dumps({"prompt": f"p{at}", "text": text}) for at, text in enumerate(texts)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = {name: tmp_path / f"{name}.jsonl" for name in "ab"}
    survey = make_survey("pairwise", files, {"items": 2})
    assert {item.prompt for item in survey.key.items.values()} == {"1", "3"}
    assert survey.notes[0].startswith("2 of 3 prompts")
    with pytest.raises(ValueError, match=r"items:.*\(3 given"):
        make_survey("pairwise", files, {"items": 3})


def test_checks_ask_for_what_the_key_has(tmp_path: Path) -> None:
    survey = made(tmp_path, checks=3)
    labels = {(one.name, choice.value): choice.label for one in survey.survey.questions for choice in one.choices}
    assert len(survey.key.checks) == 6
    for item in survey.survey.items:
        asking = "please answer" in item.units[0].texts[-1].lines[-1]
        assert asking == (item.id in survey.key.checks)
        for question, value in survey.key.checks.get(item.id, {}).items():
            assert f'"{labels[question, value]}" for {question}' in item.units[0].texts[-1].lines[-1]


def test_long_documents_are_shortened_to_what_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def embed(self: Any, texts: list[str]) -> np.ndarray:
        asked.append(len(texts))
        return np.array([[float(text.count("a")), 1.0, len(text)] for text in texts])

    monkeypatch.setattr("nextword.evaluation.judges.sentence_encoder.SentenceEncoder.embed", embed)
    monkeypatch.setattr("nextword.evaluation.judges.sentence_encoder.SentenceEncoder.__init__", lambda *_: None)
    survey = made(tmp_path, "faithfulness", items=3, near=4)
    assert len(asked) == 1, "one call of the encoder for all documents"
    for item in survey.survey.items:
        assert "[...]" in item.passages[0].lines
        for unit in item.units:
            assert len(unit.near) == 4
            assert all(item.passages[0].lines[line] != "[...]" for line in unit.near)


@pytest.mark.parametrize(
    ("asks", "names", "recipe", "message"),
    [
        ("pairwise", "a", {}, r"pairwise: must have 2 samples files \(1 given\)"),
        ("pairwise", "ab", {"items": 13}, r"items: must be at most 12"),
        ("pairwise", "ab", {"near": 3}, "near: unknown key"),
        ("pairwise", "ab", {"check_text": "x"}, r"check_text: must have \{answers\} in it"),
        ("rating", "ab", {"completion_url": "javascript:alert(1)"}, "completion_url"),
        ("ranking", "ab", {}, "unknown survey kind 'ranking'"),
    ],
)
def test_wrong_surveys_are_refused(asks: str, names: str, recipe: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        made(tmp_path, asks, names, **recipe)


def test_other_prompts_under_the_same_id_are_refused(tmp_path: Path) -> None:
    for name, prompt in (("a", "one"), ("b", "another")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": 1, "prompt": prompt, "text": "t"}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"b\.jsonl, line"):
        make_survey("pairwise", {name: tmp_path / f"{name}.jsonl" for name in "ab"}, {"items": 2})
