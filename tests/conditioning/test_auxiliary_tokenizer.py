"""Auxiliary texts as tokens of an encoder, and as tokens of the decoder with the places that stand for them."""

from __future__ import annotations

import logging

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

import nextword as nw
from nextword.experiments.tasks.tokenizers import trained_tokenizer

TEXTS = [
    "A bishop falls ill in Perú; nobody knows why.",
    "Über  den   Fluss: naïve façades, 3 cafés.",
    " Once upon a time\n\nthe queen spoke to the bishop.",
    "why",
]


@pytest.fixture(scope="module")
def pieces() -> PreTrainedTokenizerFast:
    """WordPiece as BERT's: lower case, accents stripped, [CLS] and [SEP] around it."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=75, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


@pytest.fixture(scope="module")
def bytes_(pieces: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """BPE of bytes as GPT-2's."""
    return trained_tokenizer("\n".join(TEXTS), 330, None)


def covering(pieces: PreTrainedTokenizerFast, text: str, positions: int, character: int) -> int:
    """The first piece among the encoder's tokens that ends after a character; looked for one by one."""
    made = pieces(text, return_offsets_mapping=True)
    for place in range(1, positions - 1):
        _, end = made["offset_mapping"][place]
        if end > character:
            return place
    raise AssertionError(f"nothing covers {text[character:]!r}")


@pytest.mark.parametrize("max_length", [None, 8])
def test_places_are_those_of_the_pieces(
    pieces: PreTrainedTokenizerFast, bytes_: PreTrainedTokenizerFast, max_length: int | None
) -> None:
    rows = nw.AuxiliaryTokenizer(pieces, bytes_, max_length).rows(TEXTS)
    split = 0
    for text, aux, ids, positions in zip(
        TEXTS, rows["aux_input_ids"], rows["source_ids"], rows["source_positions"], strict=True
    ):
        whole = pieces(text)["input_ids"]
        assert aux == (whole if max_length is None or len(whole) <= 8 else [*whole[:7], 3])
        spans = bytes_(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        seen = pieces(text, return_offsets_mapping=True)["offset_mapping"][len(aux) - 2][1]
        assert ids == [
            token
            for token, (start, _) in zip(bytes_(text, add_special_tokens=False)["input_ids"], spans, strict=True)
            if start < seen
        ]
        expected = [covering(pieces, text, len(aux), start) for start, _ in spans[: len(ids)]]
        assert positions == expected
        assert positions == sorted(positions)
        assert set(positions) <= set(range(1, len(aux) - 1))  # never a special token
        split += len(positions) - len(set(positions))
        if max_length is None:
            assert bytes_.decode(ids) == text
    assert split > 0, "no piece stands for several tokens, so nothing was tested"


def test_words_read_the_state_of_their_own_piece(
    pieces: PreTrainedTokenizerFast, bytes_: PreTrainedTokenizerFast
) -> None:
    """Worked out by hand on a word that the decoder splits and one with an accent."""
    rows = nw.AuxiliaryTokenizer(pieces, bytes_).rows(["why Perú bishop"])
    names = pieces.convert_ids_to_tokens(rows["aux_input_ids"][0])
    text, at = "why Perú bishop", 0
    spans = bytes_(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    for (start, _), place in zip(spans, rows["source_positions"][0], strict=True):
        letters = "why peru bishop"
        at = next(i for i in range(start, len(letters)) if letters[i] != " ")  # a blank belongs to what follows
        assert letters[at] in names[place]
    assert (names[0], names[-1]) == ("[CLS]", "[SEP]")


def test_padding(pieces: PreTrainedTokenizerFast, bytes_: PreTrainedTokenizerFast) -> None:
    auxiliary = nw.AuxiliaryTokenizer(pieces, bytes_)
    made, rows = auxiliary(TEXTS), auxiliary.rows(TEXTS)
    assert set(made) == {"aux_input_ids", "aux_attention_mask", "source_ids", "source_positions"}
    for number in range(len(TEXTS)):
        length, words = len(rows["aux_input_ids"][number]), len(rows["source_ids"][number])
        assert made["aux_input_ids"][number].tolist()[:length] == rows["aux_input_ids"][number]
        assert made["aux_attention_mask"][number].nonzero().flatten().tolist() == list(range(length))
        assert made["source_ids"][number].tolist()[:words] == rows["source_ids"][number]
        assert made["source_positions"][number].tolist()[:words] == rows["source_positions"][number]
        assert (made["source_positions"][number, words:] == -1).all()
    alone = nw.AuxiliaryTokenizer(pieces)(TEXTS)
    assert set(alone) == {"aux_input_ids", "aux_attention_mask"}
    assert torch.equal(alone["aux_input_ids"], made["aux_input_ids"])


def test_long_texts_are_cut_with_one_warning(pieces: PreTrainedTokenizerFast, caplog: pytest.LogCaptureFixture) -> None:
    short = pieces(TEXTS[3])["input_ids"]
    auxiliary = nw.AuxiliaryTokenizer(pieces, max_length=len(short))
    with caplog.at_level(logging.WARNING, "nextword.conditioning.auxiliary_tokenizer"):
        auxiliary(TEXTS[3:])  # just fits
        assert not caplog.messages
        auxiliary(TEXTS)
        auxiliary(TEXTS)
    assert caplog.messages == [
        f"3 of 4 auxiliary texts are longer than {len(short)} tokens and are truncated (warned once)"
    ]


def test_the_encoders_own_limit_counts(pieces: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nw.AuxiliaryTokenizer(pieces).max_length is None
    monkeypatch.setattr(pieces, "model_max_length", 6)
    assert nw.AuxiliaryTokenizer(pieces)(TEXTS)["aux_input_ids"].shape == (4, 6)
    with pytest.raises(ValueError, match="max_length"):
        nw.AuxiliaryTokenizer(pieces, max_length=7)


@pytest.mark.parametrize("max_length", [-1, 0, 2])
def test_a_limit_without_room(pieces: PreTrainedTokenizerFast, max_length: int) -> None:
    with pytest.raises(ValueError, match=f"max_length {max_length} leaves no room for a token of the text"):
        nw.AuxiliaryTokenizer(pieces, max_length=max_length)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "none given"),
        ("a text", "a single text given"),
        (["a", None], r"row 1 has no text \(NoneType given\)"),
        ([None, "a", None], "rows 0, 2 have no text"),
        (["a", 3], r"row 1 has no text \(int given\)"),
        (["", "a"], "row 0 has an empty text"),
        ([" \n\t"] * 7, r"rows 0, 1, 2, 3, 4, \.\.\. have an empty text"),
        (["a", "\u200b\u0000"], r"row 1 has no token for the encoder"),
    ],
)
def test_texts_that_are_none(pieces: PreTrainedTokenizerFast, texts: object, message: str) -> None:
    auxiliary = nw.AuxiliaryTokenizer(pieces)
    for ask in (auxiliary, auxiliary.rows):
        with pytest.raises(ValueError, match=f"auxiliary texts: .*{message}"):
            ask(texts)  # type: ignore[operator]


def test_slow_tokenizers_know_no_characters(
    pieces: PreTrainedTokenizerFast, bytes_: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PreTrainedTokenizerFast, "is_fast", property(lambda self: self is not pieces))
    nw.AuxiliaryTokenizer(pieces)(TEXTS)  # nothing is aligned
    with pytest.raises(ValueError, match="character"):
        nw.AuxiliaryTokenizer(pieces, bytes_)
    with pytest.raises(ValueError, match="is a slow tokenizer"):
        nw.AuxiliaryTokenizer(bytes_, pieces)
