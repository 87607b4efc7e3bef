"""nw.calibrate: one pass however many settings, what it leaves behind, and that it says when nothing helps."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.inference.scoring.opened_model import OpenedModel
from tests.helpers.families import START
from tests.helpers.small_datastores import small_store
from tests.helpers.word_models import TEXT, WORDS, word_model, word_tokenizer

TOKENIZER = word_tokenizer()
REPEATED = " ".join([*random.Random(1).choices(WORDS, k=40)] * 3)


def attached(head: str = "cache", length: float = 1.0) -> Any:
    backbone = word_model(n_positions=64)
    with torch.no_grad():
        backbone.transformer.ln_f.weight.mul_(length)
    return nw.attach(backbone, head).eval()


def calls(model: Any, ask: Any) -> int:
    counted = []
    handle = model.backbone.register_forward_hook(lambda *_: counted.append(1))
    ask()
    handle.remove()
    return len(counted)


@pytest.mark.few(1)
@pytest.mark.parametrize("settings", [{}, {"window": 16, "stride": 8, "batch_size": 2}])
def test_the_backbone_runs_as_often_as_for_one_score(settings: dict[str, int]) -> None:
    model = attached()
    model(input_ids=torch.tensor([[1, 5]]))  # what is proved of an output layer at first
    texts = [REPEATED, TEXT]
    once = calls(model, lambda: nw.score(model, TOKENIZER, texts, **settings))
    assert calls(model, lambda: nw.calibrate(model, texts, TOKENIZER, **settings)) == once > 0


@pytest.mark.few(1)
@pytest.mark.parametrize("length", [1.0, 20.0])
def test_it_leaves_what_it_chose_and_the_nats_are_those_of_a_score(length: float) -> None:
    model = attached("cache:temperature=3", length)
    without = nw.score(model.backbone, TOKENIZER, REPEATED).nll
    before = model.next_word_head.config
    looked = nw.calibrate(model, REPEATED, TOKENIZER, apply=False)
    assert model.next_word_head.config == before
    results = nw.calibrate(model, REPEATED, TOKENIZER)
    assert results.model_copy(update={"seconds": 0.0}) == looked.model_copy(update={"seconds": 0.0})
    config = model.next_word_head.config
    assert {name: getattr(config, name) for name in results.settings} == results.settings
    assert results.helps
    assert 0 < results.low < results.gain < results.high
    assert results.nll == pytest.approx(nw.score(model, TOKENIZER, REPEATED).nll, abs=1e-6)
    assert results.nll_without == pytest.approx(without, abs=1e-9)
    assert results.gain == pytest.approx(without - results.nll)
    assert (results.tokens, results.passes) == (120, 1)
    assert min(point.nll for point in results.curve) >= results.nll - 1e-6


def test_where_nothing_helps_the_weight_is_zero() -> None:
    model, text = attached(), " ".join(WORDS)  # no word comes again
    results = nw.calibrate(model, text, TOKENIZER)
    assert not results.helps
    assert results.settings == {"weight": 0.0}
    assert results.nll == results.nll_without
    assert model.next_word_head.config.weight == 0.0
    assert nw.score(model, TOKENIZER, text).nll == pytest.approx(results.nll_without, abs=1e-9)


def test_each_kind_of_a_store(tmp_path: Path) -> None:
    folder, store = small_store(tmp_path)
    for mix, names in (("fixed", {"temperature", "weight"}), ("joint", {"temperature"})):
        model = nw.attach(nw.load(folder), f'knn:store="{store}",k=8,mix={mix}').eval()
        results = nw.calibrate(model, REPEATED, TOKENIZER)
        assert set(results.best) == names
        assert results.settings == (results.best if results.helps or mix == "joint" else {"weight": 0.0})
        assert results.nll == pytest.approx(nw.score(model, TOKENIZER, REPEATED).nll, abs=1e-5)
    over = nw.attach(nw.load(folder), f'knn:store="{store}",k=8,below="cache:weight=0.3,temperature=0.5"').eval()
    results = nw.calibrate(over, REPEATED, TOKENIZER)
    assert results.nll == pytest.approx(nw.score(over, TOKENIZER, REPEATED).nll, abs=1e-5)
    over.configure_head(weight=0.0)
    assert results.nll_without == pytest.approx(nw.score(over, TOKENIZER, REPEATED).nll, abs=1e-5)
    gated = nw.attach(nw.load(folder), f'knn:store="{store}",k=8,mix=gate').eval()
    with pytest.raises(ValueError, match="whose settings"):
        nw.calibrate(gated, REPEATED, TOKENIZER)


def test_one_normaliser_over_several_softmaxes_is_refused(tmp_path: Path) -> None:
    folder, store = small_store(tmp_path)
    model = nw.attach(nw.load(folder), f'knn:store="{store}",k=8,mix=joint,below="mos:2"')
    with pytest.raises(ValueError, match="head with one softmax"):
        nw.calibrate(model, REPEATED, TOKENIZER)


def test_a_long_memory() -> None:
    model = attached("cache:long=30")
    results = nw.calibrate(model, REPEATED, TOKENIZER, window=16, stride=8)
    scored = nw.score(model, TOKENIZER, REPEATED, window=16, stride=8)
    assert results.nll == pytest.approx(scored.nll, abs=1e-6)


def test_bad_input() -> None:
    for head in ("softmax", "mos:2", "cache:published,mode=lm_only"):
        with pytest.raises(ValueError, match=rf"settings can be chosen .*\('{head}' given\)"):
            nw.calibrate(OpenedModel("tiny", attached(head), TOKENIZER), TEXT)
    with pytest.raises(ValueError, match=r"texts:.*least one token"):
        nw.calibrate(attached(), [], TOKENIZER)


SENTENCES = " ".join(["the king sat on a horse and the queen saw it"] * 4)


def test_ids_of_a_text_give_what_the_text_gives() -> None:
    by_text, by_ids = attached(), attached()
    of_text = nw.calibrate(by_text, SENTENCES, TOKENIZER)
    ids = torch.tensor([[START, *TOKENIZER(SENTENCES, add_special_tokens=False)["input_ids"]]])
    of_ids = nw.calibrate(by_ids, ids)
    assert (of_ids.tokens, of_ids.passes) == (of_text.tokens, 1)
    assert of_ids.nll == pytest.approx(of_text.nll, abs=1e-9)
    assert of_ids.gain > 0.1
    assert by_ids.next_word_head.config == by_text.next_word_head.config


def test_rows_are_read_apart() -> None:
    model = attached()
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 8], [9, 10, 11, 12, 9, 10, 11, 12]])
    results = nw.calibrate(model, ids, batch_size=1)
    with torch.no_grad():
        losses = [model(input_ids=row[None], labels=row[None]).loss.item() for row in ids]
    assert results.tokens == 14
    assert results.nll == pytest.approx(sum(losses) / 2, abs=1e-6)


@pytest.mark.parametrize(
    ("ids", "settings", "said"),
    [
        (torch.tensor([5, 6]), {}, r"rows of whole numbers.*\(2,\) given"),
        (torch.ones(1, 4), {}, "rows of whole numbers"),
        (torch.tensor([[5, 6]]), {"window": 4}, "rows of token ids are scored whole"),
    ],
)
def test_what_are_no_rows_is_refused(ids: torch.Tensor, settings: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        nw.calibrate(attached(), ids, **settings)


def test_a_plain_model_is_refused() -> None:
    with pytest.raises(ValueError, match="model is attached"):
        nw.calibrate(word_model(), torch.tensor([[5, 6]]))
