"""What a folder was begun for, held against what is asked for now."""

from __future__ import annotations

from pathlib import Path

import pytest

from nextword.runtime.resumable import differences, read_manifest


@pytest.mark.parametrize(("content", "message"), [("{", "cannot be read"), ("[1]", "not what a comparison writes")])
def test_a_file_that_is_no_claim(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "compare.json").write_text(content)
    with pytest.raises(ValueError, match=rf"{message}.*choose another folder \(out\) or delete this one"):
        read_manifest(tmp_path / "compare.json", "a comparison")


def test_what_is_missing_differs_from_what_is_nothing() -> None:
    assert differences({"a": None}, {}) == ["a: null there, nothing asked for"]
    assert differences({"a": {"b": 1}}, {"a": {"b": 2}}, lambda key: key == "a.b") == []
