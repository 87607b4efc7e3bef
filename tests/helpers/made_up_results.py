"""Made-up comparisons that look like real ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from nextword.results.records import (
    Cost,
    CurvePoint,
    Environment,
    Evaluation,
    ExamplePrediction,
    MetricValue,
    Results,
    RunRecord,
    TopWord,
)

METHODS = (
    ("Softmax", "softmax", "mle", None),
    ("MoS", "mos:3", "mle", None),
    ("Softmax CPR", "softmax+cpr:20,100+mi", "mle", None),
    ("Cache LM", "cache", "mle", "Trained as a softmax; the cache acts at test time only."),
    ("TRIME", "cache", "mle", None),
    ("HistAlign", "cache", "histalign", None),
)
PROMPTS = (
    ("A parcel had come for both the king and the woman, but it was opened by the", ["king", "woman"]),
    ("서울과 일본 사이에서 고를 수 없어, 그는 버스를 타고 갔다", ["서울", "일본"]),
)


def _share(value: float, n: int) -> MetricValue:
    half = 1.96 * math.sqrt(value * (1 - value) / n)
    return MetricValue(
        value=value, unit="fraction of prompts", n=n, low=max(0.0, value - half), high=min(1.0, value + half)
    )


def _example(prompt: str, expected: list[str], setting: str, cached: bool, chance: random.Random) -> ExamplePrediction:
    words = [*expected, "queen", "man", "girl"] if cached else ["queen", expected[0], "man", "girl", expected[1]]
    top, left = [], 0.9
    for word in words:
        probability = left * chance.uniform(0.3, 0.6)
        left -= probability
        memory = probability * chance.uniform(0.4, 0.9) if cached and word in expected else 0.0
        sources = {"softmax": probability - memory} | ({"cache": memory} if memory else {})
        top.append(TopWord(word=word, probability=probability, sources=sources))
    return ExamplePrediction(prompt=prompt, expected=expected, setting=setting, top=top)


def ambiguous_run(place: int, method: tuple[str, str, str, str | None], seed: int) -> RunRecord:
    """A run of the ambiguous task; ``place`` moves its numbers."""
    label, head, objective, note = method
    chance = random.Random(f"{label}{seed}")
    cached = head == "cache"
    settings = ("joint", "cache_only") if cached else ("joint",)
    metrics = {}
    for setting in settings:
        for k, base in ((1, 0.9), (2, 0.3), (5, 0.55), (10, 0.7), (25, 0.8)):
            value = min(0.995, base + 0.05 * place * (1 - base) + chance.uniform(-0.02, 0.02))
            prefix = "" if setting == "joint" else f"{setting}_"
            metrics[f"{prefix}acc@{k}"] = _share(value, 500)
            metrics[f"{prefix}people_acc@{k}"] = _share(value * 0.9, 250)
    nll = 2.4 - 0.2 * place
    metrics["nll"] = MetricValue(
        value=nll, unit="nats per target (ln 2 is perfect)", n=1000, low=nll - 0.06, high=nll + 0.06
    )
    rank = min(640, 65 + 90 * place)
    metrics["rank@1e-3"] = MetricValue(
        value=float(rank), unit="singular values above the tolerance, 4750 x 50257 matrix", n=4750
    )
    metrics["rank@default"] = MetricValue(
        value=float(rank + 40), unit="singular values above the tolerance, 4750 x 50257 matrix", n=4750
    )
    steps = range(10, 301, 10)
    return RunRecord(
        method=label,
        head=head,
        objective=objective,
        seed=seed,
        evaluation=Evaluation(
            metrics=metrics,
            spectrum=[max(1e-9, math.exp(-i * 7 / rank)) if i else 1.0 for i in range(400)],
            examples=[_example(p, e, setting, cached, chance) for p, e in PROMPTS for setting in settings],
            tuned={"temperature": 1.25, "weight": None} if label == "Cache LM" else {},
        ),
        cost=Cost(
            parameters=124_439_808 + 600_000 * place,
            trained_parameters=85_843_968 + 600_000 * place,
            ms_per_step=38.4 + 7 * place,
            peak_memory_mib=1430.0 + 120 * place,
            train_seconds=192.0 + 20 * place,
        ),
        curve=[
            CurvePoint(step=s, loss=3.2 * math.exp(-s / 70) + 0.7 - 0.04 * place + chance.uniform(0, 0.15))
            for s in steps
        ],
        settings={"steps": 300, "batch_size": 32, "learning_rate": 5e-4},
        note=note,
    )


def lm_run(place: int, method: tuple[str, str, str, str | None], seed: int) -> RunRecord:
    """A run of the lm task: no accuracy, no spectrum, no examples."""
    label, head, objective, _ = method
    values = {"perplexity": 31.4 - place, "bits_per_byte": 1.012 - 0.01 * place, "nll": math.log(31.4 - place)}
    units = {"perplexity": "per token", "bits_per_byte": "bits per byte", "nll": "nats per token"}
    metrics = {
        name: MetricValue(value=value, unit=units[name], n=240_000, low=value * 0.99, high=value * 1.01)
        for name, value in values.items()
    }
    return RunRecord(
        method=label,
        head=head,
        objective=objective,
        seed=seed,
        evaluation=Evaluation(metrics=metrics),
        cost=Cost(parameters=3_000_000, trained_parameters=3_000_000, ms_per_step=12.0),
        curve=[CurvePoint(step=s, loss=6 - s / 100) for s in range(10, 200, 10)],
    )


Sample = Callable[..., Results]


def make_sample(
    make_run: Callable[..., RunRecord] = ambiguous_run,
    methods: Sequence[tuple[str, str, str, str | None]] = METHODS,
    seeds: Sequence[int] = (1,),
    task: str = "ambiguous",
) -> Results:
    """A whole comparison."""
    return Results(
        task=task,
        task_version=1,
        command="nextword compare recipes/ambiguous.toml --out runs/ambiguous",
        data={
            "source": "embedded lexicon",
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "capitals_train_pairs": 60,
            "train_prompts": 2000,
            "validation_prompts": 200,
            "test_prompts": 500,
            "leak_pairs": 0,
        },
        start={
            "model": "gpt2",
            "sha256": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
            "parameters": 124_439_808,
            "statements": _share(0.97, 300).model_dump(mode="json"),
        },
        seeds=list(seeds),
        runs=[make_run(place, method, seed) for place, method in enumerate(methods) for seed in seeds],
        environment=Environment(
            nextword="0.1.0",
            python="3.11.7",
            torch="2.13.0",
            transformers="5.23.0",
            platform="Linux-6.1-x86_64",
            processor="AMD EPYC 9354, NVIDIA H100",
            threads=16,
            commit="0123456789abcdef0123456789abcdef01234567",
            date="2026-11-21T06:26:57+00:00",
        ),
        settings={"task": task, "methods": [label for label, *_ in methods]},
    )
