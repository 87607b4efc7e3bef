"""What a trace says, against the model itself."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import nextword as nw
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.model.speculative_decoding.speculative_decoding import FixedLength
from nextword.runtime.pretrained import token_label
from tests.helpers.opened_models import POSITIONS, conditioned, decoder, encoder_decoder
from tests.helpers.text_tokenizers import TEXTS, byte_level, words

TEXT, PROMPT = "The king sat. The king stood 🙂.", "The throne stood."
ROUNDED = 0.5e-4 + 2e-6  # four decimals, and four units in the last place of single precision near 5

CASES: dict[str, Any] = {
    "softmax": lambda: (decoder(byte_level()), {"prompt": PROMPT}),
    "cache": lambda: (decoder(byte_level(), "cache"), {}),
    "words": lambda: (decoder(words(), "softmax+cpr:3,8"), {"prompt": PROMPT}),
    "mos": lambda: (decoder(byte_level(), "mos:3"), {}),
    "pg": lambda: (decoder(byte_level(), "pg"), {"prompt": PROMPT}),
    "bart": lambda: (encoder_decoder("bart", "softmax+cepr:3"), {"source": PROMPT}),
    "t5": lambda: (encoder_decoder("t5", "cache"), {"source": PROMPT}),
    "auxiliary": lambda: (conditioned("softmax+cep"), {"auxiliary": PROMPT}),
    "prefix": lambda: (conditioned("cache", "prefix:3"), {"auxiliary": PROMPT, "prompt": PROMPT}),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_the_model(case: str) -> None:
    opened, read = CASES[case]()
    trace = nw.trace(opened, text=TEXT, candidates=4, positions=3, **read)
    text, count = trace.texts["text"], len(trace.tokens.log_prob)
    assert trace.first + count == len(text.ids)
    ids = torch.tensor([text.ids])
    arguments: dict[str, Any] = {"input_ids": ids[:, :-1]}
    if opened.has_encoder:
        arguments = {"input_ids": torch.tensor([trace.texts["source"].ids]), "decoder_input_ids": ids[:, :-1]}
    if opened.auxiliary_tokenizer is not None:
        arguments |= opened.auxiliary_tokenizer([PROMPT])
    with torch.no_grad():
        distribution = opened.model.distribution(**arguments)[trace.first - 1 :]
        log_probs = distribution.log_probs().double()
        observed = ids[0, trace.first :]
        sources, parts = distribution.sources(observed[:, None]), distribution.token_positions(observed)
    at_ids = log_probs.gather(1, observed[:, None])
    tokens = trace.tokens
    np.testing.assert_allclose(tokens.log_prob, at_ids[:, 0], rtol=0, atol=ROUNDED)
    np.testing.assert_array_equal(tokens.rank, (log_probs > at_ids).sum(1) + 1)
    np.testing.assert_allclose(tokens.entropy, -(log_probs.exp() * log_probs).sum(1), rtol=0, atol=ROUNDED)
    np.testing.assert_allclose(tokens.candidates.log_prob, log_probs.topk(4).values, rtol=0, atol=ROUNDED)
    assert set(tokens.shares) == set(sources) == set(tokens.candidates.shares)
    for name, share in sources.items():
        np.testing.assert_allclose(tokens.shares[name], share[:, 0] / at_ids[:, 0].exp(), rtol=0, atol=2 * ROUNDED)
    assert set(tokens.positions) == set(parts) == set(trace.positions_in)
    for name, of_positions in parts.items():
        pointed = trace.texts[trace.positions_in[name]]
        assert of_positions.shape[1] <= len(pointed.ids)
        seen = 0
        for row, (at, shares) in enumerate(zip(tokens.positions[name].at, tokens.positions[name].share, strict=True)):
            assert all(pointed.ids[place] == observed[row] for place in at)
            expected = (of_positions[row, at] / at_ids[row].exp()).double()
            np.testing.assert_allclose(shares, expected, rtol=0, atol=2 * ROUNDED)
            assert shares == sorted(shares, reverse=True)
            assert sum(shares) <= tokens.shares[name][row] + 4 * ROUNDED
            seen += len(at)
        assert seen > 0


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_are_the_text_and_every_token_has_a_label(case: str, text: str) -> None:
    opened, read = CASES[case]()
    trace = nw.trace(opened, text=text, candidates=2, positions=2, **read)
    before = read.get("prompt", "")
    assert "".join(trace.texts["text"].pieces) == before + text
    assert "".join(trace.texts["text"].pieces[trace.first :]) == text
    for role in ("source", "auxiliary"):
        assert (role in trace.texts) == (role in read)
        if role in read:
            assert "".join(trace.texts[role].pieces) == read[role]  # type: ignore[index]
    shown = {token for of in trace.texts.values() for token in of.ids}
    shown |= {token for row in trace.tokens.candidates.ids for token in row}
    assert set(trace.vocabulary) == shown
    assert all(trace.vocabulary[token] == token_label(opened.tokenizer, token) for token in shown)


def test_texts_that_places_are_of() -> None:
    def positions_in(case: str) -> dict[str, str]:
        opened, read = CASES[case]()
        return dict(nw.trace(opened, text="king", **read).positions_in)

    assert positions_in("softmax") == positions_in("mos") == {}
    assert positions_in("cache") == {"cache": "text"}
    assert positions_in("pg") == {"pointer": "text"}
    assert positions_in("t5") == {"cache": "source"}
    assert positions_in("bart") == {"encoder": "source", "context": "text"}
    assert positions_in("auxiliary") == {"encoder": "auxiliary", "context": "text"}


def test_a_plain_model_is_asked_and_stays_as_it_is() -> None:
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": POSITIONS}
    model = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=len(byte_level()), **sizes)).train()
    config, weights = model.config.to_dict(), {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trace = nw.trace(model, byte_level(), TEXT)
    assert (trace.model.name, trace.model.head, trace.model.objective) == ("GPT2LMHeadModel", "softmax", "mle")
    assert trace.model.backbone == "GPT2LMHeadModel"
    assert trace.model.parameters == model.num_parameters()
    assert trace.tokens.shares == {"softmax": [1.0] * len(trace.tokens.rank)}
    assert model.config.to_dict() == config
    assert model.training
    assert type(model) is hf.GPT2LMHeadModel
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    ids = torch.tensor([trace.texts["text"].ids])
    with torch.no_grad():
        expected = model.eval()(ids).logits.log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
    np.testing.assert_allclose(trace.tokens.log_prob, expected, rtol=0, atol=ROUNDED)


def test_a_saved_model_is_asked_by_its_path(tmp_path: Path) -> None:
    opened = decoder(byte_level(), "cache")
    opened.model.save_pretrained(tmp_path / "story")
    opened.tokenizer.save_pretrained(tmp_path / "story")
    trace = nw.trace(tmp_path / "story", text=TEXT, prompt=PROMPT)
    assert trace.model.name == "story"
    expected = nw.trace(opened.model, byte_level(), TEXT, prompt=PROMPT)
    assert trace.tokens == expected.tokens
    assert trace.texts == expected.texts


def test_what_an_encoder_cut_off_is_not_shown() -> None:
    opened = conditioned("softmax+ce", max_length=6)
    trace = nw.trace(opened, text="king", auxiliary=TEXTS[0])
    shown = trace.texts["auxiliary"]
    assert 0 < len(shown.ids) == len(shown.pieces) < len(byte_level()(TEXTS[0])["input_ids"])
    assert TEXTS[0].startswith("".join(shown.pieces))
    whole = nw.trace(conditioned("softmax", max_length=6), text="king", auxiliary=TEXTS[0])
    assert "".join(whole.texts["auxiliary"].pieces) == TEXTS[0]


@pytest.mark.parametrize("case", ["softmax", "cache", "t5", "bart", "auxiliary", "prefix"])
def test_a_text_that_the_model_writes(case: str) -> None:
    opened, read = CASES[case]()
    trace = nw.trace(opened, candidates=3, max_new_tokens=7, do_sample=False, **read)
    text = trace.texts["text"]
    written = text.ids[trace.first :]
    assert 1 <= len(written) <= 7
    assert trace.tokens.rank == [1] * len(written)  # greedy
    assert [row[0] for row in trace.tokens.candidates.ids] == written
    assert "".join(text.pieces[: trace.first]) == read.get("prompt", "")
    assert len(text.pieces) == len(text.ids)


@pytest.mark.parametrize("case", ["cache", "t5"])
def test_drafts_along_a_text_that_the_model_writes(case: str) -> None:
    """What was accepted is what stands there; what was refused is not."""
    opened, read = CASES[case]()
    settings = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False, **read}
    trace = nw.trace(opened, draft=nw.SpeculativeDecoding("prompt", FixedLength(4)), **settings)
    ids = trace.texts["text"].ids
    assert trace.texts == nw.trace(opened, **settings).texts
    assert trace.drafts
    for one in trace.drafts:
        assert trace.first < one.begin
        assert ids[one.begin : one.begin + one.accepted] == one.ids[: one.accepted]
        if one.accepted < len(one.ids) and one.begin + one.accepted < len(ids):
            assert ids[one.begin + one.accepted] != one.ids[one.accepted]
        assert set(one.ids) <= set(trace.vocabulary)
    assert nw.Trace.model_validate_json(trace.to_json()) == trace


def test_the_text_of_a_sampled_continuation_is_its_decoded_tokens() -> None:
    opened = decoder(byte_level())
    torch.manual_seed(3)
    trace = nw.trace(opened, prompt=PROMPT, max_new_tokens=20, do_sample=True)
    text = trace.texts["text"]
    written = opened.tokenizer.decode(text.ids[trace.first :], skip_special_tokens=True)
    assert "".join(text.pieces[trace.first :]) == written


def test_a_token_without_probability_survives(tmp_path: Path) -> None:
    """A cache alone gives nothing to words that it does not hold."""
    opened = decoder(byte_level(), {"head": "cache", "mode": "cache_only"})
    trace = nw.trace(opened, text=TEXT, candidates=10)
    zero = [at for at, log_prob in enumerate(trace.tokens.log_prob) if log_prob == -math.inf]
    assert zero
    assert all(trace.tokens.shares[name][at] == 0.0 for name in trace.tokens.shares for at in zero)
    assert all(math.isfinite(one) for row in trace.tokens.candidates.log_prob for one in row)
    assert min(len(row) for row in trace.tokens.candidates.ids) < 10
    trace.to_json(tmp_path / "trace.json")
    written = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert [at for at, log_prob in enumerate(written["tokens"]["log_prob"]) if log_prob is None] == zero
    assert nw.Trace.load(tmp_path / "trace.json") == trace
    table = trace.to_pandas()
    assert np.flatnonzero(np.isneginf(table["log_prob"])).tolist() == zero


def test_more_candidates_than_tokens_are_all_tokens() -> None:
    trace = nw.trace(decoder(words()), text="The king", candidates=10_000)
    assert len(trace.tokens.candidates.ids[0]) == len(words())


def test_how_much_a_model_sees_at_once() -> None:
    opened = decoder(words())
    assert nw.trace(opened, text="king " * POSITIONS).window is None
    assert nw.trace(opened, text="king " * (POSITIONS + 1)).window == POSITIONS
    assert nw.trace(opened, text="king " * POSITIONS, prompt="king").window == POSITIONS
    prefixed = conditioned("softmax", "prefix:3")
    assert nw.trace(prefixed, text="x" * (POSITIONS - 2), auxiliary="king").window == POSITIONS - 3
    long = encoder_decoder("t5")
    assert len(nw.trace(long, text="king " * (POSITIONS + 9), source="king").tokens.rank) > POSITIONS


def test_a_model_with_damaged_weights_is_refused() -> None:
    opened = decoder(words())
    with torch.no_grad():
        opened.model.get_output_embeddings().weight[3] = torch.nan
    with pytest.raises(ValueError, match="1 of the text is nan"):
        nw.trace(opened, text="The king")


def test_what_is_missing_or_too_much_is_told() -> None:
    opened = decoder(byte_level())
    with pytest.raises(ValueError, match=r"tokenizer:.*model"):
        nw.trace(opened.model, text="x")
    with pytest.raises(ValueError, match="trace: 'max_new_tokens'"):
        nw.trace(opened, text="x", max_new_tokens=3)
    with pytest.raises(ValueError, match="example text"):
        nw.trace(opened, text="")
    with pytest.raises(ValueError, match="trace: num_return_sequences must be 1"):
        nw.trace(opened, prompt="x", num_return_sequences=2)
    with pytest.raises(ValueError, match="encoder-decoder"):
        nw.trace(encoder_decoder("t5"), text="x")
    with pytest.raises(ValueError, match="auxiliary"):
        nw.trace(conditioned("softmax"), text="x")
    with pytest.raises(ValueError, match=r"auxiliary_tokenizer:.*model"):
        nw.trace(conditioned("softmax").model, byte_level(), "x", auxiliary="y")
    with pytest.raises(ValueError, match=r"positions:.*\(-1 given"):
        nw.trace(opened, text="x", positions=-1)
    with pytest.raises(ValueError, match="nowhere: no such folder"):
        nw.trace("./nowhere", text="x")


def test_the_name_of_a_model_is_that_of_its_folder() -> None:
    opened = decoder(byte_level())
    opened.model.backbone.config.name_or_path = "runs/story"
    assert nw.trace(opened.model, byte_level(), "x").model.name == "story"
    assert nw.trace(replace(opened, name="other"), text="x").model.name == "other"
    assert isinstance(opened, OpenedModel)
