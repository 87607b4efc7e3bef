"""Excerpts around retrieved tokens: every place points at the token that was retrieved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nextword as nw
from nextword.heads.ngram import with_ngrams
from nextword.inference.datastore import grow, remember_recent
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.retrieval import StoredKeys
from nextword.retrieval.ngram import NgramModel
from tests.helpers.small_datastores import small_store
from tests.helpers.stored_texts import built, weights
from tests.helpers.word_models import word_tokenizer

TEXT = "it ran far and the queen saw the old dog on a horse the dog ran the king far"


def opened_with(tmp_path: Path, below: str = "softmax") -> OpenedModel:
    folder, store = small_store(tmp_path)
    model = nw.attach(nw.load(folder, head=below), f'knn:store="{store}",k=8')
    return OpenedModel("knn", model.eval(), word_tokenizer())


@pytest.mark.parametrize("below", ["softmax", "cache"])
def test_places_point_at_the_retrieved_tokens(tmp_path: Path, below: str) -> None:
    opened = opened_with(tmp_path, below)
    trace = nw.trace(opened, text=TEXT)
    assert trace.positions_in["knn"] == "store"
    excerpts, seen = trace.texts["store"], 0
    for row, positions in enumerate(trace.tokens.positions["knn"].at):
        for place in positions:
            assert excerpts.ids[place] == trace.texts["text"].ids[trace.first + row]
            seen += 1
    assert seen > 5
    assert "[document " in "".join(excerpts.pieces)
    assert 'data-role="store"' in trace.to_html()
    if below == "cache":
        assert trace.positions_in["cache"] == "text"


def test_excerpts_say_where_they_are_from(tmp_path: Path) -> None:
    opened = opened_with(tmp_path)
    keys = StoredKeys(opened.model.next_word_head.config.store)
    excerpts = nw.trace(opened, text=TEXT).texts["store"]
    starts = [at for at, piece in enumerate(excerpts.pieces) if piece.strip().startswith("[document ")]
    for at, end in zip(starts, [*starts[1:], len(excerpts.ids)], strict=True):
        assert excerpts.ids[at] == keys.start
        document, first = (int(word.strip(",] ")) for word in excerpts.pieces[at].split() if word[0].isdigit())
        ids = excerpts.ids[at + 1 : end]
        assert keys.stretch(document, first - 1, first + len(ids) - 2) == (ids, first - 1)


def test_two_stores_are_told_apart(tmp_path: Path) -> None:
    pytest.importorskip("pydivsufsort")
    opened, tokenizer = opened_with(tmp_path), word_tokenizer()
    corpus = [tokenizer(TEXT)["input_ids"]]
    with with_ngrams(opened.model, NgramModel(built(tmp_path / "memory", corpus, len(tokenizer)), weights())):
        trace = nw.trace(opened, text=TEXT)
    assert trace.positions_in == {"knn": "store", "text": "store"}
    excerpts, titles = trace.texts["store"], {}
    title = ""
    for at, piece in enumerate(excerpts.pieces):
        title = piece.strip() if piece.strip().startswith("[") else title
        titles[at] = title.partition(":")[0]
    for name in ("knn", "text"):
        positions = [(row, at) for row, of in enumerate(trace.tokens.positions[name].at) for at in of]
        assert len(positions) > 5
        assert {titles[at] for _, at in positions} == {f"[{name}"}
        assert all(excerpts.ids[at] == trace.texts["text"].ids[trace.first + row] for row, at in positions)


def test_what_was_just_said_is_shown_too(tmp_path: Path) -> None:
    opened = opened_with(tmp_path)
    documents = StoredKeys(opened.model.next_word_head.config.store).manifest.documents
    remember_recent(opened, most=1000)
    grow(opened, TEXT)
    excerpts = nw.trace(opened, text=TEXT).texts["store"]
    assert f"[document {documents}, from token 1] {TEXT}" in "".join(excerpts.pieces)


def test_nothing_retrieved_is_no_text(tmp_path: Path) -> None:
    opened = opened_with(tmp_path)
    opened.model.configure_head(weight=0.0)
    trace = nw.trace(opened, text=TEXT)
    assert "store" not in trace.texts
    assert trace.tokens.positions["knn"].at[0] == []


def test_lines_of_tokens_name_document_and_position(tmp_path: Path) -> None:
    opened = opened_with(tmp_path)
    keys = StoredKeys(opened.model.next_word_head.config.store)
    nw.score(opened.model, opened.tokenizer, [TEXT], tokens=tmp_path / "tokens.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text(encoding="utf-8").splitlines()]
    named = [(line["id"], place) for line in lines for place in line["positions"]["knn"]]
    assert len(named) > 5
    for token, place in named:
        assert place["in"] == "store"
        assert keys.stretch(place["document"], place["position"] - 1, place["position"] - 1)[0] == [token]
