"""Decoding in vLLM with each head, beside plain softmax in the same engine.

Engines take turns in one process: requests of mixed lengths, greedy, so many new tokens each, tokens a second over
all requests. ``over_softmax`` is the median ratio of single rounds to those of softmax; 0.9 is a tenth slower. A
``--length`` beyond the default shows growth with the context. To be run in the environment of ``make test-vllm``; rows:
``benchmarks/data/vllm_speed.csv``.

    .venv-vllm/bin/python benchmarks/vllm_speed.py
    .venv-vllm/bin/python benchmarks/vllm_speed.py --length 256 1024 4096 --requests 4 --head cache
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from interleaved import interleaved, ratio, seconds_of
from options import at_least, method, parser, settled
from rows import append, surroundings
from transformers import LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.frequency import TokenCounts

HEADS = (
    "softmax+proj",
    "sigsoftmax",
    "mos:3",
    "f2",
    "cache",
    "softmax+c",
    "pg",
    "ps",
    "softmax+r:20",
    "softmax+cpr:20,100+mi",
)
RIVAL = "softmax"
_SIZES = {
    "toy": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 500},
    "small": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "vocab_size": 32000},
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes the rows."""
    options = parser(__doc__, "vllm_speed", rounds=3)
    options.add_argument("--head", type=method, action="append", help="only these, beside softmax")
    options.add_argument("--size", choices=list(_SIZES), default="small")
    options.add_argument("--requests", type=at_least(1), default=32)
    options.add_argument("--new", type=at_least(2), default=32, help="tokens of each answer")
    options.add_argument(
        "--length",
        type=at_least(8),
        nargs="+",
        default=[128],
        help="of the longest prompt, up to four times the shortest",
    )
    given = settled(options, argv, size="toy", requests=2, new=2, head=["cache"])
    rows = [row for length in given.length for row in _measured(given, length)]
    append(given.out, rows)


def _measured(given: Any, length: int) -> list[dict[str, Any]]:
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    import vllm

    names = [RIVAL, *(head for head in given.head or HEADS if head != RIVAL)]
    sampling = vllm.SamplingParams(temperature=0.0, max_tokens=given.new, ignore_eos=True, detokenize=False)
    vocabulary = _SIZES[given.size]["vocab_size"]
    generator = torch.Generator().manual_seed(0)
    lengths = [
        length // 4 + (3 * length // 4) * number // max(given.requests - 1, 1) for number in range(given.requests)
    ]

    def seconds(engine: Any) -> float:
        asked = [torch.randint(5, vocabulary, (count,), generator=generator).tolist() for count in lengths]
        return seconds_of(
            lambda: engine.generate([{"prompt_token_ids": ids} for ids in asked], sampling, use_tqdm=False)
        )

    engines = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            engines[name] = _engine(vllm, Path(folder) / name.replace(":", "-"), name, given, length)
        timed = interleaved(
            {name: lambda engine=engine: seconds(engine) for name, engine in engines.items()}, given.rounds
        )
    rows = []
    for name, own in timed.items():
        speed = statistics.median(given.requests * given.new / one for one in own)
        over = round(1 / ratio(own, timed[RIVAL]), 3)
        print(f"length {length}  {name}  {speed:.1f} tokens a second  over_softmax {over}", flush=True)
        rows.append(
            {
                "size": given.size, "head": name, "requests": given.requests, "length": length, "new": given.new,
                "tokens_per_s": round(speed, 1), "over_softmax": over, "vllm": vllm.__version__, **surroundings(),
            }
        )  # fmt: skip
    return rows


def _engine(vllm: Any, folder: Path, head: str, given: Any, length: int) -> Any:
    torch.manual_seed(0)
    positions = length + given.new + 1
    config = LlamaConfig(
        **_SIZES[given.size], num_attention_heads=_SIZES[given.size]["hidden_size"] // 64 or 1,
        num_key_value_heads=_SIZES[given.size]["hidden_size"] // 64 or 1, max_position_embeddings=positions,
        eos_token_id=None,
    )  # fmt: skip
    spec: Any = head
    if head == "f2":
        folder.mkdir(parents=True)
        numbers = (1e6 / (1 + torch.arange(config.vocab_size))).long().numpy()
        TokenCounts(numbers, None, "made up").save(folder / "counts.npz")
        spec = {"head": "f2", "counts": str(folder / "counts.npz"), "decoupled": False}
    nw.attach(LlamaForCausalLM(config), spec).save_pretrained(folder)
    return vllm.LLM(
        str(folder), enforce_eager=True, dtype="float32", max_model_len=positions, skip_tokenizer_init=True,
        max_num_seqs=given.requests, enable_prefix_caching=False,
    )  # fmt: skip


if __name__ == "__main__":
    main()
