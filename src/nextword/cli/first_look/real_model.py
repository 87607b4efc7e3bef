"""The second part of the quickstart. A pretrained model continues a text without and with a calibrated cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import Field
from rich.console import Console

import nextword as nw
from nextword.cli.attach_head import calibration_lines
from nextword.cli.parts.run_and_show import interruptible, print_line
from nextword.cli.parts.watch import watching
from nextword.inference.inspection.trace_example import trace
from nextword.inference.scoring.calibrate import CalibrationResults
from nextword.inference.scoring.opened_model import OpenedModel, open_model
from nextword.model.attach import attach
from nextword.results.records import Record, write_atomically
from nextword.results.report import trace_page

FETCHED = Path("models/smollm2-135m")
"""Folder in which ``make real-model`` puts SmolLM2-135M-Instruct."""
FETCH = (
    f"To try a pretrained model too: download one (93 MB) into {FETCHED} with 'make real-model', then run this command "
    "again."
)
"""Text that is printed if there is no pretrained model."""

ALONE, WITH = "alone", "with a cache"
DECODING = "greedy"
TOKENS = 60
"""Number of tokens that each model generates."""
LITTLE = 0.02
"""Nats per token. A smaller difference between the losses with and without the cache is called negligible."""


class RealModel(Record):
    """Results for one model. They are saved, so that the same command prints them immediately when it runs again."""

    model: str
    """Folder or hub name of the model."""
    nextword: str
    """Version of nextword that computed the results."""
    calibration: CalibrationResults
    """Settings of the cache, chosen on the first text."""
    tokens: int = Field(ge=1)
    """Number of tokens of the second text. This text was not used for calibration."""
    nll: dict[str, float]
    """Loss on the second text, in nats per token, by model ("alone" or "with a cache")."""
    written: dict[str, str]
    """Text that each model generates in place of the last paragraph of the second text."""


def look_at(model: str, out: Path) -> None:
    """Calibrate a cache for ``model`` on one text, evaluate it on another, print results and write a page in ``out``.

    If ``out`` has saved results for the same model and version of nextword, these are printed instead.
    """
    console, record, page = Console(), out / "real-model.json", out / "real-model.html"
    seen = _seen_before(record, model) if page.exists() else None
    console.print(f"\n{model}, with a cache calibrated on one text and evaluated on another", highlight=False)
    if seen is None:
        with interruptible("the comparison is finished"), watching(console, "opening the model") as shown:
            seen, html = _look(model, shown.now)
        write_atomically(page, html)
        seen.save(record)
    for line in _told(seen):
        console.print(line, markup=False, highlight=False)
    print_line(console, f"Token by token: {page.resolve()}")


def _seen_before(record: Path, model: str) -> RealModel | None:
    try:
        seen = RealModel.load(record)
    except ValueError:
        return None  # the file does not exist, or another version wrote it
    return seen if (seen.model, seen.nextword) == (model, nw.__version__) else None


def _look(model: str, now: Callable[[str], None]) -> tuple[RealModel, str]:
    """The results with and without the cache, and the HTML page. ``now`` is called with the name of each step."""
    plain = open_model(model, name=ALONE)
    model_with_cache: Any = attach(plain.model.backbone, "cache")
    cached = OpenedModel(WITH, model_with_cache.eval(), plain.tokenizer)
    both = {one.name: one for one in (plain, cached)}
    now("calibrating")
    found = nw.calibrate(cached, _text("held.txt"))
    now("measuring")
    text = _text("told.txt")
    traces = {name: trace(one, text=text) for name, one in both.items()}
    now("writing")
    written = {name: _written(one, text.rpartition("\n\n")[0]) for name, one in both.items()}
    seen = RealModel(
        model=model,
        nextword=nw.__version__,
        calibration=found,
        tokens=len(traces[WITH].tokens.log_prob),
        nll={name: -fmean(one.tokens.log_prob) for name, one in traces.items()},
        written=written,
    )
    return seen, trace_page(traces[ALONE], traces[WITH])


def _text(name: str) -> str:
    return (resources.files("nextword.cli.first_look") / "texts" / name).read_text(encoding="utf-8").strip()


def _written(opened: OpenedModel, prompt: str) -> str:
    (line,) = nw.generate(opened, prompts=prompt, decodings=[DECODING], max_new_tokens=TOKENS)
    return " ".join(str(line["text"]).split())


def _told(seen: RealModel) -> Iterator[str]:
    yield from calibration_lines(seen.calibration)
    alone, cached = seen.nll[ALONE], seen.nll[WITH]
    yield f"The second text, {seen.tokens:,} tokens: {alone:.4f} nats per token {ALONE}, {cached:.4f} {WITH}."
    if abs(alone - cached) < LITTLE:
        yield (
            "The difference is negligible: the model's attention already covers the whole text. When a cache helps "
            "more: "
            "docs/pretrained.md, docs/heads/cache.md."
        )
    yield f"Generated in place of its last paragraph ({DECODING}):"
    for name, text in seen.written.items():
        yield f"  {name}: {text}"
