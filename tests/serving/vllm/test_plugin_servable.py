"""What vLLM cannot serve is said at its start."""

from __future__ import annotations

import json
import logging
import shutil
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaForCausalLM, XGLMConfig, XGLMForCausalLM

import nextword as nw
from nextword.inference.datastore import build_datastore
from nextword.serving.vllm.plugin import SettingsCheck
from tests.helpers.conditioned_models import encoder
from tests.helpers.served_by_vllm import CONFIGS, VOCABULARY, answers, prompts, saved
from tests.helpers.small_datastores import SETTINGS, saved_model, texts, written

pytestmark = pytest.mark.vllm
PATH = "nextword.serving.vllm.copy_head_proposer.CopyHeadProposer"


@pytest.mark.parametrize(
    ("head", "settings", "message"),
    [
        ("cache", {"enable_prompt_embeds": True}, "enable_prompt_embeds: must be off with head 'cache"),
        ("softmax", {"quantization": "fp8"}, "quantization: must not be given"),
        (
            "softmax",
            {"speculative_config": {"method": "custom_class", "model": PATH, "num_speculative_tokens": 2}},
            "CopyHeadProposer needs a head that copies",
        ),
    ],
)
def test_settings(engine, tmp_path, head, settings, message):
    saved(tmp_path, "llama", head)
    with pytest.raises(Exception, match=message):
        engine(tmp_path, **settings)


@pytest.mark.parametrize("setting", ["tensor_parallel_size", "pipeline_parallel_size"])
def test_a_backbone_in_several_parts(tmp_path, setting):
    """Asked as vLLM asks; with a single CPU it stops before that."""
    config = saved(tmp_path, "llama", "softmax").config
    parts = SimpleNamespace(**{"tensor_parallel_size": 1, "pipeline_parallel_size": 1, setting: 2})
    with pytest.raises(ValueError, match=rf"{setting}: must be 1 \(2 given\).*start several servers"):
        SettingsCheck.verify_and_update_config(
            SimpleNamespace(model_config=SimpleNamespace(hf_config=config), parallel_config=parts)
        )


def test_a_conditioned_model(engine, tmp_path):
    model = nw.attach(LlamaForCausalLM(CONFIGS["llama"]()), "softmax", conditioner="lmh", encoder=encoder())
    model.save_pretrained(tmp_path)
    with pytest.raises(Exception, match="conditioned"):
        engine(tmp_path)


def test_a_backbone_that_vllm_does_not_have(engine, tmp_path):
    config = XGLMConfig(
        vocab_size=VOCABULARY, d_model=64, ffn_dim=64, num_layers=1, attention_heads=2, max_position_embeddings=256
    )
    nw.attach(XGLMForCausalLM(config), "softmax").save_pretrained(tmp_path)
    with pytest.raises(Exception, match="'xglm'"):
        engine(tmp_path)


def test_decoupled_decoding_is_said_to_be_left_out(vllm, engine, tmp_path, caplog):
    """The tokens are then those of ``decoupled=False``."""
    model = saved(tmp_path, "llama", "f2")
    model.configure_head(decoupled=True)
    model.save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING, "nextword"):
        own = engine(tmp_path)
    assert "as generate does with decoupled=False" in caplog.text
    asked = prompts(6)
    found = [list(answer.outputs[0].token_ids) for answer in answers(vllm, own, asked)]
    how = {"max_new_tokens": len(found[0]), "do_sample": False, "pad_token_id": 0}
    written = [
        [model.generate(torch.tensor([ids]), decoupled=decoupled, **how)[0, len(ids) :].tolist() for ids in asked]
        for decoupled in (False, True)
    ]
    assert found == written[0]
    assert found != written[1]


def test_a_datastore_that_is_gone(engine, tmp_path):
    path, store = saved_model(tmp_path / "model", n_embd=64), tmp_path / "store"
    build_datastore(path, written(tmp_path / "data.jsonl", texts()), store, SETTINGS)
    nw.load(path, f"knn:store={store},k=8").save_pretrained(tmp_path / "knn")
    shutil.rmtree(store)
    with pytest.raises(Exception, match="store"):
        engine(tmp_path / "knn", max_model_len=64)


def test_a_folder_of_another_version(engine, tmp_path):
    saved(tmp_path, "llama", "cache")
    path = tmp_path / "config.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"head": {"head": "cache", "foresight": 2}, "nextword_version": "99.1"}))
    with pytest.raises(Exception, match=r"head\.foresight:.*nextword 99\.1"):
        engine(tmp_path)
