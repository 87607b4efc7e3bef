"""Conditioned models generate what they compute without a cache, and every row follows its own auxiliary text."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import StaticCache

from nextword.model.head_cache.head_cache import DynamicHeadCache, StaticHeadCache
from nextword.model.head_cache.kv_cache import head_cache_of
from tests.helpers.conditioned_generating_models import AUX_ROWS, FEW, auxiliary, model_of
from tests.helpers.conditioned_models import COPYING, rows_of
from tests.helpers.generating_models import MODES, NEW, left_padded, prompt
from tests.helpers.recomputation import TOLERANCE, assert_as_recomputed, distance, generated, step_log_probs

NOTICED = 1e-2
FAMILIES = {
    "gpt2": [
        (conditioner, head)
        for conditioner in ("lmh", "dau", "bergpt", "prefix:3")
        for head in ("softmax", "cache", "softmax+mi:2x3", *COPYING)
    ],
    "llama": [("bergpt", "softmax"), ("prefix:3", "pg"), ("dau", "softmax+ce")],
    "mistral": [("bergpt", "cache"), ("prefix:3", "softmax")],
}
PAIRS = [(family, *pair) for family, found in FAMILIES.items() for pair in found]
GROWING = [case for case in FEW if not case[1].startswith("prefix")]
"""Those that a static cache can carry."""


def assert_the_text_decides(model: Any, out: Any, inputs: dict[str, Tensor]) -> None:
    """With the texts of other rows the recomputation is another one."""
    turned = {name: value.roll(1, 0) if name.startswith(("aux", "source")) else value for name, value in inputs.items()}
    assert distance(model, out, turned) > NOTICED


@pytest.mark.few(7)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("family", "conditioner", "head"), PAIRS)
def test_mode(family: str, conditioner: str, head: str, mode: str) -> None:
    """Text and auxiliary text are of different lengths; beams move within a row, and its text with them."""
    if mode != "beams" and (family, conditioner, head) not in FEW:
        return
    model = model_of(family, conditioner, head)
    ids, mask = left_padded(prompt(3), [0, 4, 7])
    aux = auxiliary(model, 3)
    inputs = {"input_ids": ids, "attention_mask": mask, **aux}
    out = generated(model, **inputs, max_new_tokens=NEW, **MODES[mode])
    if mode != "beams" or (family, conditioner, head) in FEW:
        uncached = generated(model, **inputs, max_new_tokens=NEW, use_cache=False, **MODES[mode])
        assert out.sequences.tolist() == uncached.sequences.tolist()
        assert torch.allclose(step_log_probs(out), step_log_probs(uncached), rtol=0, atol=TOLERANCE)
    assert_as_recomputed(model, out, inputs)
    assert_the_text_decides(model, out, inputs)


@pytest.mark.few(2)
@pytest.mark.parametrize("mode", ["greedy", "beams"])
@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_row_is_as_alone(family: str, conditioner: str, head: str, mode: str) -> None:
    model, padding = model_of(family, conditioner, head), [0, 4, 7]
    ids, mask = left_padded(prompt(3), padding)
    aux = auxiliary(model, 3)
    batch = generated(model, ids, attention_mask=mask, max_new_tokens=NEW, **aux, **MODES[mode])
    for row, hidden in enumerate(padding):
        length = AUX_ROWS[3][row]
        own = {name: value[:, : length - (name.startswith("source"))] for name, value in rows_of(aux, [row]).items()}
        alone = generated(model, ids[row : row + 1, hidden:], max_new_tokens=NEW, **own, **MODES[mode])
        assert batch.sequences[row, hidden:].tolist() == alone.sequences[0].tolist()
        assert torch.allclose(step_log_probs(batch)[row], step_log_probs(alone)[0], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("mode", [{}, {"num_beams": 4}], ids=["greedy", "beams"])
@pytest.mark.parametrize(("family", "conditioner", "head"), GROWING)
def test_static_cache(family: str, conditioner: str, head: str, mode: dict[str, Any]) -> None:
    model = model_of(family, conditioner, head)
    inputs = {"input_ids": prompt(), **auxiliary(model)}
    out = generated(model, **inputs, max_new_tokens=NEW, cache_implementation="static", **mode)
    assert isinstance(head_cache_of(out.past_key_values), StaticHeadCache)
    assert_as_recomputed(model, out, inputs)


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "conditioner", "head"), GROWING)
def test_static_cache_of_the_user_with_one_text_after_the_other(family: str, conditioner: str, head: str) -> None:
    model = model_of(family, conditioner, head)
    kv_cache = StaticCache(config=model.config.get_text_config(decoder=True), max_cache_len=40)
    for aux in (auxiliary(model), {n: v.flip(0) for n, v in auxiliary(model).items()}, auxiliary(model, 3)):
        inputs = {"input_ids": prompt(2), **rows_of(aux, [0, 1])}
        out = generated(model, **inputs, past_key_values=kv_cache, max_new_tokens=NEW)
        assert_as_recomputed(model, out, inputs)
        kv_cache.reset()


def test_prefix_has_no_place_in_a_static_cache() -> None:
    model = model_of("gpt2", "prefix:3", "softmax")
    with pytest.raises(ValueError, match="a static cache"):
        model.generate(prompt(), **auxiliary(model), max_new_tokens=2, cache_implementation="static")
    with pytest.raises(ValueError, match="attention"):
        model(prompt(), attention_mask=torch.ones(2, 1, 9, 9, dtype=torch.bool).tril(), **auxiliary(model))


@pytest.mark.few(6)
@pytest.mark.parametrize("padding", [[0, 0, 0], [0, 4, 7]], ids=["plain", "left-padded"])
@pytest.mark.parametrize("implementation", ["dynamic", "static"])
@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_prefill_in_chunks(family: str, conditioner: str, head: str, implementation: str, padding: list[int]) -> None:
    if implementation == "static" and conditioner.startswith("prefix"):
        return
    model = model_of(family, conditioner, head)
    ids, mask = left_padded(prompt(3), padding)
    inputs = {"input_ids": ids, "attention_mask": mask, **auxiliary(model, 3)}
    settings = {"max_new_tokens": NEW, "prefill_chunk_size": 4, "cache_implementation": implementation}
    assert_as_recomputed(model, generated(model, **inputs, **settings), inputs)


@pytest.mark.few(4)
@pytest.mark.parametrize("again", [True, False], ids=["text given again", "text not given again"])
@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_second_call_goes_on(family: str, conditioner: str, head: str, again: bool) -> None:
    """A dialogue: words are appended to three samples of each prompt; the cache knows whom they follow."""
    model = model_of(family, conditioner, head)
    ids, mask = left_padded(prompt(), [0, 4])
    aux = auxiliary(model)
    settings = {"max_new_tokens": NEW, "do_sample": True, "num_return_sequences": 3}
    first = generated(model, ids, attention_mask=mask, **settings, **aux)
    text = torch.cat([first.sequences, prompt(6, 5, seed=8)], 1)
    aux = {name: value.repeat_interleave(3, 0) for name, value in aux.items()}
    mask = mask.repeat_interleave(3, 0)
    mask = torch.cat([mask, mask.new_ones(6, text.shape[1] - mask.shape[1])], 1)
    second = generated(
        model, text, attention_mask=mask, past_key_values=first.past_key_values, max_new_tokens=NEW,
        **(aux if again else {}),
    )  # fmt: skip
    assert_as_recomputed(model, second, {"input_ids": text, "attention_mask": mask, **aux})


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_cache_without_mask_goes_on(family: str, conditioner: str, head: str) -> None:
    model, ids = model_of(family, conditioner, head), prompt()
    aux = auxiliary(model)
    # without a mask, a padding token that was written would be taken for padding
    first = generated(model, ids, max_new_tokens=NEW, suppress_tokens=[model.config.pad_token_id], **aux)
    for given in (first.sequences, torch.cat([first.sequences, prompt(2, 5, seed=8)], 1)):
        past = copy.deepcopy(first.past_key_values)
        second = generated(model, given, past_key_values=past, max_new_tokens=NEW)
        assert_as_recomputed(model, second, {"input_ids": given, **aux})


@pytest.mark.few(3)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda kv_cache: pickle.loads(pickle.dumps(kv_cache))])
@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_text_read_once_and_used_twice(family: str, conditioner: str, head: str, copied: Any) -> None:
    model, ids = model_of(family, conditioner, head), prompt(1)
    kv_cache, aux = DynamicCache(config=model.config.get_text_config(decoder=True)), auxiliary(model, 1)
    with torch.no_grad():
        model(ids, past_key_values=kv_cache, **aux)
    for seed in (8, 9):
        text = torch.cat([ids, prompt(1, 4, seed=seed)], 1)
        out = generated(model, text, past_key_values=copied(kv_cache), max_new_tokens=NEW)
        assert_as_recomputed(model, out, {"input_ids": text, **aux})


def test_states_rounded_otherwise_are_the_same_text() -> None:
    """A batch of another size is multiplied in another order."""
    model, ids = model_of("gpt2", "dau", "softmax"), prompt()
    given = auxiliary(model)
    states, mask = model.encode(**given).float(), given["aux_attention_mask"]
    with torch.no_grad():
        kv_cache = model(ids, aux_states=states, aux_attention_mask=mask, use_cache=True).past_key_values
        model(ids[:, :1], aux_states=states * (1 + 1e-6), past_key_values=kv_cache)
        other = states.clone()
        other[1, 0, 0] += 0.01
        with pytest.raises(ValueError, match="begun with another"):
            model(ids[:, :1], aux_states=other, past_key_values=kv_cache)


@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_another_text_with_an_old_cache_is_refused(family: str, conditioner: str, head: str) -> None:
    model, ids = model_of(family, conditioner, head), prompt()
    aux = auxiliary(model)
    with torch.no_grad():
        kv_cache = model(ids, **aux, use_cache=True).past_key_values
        other = {name: value.flip(0) for name, value in aux.items()}
        with pytest.raises(ValueError, match="another"):
            model(ids[:, :1], past_key_values=kv_cache, **other)
        model(ids[:, :1], past_key_values=kv_cache, **aux)
        first = generated(model, ids, max_new_tokens=2, **aux)
        with pytest.raises(ValueError, match="begun with another"):
            model.generate(first.sequences, past_key_values=first.past_key_values, max_new_tokens=2, **other)


@pytest.mark.few(6)
@pytest.mark.parametrize("mode", [{"num_beams": 3}, {"do_sample": True, "num_return_sequences": 2}])
@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_without_prompt(family: str, conditioner: str, head: str, mode: dict[str, Any]) -> None:
    """A row for every auxiliary text, each from the start token."""
    model = model_of(family, conditioner, head)
    aux = auxiliary(model, 3)
    out = generated(model, None, max_new_tokens=NEW, **aux, **mode)
    assert len(out.sequences) == 3 * mode.get("num_return_sequences", 1)
    assert (out.sequences[:, 0] == 1).all()
    inputs = {"input_ids": torch.ones(3, 1, dtype=torch.long), **aux}
    assert_as_recomputed(model, out, inputs)
    assert_the_text_decides(model, out, inputs)


@pytest.mark.few(3)
@pytest.mark.parametrize("mode", ["greedy", "best beams", "samples"])
@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt", "prefix:3"])
def test_texts_are_encoded_once(conditioner: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for a batch, not for beams or steps, with a cache or without one; states given are not encoded at all."""
    model, seen = model_of("gpt2", conditioner, "softmax"), []
    forward = model.auxiliary_encoder.forward

    def counted(**inputs: Tensor) -> Any:
        seen.append(len(inputs["input_ids"]))
        return forward(**inputs)

    monkeypatch.setattr(model.auxiliary_encoder, "forward", counted)
    aux = auxiliary(model)
    expected = generated(model, prompt(), max_new_tokens=NEW, **aux, **MODES[mode]).sequences
    assert seen == [2]
    generated(model, prompt(), max_new_tokens=NEW, use_cache=False, **aux, **MODES[mode])
    assert seen == [2, 2]
    states = model.encode(**aux)
    assert seen == [2, 2, 2]
    mask = aux["aux_attention_mask"]
    out = generated(model, prompt(), max_new_tokens=NEW, aux_states=states, aux_attention_mask=mask, **MODES[mode])
    assert out.sequences.tolist() == expected.tolist()
    assert seen == [2, 2, 2]


@pytest.mark.parametrize(("family", "conditioner", "head"), FEW)
def test_steps_ask_the_text_nothing(family: str, conditioner: str, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = model_of(family, conditioner, head), []
    kind = type(model.conditioner)
    own = kind.read
    monkeypatch.setattr(kind, "read", lambda self, *given: (read.append(1), own(self, *given))[1])
    generated(model, prompt(), max_new_tokens=NEW, num_beams=3, **auxiliary(model))
    assert read == [1]


@pytest.mark.parametrize(("family", "conditioner", "head"), [case for case in FEW if case[0] == "gpt2"])
def test_rows_that_move_across_rows_take_their_text_along(
    family: str, conditioner: str, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a cache in another order, and repeated; without the head cache moving along it is noticed."""
    model, ids = model_of(family, conditioner, head), prompt(3)
    aux = auxiliary(model, 3)
    order = torch.tensor([2, 2, 0])
    expected = model.distribution(torch.cat([ids[order], ids[:, :1]], 1), **rows_of(aux, order.tolist())).log_probs()
    expected = expected.unflatten(0, (3, -1))[:, -1]

    def after() -> Tensor:
        kv_cache = model(ids, **aux, use_cache=True).past_key_values
        kv_cache.reorder_cache(order)
        return model(ids[:, :1], past_key_values=kv_cache).logits[:, 0].log_softmax(-1)

    with torch.no_grad():
        assert torch.allclose(after(), expected, rtol=0, atol=TOLERANCE)
        monkeypatch.setattr(DynamicHeadCache, "reorder", lambda self, index: None)
        assert (after() - expected).abs().max() > NOTICED
