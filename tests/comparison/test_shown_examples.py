"""What is shown of texts that have a source; what is shown of others stands in test_measured_texts.py."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from nextword.comparison.shown_examples import written_examples
from nextword.tasks.parts.bpe import trained_tokenizer

SOURCE = "The old mayor of Bern opened a bridge."
TEXT = "She says the old mayor of Bern sleeps."
REFERENCE = "A new bridge."


@pytest.fixture
def setting(tmp_path: Path) -> SimpleNamespace:
    tokenizer = trained_tokenizer(f"{SOURCE} {TEXT} " * 9, 300, None)
    ids = {text: tokenizer(text)["input_ids"] for text in (TEXT, REFERENCE)}
    line = {
        "prompt": SOURCE, "source": SOURCE, "text": TEXT, "token_ids": ids[TEXT],
        "references": [REFERENCE], "reference_token_ids": [ids[REFERENCE]],
    }  # fmt: skip
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n")
    way = SimpleNamespace(title="beam 4", is_sampled=False)
    return SimpleNamespace(
        task=SimpleNamespace(writes=SimpleNamespace(texts=SimpleNamespace(decodings=(way,), examples=1))),
        start=SimpleNamespace(counts=None, tokenizer=tokenizer),
        config=SimpleNamespace(seeds=[0]),
        folder=SimpleNamespace(path=tmp_path),
    )


def test_words_copied_from_the_source_are_marked_and_none_is_rare_where_nothing_was_counted(setting):
    run = SimpleNamespace(seed=0, method="softmax", samples={"beam 4": ["a.jsonl"]})
    [example] = written_examples(setting, [run])
    human, text = example.texts
    assert [(span.text, span.copied) for span in text.spans] == [
        ("She says", False), (" the old mayor of Bern", True), (" sleeps.", False),
    ]  # fmt: skip
    assert "".join(span.text for span in human.spans) == REFERENCE
    assert not any(span.copied for span in human.spans)
    assert text.very_rare == human.very_rare == 0
