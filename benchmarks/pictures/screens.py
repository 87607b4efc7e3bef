"""Pictures of pages, taken by a browser: ``inspect``, ``serve``, ``check`` and ``evaluate`` with a real model.

The model gets a cache that is calibrated on other text. The news article is ``docs/images/texts/news.txt``; prompts of
the evaluated texts are openings of paragraphs of the held-out text.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TEXT = Path(__file__).parents[2] / "docs" / "images" / "texts" / "news.txt"
TAKE = TEXT.parents[1] / "take_picture.py"
_OPENED = " Kestrel"
"""The last of these in the article is the token that is open."""
_NAMES = re.compile("est|Bay|arn|Quad|ade|Tans|ery|har|the")
"""Pieces of its names; one that the served model wrote is opened."""
_WRITTEN, _PARAGRAPHS, _BEGIN = 48, 24, 16
"""Tokens of an evaluated text, how many of them, and words of a prompt."""


def take(model: Path, held: Path, images: Path) -> None:
    """Makes the pages in a temporary folder and takes a picture of each."""
    with tempfile.TemporaryDirectory() as folder:
        work, model, held = Path(folder), model.resolve(), held.resolve()
        _nextword(work, "attach", model, "--head", "cache", "--held", held, "--tokens", "6000", "--out", "cached")
        _inspect(work, model, images)
        _evaluate(work, model, held, images)
        _check(work, model, images)
        _serve(work, images)


def _inspect(work: Path, model: Path, images: Path) -> None:
    from transformers import AutoTokenizer

    article = TEXT.read_text(encoding="utf-8")
    before = article[: article.rindex(_OPENED)]
    opened = len(AutoTokenizer.from_pretrained(model)(before)["input_ids"]) + 1  # the page begins with a special token
    _nextword(work, "inspect", "cached", "--text", TEXT, "--out", "one.html")
    page, token = work / "one.html", ["--token", str(opened), "--colour", "From cache"]
    alone = ["--hide", "h1, #theme, .lead, .tools, #panel, footer", "--only", "#legend, #text, #tokens-text"]
    for dark in (False, True):
        name = f"sources{'-dark' if dark else ''}.png"
        narrow = ["--width", "700", "--height", "900", "--scale", "1.6"]
        _taken(page, images / name, *token, *narrow, *alone, *(["--dark"] if dark else []))
    _taken(page, images / "inspect-news.png", *token, "--height", "900")
    _taken(page, images / "inspect-phone.png", *token[:2], "--width", "390", "--height", "844", "--dark")


def _evaluate(work: Path, model: Path, held: Path, images: Path) -> None:
    (work / "prompts.jsonl").write_text("".join(_prompts(held.read_text(encoding="utf-8"))), encoding="utf-8")
    for name, folder in (("SmolLM2", model), ("cache", "cached")):
        _nextword(work, "generate", folder, "prompts.jsonl", "--decoding", "greedy", "--decoding", "top-p:0.9",
                  "--max-new-tokens", str(_WRITTEN), "--out", f"texts-{name}")  # fmt: skip
    systems = [
        f"{name} {path.stem.removesuffix('-0.9-seed-0')}={path.relative_to(work)}"
        for name in ("SmolLM2", "cache") for path in sorted((work / f"texts-{name}").glob("*.jsonl"))
    ]  # fmt: skip
    _nextword(
        work, "evaluate", *systems, "--tokenizer", model, "--metrics", "distinct,rep,self-bleu,rouge", "--out", "ev"
    )
    _taken(
        work / "ev" / "report.html",
        images / "evaluate.png",
        "--width",
        "900",
        "--height",
        "1000",
        "--hide",
        ".facts, nav",
    )


def _prompts(text: str) -> list[str]:
    """Openings of long paragraphs, each with the rest of it as the reference."""
    paragraphs = [line.split() for line in text.splitlines()]
    long = [words for words in paragraphs if len(words) > _BEGIN + _WRITTEN and "<unk>" not in words[:_BEGIN]]
    chosen = long[:: max(len(long) // _PARAGRAPHS, 1)][:_PARAGRAPHS]
    return [
        json.dumps({"prompt": " ".join(words[:_BEGIN]), "references": [" ".join(words[_BEGIN : _BEGIN + _WRITTEN])]})
        + "\n"
        for words in chosen
    ]


def _check(work: Path, model: Path, images: Path) -> None:
    """A cache whose normaliser was forgotten: seen tokens get a tenth more."""
    import torch
    from transformers import AutoModelForCausalLM

    import nextword as nw
    from nextword.results.report.check_page import render_check

    plain = AutoModelForCausalLM.from_pretrained(model).eval()

    @torch.no_grad()
    def smollm2_with_a_cache(prefixes: Any) -> Any:
        rows = [plain(torch.tensor([list(prefix)])).logits[0, -1].softmax(-1) for prefix in prefixes]
        for row, prefix in zip(rows, prefixes, strict=True):
            row[list(prefix)] += 0.1
        return torch.stack(rows).log()

    report = nw.check(smollm2_with_a_cache, vocabulary=plain.config.vocab_size, lengths=[1, 6])
    assert report.findings
    (work / "check.html").write_text(render_check(report.record()), encoding="utf-8")
    _taken(work / "check.html", images / "check.png", "--width", "900", "--height", "1000")


def _serve(work: Path, images: Path) -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    prompt = TEXT.read_text(encoding="utf-8")[:1100].rpartition(". ")[0] + "."
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nextword", "serve", "cached", "--port", str(port)]
    with subprocess.Popen(command, cwd=work) as served:
        try:
            _wait_for(port)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1280, "height": 1180}, reduced_motion="reduce")
                page.goto(f"http://127.0.0.1:{port}")
                page.fill("#prompt", prompt)
                page.fill("#temperature", "0.7")
                page.click("#write")
                # no function of ours: the page's security policy evaluates no strings
                page.locator("#status", has_text=re.compile(r"\d s\b")).wait_for(timeout=200_000)
                page.locator("#text button", has_text=_NAMES).first.click()
                page.frame_locator("#inspected").locator("#panel").wait_for(timeout=100_000)
                page.wait_for_timeout(1000)
                page.evaluate("scrollTo(0, 0)")
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        finally:
            served.terminate()
    picture.quantize(224, Image.Quantize.MAXCOVERAGE).save(images / "serve.png", optimize=True)


def _wait_for(port: int, seconds: int = 120) -> None:
    for _ in range(seconds):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(1)
        else:
            return
    raise TimeoutError(f"nothing answers at port {port} after {seconds} s")


def _nextword(work: Path, *words: object) -> None:
    subprocess.run([sys.executable, "-m", "nextword", *map(str, words)], cwd=work, check=True)


def _taken(page: Path, out: Path, *options: str) -> None:
    subprocess.run([sys.executable, str(TAKE), str(page), str(out), *options], check=True)
