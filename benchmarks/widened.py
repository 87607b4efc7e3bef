"""A small trained model at the size of GPT-2 small: it writes the same texts, and each pass costs what it costs there.

No trained model of that size is at hand, and the time of a pass does not depend on the weights. The small model's
states stand side by side as often as they fit into the width, which layer norms do not notice; what its matrices read
and write are the first of these copies; its layers are the last ones, and those before them pass their input on. Words
of GPT-2's vocabulary that the small one has not get no probability to speak of.

    python benchmarks/widened.py --model runs/pg --out runs/pg-gpt2-small
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from options import folder
from shapes import GPT2
from torch import Tensor
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

import nextword as nw

_APART, _UNKNOWN = 100.0, 10.0
"""Two coordinates of every query are +100 and -100, which known words do not notice; unknown ones have -10 in one."""


def repeated(weight: Tensor, width: int, dim: int) -> Tensor:
    """A tensor as often beside itself as fits."""
    return torch.cat([weight] * (width // weight.shape[dim]), dim)


def spread(weight: Tensor, shape: torch.Size, narrow: int) -> Tensor:
    """A tensor in a larger one of zeros, each block of ``narrow`` at the beginning of a wider block."""
    places = []
    for size, wide in zip(weight.shape, shape, strict=True):
        blocks = max(1, size // narrow) if wide != size else 1
        here, there = size // blocks, wide // blocks
        places.append(torch.cat([torch.arange(here) + block * there for block in range(blocks)]))
    large = torch.zeros(shape)
    large[torch.meshgrid(*places, indexing="ij")] = weight
    return large


def fill_layer(large: Any, small: Any, heads: int, wide_heads: int) -> None:
    """A layer of the small model in one of the large: its heads are the first ones, with room to spare in each."""
    width, narrow = large.ln_1.weight.shape[0], small.ln_1.weight.shape[0]
    size, wide = narrow // heads, width // wide_heads
    for name in ("ln_1", "ln_2"):
        for kind in ("weight", "bias"):
            getattr(getattr(large, name), kind).copy_(repeated(getattr(getattr(small, name), kind), width, 0))
    each = torch.cat([torch.arange(size) + head * wide for head in range(heads)])
    for part in range(3):
        grow = (wide / size) ** 0.5 if part == 0 else 1.0  # queries: attention divides by the root of a head's width
        at, of = each + part * width, slice(part * narrow, (part + 1) * narrow)
        large.attn.c_attn.weight[:narrow, at] = grow * small.attn.c_attn.weight[:, of]
        large.attn.c_attn.bias[at] = grow * small.attn.c_attn.bias[of]
    large.attn.c_proj.weight[each] = repeated(small.attn.c_proj.weight, width, 1)
    large.attn.c_proj.bias.copy_(repeated(small.attn.c_proj.bias, width, 0))
    hidden = small.mlp.c_fc.weight.shape[1]
    large.mlp.c_fc.weight[:narrow, :hidden] = small.mlp.c_fc.weight
    large.mlp.c_fc.bias[:hidden] = small.mlp.c_fc.bias
    large.mlp.c_proj.weight[:hidden] = repeated(small.mlp.c_proj.weight, width, 1)
    large.mlp.c_proj.bias.copy_(repeated(small.mlp.c_proj.bias, width, 0))


@torch.no_grad()
def widened(model: Any, **shape: Any) -> Any:
    """The model of another size.

    Args:
        model: A small GPT-2 with a head whose queries are projected, such as ``pg`` or ``softmax+cpr:20``.
        **shape: The other size, where it is not that of GPT-2 small.
    """
    small = model.backbone
    narrow, words, spec = small.config.n_embd, small.config.vocab_size, model.next_word_head.config
    kept = ("bos_token_id", "eos_token_id", "pad_token_id")
    config = GPT2Config(**GPT2["gpt2-small"] | {name: getattr(small.config, name) for name in kept} | shape)
    large = nw.attach(GPT2LMHeadModel(config), spec.model_dump(exclude_unset=True)).eval()
    body, width = large.backbone.transformer, config.n_embd
    embedding = body.wte.weight
    embedding.zero_()
    embedding[:words] = repeated(small.transformer.wte.weight, width, 1)
    embedding[words:, -1] = -_UNKNOWN
    body.wpe.weight[: small.config.n_positions] = repeated(small.transformer.wpe.weight, width, 1)
    for part in ("weight", "bias"):
        getattr(body.ln_f, part).copy_(repeated(getattr(small.transformer.ln_f, part), width, 0))
    first = config.n_layer - small.config.n_layer
    for number, layer in enumerate(body.h):
        for last in (layer.attn.c_proj, layer.mlp.c_proj):  # a layer that passes its input on, unless it is filled
            last.weight.zero_()
            last.bias.zero_()
        if number >= first:
            for first_of in (layer.attn.c_attn, layer.mlp.c_fc):
                first_of.weight.zero_()
                first_of.bias.zero_()
            fill_layer(layer, small.transformer.h[number - first], small.config.n_head, config.n_head)
    wide = dict(large.next_word_head.named_parameters())
    for name, weight in model.next_word_head.named_parameters():
        wide[name].copy_(spread(weight, wide[name].shape, narrow))
    bias = large.next_word_head.project.bias
    bias[-1], bias[-1 - narrow] = _APART, -_APART  # equal coordinates of known words
    return large


def main() -> None:
    """Widens, compares, saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=folder, required=True, help="folder of the small model")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    small = nw.load(given.model).eval()
    large = widened(small)
    ids = torch.randint(10, small.config.get_text_config().vocab_size, (1, 64))
    with torch.no_grad():
        one, other = small(input_ids=ids).logits, large(input_ids=ids).logits[..., : small.backbone.config.vocab_size]
    print(f"log-probabilities differ by at most {float((one - other).abs().max()):.1e}")
    large.save_pretrained(given.out)
    AutoTokenizer.from_pretrained(given.model).save_pretrained(given.out)


if __name__ == "__main__":
    main()
