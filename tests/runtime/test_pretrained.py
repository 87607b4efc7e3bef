"""Models in GGUF files are those that they were made of; labels of tokens are never empty, and all differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

import nextword as nw
from nextword.checking.opened_subject import open_subject
from nextword.cli.score import told_apart
from nextword.experiments.reproduction.planning.experiment_work import model_config
from nextword.experiments.tasks.task import DECODER_ONLY
from nextword.experiments.tasks.tokenizers import trained_tokenizer, word_tokenizer
from nextword.experiments.training.starting_model import saved_configuration
from nextword.inference.scoring.opened_model import open_model
from nextword.runtime.pretrained import from_pretrained, load_tokenizer, model_location, token_bytes, token_label
from tests.helpers import gguf_files

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


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (byte_level, {"Ġwas": b" was", "Ċ": b"\n", "â": b"\xe2", "<eos>": None}),
        (unigram, {"▁was": b" was", "</s>": None, "€": b"\xe2\x82\xac"}),
        (byte_fallback, {"▁was": b" was", "was": b"was", "<0x0A>": b"\n", "<0xE2>": b"\xe2", "<s>": None}),
        (word_piece, {"was": b" was", "##was": b"was", "[SEP]": None}),
        (end_of_word, {"was": b"was", "was</w>": b"was "}),
    ],
)
def test_bytes_are_those_of_the_text(kind: Callable[[], Any], expected: dict[str, bytes | None]) -> None:
    tokenizer = made(kind)
    assert {piece: token_bytes(tokenizer, tokenizer.convert_tokens_to_ids(piece)) for piece in expected} == expected


@pytest.mark.parametrize("kind", [byte_level, byte_fallback])
def test_bytes_of_parts_of_a_character_are_joined_to_it(kind: Callable[[], Any]) -> None:
    tokenizer = made(kind)
    ids = tokenizer("🙂 was é", add_special_tokens=False)["input_ids"]
    parts = [token_bytes(tokenizer, token) or b"" for token in ids]
    assert b"".join(parts).decode().strip() == "🙂 was é"
    assert any(part.decode(errors="replace") == "\N{REPLACEMENT CHARACTER}" for part in parts)


def test_words_are_their_own_labels() -> None:
    tokenizer = word_tokenizer(["the king and the queen"])
    assert token_label(tokenizer, tokenizer.convert_tokens_to_ids("king")) == "king"


def test_added_tokens_and_ids_beyond_the_vocabulary() -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("   ", normalized=False), AddedToken("Ġodd", normalized=False)])
    assert [token_label(tokenizer, len(tokenizer) - 2 + place) for place in (0, 1)] == ["␣␣␣", "Ġodd"]
    assert token_label(tokenizer, len(tokenizer) + 7) == f"<#{len(tokenizer) + 7}>"


def test_the_folder_of_a_comparison_names_its_models(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"interrupted\?\)"):
        model_location(tmp_path)
    for name in ("softmax-mle-seed0", "cache-mle-seed0"):
        (tmp_path / "trained" / name / "model").mkdir(parents=True)
        (tmp_path / "trained" / name / "model" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="comparison") as told:
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


@pytest.fixture(scope="module")
def words() -> Any:
    return gguf_files.tokenizer()


@pytest.fixture(scope="module")
def llama(words: Any) -> Any:
    return gguf_files.llama(words)


@pytest.fixture
def tiny(tmp_path: Path, llama: Any, words: Any) -> Path:
    return gguf_files.write(tmp_path / "tiny.gguf", llama, words)


def scores(model: Any, words: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([words(gguf_files.TEXT)["input_ids"][:40]])).logits


def test_a_gguf_file_is_the_model_that_it_was_made_of(tiny: Path, llama: Any, words: Any) -> None:
    read = from_pretrained(AutoModelForCausalLM, tiny)
    torch.testing.assert_close(scores(read, words), scores(llama, words), atol=0, rtol=0)
    assert read.dtype == torch.float32
    assert read.config.name_or_path == str(tiny)
    assert not hasattr(read.config, "quantization_config")
    tokenizer = load_tokenizer(str(tiny), "model")
    for text in (gguf_files.TEXT, f"1066 {gguf_files.TURN}\n\n정말 <|endoftext|>"):
        assert tokenizer(text)["input_ids"] == words(text)["input_ids"]
    assert len(tokenizer) == len(words)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == "<user>Hi"
    assert from_pretrained(AutoModelForCausalLM, tiny, dtype=torch.bfloat16).dtype == torch.bfloat16


def test_files_beside_a_gguf_file_are_not_its_own(tiny: Path, words: Any) -> None:
    words.save_pretrained(tiny.parent)
    (tiny.parent / "chat_template.jinja").write_text("another")
    (tiny.parent / "config.json").write_text('{"model_type": "gpt2"}')
    assert load_tokenizer(str(tiny), "model").chat_template == gguf_files.CHAT
    assert nw.load(tiny).config.text_config.model_type == "llama"


def test_a_turn_ends_a_text(tiny: Path, words: Any) -> None:
    ends = from_pretrained(AutoModelForCausalLM, tiny).generation_config.eos_token_id
    assert ends == [words.eos_token_id, words.convert_tokens_to_ids(gguf_files.TURN)]


@pytest.mark.parametrize("alone", [False, True], ids=["file", "folder"])
def test_a_gguf_file_gets_a_head_trains_and_is_saved(tiny: Path, words: Any, tmp_path: Path, alone: bool) -> None:
    model = nw.load(tiny.parent if alone else tiny, head="mos:2")
    ids = torch.tensor([words(gguf_files.TEXT)["input_ids"][:20]])
    model.train()(ids, labels=ids).loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())
    model.save_pretrained(tmp_path / "saved")
    torch.testing.assert_close(scores(nw.load(tmp_path / "saved"), words), scores(model.eval(), words), atol=0, rtol=0)
    plain = from_pretrained(AutoModelForCausalLM, tiny)
    plain.save_pretrained(tmp_path / "plain")
    assert (tmp_path / "plain" / "model.safetensors").is_file()


def test_what_opens_models_opens_gguf_files(tiny: Path) -> None:
    opened = open_model(tiny)
    assert opened.name == "tiny.gguf"
    assert opened.model.dtype == torch.float32
    assert type(open_subject(tiny)).__name__ == "LlamaForCausalLM"
    assert saved_configuration(str(tiny)).model_type == "llama"
    assert model_config(str(tiny), "start.model").hidden_size == 32
    assert DECODER_ONLY.load(str(tiny)).config.vocab_size == len(opened.tokenizer)
    assert told_apart([str(tiny)], [], ["t.txt"])[0] == {"tiny.gguf": str(tiny)}


def test_a_gguf_file_without_its_ending(tiny: Path, words: Any, llama: Any) -> None:
    blob = tiny.rename(tiny.parent / "sha256-ab")
    torch.testing.assert_close(scores(nw.load(blob), words), scores(llama, words), atol=0, rtol=0)


def test_scaled_positions_are_told(tmp_path: Path, llama: Any, words: Any, caplog: pytest.LogCaptureFixture) -> None:
    from_pretrained(AutoModelForCausalLM, gguf_files.write(tmp_path / "scaled.gguf", llama, words, scaled=True))
    assert "rope_freqs.weight" in caplog.text


def cut(file: Path, share: float) -> Path:
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    return file


def expect_refused(path: Path, match: str) -> None:
    for read in (lambda: nw.load(path), lambda: open_subject(path)):
        with pytest.raises(ValueError, match=match) as raised:
            read()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.99])
def test_half_a_gguf_file(tiny: Path, share: float) -> None:
    expect_refused(cut(tiny, share), r"tiny\.gguf: the GGUF file is damaged or incomplete")


def test_no_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "pointer.gguf").write_text("version https://git-lfs.github.com/spec/v1\n")
    expect_refused(tmp_path / "pointer.gguf", "is not a GGUF file, by its first bytes")
    (tmp_path / "notes.txt").write_text("a model")
    expect_refused(tmp_path / "notes.txt", "must be the folder of a model or a GGUF file")
    expect_refused(tmp_path / "none.gguf", "no such file")


def test_several_gguf_files_in_a_folder_are_named(tiny: Path) -> None:
    (tiny.parent / "other.gguf").write_bytes(tiny.read_bytes())
    expect_refused(tiny.parent, r"other\.gguf, .*tiny\.gguf")


def test_a_gguf_file_of_a_tokenizer_alone(tmp_path: Path, llama: Any, words: Any) -> None:
    file = gguf_files.write(tmp_path / "vocabulary.gguf", llama, words, weights=False)
    expect_refused(file, r"lacks \d+ weights of its model")
    assert len(load_tokenizer(str(file), "--tokenizer")) == len(words)


@pytest.mark.parametrize("architecture", ["clip", "rwkv7"])
def test_an_architecture_that_transformers_does_not_read(
    tmp_path: Path, llama: Any, words: Any, architecture: str
) -> None:
    file = gguf_files.write(tmp_path / "other.gguf", llama, words, architecture=architecture)
    expect_refused(file, rf"transformers cannot read this GGUF file \(.*{architecture}")


def test_a_kind_of_block_that_transformers_does_not_read(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise NotImplementedError("Dequantization for TQ9_9 is not yet implemented")

    monkeypatch.setattr("gguf.dequantize", refuse)
    expect_refused(tiny, r"transformers cannot read this GGUF file \(Dequantization for TQ9_9")


def test_without_the_package(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextword.runtime.optional_libraries.missing", lambda modules: list(modules))
    expect_refused(tiny, r"pip install 'nextword\[gguf\]'")


@pytest.mark.real
def test_the_real_gguf_file_is_the_real_model(real_model: tuple[Any, Any], real_model_folder: str) -> None:
    file = next(Path(real_model_folder).glob("*.gguf"), None)
    if file is None:
        pytest.skip(f"no GGUF file in {real_model_folder}: make real-model puts one there")
    (model, tokenizer), read = real_model, load_tokenizer(str(file), "model")
    for text in (
        "In 1066, naïve façades: 3,141.59 — 정말 🙂\n\n\tEnd.",
        "<|im_start|>user\nHi<|im_end|>\n <repo_name>",
    ):
        assert read(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert read.chat_template == tokenizer.chat_template
    assert read.special_tokens_map == tokenizer.special_tokens_map
    asked = tokenizer("The capital of France is", return_tensors="pt")
    ours = nw.load(file).eval()
    with torch.no_grad():
        torch.testing.assert_close(ours(**asked).logits, model(**asked).logits, atol=1e-4, rtol=0)
    assert ours.generation_config.eos_token_id == model.generation_config.eos_token_id == tokenizer.eos_token_id
