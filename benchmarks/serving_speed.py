"""Measures many concurrent requests with each head, relative to plain softmax in vLLM or transformers' batching.

The models run interleaved in one process, with greedy requests of mixed lengths and a fixed number of new tokens; the
speed is tokens per second over all requests. ``over_softmax`` is the median ratio to softmax over rounds; 0.9 is a
tenth slower. With ``--read-before`` prompts are in vLLM's prefix cache when timing starts, so only new tokens are
timed; this shows the growth with context length. Run vLLM in the environment of ``make test-vllm``. Rows are appended
to ``benchmarks/data/serving_speed.csv``.

    .venv-vllm/bin/python benchmarks/serving_speed.py --rounds 7
    .venv-vllm/bin/python benchmarks/serving_speed.py --read-before --requests 2 --length 256 1024 4096 8192
    .venv/bin/python benchmarks/serving_speed.py --engine transformers
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from interleaved import interleaved, ratio, seconds_of
from options import at_least, method, parser, settled
from rows import append, surroundings
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.functional.frequency import TokenCounts

Prompts = list[list[int]]
Write = Callable[[Prompts], object]
"""Answers all prompts, side by side."""

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
DECOUPLED = "f2 decoupled"
"""``f2`` that chooses a class before each token, which vLLM's sampler cannot do."""
BASELINE = "softmax"
_SIZES = {
    "toy": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "vocab_size": 500},
    "small": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "vocab_size": 32000},
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes the rows."""
    options = parser(__doc__, "serving_speed", rounds=3)
    options.add_argument("--engine", choices=list(_ENGINES), default="vllm")
    options.add_argument("--head", type=_head, action="append", help="measure only these heads and softmax")
    options.add_argument("--size", choices=list(_SIZES), default="small")
    options.add_argument("--requests", type=at_least(1), default=32)
    options.add_argument("--new", type=at_least(2), default=32, help="generated tokens per request")
    options.add_argument(
        "--length",
        type=at_least(8),
        nargs="+",
        default=[128],
        help="tokens of the longest prompt; at most four times the shortest",
    )
    options.add_argument("--read-before", action="store_true", help="time only the generated tokens (vLLM)")
    given = settled(options, argv, size="toy", requests=2, new=2, head=["cache"])
    rows = [row for length in given.length for row in _measured(given, length)]
    append(given.out, rows)


def _head(text: str) -> str:
    return text if text == DECOUPLED else method(text)


def _measured(given: Any, length: int) -> list[dict[str, Any]]:
    every = HEADS if given.engine == "vllm" else (*HEADS, DECOUPLED)
    names = [BASELINE, *(head for head in given.head or every if head != BASELINE)]
    generator = torch.Generator().manual_seed(0)
    lengths = [
        length // 4 + (3 * length // 4) * number // max(given.requests - 1, 1) for number in range(given.requests)
    ]

    def prompts() -> Prompts:
        most = _SIZES[given.size]["vocab_size"]
        return [torch.randint(5, most, (count,), generator=generator).tolist() for count in lengths]

    read_before = prompts() if given.read_before else None

    def seconds(write: Write) -> float:
        asked = read_before or prompts()
        return seconds_of(lambda: write(asked))

    writes: dict[str, Write] = {}
    open_engine, version = _ENGINES[given.engine]()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder) / name.replace(":", "-")
            _save(path, name, given, positions=length + given.new + 1)
            writes[name] = open_engine(path, given, length + given.new + 1)
            if read_before:
                writes[name](read_before)
        timed = interleaved({name: lambda write=write: seconds(write) for name, write in writes.items()}, given.rounds)
    rows = []
    for name, own in timed.items():
        speed = statistics.median(given.requests * given.new / one for one in own)
        over = round(1 / ratio(own, timed[BASELINE]), 3)
        print(f"length {length}  {name}  {speed:.1f} tokens per second  over_softmax {over}", flush=True)
        rows.append(
            {
                "engine": given.engine, "size": given.size, "head": name, "requests": given.requests,
                "length": length, "new": given.new, "read_before": given.read_before, "rounds": given.rounds,
                "tokens_per_s": round(speed, 1), "over_softmax": over, "engine_version": version, **surroundings(),
            }
        )  # fmt: skip
    return rows


def _save(folder: Path, head: str, given: Any, positions: int) -> None:
    """A random model with this head, as a folder."""
    torch.manual_seed(0)
    heads = _SIZES[given.size]["hidden_size"] // 64
    config = LlamaConfig(
        **_SIZES[given.size], num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=positions,
        eos_token_id=None,
    )  # fmt: skip
    spec: Any = head
    if head in ("f2", DECOUPLED):
        folder.mkdir(parents=True)
        numbers = (1e6 / (1 + torch.arange(config.vocab_size))).long().numpy()
        TokenCounts(numbers, None, "made up").save(folder / "counts.npz")
        spec = {"head": "f2", "counts": str(folder / "counts.npz"), "decoupled": head == DECOUPLED}
    nw.attach(LlamaForCausalLM(config), spec).save_pretrained(folder)


def _vllm() -> tuple[Callable[[Path, Any, int], Write], str]:
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    import vllm

    def opened(folder: Path, given: Any, positions: int) -> Write:
        sampling = vllm.SamplingParams(temperature=0.0, max_tokens=given.new, ignore_eos=True, detokenize=False)
        engine = vllm.LLM(
            str(folder), enforce_eager=True, dtype="float32", max_model_len=positions, skip_tokenizer_init=True,
            max_num_seqs=given.requests, enable_prefix_caching=given.read_before,
        )  # fmt: skip
        return lambda prompts: engine.generate([{"prompt_token_ids": ids} for ids in prompts], sampling, use_tqdm=False)

    return opened, vllm.__version__


def _transformers() -> tuple[Callable[[Path, Any, int], Write], str]:
    def opened(folder: Path, given: Any, positions: int) -> Write:
        model = nw.load(folder)
        how = GenerationConfig(max_new_tokens=given.new, do_sample=False, eos_token_id=-1, pad_token_id=0)
        pages = given.requests * (positions // 256 + 1)
        # a fifth of the cache is held back before a request is let in; all are to be at work together
        room = ContinuousBatchingConfig(
            num_blocks=pages + pages // 3 + 1, max_batch_tokens=2048, allow_block_sharing=False
        )
        return lambda prompts: model.generate_batch(prompts, how, room, persistent_manager=True)

    return opened, transformers.__version__


_ENGINES: dict[str, Callable[[], tuple[Callable[[Path, Any, int], Write], str]]] = {
    "vllm": _vllm,
    "transformers": _transformers,
}


if __name__ == "__main__":
    main()
