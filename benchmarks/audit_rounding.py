"""Measures how far two outputs of a correct model differ by rounding, relative to the tolerance of ``nw.check``.

It prints two Markdown tables: the tests that compare two outputs, for one tiny model of each of many architectures; and
a GPT-2 of several depths and widths, which scores a text alone and in a batch.

    python benchmarks/audit_rounding.py
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence

import torch
from architectures.tiny_model import tiny_model
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

import nextword as nw
from nextword.checking.checker import PROPERTIES
from nextword.checking.findings import CheckReport, CheckRow

NAMES = (
    *("bloom", "cohere", "falcon", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox"),
    *("gptj", "granite", "llama", "mistral", "mixtral", "mpt", "nemotron", "olmo2", "opt", "phi", "phi3", "qwen2"),
    *("qwen2_moe", "qwen3", "stablelm", "starcoder2"),
)
"""Decoder-only architectures in which an audit finds nothing."""
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
SIZES = ((2, 64), (6, 64), (24, 64), (96, 64), (6, 256), (6, 768))
"""Layers and width."""
COMPARED = {one.name for one in PROPERTIES if one.reruns} | {"other texts", "order", "future, cut off"}


def compared(report: CheckReport) -> Iterator[CheckRow]:
    """The rows that compare two answers."""
    yield from (row for row in report.rows if row.name in COMPARED and row.worst is not None)


def of_architectures(dtype: torch.dtype) -> tuple[list[float], float, list[str]]:
    """Of each architecture the largest deviation; the largest share of what was allowed; and who fails."""
    worst, share, failed = [], 0.0, []
    for name in NAMES:
        report = nw.check(tiny_model("decoder-only", name).to(dtype), lengths=[1, 6, 17])
        rows = [row for row in compared(report) if row.error is None]
        if not rows:  # it knows no such precision
            continue
        worst.append(max(row.worst or 0.0 for row in rows))
        share = max(share, *((row.worst or 0.0) / row.tolerance for row in rows))
        failed += [name] if any(not row.passed for row in rows) else []
    return worst, share, failed


def of_size(layers: int, width: int, dtype: torch.dtype) -> float:
    """The largest deviation of a GPT-2 of random weights."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=512, n_embd=width, n_layer=layers, n_head=width // 32, n_positions=64)
    model = GPT2LMHeadModel(config)
    for weight in model.parameters():
        if weight.ndim > 1:  # far from uniform, as a trained model's distributions are
            weight.data = torch.randn_like(weight) * weight.shape[0] ** -0.5
    report = nw.check(model.to(dtype), lengths=[17])
    return max(row.worst or 0.0 for row in compared(report))


def main(argv: Sequence[str] | None = None) -> None:
    """Prints both tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.parse_args(argv)
    logging.set_verbosity_error()
    print("| precision | architectures | median | largest | largest share of what is allowed | fail |")
    print("| --- | --- | --- | --- | --- | --- |")
    for dtype in DTYPES:
        worst, share, failed = of_architectures(dtype)
        said = f"{statistics.median(worst):.1e} | {max(worst):.1e} | {share:.2g} | {', '.join(failed) or 'none'}"
        print(f"| {str(dtype).removeprefix('torch.')} | {len(worst)} | {said} |", flush=True)
    print("\n| layers x width | float64 | float32 | bfloat16 |\n| --- | --- | --- | --- |")
    for layers, width in SIZES:
        found = " | ".join(f"{of_size(layers, width, dtype):.1e}" for dtype in DTYPES)
        print(f"| {layers} x {width} | {found} |", flush=True)


if __name__ == "__main__":
    main()
