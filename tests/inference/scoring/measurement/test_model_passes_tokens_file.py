from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.inference.scoring.example_encoding import Example
from tests.helpers.families import START
from tests.helpers.word_models import TEXT, family_model, word_model, word_tokenizer

TOKENIZER = word_tokenizer()


def written(path: Path, model: Any, texts: Any, **settings: Any) -> list[dict[str, Any]]:
    nw.score(model, TOKENIZER, texts, tokens=path / "tokens.jsonl", **settings)
    return [json.loads(line) for line in (path / "tokens.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_line_for_each_token_in_order(tmp_path: Path) -> None:
    model = word_model()
    texts = ["the king", TEXT, "a dog ran"]
    lines = written(tmp_path, {"one": model, "two": word_model(1)}, texts, batch_size=2, window=6)
    positions = [(line["model"], line["text"], line["position"]) for line in lines]
    tokens = [(f"text {number}", text.split()) for number, text in enumerate(texts, 1)]
    in_order = [(text, place) for text, words in tokens for place in range(1, len(words) + 1)]
    assert positions == [(name, *place) for name in ("one", "two") for place in in_order]
    assert [line["token"] for line in lines[: len(in_order)]] == [word for _, words in tokens for word in words]
    said = nw.attach(model, "softmax").distribution(torch.tensor([[START, *TOKENIZER("the king")["input_ids"]]]))
    log_probs = said.log_probs()
    for row, line in enumerate(lines[:2]):
        assert line["log_prob"] == pytest.approx(log_probs[row, line["id"]].item(), abs=1e-6)
        assert line["rank"] == 1 + int((log_probs[row] > log_probs[row, line["id"]]).sum())
        assert line["entropy"] == pytest.approx(said.entropy()[row].item(), abs=1e-6)
        assert line["shares"] == {"softmax": 1.0}
        assert "positions" not in line
    assert set(lines[0]["groups"]) == {"repetition", "copied", "frequency", "position"}


def test_texts_that_are_asked_together_are_not_mixed_up(tmp_path: Path) -> None:
    texts = ["the king sat", TEXT, "a dog", "the old dog ran far", "it"]
    together = written(tmp_path, word_model(), texts, batch_size=50)
    alone = [line for text in texts for line in written(tmp_path, word_model(), text)]
    for name in ("log_prob", "entropy"):
        assert [line[name] for line in together] == pytest.approx([line[name] for line in alone], abs=2e-6)


def test_numbers_are_those_of_the_score(tmp_path: Path) -> None:
    lines = written(tmp_path, word_model(), TEXT, window=6, stride=3)
    assert len(lines) == len(TEXT.split())
    found = nw.score(word_model(), TOKENIZER, TEXT, window=6, stride=3)
    assert -sum(line["log_prob"] for line in lines) == pytest.approx(found.nll * len(lines), abs=1e-4)


@pytest.mark.parametrize("window", [6, 16])
def test_places_are_counted_in_the_text(tmp_path: Path, window: int) -> None:
    examples = [Example(" ".join(TEXT.split()[5:]), prompt=" ".join(TEXT.split()[:5]) + " "), Example(TEXT)]
    lines = written(tmp_path, nw.attach(word_model(), "cache"), examples, window=window, positions=3)
    named = 0
    for line in lines:
        first = {"text 1": 5, "text 2": 0}[line["text"]]
        for place in line["positions"]["cache"]:
            assert place["in"] == "text"
            assert line["position"] - window <= place["position"] < line["position"]
            assert TEXT.split()[first + place["position"] - 1] == place["token"] == line["token"]
            named += 1
        shares = [place["share"] for place in line["positions"]["cache"]]
        assert shares == sorted(shares, reverse=True)
        assert len(shares) <= 3
        assert sum(shares) <= line["shares"]["cache"] + 1e-5
    assert named > 5


def test_places_of_a_source_are_counted_there(tmp_path: Path) -> None:
    model = nw.attach(family_model("bart"), "pg").double()
    lines = written(tmp_path, model, Example("the dog ran far", source=TEXT))
    named = [
        (line["token"], place) for line in lines for positions in line["positions"].values() for place in positions
    ]
    assert {token for token, _ in named} == {"the", "ran", "far"}
    for token, place in named:
        assert place["in"] == "source"
        assert TEXT.split()[place["position"] - 1] == place["token"] == token


def test_a_fault_leaves_an_earlier_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    path.write_text("before")
    model = word_model()
    model.transformer.h[0].mlp.c_fc.weight.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite numbers"):
        nw.score({"one": word_model(), "two": model}, TOKENIZER, TEXT, tokens=path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["tokens.jsonl"]
