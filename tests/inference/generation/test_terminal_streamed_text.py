from __future__ import annotations

import pytest
import torch

from nextword.inference.generation.terminal import LatestDistribution, SourceStreamer, TextPieces
from tests.helpers.writing_models import LOUD_CACHE, opened_model, tokenizer

TEXT = "The king 옛날 옛적에, and\n\nthe 뷁 queen é 🙂 met"


@pytest.mark.parametrize("text", [TEXT, "", "🙂" * 30])
def test_pieces_joined_are_the_text_and_no_character_is_shown_in_part(text):
    pieces, ids = TextPieces(tokenizer()), tokenizer()(text)["input_ids"]
    found = [*map(pieces.add, ids), pieces.end()]
    assert "".join(found) == text
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in found)


def test_a_character_that_never_becomes_whole_comes_at_the_end():
    pieces, ids = TextPieces(tokenizer()), tokenizer()("a뷁")["input_ids"]
    shown = [pieces.add(token) for token in ids[:-1]]
    assert shown == ["a", "", ""][: len(shown)]
    assert "".join([*shown, pieces.end()]) == tokenizer().decode(ids[:-1])


def test_special_tokens_are_not_shown():
    end, pad = tokenizer().eos_token_id, tokenizer().pad_token_id
    shown: list[str] = []
    streamer = SourceStreamer(tokenizer(), [end], lambda piece, _: shown.append(piece))
    for token in [*tokenizer()("The king")["input_ids"], pad, end]:
        streamer.put(torch.tensor([token]))
    streamer.end()
    assert "".join(shown) == "The king"


@torch.no_grad()
def test_the_component_is_that_of_the_distribution_a_token_was_chosen_from():
    opened = opened_model(head=LOUD_CACHE)
    latest, found = LatestDistribution(opened.model.next_word_head), []
    ids = tokenizer()("The king and the queen and the king and")["input_ids"]
    with latest.watching():
        for count in range(1, len(ids)):
            opened.model(torch.tensor([ids[:count]]), logits_to_keep=1)
            found.append(latest.source(ids[count]))
    assert latest.names == ("softmax", "cache")
    shares = opened.model.distribution(torch.tensor([ids[:-1]])).sources(torch.tensor(ids[1:])[:, None])
    assert found == (shares["cache"] > shares["softmax"])[:, 0].long().tolist()
    assert set(found) == {0, 1}


@torch.no_grad()
def test_watching_changes_no_logits_and_leaves_nothing_behind():
    for head in ("softmax", LOUD_CACHE, "softmax+cpr:5", "mos:2", "pg"):
        opened = opened_model(head=head)
        ids = torch.tensor([[5, 6, 7, 5]])
        before = opened.model(ids).logits
        latest = LatestDistribution(opened.model.next_word_head)
        with latest.watching():
            for _ in range(2):
                torch.testing.assert_close(opened.model(ids).logits, before)
                latest.source(7)
        assert not opened.model.next_word_head._forward_hooks
        assert torch.equal(opened.model(ids).logits, before)


@torch.no_grad()
def test_a_head_with_one_component_is_asked_once():
    opened = opened_model()
    latest = LatestDistribution(opened.model.next_word_head)
    with latest.watching():
        opened.model(torch.tensor([[5, 6]]), logits_to_keep=1)
        assert latest.source(7) is None
        assert not opened.model.next_word_head._forward_hooks
    assert latest.names == ("softmax",)
