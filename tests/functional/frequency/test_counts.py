from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, BertTokenizerFast

from nextword.evaluation.metrics.tokens import CountedTokens, Words
from nextword.experiments.tasks.tokenizers import trained_tokenizer, word_tokenizer
from nextword.functional.frequency import TokenCounts, tokenizer_fingerprint

TEXT = "the cat sat on the mat\n" * 20


def bert(folder: Path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s"]
    (folder / "vocab.txt").write_text("\n".join(words))
    return BertTokenizerFast(vocab=str(folder / "vocab.txt"))


TOKENIZERS = {
    "byte-level BPE": lambda folder: trained_tokenizer(TEXT, 280, None),
    "words": lambda folder: word_tokenizer([TEXT]),
    "WordPiece": bert,
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_fingerprint_outlives_saving_and_using(kind: str, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[kind](tmp_path)
    before = tokenizer_fingerprint(tokenizer)
    tokenizer(["the cat", "the"], padding=True, truncation=True, max_length=3)  # leaves its settings in the tokenizer
    assert tokenizer_fingerprint(tokenizer) == before
    tokenizer.save_pretrained(tmp_path / "saved")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert tokenizer_fingerprint(loaded) == before
    loaded.add_tokens(["<new>"])
    assert tokenizer_fingerprint(loaded) != before


def test_fingerprints_differ_where_ids_do() -> None:
    one, other = trained_tokenizer(TEXT, 280, None), trained_tokenizer("a dog ran\n" * 20, 280, None)
    assert len(one) == len(other) or one.get_vocab() != other.get_vocab()
    assert tokenizer_fingerprint(one) != tokenizer_fingerprint(other)
    # the same vocabulary, another cut
    from tokenizers import pre_tokenizers

    cut = word_tokenizer([TEXT])
    before = tokenizer_fingerprint(cut)
    cut.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert tokenizer_fingerprint(cut) != before


def test_save_and_load(tmp_path: Path) -> None:
    counts = TokenCounts(np.array([4, 0, 7], dtype=np.int32), "ab" * 32, "뉴스.txt")
    path = tmp_path / "new" / "counts.npz"
    counts.save(path)
    loaded = TokenCounts.load(path)
    assert loaded.counts.tolist() == [4, 0, 7]
    assert loaded.counts.dtype == np.int64
    assert (loaded.tokenizer, loaded.source, loaded.total, loaded.distinct) == ("ab" * 32, "뉴스.txt", 11, 2)
    assert [file.name for file in path.parent.iterdir()] == ["counts.npz"]
    TokenCounts(np.array([1]), None, "x").save(path)
    assert TokenCounts.load(path).tokenizer is None
    np.save(tmp_path / "plain.npy", np.array([0, 2], dtype=np.uint8))
    plain = TokenCounts.load(tmp_path / "plain.npy")
    assert (plain.counts.tolist(), plain.tokenizer, plain.source) == ([0, 2], None, "plain.npy")


def test_the_metric_reads_the_same_file(tmp_path: Path) -> None:
    TokenCounts(np.array([4, 0, 7]), "ab" * 32, "train.txt").save(tmp_path / "counts.npz")
    read = CountedTokens.load(str(tmp_path / "counts.npz"), Words(), "frequency-groups.counts")
    assert (read.ids.tolist(), read.counts.tolist(), read.source) == ([0, 1, 2], [4, 0, 7], "train.txt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.array([1, -1]), "must have counts from 0, and some above"),
        (np.array([0, 0]), "must have counts from 0, and some above"),
        (np.array([], dtype=int), "must have counts from 0"),
        (np.array([1.0]), "must be one list of whole numbers.*float64 of shape"),
        (np.ones((2, 2), dtype=int), r"must be one list of whole numbers.*shape \(2, 2\)"),
        (np.array([2**62, 2**62]), "must not add up to more than"),
        (np.array([2**63], dtype=np.uint64), "must not add up to more than"),
    ],
)
def test_bad_arrays(content: np.ndarray, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", content)
    with pytest.raises(ValueError, match=rf"head.counts: '.*c.npy' {message}"):
        TokenCounts.load(tmp_path / "c.npy", "head.counts")
    with pytest.raises(ValueError, match=f"counts of tokens {message}"):
        TokenCounts(content, None, "x")


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with pytest.raises(ValueError, match=r"head.counts: cannot read"):
        TokenCounts.load(path, "head.counts")
    TokenCounts(np.arange(5000), None, "x").save(path)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="cannot read"):
            TokenCounts.load(path)
    np.savez(path, other=np.arange(3))
    with pytest.raises(ValueError, match="no 'counts' in it"):
        TokenCounts.load(path)
    np.savez(path, counts=np.arange(3), tokenizer="", source="", format=2)
    with pytest.raises(ValueError, match="written by a newer nextword"):
        TokenCounts.load(path)


def test_padded() -> None:
    counts = TokenCounts(np.array([0, 3, 0, 0]), "f", "a text")
    assert counts.padded(6, "f2").counts.tolist() == [0, 3, 0, 0, 0, 0]
    assert counts.padded(2, "f2").counts.tolist() == [0, 3]  # what is cut off was never counted
    assert counts.padded(2, "f2").tokenizer == "f"
    with pytest.raises(ValueError, match=r"f2:.*1 occurs in the counts"):
        counts.padded(1, "f2")


def test_expect_tokenizer() -> None:
    one, other = word_tokenizer(["a b"]), word_tokenizer(["b c"])
    counts = TokenCounts(np.array([1]), tokenizer_fingerprint(one), "a text")
    counts.expect_tokenizer(one, "f2")
    TokenCounts(np.array([1]), None, "a text").expect_tokenizer(other, "f2")
    names = (tokenizer_fingerprint(one)[:12], tokenizer_fingerprint(other)[:12])
    with pytest.raises(ValueError, match=rf"f2: the counts of a text .* \({names[0]}\) than '.+' \({names[1]}\)"):
        counts.expect_tokenizer(other, "f2")


@pytest.mark.parametrize("name", ["c.npy", "c.npz"])
def test_objects_are_told_from_files_of_another_kind(tmp_path: Path, name: str) -> None:
    content = np.array([1, None], dtype=object)
    if name == "c.npy":
        np.save(tmp_path / name, content, allow_pickle=True)
    else:
        np.savez(tmp_path / name, counts=content, tokenizer="", source="")
    with pytest.raises(ValueError, match="objects, not numbers"):
        TokenCounts.load(tmp_path / name)
    (tmp_path / name).write_text("no array")
    with pytest.raises(ValueError, match=r"neither a .npz"):
        TokenCounts.load(tmp_path / name)
