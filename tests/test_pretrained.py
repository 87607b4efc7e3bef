"""Tokens as a person reads them: no label is empty, and no two tokens of a vocabulary have the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from nextword.pretrained import model_location, token_label
from nextword.tasks.parts.bpe import trained_tokenizer
from nextword.tasks.parts.word_tokenizer import word_tokenizer

TEXT = [
    "was it was, wasp and was not: it was.\n\n\tIndented \\n text\u00a0here was 정말 좋았다 €5 🙂",
    "was  it  two spaces, was\u200b unseen; was \u2423 too",
] * 20


def byte_level() -> Any:
    return trained_tokenizer("\n".join(TEXT), 400, None)


def unigram() -> Any:
    """As T5's: a start of a word is ▁, and ▁ is a token by itself."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def byte_fallback() -> Any:
    """As Llama's: sentencepiece with bytes for what it has no piece for, whose decoder strips the first space."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["<unk>", "<s>", "</s>", *bytes_, "▁", "▁▁", "was", "▁was", "\n", "w", "a", "s"]
    merges = [("▁", "▁"), ("w", "a"), ("wa", "s"), ("▁", "was")]
    tokenizer = Tokenizer(
        models.BPE({piece: number for number, piece in enumerate([*pieces, "wa"])}, merges, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def word_piece() -> Any:
    """As BERT's: ## goes on with a word."""
    pieces = ["[UNK]", "[CLS]", "[SEP]", "was", "##was", "as", "##as", ",", "##,"]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def end_of_word() -> Any:
    """As the first GPT's: the end of a word is </w>."""
    pieces = ["<unk>", "w", "a", "s</w>", "was", "was</w>", "a</w>"]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], end_of_word_suffix="</w>"))
    tokenizer.decoder = decoders.BPEDecoder()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


KINDS: list[Callable[[], Any]] = [byte_level, unigram, byte_fallback, word_piece, end_of_word]


@cache
def made(kind: Callable[[], Any]) -> Any:
    return kind()


def labels_of(tokenizer: Any) -> Iterator[tuple[str, str]]:
    """Piece and label of every token."""
    for number in range(len(tokenizer)):
        yield tokenizer.convert_ids_to_tokens(number), token_label(tokenizer, number)


@pytest.mark.parametrize("kind", KINDS)
def test_no_label_is_empty_or_that_of_another_token(kind: Callable[[], Any]) -> None:
    found = dict(labels_of(made(kind)))
    assert all(label.isprintable() and label.strip() == label != "" for label in found.values())
    assert len(set(found.values())) == len(made(kind))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (byte_level, {"Ġwas": "␣was", "Ġ": "␣", "Ċ": r"\n", "ĉ": r"\t", "<eos>": "<eos>", "â": "<0xE2>", "\\": r"\\"}),
        (unigram, {"▁was": "␣was", "▁": "␣", "</s>": "</s>", "€": "€"}),
        (byte_fallback, {"▁was": "␣was", "was": "was", "▁▁": "␣␣", "<0x0A>": "<0x0A>", "\n": r"\n", "<s>": "<s>"}),
        (word_piece, {"was": "was", "##was": "##was", "[SEP]": "[SEP]"}),
        (end_of_word, {"was": "was", "was</w>": "was␣"}),
    ],
)
def test_labels(kind: Callable[[], Any], expected: dict[str, str]) -> None:
    found = dict(labels_of(made(kind)))
    assert {piece: found[piece] for piece in expected} == expected


def test_words_are_their_own_labels() -> None:
    tokenizer = word_tokenizer(["the king and the queen"])
    assert token_label(tokenizer, tokenizer.convert_tokens_to_ids("king")) == "king"


def test_added_tokens_and_ids_beyond_the_vocabulary() -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("   ", normalized=False), AddedToken("Ġodd", normalized=False)])
    assert [token_label(tokenizer, len(tokenizer) - 2 + place) for place in (0, 1)] == ["␣␣␣", "Ġodd"]
    assert token_label(tokenizer, len(tokenizer) + 7) == f"<#{len(tokenizer) + 7}>"


def test_the_folder_of_a_comparison_names_its_models(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"so this is no saved model \(was saving interrupted\?\)"):
        model_location(tmp_path)
    for name in ("softmax-mle-seed0", "cache-mle-seed0"):
        (tmp_path / "trained" / name / "model").mkdir(parents=True)
        (tmp_path / "trained" / name / "model" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="the folder of a comparison; give one of its models: ") as told:
        model_location(tmp_path)
    named = str(told.value).partition("models: ")[2].split(", ")
    assert [model_location(one) for one in named] == [
        tmp_path / "trained" / name / "model" for name in ("cache-mle-seed0", "softmax-mle-seed0")
    ]


@pytest.mark.real
def test_the_real_model_is_a_language_model(real_model: tuple[Any, Any]) -> None:
    model, tokenizer = real_model
    asked = tokenizer("The capital of France is", return_tensors="pt")
    written = model.generate(**asked, max_new_tokens=1, do_sample=False)
    assert tokenizer.decode(written[0]) == "The capital of France is Paris"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False).count("user") == 1
