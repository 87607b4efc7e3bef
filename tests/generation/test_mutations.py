"""The comparisons of this folder fail where a head cache does not move along: each operation, switched off."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.cache_utils import StaticCache

from nextword.model.head_cache.head_cache import DynamicHeadCache, StaticHeadCache
from nextword.model.modeling import NextWordModel
from tests.helpers.generating_models import DECODERS, ENCODER_DECODERS, NEW, assistant, headed, pairs, prompt
from tests.helpers.piecewise import Reader
from tests.helpers.recomputation import distance, generated

ALL = {**DECODERS, **ENCODER_DECODERS}
OFTEN = {family: heads for family, heads in ALL.items() if family in ("gpt2", "mistral", "t5")}
NOTICED = 1e-2
"""Far above the tolerance of the comparisons, so that they do not notice by luck."""


def nothing(*_: Any) -> None:
    """A head cache that stays where it is."""


def history_pairs() -> list[Any]:
    """Those whose memory is in the KV cache, which the cache head's source is not."""
    return [pair for pair in pairs(OFTEN, remembering=True) if pair.values[1] != "source cache"]


@pytest.mark.few(6)
@pytest.mark.parametrize("settings", [{}, {"cache_implementation": "static"}], ids=["dynamic", "static"])
@pytest.mark.parametrize(("family", "head"), history_pairs())
def test_beams_without_reorder(
    family: str, head: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (DynamicHeadCache, StaticHeadCache):
        monkeypatch.setattr(kind, "reorder", nothing)
    model, ids = headed(family, head), prompt(4)
    out = generated(model, ids, max_new_tokens=NEW, num_beams=4, **settings)
    assert distance(model, out, {"input_ids": ids}) > NOTICED


@pytest.mark.parametrize(("family", "head"), history_pairs())
def test_assisted_without_crop(family: str, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DynamicHeadCache, "crop", nothing)
    with pytest.raises(ValueError, match="changed by other code"):
        generated(headed(family, head), prompt(1), max_new_tokens=NEW, assistant_model=assistant(family, None))


@pytest.mark.few(5)
@pytest.mark.parametrize(("family", "head"), history_pairs())
def test_crop_of_the_wrong_end(family: str, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lengths agree, the places do not."""

    def crop(self: DynamicHeadCache, change: int) -> None:
        for stream in self._tensors:
            stream._hold(stream.positions[:, -change:])

    monkeypatch.setattr(DynamicHeadCache, "crop", crop)
    model, ids = headed(family, head), prompt(1)
    out = generated(model, ids, max_new_tokens=NEW, assistant_model=assistant(family, None))
    assert distance(model, out, {"input_ids": ids}) > NOTICED


@pytest.mark.parametrize(("family", "head"), history_pairs())
def test_repeat_in_the_wrong_order(family: str, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def tiled(self: DynamicHeadCache, repeats: int) -> None:
        for stream in self._tensors:
            stream._hold(stream.positions.repeat(repeats, *(1 for _ in stream.positions.shape[1:])))
        self._source = {name: kept.repeat(repeats, *(1 for _ in kept.shape[1:])) for name, kept in self._source.items()}

    monkeypatch.setattr(DynamicHeadCache, "repeat", tiled)
    reader, ids = Reader(headed(family, head)), prompt()
    reader.read(ids)
    reader.cache.batch_repeat_interleave(3)
    if reader.source is not None:
        reader.source = reader.source.repeat_interleave(3, 0)
    wide = torch.cat([ids.repeat_interleave(3, 0), prompt(6, 1, seed=8)], 1)
    assert (reader.read(wide[:, -1:]) - reader.full(wide, 1)).abs().max() > NOTICED


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "head"), [p for p in history_pairs() if p.values[0] in DECODERS])
def test_static_cache_without_reset(family: str, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticHeadCache, "reset", nothing)
    model, ids = headed(family, head), prompt(2, 1, seed=4)  # short, so that its window reaches what was left
    cache = StaticCache(config=model.config.get_text_config(decoder=True), max_cache_len=40)
    generated(model, prompt(), past_key_values=cache, max_new_tokens=NEW)
    cache.reset()
    out = generated(model, ids, past_key_values=cache, max_new_tokens=NEW)
    assert distance(model, out, {"input_ids": ids}) > NOTICED


@pytest.mark.few(6)
@pytest.mark.parametrize(("family", "head"), history_pairs())
def test_history_that_forgets_between_steps(family: str, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a head in a forward pass without head cache does: it sees the new token only."""

    extend = DynamicHeadCache.write

    def forgetful(self: DynamicHeadCache, new: dict[str, Tensor], looks_back: int | None = None) -> int:
        past = self.length
        for stream in self._streams.values():
            stream._hold(torch.zeros_like(stream.positions))
        extend(self, new, looks_back)
        return int(past)

    def alone(self: DynamicHeadCache, name: str, new: Tensor, positions: int) -> Tensor:
        return nn.functional.pad(new, (0, 0, 0, 0, positions, 0))

    monkeypatch.setattr(DynamicHeadCache, "write", forgetful)
    monkeypatch.setattr(DynamicHeadCache, "preceded", alone)
    model, ids = headed(family, head), prompt()
    out = generated(model, ids, max_new_tokens=NEW)
    monkeypatch.undo()
    assert distance(model, out, {"input_ids": ids}) > NOTICED


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_beams_with_another_source(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's words in the order of the batch, not of the beams."""
    prepare = NextWordModel.prepare_inputs_for_generation

    def tiled(self: Any, input_ids: Tensor, **kwargs: Any) -> dict[str, Any]:
        kwargs["source_ids"] = kwargs["source_ids"][::4].repeat(4, 1)
        return prepare(self, input_ids, **kwargs)

    monkeypatch.setattr(NextWordModel, "prepare_inputs_for_generation", tiled)
    model, ids = headed(family, "source cache"), prompt()
    out = generated(model, ids, max_new_tokens=NEW, num_beams=4)
    assert distance(model, out, {"input_ids": ids}) > NOTICED


@pytest.mark.parametrize("head", ["cache", "softmax+mi"])
def test_padding_taken_for_text(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that loses the mask stores padding, and the row is no longer as alone."""
    prepare = NextWordModel.prepare_inputs_for_generation

    def unmasked(self: Any, input_ids: Tensor, **kwargs: Any) -> dict[str, Any]:
        prepared = prepare(self, input_ids, **kwargs)
        return prepared | {"step_mask": torch.ones_like(prepared["step_mask"])}

    model = headed("gpt2", head)
    mask = (torch.arange(9) >= torch.tensor([[0], [7]])).long()
    inputs = {"input_ids": prompt() * mask, "attention_mask": mask}
    monkeypatch.setattr(NextWordModel, "prepare_inputs_for_generation", unmasked)
    out = generated(model, **inputs, max_new_tokens=NEW)
    assert distance(model, out, inputs) > NOTICED


def test_the_oracle_reads_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every operation broken, recomputation stays the same."""
    model, ids = headed("gpt2", "cache"), prompt()
    before = model.distribution(ids, use_cache=False).log_probs()
    for name in ("reorder", "crop", "repeat", "reset"):
        monkeypatch.setattr(DynamicHeadCache, name, nothing)
    model(ids, past_key_values=DynamicCache())
    assert torch.equal(model.distribution(ids, use_cache=False).log_probs(), before)
