"""Makes a T5 with a decoder of GPT-2 small's size from a small trained T5; it generates the same texts.

There is no trained model of this size, and the time per pass does not depend on the weights. The small model's states
are repeated as often as they fit into the width, which layer norm does not change. Matrices read and write only the
first copy. The trained layers are the last ones; earlier layers pass their input through. Tokens of GPT-2's vocabulary
that the small model lacks get a negligible probability.

    python benchmarks/widened.py --model runs/pg --out runs/pg-gpt2-small
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from options import folder
from torch import Tensor
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

import nextword as nw

_GPT2_SMALL = {
    "d_model": 768, "num_heads": 12, "d_kv": 64, "d_ff": 2048, "num_layers": 12, "num_decoder_layers": 12,
    "vocab_size": 50_257,
}  # fmt: skip
"""As GPT-2 small; three matrices of 2,048 in each feed-forward layer have the weights of two of 3,072."""
_KEPT = (
    "feed_forward_proj", "decoder_start_token_id", "eos_token_id", "pad_token_id",
    "relative_attention_num_buckets", "relative_attention_max_distance", "tie_word_embeddings", "layer_norm_epsilon",
)  # fmt: skip
_APART, _UNKNOWN = 100.0, 10.0
"""Two coordinates of every query are +100 and -100, which known words do not notice; unknown ones have -10 in one."""


def repeated(weight: Tensor, width: int, dim: int = 0) -> Tensor:
    """A tensor as often beside itself as fits."""
    return torch.cat([weight] * (width // weight.shape[dim]), dim)


def spread(weight: Tensor, shape: torch.Size, narrow: int) -> Tensor:
    """A tensor in a larger one of zeros, each block of ``narrow`` at the beginning of a wider block."""
    positions = []
    for size, wide in zip(weight.shape, shape, strict=True):
        blocks = size // narrow if wide != size else 1
        positions.append(
            torch.cat([torch.arange(size // blocks) + block * (wide // blocks) for block in range(blocks)])
        )
    large = torch.zeros(shape)
    large[torch.meshgrid(*positions, indexing="ij")] = weight
    return large


def fill_attention(large: Any, small: Any) -> None:
    """The small model's attention heads are the first ones, each with room to spare."""
    narrow = small.d_model
    each = torch.cat(
        [torch.arange(small.key_value_proj_dim) + head * large.key_value_proj_dim for head in range(small.n_heads)]
    )
    for name in ("q", "k", "v"):
        getattr(large, name).weight.zero_()
        getattr(large, name).weight[each, :narrow] = getattr(small, name).weight
    large.o.weight[:, each] = repeated(small.o.weight, large.d_model)


def fill_feed_forward(large: Any, small: Any) -> None:
    """The small model's hidden values are the first ones."""
    for name, layer in small.named_children():
        if name.startswith("wi"):
            wide = getattr(large, name).weight.zero_()
            wide[: len(layer.weight), : layer.weight.shape[1]] = layer.weight
    large.wo.weight[:, : small.wo.weight.shape[1]] = repeated(small.wo.weight, len(large.wo.weight))


def fill_stack(large: Any, small: Any) -> None:
    """Encoder or decoder: the small one's layers are the last."""
    bias = small.block[0].layer[0].SelfAttention.relative_attention_bias.weight
    large.block[0].layer[0].SelfAttention.relative_attention_bias.weight[:, : bias.shape[1]] = bias
    first = len(large.block) - len(small.block)
    for number, block in enumerate(large.block):
        for part, layer in enumerate(block.layer):
            (kind, inner), *_ = layer.named_children()
            (inner.wo if kind == "DenseReluDense" else inner.o).weight.zero_()  # passes its input on
            if number < first:
                continue
            of = small.block[number - first].layer[part]
            fill = fill_feed_forward if kind == "DenseReluDense" else fill_attention
            fill(inner, getattr(of, kind))
            layer.layer_norm.weight.copy_(repeated(of.layer_norm.weight, len(layer.layer_norm.weight)))
    norm = large.final_layer_norm.weight
    norm.copy_(repeated(small.final_layer_norm.weight, len(norm)))


@torch.no_grad()
def widened(model: Any, **shape: Any) -> Any:
    """The model of another size.

    Args:
        model: A small T5 with a head whose queries are projected, such as ``pg`` or ``softmax+cepr:20``.
        **shape: The other size, where it is not that of GPT-2 small.
    """
    small = model.backbone
    narrow, words = small.config.d_model, small.config.vocab_size
    config = T5Config(**{name: getattr(small.config, name) for name in _KEPT} | _GPT2_SMALL | shape)
    large = nw.attach(T5ForConditionalGeneration(config), model.config.head).eval()
    body = large.backbone
    body.shared.weight.zero_()
    body.shared.weight[:words] = repeated(small.shared.weight, config.d_model, 1)
    body.shared.weight[words:, -1] = -_UNKNOWN
    fill_stack(body.encoder, small.encoder)
    fill_stack(body.decoder, small.decoder)
    # T5 divides what its output layer reads by the root of the width
    body.decoder.final_layer_norm.weight.mul_(model.config.state_scale / large.config.state_scale)
    wide = dict(large.next_word_head.named_parameters())
    for name, weight in model.next_word_head.named_parameters():
        wide[name].copy_(spread(weight, wide[name].shape, narrow))
    bias = large.next_word_head.project.bias
    bias[-1], bias[-1 - narrow] = _APART, -_APART  # equal coordinates of known words
    large.generation_config = model.generation_config
    return large


def main() -> None:
    """Widens, compares, saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=folder, required=True, help="folder of the small model")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    small = nw.load(given.model).eval()
    large = widened(small)
    words = small.backbone.config.vocab_size
    ids = {name: torch.randint(10, words, (1, 40)) for name in ("input_ids", "decoder_input_ids")}
    with torch.no_grad():
        one, other = small(**ids).logits, large(**ids).logits[..., :words]
    print(f"log-probabilities differ by at most {float((one - other).abs().max()):.1e}")
    large.save_pretrained(given.out)
    AutoTokenizer.from_pretrained(given.model).save_pretrained(given.out)


if __name__ == "__main__":
    main()
