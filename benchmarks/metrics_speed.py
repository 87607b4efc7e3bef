"""Measures the time of metrics without a model, in one process; appends to ``benchmarks/data/metrics_speed.csv``.

    python benchmarks/metrics_speed.py self-bleu              # against nltk and fast-bleu: 1,800 texts of 100 tokens
    python benchmarks/metrics_speed.py self-bleu --full-nltk  # nltk on every text (minutes), not on a sample of them
    python benchmarks/metrics_speed.py all                    # every metric on 10,000 texts of 100 tokens

Texts are sampled token by token with a fixed seed; the token of rank r has a probability proportional to 1 / r, over
20,000 tokens. With ``--texts FILE``, texts are the lines of a file, cut after 100 words.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rows import append

from nextword.evaluation.metrics import Sample, Setup, UndefinedError, parse_metric, registry
from nextword.evaluation.metrics.diversity import self_bleu
from nextword.evaluation.metrics.tokens import GivenIds, Words
from nextword.evaluation.sample_passes import lacking, not_installed
from nextword.results.records import Environment

ORDERS = (1, 2, 3, 4)
VOCABULARY = 20_000
TOKENS = 100
TEXTS = {"self-bleu": 1_800, "all": 10_000}
FITTED = {"topics"}
"""Metrics that fit a model to the references; the total is given with and without them."""
NLTK_SAMPLE = 60
"""Texts that nltk scores, each against all others, where not all of them are asked for."""

Texts = list[list[int]]
Row = dict[str, Any]


class Ids(GivenIds):
    """Token ids below the size of the vocabulary."""

    size = VOCABULARY


def drawn(number: int, seed: int) -> Texts:
    """Texts of Zipf-distributed tokens."""
    share = 1 / np.arange(1, VOCABULARY + 1)
    drawn_ids = np.random.default_rng(seed).choice(VOCABULARY, size=(number, TOKENS), p=share / share.sum())
    texts: Texts = drawn_ids.tolist()
    return texts


def read(path: Path, number: int) -> Texts:
    """The first lines of a file that have words, as numbers of words."""
    words = Words()
    with path.open(encoding="utf-8") as file:
        texts = (words.ids(line)[:TOKENS].tolist() for line in file)
        found = list(islice((text for text in texts if text), number))
    if len(found) < number:
        raise SystemExit(f"{path} has {len(found)} lines with words, {number} are needed")
    return found


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and what it returns."""
    start = time.perf_counter()
    found = run()
    return time.perf_counter() - start, found


def by_nltk(texts: Texts, scored: list[int]) -> np.ndarray:
    """All orders in one call for each text, which is nltk's quickest way."""
    weights = [(1 / n,) * n for n in ORDERS]
    method = SmoothingFunction().method1
    rows = [
        sentence_bleu(texts[:i] + texts[i + 1 :], texts[i], weights=weights, smoothing_function=method) for i in scored
    ]
    return np.transpose(rows)


def by_fast_bleu(texts: list[list[str]]) -> np.ndarray:
    """Orders from 2: it has no 1."""
    from fast_bleu import SelfBLEU

    found = SelfBLEU(texts, {n: (1 / n,) * n for n in ORDERS[1:]}).get_score()
    return np.array([found[n] for n in ORDERS[1:]])


def compared(texts: Texts, rounds: int, full_nltk: bool) -> list[Row]:
    """Self-BLEU-1..4 of ours and of fast-bleu in turns, and of nltk once."""
    strings = [[str(token) for token in text] for text in texts]
    self_bleu(texts, ORDERS)  # one to warm up
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        seconds, values = timed(lambda: self_bleu(texts, ORDERS))
        ours.append(seconds)
        seconds, fast = timed(lambda: by_fast_bleu(strings))
        theirs.append(seconds)
    scored = list(range(len(texts)))
    if not full_nltk:
        scored = sorted(np.random.default_rng(1).permutation(len(texts))[:NLTK_SAMPLE].tolist())
    seconds, exact = timed(lambda: by_nltk(texts, scored))
    whole = seconds * len(texts) / len(scored)
    own = statistics.median(ours)
    differ = np.abs(fast - values[1:])
    threads = os.environ.get("OMP_NUM_THREADS") or os.cpu_count()
    note = f"{len(scored)} texts timed, each against all others" + ("" if full_nltk else "; scaled to all")
    fast_note = (
        f"n = 2..4 only, up to {threads} threads; {int((differ.max(axis=0) > 1e-6).sum())} texts differ by over 1e-6"
    )
    return [
        _row("nextword", own, 1.0, rounds, note="1 thread"),
        _row(
            "fast-bleu",
            statistics.median(theirs),
            statistics.median(b / a for a, b in zip(ours, theirs, strict=True)),
            rounds,
            differ.max(),
            fast_note,
        ),
        _row("nltk", whole, whole / own, 1, np.abs(exact - values[:, scored]).max(), f"{note}; 1 thread"),
    ]


def _row(name: str, seconds: float, ratio: float | None, rounds: int, difference: float = 0.0, note: str = "") -> Row:
    return {
        "name": name,
        "seconds": f"{seconds:.3f}",
        "times_ours": "" if ratio is None else f"{ratio:.4g}",
        "rounds": rounds,
        "largest_difference": f"{difference:.2g}",
        "note": note,
    }


def contents(texts: Texts, references: Texts) -> list[dict[str, Any]]:
    """Every field that a metric without a model reads, except a table and a document."""
    rng = np.random.default_rng(2)
    found = []
    for number, (text, reference) in enumerate(zip(texts, references, strict=True)):
        predicted = [
            a if right else b for a, b, right in zip(text, reference, rng.random(len(text)) < 0.4, strict=False)
        ]
        predicted += text[len(predicted) :]
        found.append(
            {
                "id": number,
                "text": " ".join(f"w{token}" for token in text),
                "references": [" ".join(f"w{token}" for token in reference)],
                "token_ids": text,
                "reference_token_ids": [reference],
                "target_token_ids": text,
                "predicted_token_ids": predicted,
                "log_probs": (-rng.exponential(3.0, len(text))).tolist(),
                "target_ranks": rng.integers(0, 50, len(text)).tolist(),
                "target_bytes": 5 * len(text),
                "ranked_token_ids": rng.choice(VOCABULARY, 100, replace=False, shuffle=False).tolist(),
                "right_token_ids": rng.choice(VOCABULARY, 2, replace=False).tolist(),
            }
        )
    return found


def measurable(sample: Sample) -> list[str]:
    """Metrics that ask no model, and that the sample has the fields for."""
    found = []
    for name in registry.names():
        metric = registry.get(name)
        possible = not lacking(metric, sample) and not not_installed(metric) and metric.on_request() is None
        if possible and metric.__module__.startswith("nextword.evaluation.metrics."):
            found.append(name)
    return found


def measured(texts: Texts, references: Texts) -> list[Row]:
    """Every metric with its defaults, one after another, over the same samples."""
    given = contents(texts, references)
    unit = Ids()

    def read_samples() -> list[Sample]:
        samples = [Sample.model_validate(one).bound(f"sample {i}", unit) for i, one in enumerate(given)]
        for sample in samples:
            assert len(sample.tokens) + len(sample.reference_tokens[0])  # kept, as where several metrics read it
        return samples

    seconds, samples = timed(read_samples)
    rows = [_row("reading", seconds, None, 1, note="samples checked and held as arrays")]
    for name in measurable(samples[0]):
        seconds, keys = timed(lambda name=name: _keys(name, samples, unit))  # type: ignore[misc]
        rows.append(_row(name, seconds, None, 1, note=keys))
    counted = [row for row in rows if row["name"] not in FITTED]
    return [
        *rows,
        _row("total", _sum(rows), None, 1, note=f"{len(rows) - 1} metrics, one after another"),
        _row(f"total without {', '.join(FITTED)}", _sum(counted), None, 1, note=f"{len(counted) - 1} metrics"),
    ]


def _sum(rows: list[Row]) -> float:
    return sum(float(row["seconds"]) for row in rows)


def _keys(name: str, samples: list[Sample], unit: Ids) -> str:
    metric = registry.get(name)(parse_metric(name), Setup(unit=unit))
    for sample in samples:
        metric.add(sample)
    try:
        return " ".join(metric.result())
    except UndefinedError as reason:
        return f"no value: {reason}"


def main() -> None:
    """Measures, prints and appends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=TEXTS)
    parser.add_argument("--texts", type=Path, help="file with one text per line (default: random texts)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds of our code and fast-bleu")
    parser.add_argument("--full-nltk", action="store_true", help=f"nltk on every text, not on {NLTK_SAMPLE}")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "metrics_speed.csv")
    given = parser.parse_args()
    number = TEXTS[given.part]
    both = read(given.texts, 2 * number) if given.texts else drawn(2 * number, seed=0)
    texts, references = both[:number], both[number:]
    against_baselines = given.part == "self-bleu"
    rows = compared(texts, given.rounds, given.full_nltk) if against_baselines else measured(texts, references)
    tokens = f"{statistics.fmean(map(len, texts)):.4g}"
    environment = Environment.collect().model_dump(mode="json", exclude={"python", "platform", "torch", "transformers"})
    source = given.texts.name if given.texts else "drawn"
    fixed = {"part": given.part, "texts": number, "tokens": tokens, "source": source}
    whole = [{**fixed, **row, **environment} for row in rows]
    for row in rows:
        print(f"{row['name']:21} {row['seconds']:>9} s  {row['times_ours']:>7}  {row['note']}", flush=True)
    append(given.out, whole)


if __name__ == "__main__":
    main()
