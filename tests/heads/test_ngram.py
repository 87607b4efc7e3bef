"""Models that ask a corpus: the checker, every kind of head below, decoding with and without a KV cache."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.heads.ngram import with_ngrams
from nextword.retrieval.ngram import NgramModel
from tests.helpers.stored_texts import built, memory, scanned_mixture, weights
from tests.helpers.word_models import TEXT, family_model, word_model, word_tokenizer

pytest.importorskip("pydivsufsort")

V = 48


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [
        "softmax",
        "mos:3+c",
        *(pytest.param(spec, marks=pytest.mark.slow) for spec in ("cache", "softmax+cpr:2,4+mi:2x3", "ps")),
    ],
)
def test_the_checker_finds_a_distribution_that_sees_no_future(tmp_path: Path, spec: str) -> None:
    model = nw.attach(word_model(n_positions=64), spec)
    with with_ngrams(model, memory(tmp_path / "memory", V)):
        nw.check(model, lengths=(1, 6, 17)).raise_if_failed()


@torch.no_grad()
def test_distribution_of_a_batch_with_padding_is_that_found_by_scanning(tmp_path: Path) -> None:
    documents = [[5, 6, 7, 8, 5, 6, 9], [6, 7, 7], [8, 5, 6, 7]]
    remembered = NgramModel(built(tmp_path / "memory", documents, V), weights())
    model = nw.attach(word_model(), "softmax")
    ids = torch.tensor([[0, 0, 8, 5, 6], [5, 6, 7, 7, 5]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    head = model.distribution(ids, mask, position_ids=positions).probs().view(2, 5, V)
    with with_ngrams(model, remembered):
        mixed = model.distribution(ids, mask, position_ids=positions).probs().view(2, 5, V)
    for row, place in mask.nonzero().tolist():
        context = ids[row, : place + 1][mask[row, : place + 1].bool()].tolist()
        expected = scanned_mixture(documents, context, head[row, place].numpy(), remembered.weights)
        assert mixed[row, place].numpy() == pytest.approx(expected, abs=1e-13)
    assert abs(mixed - head).max() > 0.1


def test_writing_is_the_same_with_and_without_a_kv_cache(tmp_path: Path) -> None:
    documents = [[5, 6, 7, 8, 9, 10, 11, 12, 13], [14, 6, 7, 15]]
    even = weights().model_copy(update={"shares": [[0.1, 0.7, 0.1, 0.1]] * 3})
    model, prompt = nw.attach(word_model(n_positions=32), "softmax"), torch.tensor([[4, 5, 6], [15, 14, 6]])
    with with_ngrams(model, NgramModel(built(tmp_path / "memory", documents, V), even)):
        options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
        with_cache = model.generate(prompt, use_cache=True, **options)
        without = model.generate(prompt, use_cache=False, **options)
        beams = model.generate(prompt, num_beams=3, **options)
    assert with_cache.tolist() == without.tolist()
    assert with_cache[0, 3:].tolist() == [7, 8, 9, 10, 11, 12]
    assert with_cache[1, 3:5].tolist() == [7, 15]
    assert beams[0, 3:].tolist() == [7, 8, 9, 10, 11, 12]
    alone = model.generate(prompt, **options)
    assert alone.tolist() != with_cache.tolist()


def test_the_head_is_back_afterwards(tmp_path: Path) -> None:
    model = nw.attach(word_model(), "cache")
    head = model.next_word_head
    with with_ngrams(model, memory(tmp_path / "memory", V)):
        model.configure_head(temperature=2.0)
        assert model.next_word_head.modes == (*head.modes, "below")
        assert model.next_word_head.facts()["text_memory"] == "made up"
    assert model.next_word_head is head
    assert head.config.temperature == 2.0


def test_a_corpus_of_more_tokens_is_refused(tmp_path: Path) -> None:
    model = nw.attach(word_model(), "softmax")
    refused = pytest.raises(ValueError, match=r"49 tokens or more \(48")
    with refused, with_ngrams(model, memory(tmp_path / "memory", V + 1)):
        pass


def test_an_encoder_decoder_model_is_refused(tmp_path: Path) -> None:
    model = nw.attach(family_model("t5"), "softmax")
    refused = pytest.raises(ValueError, match="decoder-only")
    with refused, with_ngrams(model, memory(tmp_path / "memory", 8)):
        pass


def test_what_is_said_of_tokens_names_the_places_of_the_corpus(tmp_path: Path) -> None:
    tokenizer = word_tokenizer()
    documents = [[7, 8], tokenizer(TEXT)["input_ids"]]
    model = nw.attach(word_model(), "cache")
    with with_ngrams(model, NgramModel(built(tmp_path / "memory", documents, V), weights())):
        traced = nw.trace(model, tokenizer, TEXT)
        nw.score(model, tokenizer, TEXT, tokens=tmp_path / "tokens.jsonl")
    assert traced.positions_in == {"cache": "text", "text": "store"}
    excerpts, named = traced.texts["store"], 0
    assert "[document 1, from token 1] " in "".join(excerpts.pieces)
    for row, positions in enumerate(traced.tokens.positions["text"].at):
        assert all(excerpts.ids[place] == traced.texts["text"].ids[traced.first + row] for place in positions)
        named += len(positions)
    assert named > 5
    lines = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text().splitlines()]
    assert max(line["shares"]["text"] for line in lines) > 0.5
    found = {(name, place["in"]) for line in lines for name, of in line.get("positions", {}).items() for place in of}
    assert found == {("cache", "text"), ("text", "store")}
    for line in lines:
        for place in line["positions"]["text"]:
            assert documents[place["document"]][place["position"] - 1] == line["id"]


def test_a_loss_is_that_of_the_mixture(tmp_path: Path) -> None:
    model = nw.attach(word_model(), "softmax")
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (2, 12)))
    with with_ngrams(model, memory(tmp_path / "memory", V)):
        log_probs = model.distribution(ids).log_probs().view(2, 12, V)
        loss = model(ids, labels=ids).loss
    expected = -log_probs[:, :-1].gather(2, ids[:, 1:, None]).mean()
    torch.testing.assert_close(loss, expected)
    assert not torch.isclose(model(ids, labels=ids).loss, expected)
