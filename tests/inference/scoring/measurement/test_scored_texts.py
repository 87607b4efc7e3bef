from __future__ import annotations

import pytest

import nextword as nw
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.likelihood import text_spans
from nextword.inference.scoring.long_text import ScoringWindow
from nextword.inference.scoring.measurement.scored_texts import scored_text
from nextword.inference.scoring.opened_model import OpenedModel
from tests.helpers.word_models import TEXT, word_model, word_tokenizer

TOKENIZER = word_tokenizer()


@pytest.fixture(scope="module")
def opened() -> OpenedModel:
    return OpenedModel("one", nw.attach(word_model(), "softmax"), TOKENIZER)


@pytest.mark.parametrize("prompt", ["", "the king sat ", f"{TEXT} "])
@pytest.mark.parametrize("scoring_window", [ScoringWindow(6, 3), ScoringWindow(5, 5), ScoringWindow(16, 8)])
def test_what_a_window_holds_is_visible(opened: OpenedModel, prompt: str, scoring_window: ScoringWindow) -> None:
    text = scored_text(opened, Example(TEXT, prompt=prompt), scoring_window)
    words, number = f"{prompt}{TEXT}".split(), 0
    for part in text_spans(text, scoring_window):
        read = TOKENIZER.convert_ids_to_tokens([*part.context, *part.target])
        for place in range(len(part.context), len(read)):
            # without the start token, which is no text
            seen = [word for word in read[:place] if word != "<s>"]
            assert seen == words[text.visible[number] : len(prompt.split()) + number]
            assert read[place] == words[len(prompt.split()) + number]
            number += 1
        first = part.begin + len(part.context) + 1 - text.tokens_before
        assert TOKENIZER.convert_ids_to_tokens(text.token_at("text", first)) == read[len(part.context)]
    assert number == len(TEXT.split())


def test_bytes_of_tokens_add_up_to_those_of_the_text(opened: OpenedModel) -> None:
    text = scored_text(opened, Example("  the é \r\n king\n"), ScoringWindow(16, 8))
    # spaces that the tokenizer drops go to the token after them, at the end to the last
    assert text.text_bytes.tolist() == [len("  the"), len(" é".encode()), len(" \r\n king\n")]
