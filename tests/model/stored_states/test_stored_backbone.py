"""A backbone with stored states: every head has the loss and the gradients that it has over the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache

import nextword as nw
from nextword.experiments.training.one_training import batch_collator
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.states import StatesSettings, build_states
from nextword.model.stored_states.stored_backbone import StoredBackbone, UnknownRowError
from tests.helpers import text_tokenizers
from tests.helpers.stored_rows import arguments, stored

HEADS = ["softmax", "softmax+proj", "cache:published", "softmax+cpr:20,100+mi", "mos:3", "pg"]


def _gradients(model: Any, given: dict[str, Any]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.backbone.requires_grad_(False)
    loss = model.train()(**given).loss
    if loss.requires_grad:
        loss.backward()
    return loss.detach(), [one.grad for one in model.next_word_head.parameters() if one.grad is not None]


# Gemma 2 normalises in single precision whatever its weights are in, and batches of another size round otherwise
@pytest.mark.parametrize(
    ("family", "tolerance"), [("llama", 1e-10), ("gpt2", 1e-10), ("t5", 1e-10), ("bart", 1e-10), ("gemma2", 1e-6)]
)
def test_losses_and_gradients_are_those_over_the_model(tmp_path: Path, family: str, tolerance: float) -> None:
    model, from_store, rows = stored(family, tmp_path)
    for head in HEADS:
        whole, ours = nw.attach(model, head), nw.attach(from_store, head)
        ours.next_word_head.load_state_dict(whole.next_word_head.state_dict())
        given = arguments(rows)
        (expected, expected_gradients), (loss, gradients) = _gradients(whole, given), _gradients(ours, given)
        assert loss == pytest.approx(expected.item(), abs=tolerance), head
        assert len(gradients) == len(expected_gradients)
        for one, other in zip(gradients, expected_gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


READS_SOURCE = ["softmax+e/mle", "copynet/unlikelihood", "softmax+cepr:20+mi/mle", "cache/histalign", "mos:3/face"]


@pytest.mark.parametrize("family", ["t5", "bart"])
@pytest.mark.parametrize("method", READS_SOURCE)
def test_batches_of_sources_and_labels_are_those_over_the_model(tmp_path: Path, family: str, method: str) -> None:
    """As a trainer makes them: the decoder's tokens come from the labels, and the model is told of no padding there."""
    model, from_store, rows = stored(family, tmp_path)
    head, _, objective = method.partition("/")
    whole, ours = nw.attach(model, head, objective), nw.attach(from_store, head, objective)
    ours.next_word_head.load_state_dict(whole.next_word_head.state_dict())
    examples = [{"input_ids": row.source, "labels": (*row.ids[1:], 9)} for row in rows]
    batches = [batch_collator(one)(examples) for one in (whole, ours)]
    assert "decoder_attention_mask" in batches[1].keys() - batches[0].keys()
    (expected, expected_gradients), (loss, gradients) = map(_gradients, (whole, ours), batches)
    assert loss == pytest.approx(expected.item(), abs=1e-10)
    assert len(gradients) == len(expected_gradients)
    for one, other in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", ["t5", "bart", "mbart"])
def test_the_decoder_reads_what_it_reads_in_the_model(tmp_path: Path, family: str) -> None:
    """mBART's targets begin with their own last token."""
    model, from_store, _ = stored(family, tmp_path)
    labels = torch.tensor([[7, 8, 9], [5, 2, -100]])
    expected = model.prepare_decoder_input_ids_from_labels(labels)
    assert torch.equal(from_store.prepare_decoder_input_ids_from_labels(labels), expected)


@pytest.mark.parametrize("head", ["cache", "pg", "mos:3"])
def test_a_head_begins_as_on_the_model(tmp_path: Path, head: str) -> None:
    """What a head is fitted to at its start is stored too."""
    model, from_store, _ = stored("llama", tmp_path)
    torch.manual_seed(0)
    whole = nw.attach(model, head).next_word_head
    torch.manual_seed(0)
    ours = nw.attach(from_store, head).next_word_head
    assert ours.config.model_dump() == pytest.approx(whole.config.model_dump())
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], weight, rtol=1e-9, atol=1e-9)


def test_other_rows_are_refused(tmp_path: Path) -> None:
    _, from_store, rows = stored("llama", tmp_path)
    ours = nw.attach(from_store, "softmax")
    with pytest.raises(UnknownRowError, match="begins with"):
        ours(input_ids=torch.tensor([[*rows[0].ids, 7]]))
    with pytest.raises(ValueError, match="embeddings"):
        ours(inputs_embeds=torch.zeros(1, 3, 16, dtype=torch.float64))
    model, _, _ = stored("llama", tmp_path / "other")
    began = model(torch.tensor([rows[0].ids]), use_cache=True).past_key_values
    assert isinstance(began, DynamicCache)
    with pytest.raises(UnknownRowError, match="KV cache"):
        from_store(torch.tensor([rows[0].ids]), past_key_values=began)


def test_fewer_layers_than_a_head_reads_are_refused(tmp_path: Path) -> None:
    _, from_store, _ = stored("llama", tmp_path, layers=1)
    with pytest.raises(ValueError, match="--layers"):
        nw.attach(from_store, "softmax+cpr:20+mi")


def test_an_input_embedding_of_its_own_stays_in_the_file(tmp_path: Path) -> None:
    """Few objectives read it: training in single precision does not take the memory of a second embedding."""
    model, _, known = stored("llama", tmp_path / "double")
    tokenizer = text_tokenizers.byte_level()
    build_states(
        OpenedModel.of(model.to(torch.bfloat16), tokenizer), known, tmp_path / "half", StatesSettings(layers=1)
    )
    opened = StoredBackbone.open(tmp_path / "half", torch.float32)
    assert opened.dtype == torch.float32
    assert opened.get_output_embeddings().weight.dtype == torch.float32
    assert opened.get_input_embeddings().weight.dtype == torch.bfloat16
