"""Rows of random tokens, and small models in float64 without dropout whose states are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as hf

from nextword.functional.padding import IGNORED_LABEL, padded
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.states import StatesSettings, build_states
from nextword.model.stored_states.state_files import TokenRow
from nextword.model.stored_states.stored_backbone import StoredBackbone
from tests.helpers import text_tokenizers
from tests.helpers.killed_trainings import sentences

LENGTHS = (9, 5, 12)


def backbone(family: str, vocabulary: int) -> Any:
    """A model of transformers; Gemma 2 caps its scores, T5 scales its states, BART adds a bias."""
    torch.manual_seed(0)
    sizes = {"vocab_size": vocabulary, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
    bart = {"vocab_size": vocabulary, "d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "dropout": 0.0}
    bart |= {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    bart |= {"max_position_embeddings": 64}
    made: Any = {
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, **heads, tie_word_embeddings=False)),
        "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**sizes, **heads, final_logit_softcapping=5.0)),
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=vocabulary,
                n_embd=16,
                n_layer=3,
                n_head=2,
                n_positions=64,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
            )
        ),
        "t5": lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(
                vocab_size=vocabulary,
                d_model=16,
                d_kv=8,
                d_ff=32,
                num_layers=2,
                num_heads=2,
                decoder_start_token_id=0,
                dropout_rate=0.0,
            )
        ),
        "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**bart)),
        "mbart": lambda: hf.MBartForConditionalGeneration(hf.MBartConfig(**bart, decoder_start_token_id=2)),
    }[family]()
    if getattr(made, "final_logits_bias", None) is not None:
        made.final_logits_bias.normal_()
    return made.double().eval()


def save_model_and_text(folder: Path, count: int, family: str = "llama") -> dict[str, str]:
    """Saves a small model with its tokenizer, and a text of some sentences; returns both paths, by name."""
    tokenizer = text_tokenizers.byte_level()
    backbone(family, len(tokenizer)).float().save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "text.txt").write_text("\n".join(sentences(count)), encoding="utf-8")
    return {"model": str(folder / "model"), "text": str(folder / "text.txt")}


def rows(model: Any, vocabulary: int) -> list[TokenRow]:
    """Random rows of different lengths."""
    chance = torch.Generator().manual_seed(1)

    def text(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, vocabulary, (length,), generator=chance).tolist())

    if not model.config.is_encoder_decoder:
        return [TokenRow(text(size)) for size in LENGTHS]
    start = model.config.decoder_start_token_id
    return [TokenRow((start, *text(size - 1)), text(size + 2)) for size in LENGTHS]


def stored(family: str, folder: Path, **settings: Any) -> tuple[Any, StoredBackbone, list[TokenRow]]:
    """A model, the same with stored states, and the rows."""
    tokenizer = text_tokenizers.byte_level()
    model = backbone(family, len(tokenizer))
    known = rows(model, len(tokenizer))
    build_states(OpenedModel.of(model, tokenizer), known, folder, StatesSettings(**{"layers": 3, **settings}))
    return model, StoredBackbone.open(folder), known


def arguments(known: list[TokenRow]) -> dict[str, Any]:
    """Rows as arguments of a model's forward, padded on the right, with labels."""
    ids, mask = padded([row.ids for row in known])
    labels = ids.masked_fill(mask == 0, IGNORED_LABEL)
    if not known[0].source:
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}
    source, source_mask = padded([row.source for row in known])
    decoder = {"decoder_input_ids": ids, "decoder_attention_mask": mask}
    return {"input_ids": source, "attention_mask": source_mask, **decoder, "labels": labels}
