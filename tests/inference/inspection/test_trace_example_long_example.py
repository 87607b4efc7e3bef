from __future__ import annotations

import numpy as np
import pytest

import nextword as nw
from nextword.inference.scoring.example_encoding import Example
from tests.helpers import text_tokenizers
from tests.helpers.opened_models import POSITIONS, decoder, encoder_decoder

SENTENCE = "The king met the queen. The queen met the dragon, and the dragon met the king. "


@pytest.mark.parametrize("head", ["cache", "cache:long=150", "softmax+cp", "pg"])
def test_a_text_longer_than_the_model_is_read_as_score_reads_it(head, tmp_path):
    opened = decoder(text_tokenizers.byte_level(), head)
    text = SENTENCE * 8
    trace = nw.trace(opened, text=text, prompt="Once. ", candidates=3, positions=4)
    count = len(trace.tokens.log_prob)
    assert count > 2 * POSITIONS
    assert trace.window == POSITIONS

    lines = tmp_path / "tokens.jsonl"
    example = Example(text, prompt="Once. ")
    scored = nw.score(opened, texts=[example], tokens=lines, window=POSITIONS, stride=POSITIONS // 2, positions=4)
    assert scored.models[0].tokens == count
    rows = pytest.importorskip("pandas").read_json(lines, lines=True)
    np.testing.assert_allclose(trace.tokens.log_prob, rows["log_prob"], atol=1e-4)
    assert trace.tokens.rank == rows["rank"].tolist()
    for row in range(0, count, 7):
        for name, positions in trace.tokens.positions.items():
            # score counts from 1 at the first token of the text
            expected = {one["position"] - 1 + trace.first: one["share"] for one in rows["positions"][row][name]}
            found = dict(zip(positions.at[row], positions.share[row], strict=True))
            assert found == pytest.approx({at: share for at, share in expected.items() if at in found}, abs=1e-4)
            assert all(at < trace.first + row for at in found)


def test_a_text_that_fits_is_read_at_once():
    assert nw.trace(decoder(text_tokenizers.byte_level(), "cache"), text=SENTENCE).window is None


def test_a_target_longer_than_a_decoder_is_told():
    with pytest.raises(ValueError, match=rf"text: must have at most {POSITIONS} tokens"):
        nw.trace(encoder_decoder("bart"), text=SENTENCE * 8, source="The king.")
