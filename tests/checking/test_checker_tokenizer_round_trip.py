from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, WordLevel
from transformers import PreTrainedTokenizerFast

import nextword as nw
from nextword.checking.audit.scorer_properties import PROBES
from nextword.checking.checker import round_trip
from tests.helpers.families import tiny


def bytes_of(normalizer: Any = None) -> PreTrainedTokenizerFast:
    """A tokenizer of bytes, which loses nothing but what a normalizer takes away."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def words() -> PreTrainedTokenizerFast:
    """Three words, and an unknown one."""
    known = {"<unk>": 0, "The": 1, "cat": 2, ".": 3}
    tokenizer = Tokenizer(WordLevel(known, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def test_a_tokenizer_of_bytes_loses_nothing() -> None:
    row, finding = round_trip(bytes_of())
    assert (row.verdict, row.worst, finding) == ("passed", 0.0, None)
    assert row.where == "no two texts with the same tokens were found"


LETTERS = PROBES[-1]
"""A ligature, a fraction, and a sign that is a letter too."""


@pytest.mark.parametrize(
    ("tokenizer", "text", "other"),
    [
        (bytes_of(normalizers.Lowercase()), "The cat sat on the mat.", "the cat sat on the mat."),
        (bytes_of(normalizers.NFKC()), LETTERS, unicodedata.normalize("NFKC", LETTERS)),
        (bytes_of(normalizers.Strip()), " starts with a space", "starts with a space"),
        (words(), "\u4eca\u65e5\u306f\u4e16\u754c", "<unk>"),
    ],
    ids=["lower case", "forms of letters", "ends", "unknown words"],
)
def test_what_is_lost_is_a_remark_that_says_which_text(tokenizer: Any, text: str, other: str) -> None:
    row, finding = round_trip(tokenizer)
    assert row.verdict == "remark"
    assert row.passed
    assert f"{text!r} and {other!r} are the same tokens" in row.where
    assert finding is not None
    assert (finding.fault, finding.only_for) == ("bytes", "bits per byte")
    assert str(finding).endswith("(matters for bits per byte only)")


def test_a_text_that_is_only_decoded_to_another_is_not_lost() -> None:
    class Tidy:
        """Decodes without the space at the start, which has a token of its own."""

        def __call__(self, text: str, **_: Any) -> Any:
            return bytes_of()(text)

        def decode(self, tokens: list[int], **_: Any) -> str:
            return bytes_of().decode(tokens).lstrip(" ")

    row, finding = round_trip(Tidy())
    assert finding is None
    assert row.worst == 0
    assert "texts that decode to a text with other tokens: 1" in row.where
    assert sum(text[0] == " " for text in PROBES) == 1


@pytest.mark.slow
def test_a_remark_fails_no_check() -> None:
    for model in (tiny("gpt2"), nw.attach(tiny("gpt2"), "cache")):
        report = nw.check(model, lengths=[4], tokenizer=words())
        assert (report.passed, report.exit_code) == (True, 0)
        assert [one.fault for one in report.findings] == ["bytes"]
        assert report.record().findings[0].only_for == "bits per byte"
        report.raise_if_failed()


def test_who_cannot_decode_is_not_asked() -> None:
    row, finding = round_trip(lambda text, **_: None)
    assert row.verdict == "not checked"
    assert "the tokenizer raised an error" in row.where
    assert finding is None
