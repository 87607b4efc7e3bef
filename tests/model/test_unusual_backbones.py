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
from nextword.runtime.pretrained import encoder_config

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
PICTURE = 59


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


@pytest.mark.slow
def test_a_bert_that_reads_both_ways_is_refused() -> None:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="is_decoder=True"):
        nw.attach(hf.BertLMHeadModel(hf.BertConfig(**BERT, **TOKENS)), "softmax")
    nw.check(nw.attach(hf.BertLMHeadModel(hf.BertConfig(**BERT, **TOKENS, is_decoder=True)), "cache")).raise_if_failed()


def test_an_embedding_in_place_of_an_output_layer_is_refused() -> None:
    """FSMT names its decoder's input embedding where others name the layer that makes the scores."""
    sizes = {name: size for name, size in BART.items() if name != "decoder_start_token_id"}
    config = hf.FSMTConfig(**sizes, langs=["en", "de"], src_vocab_size=40, tgt_vocab_size=40, decoder_start_token_id=2)
    with pytest.raises(ValueError, match="FSMTForConditionalGeneration"):
        nw.attach(hf.FSMTForConditionalGeneration(config), "softmax")


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="Gemma3nForCausalLM"):
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


SIZES = {"hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = {**SIZES, "num_key_value_heads": 1, **TOKENS, "eos_token_id": None, "vocab_size": 60}
PLACES = torch.tensor([[5, 6, 57, *[PICTURE] * 4, 56, 7, 8, 5, 6]])


def llava() -> tuple[Any, dict[str, Tensor]]:
    vision = {"model_type": "clip_vision_model", **SIZES, "image_size": 8, "patch_size": 4, "projection_dim": 16}
    seen = {"image_token_id": PICTURE, "image_seq_length": 4, "vision_feature_layer": -1}
    config = hf.LlavaConfig(text_config={"model_type": "llama", **TEXT}, vision_config=vision, **seen)
    return hf.LlavaForConditionalGeneration(config), {"pixel_values": noise(1, 3, 8, 8)}


def gemma3() -> tuple[Any, dict[str, Tensor]]:
    """Reads the places of a picture both ways."""
    vision = {**SIZES, "image_size": 8, "patch_size": 4}
    seen = {"image_token_index": PICTURE, "mm_tokens_per_image": 4, "boi_token_index": 57, "eoi_token_index": 56}
    config = hf.Gemma3Config(text_config={**TEXT, "head_dim": 16, "sliding_window": 8}, vision_config=vision, **seen)
    given = {"pixel_values": noise(1, 3, 8, 8), "token_type_ids": (PLACES == PICTURE).long()}
    return hf.Gemma3ForConditionalGeneration(config), given


def qwen2_vl() -> tuple[Any, dict[str, Tensor]]:
    """Counts its places in three directions."""
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    vision = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2, "patch_size": 2}
    seen = {"image_token_id": PICTURE, "video_token_id": 58, "vision_start_token_id": 57, "vision_end_token_id": 56}
    config = hf.Qwen2VLConfig(text_config={**TEXT, "rope_parameters": rope}, vision_config=vision, **seen)
    given = {"pixel_values": noise(16, 24), "image_grid_thw": torch.tensor([[1, 4, 4]])}
    return hf.Qwen2VLForConditionalGeneration(config), given | {"mm_token_type_ids": (PLACES == PICTURE).long()}


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.few(3)
@pytest.mark.parametrize("make", [llava, gemma3, qwen2_vl])
@pytest.mark.parametrize("head", ["softmax", "cache", "pg", "softmax+cpr:3,5+mi:2x3"])
def test_pictures_in_the_text_are_places_without_words(make: Any, head: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    bare, given = make()
    for parameter in bare.eval().parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    model = nw.attach(bare, head)
    asked = {**given, "max_new_tokens": 5, "do_sample": False, "bad_words_ids": [[PICTURE], [58], [57]]}
    with torch.no_grad():
        dist = model.distribution(PLACES, **given)
        shares = dist.sources(torch.full((PLACES.shape[1], 1), PICTURE))
        assert not any(share.any() for name, share in shares.items() if name in ("cache", "pointer", "context"))
        other = {**given, "pixel_values": given["pixel_values"].flip(-1)}
        assert not torch.allclose(model.distribution(PLACES, **other).log_probs(), dist.log_probs())
        written = [model.generate(PLACES, **asked, use_cache=use_cache) for use_cache in (True, False)]
        assert written[0].tolist() == written[1].tolist()
        if head == "softmax":
            assert torch.equal(model(input_ids=PLACES, **given).logits, bare(PLACES, **given).logits)
            assert written[0].tolist() == bare.generate(PLACES, **asked).tolist()
        model.save_pretrained(tmp_path)
        assert torch.equal(nw.load(tmp_path).distribution(PLACES, **given).log_probs(), dist.log_probs())
    assert model.train()(input_ids=PLACES, labels=PLACES, **given).loss.isfinite()
