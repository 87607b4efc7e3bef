"""Measures heads, torch, Liger and cut-cross-entropy on one CUDA device; writes ``docs/records/gpu.json`` and its page.

There are three parts, with random weights in bfloat16: the output layer alone (from states to loss and gradients),
decoding, and a whole training step. The rows of a setting are interleaved after a warm-up round; times are medians of
CUDA events. A row that fails records its error, and the others continue. Results are written after each warm-up and
each round, so an interrupted run keeps them.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --minutes 4 --rows layer liger   # rows whose name has one of these
    NEXTWORD_GPU_TESTS_ON=cpu python benchmarks/gpu.py --out runs/gpu.json   # toy shapes, to try the script itself

The last line of the output contains all measurements; ``--line FILE`` writes the record from this line.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from record_pages import RECORDS, page_of, pages
from texts import counts_file, repeating
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.heads.context import Context, Layout
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.head_cache.head_cache import DynamicHeadCache
from nextword.results.records import Environment

DEVICE = torch.device(os.environ.get("NEXTWORD_GPU_TESTS_ON", "cuda"))
REAL = DEVICE.type == "cuda"
HEADS = ("softmax", "softmax+proj", "softmax+cpr:20,100+mi", "mos:3", "cache:published", "pg", "f2")
DECODED = ("softmax", "cache:published", "softmax+cpr:20,100+mi")
SMOLLM2 = {
    "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
    "num_key_value_heads": 3, "vocab_size": 49_152, "tie_word_embeddings": True, "max_position_embeddings": 2048,
}  # fmt: skip
TOY = {
    "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 3,
    "num_key_value_heads": 1, "vocab_size": 300, "tie_word_embeddings": True, "max_position_embeddings": 2048,
}  # fmt: skip
LAYERS = ((4096, 49_152, 576), (4096, 128_256, 4096), (8192, 32_000, 4096)) if REAL else ((64, 300, 24),)
"""Tokens, vocabulary, width of the states."""
LENGTH = 1024 if REAL else 16
"""Tokens of a text; as many texts as make the tokens."""
MIB = 2**20


@dataclass
class Row:
    """One thing that is measured in one setting."""

    part: str
    setting: str
    name: str
    make: Callable[[], Callable[[], object]] = field(repr=False)
    """Builds what is timed."""
    tokens: int = 0
    """What one run handles or writes."""
    seconds: list[float] = field(default_factory=list)
    peak: float | None = None
    error: str | None = None

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.part} {self.setting} {self.name}"

    def record(self, products: float | None) -> dict[str, Any]:
        """As it is written; times in milliseconds."""
        found: dict[str, Any] = {"part": self.part, "setting": self.setting, "name": self.name}
        if self.error:
            return found | {"error": self.error}
        if self.seconds:
            median = statistics.median(self.seconds)
            found |= {
                "ms": 1000 * median, "lowest": 1000 * min(self.seconds), "highest": 1000 * max(self.seconds),
                "rounds": len(self.seconds), "peak_mib": self.peak, "tokens_per_second": self.tokens / median,
                "over_products": median / products if products else None,
            }  # fmt: skip
        return found


class OutOfTimeError(RuntimeError):
    """A row took longer than a row may."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends the block with an error after so many seconds."""

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"longer than {seconds:.0f} s")

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def timed(run: Callable[[], object]) -> float:
    """Seconds of one run, by the card's own clock."""
    if not REAL:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1000


def peak_of(run: Callable[[], object]) -> float | None:
    """MiB that a run needs beside what was there before."""
    if not REAL:
        run()
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / MIB


# -- The output layer alone.


def llama(**sizes: Any) -> Any:
    """A Llama with random weights in bfloat16, made on the device."""
    torch.manual_seed(0)
    config = LlamaConfig(**sizes, bos_token_id=0, eos_token_id=None, pad_token_id=0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with DEVICE:
            return LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


def headed(bare: Any, head: str) -> Any:
    """A head on this very model."""
    if head != "f2":
        return nw.attach(bare, head)
    with counts_file(bare.config.vocab_size) as counts:
        return nw.attach(bare, {"head": "f2", "counts": counts, "prior": None})


class Layer:
    """States, targets and the weight that all rows of a setting read; gradients are dropped after each run."""

    def __init__(self, tokens: int, vocabulary: int, width: int) -> None:
        narrow = {"intermediate_size": 64, "num_attention_heads": max(1, width // 64), "num_hidden_layers": 3}
        narrow |= {"num_key_value_heads": max(1, width // 64), "tie_word_embeddings": True}
        self.bare = llama(hidden_size=width, vocab_size=vocabulary, **narrow)
        self.weight = self.bare.get_output_embeddings().weight
        shape = (tokens // LENGTH, LENGTH, width)
        self.states = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
        self.layers = tuple(torch.randn_like(self.states) for _ in range(3))
        self.ids = repeating(vocabulary, tokens // LENGTH, LENGTH + 1).to(DEVICE)
        self.targets = self.ids[:, 1:].flatten()

    def backward(self, loss: torch.Tensor) -> torch.Tensor:
        """Makes all gradients and drops them."""
        loss.backward()
        self.states.grad = None
        self.bare.zero_grad(set_to_none=True)
        return loss.detach()

    def of(self, loss: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        """A step of a loss of states (N, D), weight and targets."""
        return lambda: self.backward(loss(self.states.flatten(0, 1), self.weight, self.targets))

    def ours(self, head: str) -> Callable[[], object]:
        """A step of a head, as ``model(labels=...)`` asks it."""
        model = headed(self.bare, head).train()
        read = model.next_word_head

        def step() -> torch.Tensor:
            vocabulary, cache = OutputLayer(self.bare), DynamicHeadCache()
            ids, states = self.ids[:, :-1], self.states
            valid = torch.ones_like(ids, dtype=torch.bool)
            inputs = read.inputs(states, self.layers[: read.layers], valid, cache)
            cache.remember(ids, valid, read.streams(states, inputs))
            layout = Layout.full(*ids.shape, ids.device)
            memory = cache.recall() if read.remembers else None
            rows, wide = states.flatten(0, 1), inputs.flatten(0, 1)
            context = Context(rows, wide, layout.slot, layout, vocabulary, memory)
            loss = self.backward(model.objective(read, context, self.targets).total)
            read.zero_grad(set_to_none=True)
            return loss

        return step

    def products(self) -> Callable[[], object]:
        """The three products that no loss can do without."""
        states, weight = self.states.detach().flatten(0, 1), self.weight.detach()
        gradient = torch.randn(len(states), len(weight), device=DEVICE, dtype=torch.bfloat16)

        def multiply() -> None:
            states @ weight.T
            gradient @ weight
            gradient.T @ states

        return multiply


def by_torch(states: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """As models of transformers compute it."""
    return F.cross_entropy(F.linear(states, weight).float(), targets)


def compiled(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """For the sizes at hand alone, and not for those of the setting before."""
    torch._dynamo.reset()
    return torch.compile(loss, dynamic=False)


def by_liger() -> Any:
    """Liger's loss, which makes the gradients in the pass that makes the loss."""
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    loss = LigerFusedLinearCrossEntropyLoss()
    return lambda states, weight, targets: loss(weight, states, targets)


def by_cut() -> Any:
    """That of Apple, which makes no scores at all."""
    from cut_cross_entropy import linear_cross_entropy

    return linear_cross_entropy


PRODUCTS = "three products"


def layer_rows(tokens: int, vocabulary: int, width: int) -> list[Row]:
    """All ways to compute a loss at one size."""
    setting, made = f"{tokens:,} x {vocabulary:,}, D = {width:,}", {}

    def layer() -> Layer:  # made by the first row that is measured, and the same for all
        if not made:
            made["layer"] = Layer(tokens, vocabulary, width)
        return made["layer"]

    makers: dict[str, Callable[[], Callable[[], object]]] = {
        PRODUCTS: lambda: layer().products(),
        "torch linear + cross_entropy": lambda: layer().of(by_torch),
        "the same, torch.compile": lambda: layer().of(compiled(by_torch)),
        "Liger FusedLinearCrossEntropy": lambda: layer().of(by_liger()),
        "cut-cross-entropy": lambda: layer().of(by_cut()),
        **{f"nextword {head}": (lambda head=head: layer().ours(head)) for head in HEADS},
    }
    return [Row("layer", setting, name, make, tokens) for name, make in makers.items()]


# -- A whole model.


def decoding_rows(batch: int) -> list[Row]:
    """Greedy search, by head."""
    sizes, prompt, new = (SMOLLM2, 128, 64) if REAL else (TOY, 8, 4)
    made: dict[str, Any] = {}

    def writing(head: str | None) -> Callable[[], object]:
        if not made:
            made["bare"] = llama(**sizes)
        model = made["bare"] if head is None else headed(made["bare"], head)
        ids = repeating(sizes["vocab_size"], batch, prompt).to(DEVICE)
        given = {"attention_mask": torch.ones_like(ids), "max_new_tokens": new, "do_sample": False}
        return lambda: model.eval().generate(ids, **given)

    rows: list[tuple[str, str | None]] = [("transformers", None), *((f"nextword {head}", head) for head in DECODED)]
    setting = f"SmolLM2-135M's shape, batch {batch}, {new} tokens after {prompt}"
    return [Row("decoding", setting, name, partial(writing, head), batch * new) for name, head in rows]


def training_rows() -> list[Row]:
    """Forward and backward pass of the whole model, by head."""
    sizes, batch, length = (SMOLLM2, 8, 512) if REAL else (TOY, 2, 16)
    made: dict[str, Any] = {}

    def training(head: str | None) -> Callable[[], object]:
        if not made:
            made["bare"] = llama(**sizes)
        model = made["bare"] if head is None else headed(made["bare"], head)
        ids = repeating(sizes["vocab_size"], batch, length).to(DEVICE)

        def step() -> torch.Tensor:
            loss: torch.Tensor = model.train()(input_ids=ids, labels=ids, use_cache=False).loss
            loss.backward()
            model.zero_grad(set_to_none=True)
            return loss.detach()

        return step

    rows: list[tuple[str, str | None]] = [("transformers", None), *((f"nextword {head}", head) for head in HEADS)]
    setting = f"SmolLM2-135M's shape, {batch} x {length} tokens"
    return [Row("training", setting, name, partial(training, head), batch * length) for name, head in rows]


# -- Measuring, and the record.


class Clock:
    """How much is left of the time that all may take."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes

    def left(self) -> float:
        """Seconds."""
        return self._end - time.monotonic()


def measure(rows: list[Row], rounds: int, row_seconds: float, clock: Clock, write: Callable[[], None]) -> None:
    """Fills in rows of one setting: one run each to warm up and for the memory, then rounds in turns."""
    runs: dict[str, Callable[[], object]] = {}
    for row in rows:
        if clock.left() < 5:
            row.error = "not reached in the time given"
            continue
        try:
            with within(min(row_seconds, clock.left())):
                run = row.make()
                run()
                row.peak = peak_of(run)
                row.seconds.append(timed(run))  # until there are rounds
            runs[row.key] = run
        except Exception as problem:  # whatever a library raises belongs in its row
            row.error = f"{type(problem).__name__}: {str(problem).splitlines()[0][:200] if str(problem) else ''}"
            if REAL:
                torch.cuda.empty_cache()
        print(f"{row.key}: {row.error or f'{1000 * row.seconds[-1]:.2f} ms in the first round'}", flush=True)
        write()
    for number in range(rounds):
        for row in rows:
            if row.key not in runs or clock.left() < 2:
                continue
            try:
                with within(min(row_seconds, clock.left())):
                    seconds = timed(runs[row.key])
            except Exception as problem:
                row.error = f"{type(problem).__name__}: {str(problem)[:200]}"
                del runs[row.key]
                continue
            row.seconds = [seconds] if number == 0 else [*row.seconds, seconds]
        write()


_COLUMNS = ["", "ms", "lowest to highest", "over the products", "peak, MiB", "tokens/s"]
_NEVER = "These rows never ran on a card: none was at hand when the benchmark was written."


def record(rows: Sequence[dict[str, Any]], environment: dict[str, Any] | None) -> dict[str, Any]:
    """The record that ``record_pages.py`` makes a page of."""
    ran = [row for row in rows if "ms" in row]
    where = _NEVER
    if environment is not None and ran:
        where = f"{environment['processor']}, torch {environment['torch']}, {environment['date'][:10]}."
    titles = {"layer": "The output layer alone", "decoding": "Decoding", "training": "A training step"}
    sections: list[dict[str, Any]] = []
    for part, title in titles.items():
        settings = dict.fromkeys(row["setting"] for row in rows if row["part"] == part)
        tables = [
            {"caption": one, "columns": _COLUMNS, "rows": [_cells(row) for row in rows if row["setting"] == one]}
            for one in settings
        ]
        if tables:
            sections.append({"title": title, "parts": tables})
    commands = ["make test-gpu", "make bench-gpu", "python benchmarks/gpu.py --minutes 4 --rows layer"]
    sections.append({"title": "Commands", "parts": [{"commands": commands, "shell": True}]})
    about = (
        f"{where} Weights and states are random, in bfloat16. *The output layer alone*: time to compute the loss from "
        "the states, and the gradients of states and weights; *over the products* is this time divided by that of the "
        "three necessary matrix products, measured in the same run. *Peak*: memory in addition to weights and states. "
        "Times are medians of interleaved rounds, by CUDA events."
    )
    found = {"title": "Performance", "name": "On a GPU", "guide": "../performance.md", "about": about}
    return found | {"sections": sections, "measured": list(rows), "environment": environment}


def _cells(row: dict[str, Any]) -> list[str]:
    if "ms" not in row:
        return [row["name"], row.get("error", "not measured"), "", "", "", ""]
    over, peak = row["over_products"], row["peak_mib"]
    return [
        row["name"], f"{row['ms']:.2f}", f"{row['lowest']:.2f} to {row['highest']:.2f}",
        "" if over is None else f"{over:.2f}", "" if peak is None else f"{peak:,.0f}",
        f"{row['tokens_per_second']:,.0f}",
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=8.0, help="after so many minutes no further row is begun")
    options.add_argument("--row-seconds", type=float, default=60.0, help="time limit of a row's warm-up")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument(
        "--rows",
        nargs="+",
        metavar="NAME",
        help="measure only rows whose name contains one of these; other rows of the record stay",
    )
    options.add_argument("--out", type=Path, default=RECORDS / "gpu.json")
    options.add_argument(
        "--line", type=Path, help="file with the last output line of an earlier run: write its record, run nothing"
    )
    given = options.parse_args(argv)
    if given.line:
        save(given.out, read_line(given.line.read_text(encoding="utf-8").splitlines()[-1]))
        return
    if REAL and not torch.cuda.is_available():
        print("bench-gpu: this machine has no CUDA device; the record is not changed")
        if not given.out.exists():
            save(given.out, record([], None))
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    logging.getLogger("nextword").setLevel(logging.ERROR)  # random weights: how a head begins on them says nothing
    clock, environment = Clock(given.minutes), Environment.collect().model_dump(mode="json")
    before = json.loads(given.out.read_text(encoding="utf-8"))["measured"] if given.out.exists() else []
    groups = [*(partial(layer_rows, *sizes) for sizes in LAYERS)]
    groups += [partial(decoding_rows, 1), partial(decoding_rows, 32), training_rows]
    done: dict[str, dict[str, Any]] = {_key(row): row for row in before}
    for group in groups:
        rows = [row for row in group() if not given.rows or any(one in row.key for one in [*given.rows])]

        def write(rows: list[Row] = rows) -> None:
            alone = next((statistics.median(row.seconds) for row in rows if row.name == PRODUCTS and row.seconds), None)
            done.update({row.key: row.record(alone) for row in rows})
            save(given.out, record(list(done.values()), environment))

        measure(rows, given.rounds, given.row_seconds, clock, write)
        write()
        del rows, write
        if REAL:
            torch.cuda.empty_cache()
    print(page_of(json.loads(given.out.read_text(encoding="utf-8"))))
    print(line_of(list(done.values()), environment))


_FIELDS = (
    "part", "setting", "name", "ms", "lowest", "highest", "rounds", "peak_mib", "tokens_per_second", "over_products",
    "error",
)  # fmt: skip


def line_of(rows: Sequence[dict[str, Any]], environment: dict[str, Any]) -> str:
    """What was measured in one short line, for machines of which only the end of the output comes back."""
    short = [[_short(row.get(name)) for name in _FIELDS] for row in rows]
    return json.dumps({"environment": environment, "rows": short}, separators=(",", ":"))


def _short(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def read_line(line: str) -> dict[str, Any]:
    """The record that a line of ``line_of`` stands for."""
    read = json.loads(line)
    rows = [dict(zip(_FIELDS, row, strict=True)) for row in read["rows"]]
    kept = [{name: value for name, value in row.items() if value is not None or _measured(row, name)} for row in rows]
    return record(kept, read["environment"])


def _measured(row: dict[str, Any], name: str) -> bool:
    return row["ms"] is not None and name != "error"


def _key(row: dict[str, Any]) -> str:
    return f"{row['part']} {row['setting']} {row['name']}"


def save(path: Path, made: dict[str, Any]) -> None:
    """Writes the record and, where it is among the others, its page and their list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    if path.parent == RECORDS:
        for page, text in pages(RECORDS).items():
            if page in (path.with_suffix(".md"), RECORDS / "index.md"):
                page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
