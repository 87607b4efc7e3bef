"""Models of transformers that leave out or change something that most of the others have."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import nextword as nw
from nextword.model.configuration import NextWordConfig
from nextword.pretrained import encoder_config

TOKENS = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BART = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "decoder_start_token_id": 2,
}
BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
BERT |= {"initializer_range": 0.5}


def shifted(labels: Tensor) -> Tensor:
    return torch.tensor([[2, *row[:-1]] for row in labels.masked_fill(labels == -100, 0).tolist()])


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (hf.BlenderbotConfig, hf.BlenderbotForConditionalGeneration),
        (hf.BlenderbotSmallConfig, hf.BlenderbotSmallForConditionalGeneration),
        (hf.M2M100Config, hf.M2M100ForConditionalGeneration),
    ],
)
@pytest.mark.parametrize("head", ["softmax", "softmax+cepr:3"])
def test_labels_alone_train_a_model_that_shifts_in_its_forward(config: Any, kind: Any, head: str) -> None:
    torch.manual_seed(0)
    bare = kind(config(**BART, **TOKENS)).eval()
    model, ids, labels = nw.attach(bare, head), torch.tensor([[5, 6, 7]]), torch.tensor([[8, 9, 10, -100]])
    loss = model(input_ids=ids, labels=labels).loss
    torch.testing.assert_close(loss, model(input_ids=ids, labels=labels, decoder_input_ids=shifted(labels)).loss)
    if head == "softmax":
        torch.testing.assert_close(loss, bare(input_ids=ids, labels=labels).loss)


def test_a_bert_that_reads_both_ways_is_refused() -> None:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=r"states depend on later tokens .* needs is_decoder=True"):
        nw.attach(hf.BertLMHeadModel(hf.BertConfig(**BERT, **TOKENS)), "softmax")
    nw.check(nw.attach(hf.BertLMHeadModel(hf.BertConfig(**BERT, **TOKENS, is_decoder=True)), "cache")).raise_if_failed()


def test_an_embedding_in_place_of_an_output_layer_is_refused() -> None:
    """FSMT names its decoder's input embedding where others name the layer that makes the scores."""
    sizes = {name: size for name, size in BART.items() if name != "decoder_start_token_id"}
    config = hf.FSMTConfig(**sizes, langs=["en", "de"], src_vocab_size=40, tgt_vocab_size=40, decoder_start_token_id=2)
    with pytest.raises(ValueError, match="FSMTForConditionalGeneration has no output embedding layer"):
        nw.attach(hf.FSMTForConditionalGeneration(config), "softmax")


def test_an_encoder_with_a_configuration_of_its_own() -> None:
    """T5Gemma prepares its cache by ``super()``, and its configuration has no width."""
    part = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    part |= {"num_key_value_heads": 1, "head_dim": 8, **TOKENS}
    config = hf.T5GemmaConfig(encoder=part, decoder=part, **TOKENS)
    assert encoder_config(config).hidden_size == 16
    torch.manual_seed(0)
    model = nw.attach(hf.T5GemmaForConditionalGeneration(config).eval(), "softmax+cepr:3+mi:2x3")
    ids = torch.tensor([[5, 6, 7, 8]])
    written = [
        model.generate(
            ids, max_new_tokens=5, num_beams=2, output_scores=True, return_dict_in_generate=True, use_cache=c
        )
        for c in (True, False)
    ]
    assert written[0].sequences.tolist() == written[1].sequences.tolist()
    torch.testing.assert_close(written[0].sequences_scores, written[1].sequences_scores)
    nw.check(model, lengths=(6,)).raise_if_failed()
    assert not hasattr(model.backbone, "_previous_max_cache_length")


def test_a_configuration_that_does_not_lead_to_its_model(tmp_path: Path) -> None:
    """The language model of a multimodal one has a text configuration that no table of transformers knows."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = hf.Emu3TextConfig(**sizes, num_key_value_heads=1, **TOKENS)
    model, ids = nw.attach(hf.Emu3ForCausalLM(config).eval(), "cache"), torch.tensor([[5, 6, 7]])
    assert model.config.backbone_class == "Emu3ForCausalLM"
    model.save_pretrained(tmp_path)
    assert torch.equal(nw.load(tmp_path).distribution(ids).log_probs(), model.distribution(ids).log_probs())


def test_rotary_places_of_several_kinds_stay_as_they_are() -> None:
    """DeepSeek V4 has two sets of them; transformers' own reading of a configuration would write into both."""
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    kinds = {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in (("main", 1e4), ("compress", 2e4))}
    config = hf.LlamaConfig(**sizes, **TOKENS)
    config.rope_parameters = kinds
    before = copy.deepcopy(kinds)
    NextWordConfig(text_config=config)
    assert config.rope_parameters == before


def test_layers_that_are_no_vectors_are_refused() -> None:
    """Gemma 3n hands several states for each place from layer to layer."""
    model = nw.attach(gemma3n(), "cache")
    assert model.distribution(torch.tensor([[5, 6, 7]])).log_probs().isfinite().all()
    with pytest.raises(ValueError, match=r"\+mi: Gemma3nForCausalLM has hidden states of shape .* use \+mi:1xK"):
        nw.attach(gemma3n(), "softmax+mi:2x3")


def gemma3n() -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "head_dim": 8}
    sizes |= {"num_key_value_heads": 1, "intermediate_size": [24] * 4, "laurel_rank": 4}
    layers: dict[str, Any] = {"layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2}
    layers |= {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 40}
    layers |= {"activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0]}
    config = hf.Gemma3nTextConfig(**sizes, **layers, **TOKENS)
    return hf.Gemma3nForCausalLM(config).eval()
