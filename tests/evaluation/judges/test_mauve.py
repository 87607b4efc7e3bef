"""MAUVE against mauve-text on the same features, and features against transformers asked by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from nextword.evaluation.judges.mauve import LastTokenFeatures, MauveConfig, mauve_of
from nextword.evaluation.metrics import Sample, Setup, UndefinedError, parse_metric
from nextword.experiments.tasks.tokenizers import word_tokenizer
from tests.helpers.tiny_judges import ENGLISH, KOREAN, metric, sample, scores

TEXTS = [*ENGLISH, *KOREAN, "x", "a much longer text " * 20]


@cache
def loaded(folder: str) -> tuple[Any, Any]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModel.from_pretrained(folder).eval()


def by_hand(folder: str, text: str, limit: int) -> np.ndarray:
    """The last state of one text, no padding."""
    tokenizer, model = loaded(folder)
    ids = tokenizer(text, return_tensors="pt")["input_ids"][:, :limit]
    with torch.no_grad():
        states = model(input_ids=ids, output_hidden_states=True).hidden_states[-1]
    return states[0, -1].numpy()


@pytest.mark.parametrize("batch_size", [1, 3, 50])
@pytest.mark.parametrize(("asked", "limit"), [(1024, 48), (5, 5)])
def test_features_of_padded_batches_are_those_of_single_texts(
    gpt2_folder: str, batch_size: int, asked: int, limit: int
) -> None:
    found = LastTokenFeatures(gpt2_folder, asked, Setup(batch_size=batch_size)).of(TEXTS)
    wanted = np.stack([by_hand(gpt2_folder, text, limit) for text in TEXTS])
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert np.ptp(wanted, axis=0).max() > 0.1


def test_of_an_encoder_decoder_the_encoder_reads(tmp_path: Path) -> None:
    texts = ["She left.", "The dog that she had found left."]
    tokenizer = word_tokenizer(texts)
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": len(tokenizer)}
    transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)).save_pretrained(tmp_path)
    found = LastTokenFeatures(str(tmp_path), 48, Setup()).of(texts)
    encoder = transformers.T5EncoderModel.from_pretrained(tmp_path).eval()
    for row, text in zip(found, texts, strict=True):
        with torch.no_grad():
            states = encoder(tokenizer(text, return_tensors="pt")["input_ids"]).last_hidden_state
        np.testing.assert_allclose(row, states[0, -1].numpy(), atol=2e-5)


def test_second_run_reads_nothing(gpt2_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(cache=tmp_path)
    first = LastTokenFeatures(gpt2_folder, 48, setup).of(TEXTS)
    monkeypatch.setattr(LastTokenFeatures, "_read", lambda *given: pytest.fail("the model was asked"))
    assert LastTokenFeatures(gpt2_folder, 48, setup).of(TEXTS).tobytes() == first.tobytes()


def test_text_without_a_token_is_an_error(gpt2_folder: str) -> None:
    with pytest.raises(ValueError, match=r"model:.*2 must have at least one token"):
        LastTokenFeatures(gpt2_folder, 48, Setup()).of(["a", ""])


def texts_of(kind: str, n: int, seed: int = 0) -> list[str]:
    """Texts that end in one of the letters of ``kind``."""
    rng = np.random.default_rng(seed)
    words = " ".join(ENGLISH).split()
    return [f"{' '.join(rng.choice(words, size=rng.integers(3, 9)))} {rng.choice(list(kind))}" for _ in range(n)]


def samples() -> list[Sample]:
    pairs = zip(texts_of("xy", 40), texts_of("yz", 40), strict=True)
    return [sample(text=text, references=[human], prompt=f"Prompt {i}.") for i, (text, human) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("settings", "library"),
    [
        ({}, {}),
        ({"buckets": 5, "seed": 3, "scaling": 2.0}, {"num_buckets": 5, "seed": 3, "mauve_scaling_factor": 2.0}),
        (
            {"explained_variance": 0.5, "restarts": 2, "iterations": 20, "curve_points": 9},
            {
                "kmeans_explained_var": 0.5,
                "kmeans_num_redo": 2,
                "kmeans_max_iter": 20,
                "divergence_curve_discretization_size": 9,
            },
        ),
    ],
)
def test_mauve_is_that_of_the_library(gpt2_folder: str, settings: dict[str, Any], library: dict[str, Any]) -> None:
    from mauve import compute_mauve

    human, generated = texts_of("yz", 40), texts_of("xy", 40)
    rows = LastTokenFeatures(gpt2_folder, 48, Setup()).of([*human, *generated])
    wanted = compute_mauve(p_features=rows[:40], q_features=rows[40:], **library).mauve
    assert 0.02 < wanted < 0.98  # neither the same nor apart, so that every setting shows
    found = scores("mauve", samples(), model=gpt2_folder, **settings)["mauve"]
    assert found.value == wanted
    assert mauve_of(rows[:40], rows[40:], MauveConfig(metric="mauve", **settings)) == wanted
    assert found.n == 40
    assert found.statistic is None


def test_few_texts_are_told_in_title_and_meaning_and_not_by_faiss(
    gpt2_folder: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from mauve import compute_mauve

    features = np.random.default_rng(0).normal(size=(2, 60, 4)).astype(np.float32)
    wanted = compute_mauve(p_features=features[0], q_features=features[1]).mauve
    assert "WARNING clustering" in capfd.readouterr().err
    assert mauve_of(*features) == wanted
    found = scores("mauve", samples(), model=gpt2_folder)["mauve"].measure
    assert "WARNING" not in capfd.readouterr().err
    assert found.title == "MAUVE (few texts)"
    assert "its authors ask for thousands of texts." in found.meaning
    enough = metric("mauve", model=gpt2_folder)._measure(1000)  # type: ignore[attr-defined]
    assert enough.title == "MAUVE"


def test_same_texts_have_1(gpt2_folder: str) -> None:
    from mauve import compute_mauve

    human = [one.as_human() for one in samples()]
    assert scores("mauve", human, model=gpt2_folder)["mauve"].value == 1.0
    features = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    assert compute_mauve(p_features=features, q_features=features).mauve == pytest.approx(1, abs=1e-12)
    assert mauve_of(features, features) == 1.0
    assert 0.9 < mauve_of(features, features[::-1]) <= 1.0


def test_texts_of_another_kind_are_further_away(gpt2_folder: str) -> None:
    human, same = texts_of("yz", 40), texts_of("yz", 40, seed=1)
    other = ["??? !!! " * (3 + number % 5) for number in range(40)]

    def value(texts: list[str]) -> float:
        pairs = [sample(text=text, references=[right]) for text, right in zip(texts, human, strict=True)]
        return scores("mauve", pairs, model=gpt2_folder)["mauve"].value

    assert value(same) > 0.5 > 0.1 > value(other) > 0


def test_prompt_counts_if_asked_for(gpt2_folder: str) -> None:
    one = metric("mauve", model=gpt2_folder, include_prompt=True)
    one.add(sample(prompt="Once", text="upon", references=[" a time"]))
    assert (one._generated, one._human) == (["Once upon"], ["Once a time"])  # type: ignore[attr-defined]
    assert "prompt included" in one._measure(1).meaning  # type: ignore[attr-defined]
    other = metric("mauve", model=gpt2_folder)
    other.add(sample(prompt="Once", text="upon", references=[" a time", "more"]))
    assert (other._generated, other._human) == (["upon"], [" a time"])  # type: ignore[attr-defined]


def test_empty_texts_are_left_out_and_too_few_are_undefined(gpt2_folder: str) -> None:
    with_empty = [*samples(), sample(text="", references=["human"]), sample(text=" ", references=["human too"])]
    assert scores("mauve", with_empty, model=gpt2_folder)["mauve"].n == 40
    with pytest.raises(UndefinedError, match="MAUVE: no text"):
        scores("mauve", [sample(text="", references=["human"])], model=gpt2_folder)
    with pytest.raises(UndefinedError, match="1 generated"):
        scores("mauve", [sample(text="a", references=["b"])], model=gpt2_folder)


def test_bad_settings(gpt2_folder: str) -> None:
    for wrong in ({"scaling": 0.0}, {"buckets": "many"}, {"explained_variance": 1.0}, {"model": None}):
        with pytest.raises(ValueError, match=rf"mauve\.{next(iter(wrong))}"):
            metric("mauve", **wrong)


def test_settings_of_contrastive_decoding(gpt2_folder: str) -> None:
    config = parse_metric("mauve:contrastive-decoding")
    assert config.model_dump() == {
        **parse_metric("mauve").model_dump(),
        **{"model": "gpt2", "max_length": 256, "exact_length": 128},
    }
    assert (config.arguments(), parse_metric("mauve").arguments()) == (["contrastive-decoding"], [])
    with pytest.raises(ValueError, match=r"contrastive-decoding.*\('contrastive' given"):
        parse_metric("mauve:contrastive")


def test_texts_of_an_exact_length(gpt2_folder: str) -> None:
    """As the script of contrastive decoding: both texts are cut to so many tokens, shorter ones drop the pair."""
    from mauve import compute_mauve

    tokenizer, _ = loaded(gpt2_folder)
    ids = [(tokenizer(one.text)["input_ids"], tokenizer(one.references[0])["input_ids"]) for one in samples()]
    cut = [[tokenizer.decode(side[:12]) for side in pair] for pair in ids if min(map(len, pair)) >= 12]
    assert 20 < len(cut) < len(ids)
    rows = LastTokenFeatures(gpt2_folder, 48, Setup()).of([*(b for _, b in cut), *(a for a, _ in cut)])
    wanted = compute_mauve(p_features=rows[: len(cut)], q_features=rows[len(cut) :]).mauve
    found = scores("mauve", samples(), model=gpt2_folder, exact_length=12)["mauve"]
    assert (found.value, found.n) == (wanted, len(cut))
    assert found.note == f"samples with too few tokens, which are left out: {len(ids) - len(cut)}"
    assert "truncated to 12 tokens, shorter ones left out" in found.measure.meaning


def test_empty_texts_are_left_out_and_counted(gpt2_folder: str) -> None:
    empty = [*samples(), sample(text=" ", references=["a b"])]
    found = scores("mauve", empty, model=gpt2_folder)["mauve"]
    assert (found.n, found.note) == (40, "empty texts, which are left out: 1 of 41")
