"""The examples of docs/saved-models.md run one after the other, and the table lists what is in a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nextword.inference.scoring.opened_model import open_model
from nextword.model.card import CardFacts
from tests.helpers import gguf_files
from tests.helpers.doc_pages import ROOT, blocks
from tests.helpers.word_tokenizer import word_tokenizer

pytestmark = pytest.mark.docs

PAGE = (ROOT / "docs" / "saved-models.md").read_text(encoding="utf-8")


def test_examples_of_saved_models_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = gguf_files.tokenizer()
    gguf_files.write(tmp_path / "model.gguf", gguf_files.llama(words), words)
    measured = {"perplexity": 7.0, "tokens": 10, "low": 6.0, "high": 8.0}
    namespace: dict[str, Any] = {"tokenizer": word_tokenizer(), **measured}
    for body in blocks(PAGE, "python"):
        exec(body, namespace)
    assert isinstance(namespace["facts"], CardFacts)
    assert open_model("mine", device="cpu").model.config.spec == "cache:temperature=0.5,weight=none/histalign"
    assert open_model("model", device="cpu").model.config.spec == "softmax/mle"
    assert "`cache:temperature=0.5,weight=none/histalign`" in PAGE
    listed = set(re.findall(r"^\| `([\w./]+)`", PAGE, re.MULTILINE))
    there = {file.name for file in Path("mine").iterdir()} - {"tokenizer_config.json"}
    assert listed == there | {"encoder_tokenizer/"}
