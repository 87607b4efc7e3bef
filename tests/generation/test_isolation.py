"""Models that are used side by side, copied, or used without their head do not touch each other."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from tests.helpers.generating_models import (
    CHIEF,
    DECODERS,
    ENCODER_DECODERS,
    HEADS,
    NEW,
    backbone,
    headed,
    pairs,
    prompt,
)
from tests.helpers.recomputation import assert_as_recomputed, generated

ALL = {**DECODERS, **ENCODER_DECODERS}


def chief_pairs() -> list[Any]:
    """Threads meet in what a memory is kept in, of which these have one of each kind; the others are slow."""
    return [
        pytest.param(*pair.values, id=pair.id, marks=pair.marks if pair.values in CHIEF else [pytest.mark.slow])
        for pair in pairs(ALL, remembering=True)
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize(("family", "head"), chief_pairs())
def test_two_threads_one_model(family: str, head: str) -> None:
    model, texts = headed(family, head), [prompt(2, 9, seed=21), prompt(3, 7, seed=22)]
    expected = [model.generate(ids, max_new_tokens=NEW) for ids in texts]
    start = Barrier(2)

    def work(ids: Tensor) -> list[Any]:
        start.wait()
        settings = {"max_new_tokens": NEW, "return_dict_in_generate": True, "output_logits": True}
        return [model.generate(ids, **settings) for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work, texts))
    for ids, outs, sequences in zip(texts, results, expected, strict=True):
        for out in outs:
            assert out.sequences.tolist() == sequences.tolist()
            assert_as_recomputed(model, out, {"input_ids": ids})


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "head"), pairs(ALL, remembering=True))
def test_copied_model_is_another_model(family: str, head: str) -> None:
    model, ids = headed(family, head), prompt()
    before = generated(model, ids, max_new_tokens=NEW)
    twin = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter += 0.03 * torch.randn(parameter.shape, generator=generator)
    theirs = generated(twin, ids, max_new_tokens=NEW)
    assert_as_recomputed(twin, theirs, {"input_ids": ids})
    assert not torch.equal(theirs.logits[0], before.logits[0])
    after = generated(model, ids, max_new_tokens=NEW)
    assert all(torch.equal(old, new) for old, new in zip(before.logits, after.logits, strict=True))


@pytest.mark.few(3)
@pytest.mark.parametrize("family", ALL)
def test_bare_backbone_stays_bare(family: str) -> None:
    bare, ids = backbone(family), prompt()
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if bare.config.is_encoder_decoder else {})
    with torch.no_grad():
        logits = bare(**inputs).logits
        sequences = bare.generate(ids, max_new_tokens=NEW, num_beams=2)
        model = nw.attach(bare, HEADS["source cache" if bare.config.is_encoder_decoder else "cache"])
        model.generate(ids, max_new_tokens=NEW)
        assert torch.equal(bare(**inputs).logits, logits)
        assert not torch.allclose(model(**inputs).logits, logits.log_softmax(-1), atol=1e-3)
        assert torch.equal(bare.generate(ids, max_new_tokens=NEW, num_beams=2), sequences)


@pytest.mark.parametrize("family", ALL)
def test_plain_softmax_generates_as_the_bare_model(family: str) -> None:
    model, ids = headed(family, "softmax"), prompt()
    ours, theirs = (generated(one, ids, max_new_tokens=NEW) for one in (model, model.backbone))
    assert ours.sequences.tolist() == theirs.sequences.tolist()
    assert all(torch.equal(a, b) for a, b in zip(ours.logits, theirs.logits, strict=True))
    ours, theirs = (generated(one, ids, max_new_tokens=NEW, num_beams=3) for one in (model, model.backbone))
    assert ours.sequences.tolist() == theirs.sequences.tolist()
    for step, (a, b) in enumerate(zip(ours.logits, theirs.logits, strict=True)):
        # ours reads a prompt once for its three beams, and a batch of another size is rounded differently
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5, msg=f"step {step}")


def test_two_heads_on_one_backbone() -> None:
    shared, ids = backbone("gpt2"), prompt()
    models = [nw.attach(shared, HEADS["cache"]), nw.attach(shared, "softmax"), nw.attach(shared, "mos:2+mi")]
    for model in (*models, *models):
        assert_as_recomputed(model, generated(model, ids, max_new_tokens=NEW), {"input_ids": ids})


@pytest.mark.parametrize(("family", "head"), pairs(DECODERS, remembering=True))
def test_a_buffer_that_is_written_again_does_not_change_the_memory(family: str, head: str) -> None:
    model, ids = headed(family, head), prompt(2, 8, seed=23)
    buffer = ids[:, :4].clone()
    with torch.no_grad():
        expected = model(ids).logits[:, 4:]
        kv_cache = model(buffer, use_cache=True).past_key_values
        buffer.copy_(ids[:, 4:])
        found = model(buffer, past_key_values=kv_cache, use_cache=True).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
