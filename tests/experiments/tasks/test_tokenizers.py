from __future__ import annotations

from pathlib import Path

import pytest

from nextword.experiments.tasks.tokenizers import trained_tokenizer

TEXT = "The cat sat on the mat .\nThe dog sat on the cat , naïvely .\n" * 30


def test_kept_tokenizer_is_used_again(tmp_path: Path) -> None:
    first = trained_tokenizer(TEXT, 280, tmp_path)
    (kept,) = tmp_path.iterdir()
    assert trained_tokenizer(TEXT, 280, tmp_path).get_vocab() == first.get_vocab()
    stamp = kept.stat().st_mtime_ns
    trained_tokenizer(TEXT, 280, tmp_path)
    assert kept.stat().st_mtime_ns == stamp
    trained_tokenizer(TEXT + "more", 280, tmp_path)
    trained_tokenizer(TEXT, 290, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_too_small_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"task.vocabulary:.*least 258"):
        trained_tokenizer(TEXT, 100, None)
