from __future__ import annotations

import pytest
import torch

from tests.helpers.summaries import attached, save_encoder, small, write_pairs


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return small(write_pairs(tmp_path_factory.mktemp("news")), encoder=save_encoder(tmp_path_factory.mktemp("encoder")))


def test_conditioned_models_only_and_each_summary_is_read_once(task, monkeypatch):
    prompts = task.data.prompts(task.start.tokenizer())
    given = prompts.before(prompts.beginnings(task.data.pairs.test, "test"), prompted=False)
    assert task.data.inputs(attached(task), task.start.tokenizer())(given) == {}
    model = attached(task, conditioner="dau")
    inputs_of = task.data.inputs(model, task.start.tokenizer())
    encode, read = model.encode, []
    monkeypatch.setattr(model, "encode", lambda ids, mask: read.append(len(ids)) or encode(ids, mask))
    with torch.no_grad():
        told = inputs_of(given[:3])
        again = inputs_of([given[2], given[0], given[4]])
    assert set(told) == {"aux_states", "aux_attention_mask"}
    assert read == [3, 1]
    inputs = inputs_of.auxiliary([given[0].source])
    with torch.no_grad():
        alone = encode(inputs["aux_input_ids"], inputs["aux_attention_mask"])[0]
    torch.testing.assert_close(again["aux_states"][1, : len(alone)], alone)
    assert again["aux_attention_mask"].sum(dim=1)[1] == len(alone)


def test_heads_that_copy_words_read_them(task):
    prompts = task.data.prompts(task.start.tokenizer())
    given = prompts.before(prompts.beginnings(task.data.pairs.test, "test"), prompted=False)
    with torch.no_grad():
        told = task.data.inputs(attached(task, "pg", "bergpt"), task.start.tokenizer())(given)
    assert set(told) == {"aux_states", "aux_attention_mask", "source_ids", "source_positions"}
    rows = zip(given, told["source_ids"], told["source_positions"], strict=True)
    assert all(task.start.tokenizer().decode(ids[places >= 0]) == one.source for one, ids, places in rows)
