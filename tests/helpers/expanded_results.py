"""A made-up comparison of conditioned models, with the numbers of the paper's table 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nextword.results.records import (
    Cost,
    CurvePoint,
    Evaluation,
    EvaluationResults,
    Measure,
    MetricValue,
    Results,
    RunRecord,
    SampleFile,
    SystemRecord,
)
from nextword.results.report.columns import REFERENCES, SHY
from tests.helpers.made_up_results import make_sample
from tests.helpers.written_results import ENVIRONMENT


def _rouge(kind: str) -> Measure:
    unit = "fraction (F1, Porter stems, a-z and 0-9)"
    title = f"ROUGE-{kind}"
    meaning = f"{title}: explained."
    return Measure(title=title, group="Summaries", unit=unit, goal="higher", decimals=1, meaning=meaning)


MEASURES = {
    "perplexity": Measure(
        title="perplexity", group="Likelihood", unit="per token (of the model's tokenizer)", goal="lower", decimals=2,
        meaning="Perplexity: explained.",
    ),
    "nll": Measure(
        title="NLL", group="Likelihood", unit="nats per token (of the model's tokenizer)", goal="lower", decimals=3,
        meaning="NLL: explained.",
    ),
    "rouge-1": _rouge("1"),
    "rouge-2": _rouge("2"),
    "rouge-l": _rouge("L"),
    "topics-jsd": Measure(
        title="Topic divergence", group="Topics", unit="bits (50 topics, seed 0)", goal="lower", decimals=3,
        meaning="Topic divergence: explained.",
    ),
}  # fmt: skip
KEYS = ("perplexity", "rouge-1", "rouge-2", "rouge-l", "topics-jsd")
TITLES = (f"Per{SHY}plexity of {REFERENCES}", "ROUGE-1", "ROUGE-2", "ROUGE-L", "LDA + JSD")
WITHOUT = {
    "GPT-2": (22.603273, 0.16916494, 0.01096475, 0.12525628, 0.77531025),
    "DAU avg": (21.910961, 0.13497256, 0.00564681, 0.10807705, 0.76744349),
    "DAU max": (23.904585, 0.13551144, 0.00958346, 0.11715993, 0.74596844),
    "LMH avg": (26.655932, 0.15728040, 0.00970389, 0.12619733, 0.75673676),
    "LMH max": (29.783505, 0.13424269, 0.00868581, 0.11138511, 0.72097123),
    "BERGPT": (34.202326, 0.12938505, 0.00893298, 0.09586783, 0.68306939),
}
WITH = {
    "GPT-2": (17.822541, 0.21963578, 0.02569620, 0.17157309, 0.56805357),
    "DAU avg": (17.130703, 0.14818597, 0.01777298, 0.13391426, 0.57150789),
    "DAU max": (18.780319, 0.14683508, 0.01728999, 0.13351382, 0.57072197),
    "LMH avg": (21.409605, 0.14820174, 0.01676628, 0.13103321, 0.57946283),
    "LMH max": (24.141396, 0.14114764, 0.01469263, 0.12443054, 0.57256593),
    "BERGPT": (30.709857, 0.13179502, 0.00897114, 0.09760922, 0.65972524),
}
CONDITIONERS = {
    "GPT-2": None, "DAU avg": "dau", "DAU max": "dau:max", "LMH avg": "lmh", "LMH max": "lmh:max", "BERGPT": "bergpt",
}  # fmt: skip
STEERING = "nats per article token lost with another article's summary"
WAY, PROMPTED = "top-k 40", "top-k 40, with prompt"


def evaluation(
    numbers: dict[str, tuple[float, ...]], seeds: Sequence[int], keys: Sequence[str] = KEYS, people: bool = True
) -> EvaluationResults:
    """The texts of one way of writing; every seed is a percent above the one before, all of the texts but perplexity
    have an interval."""
    human = _file("GPT-2-1.jsonl", dict(zip(KEYS[1:], (1.0, 1.0, 1.0, 0.0), strict=True)), 1.0) if people else None
    return EvaluationResults(
        command="nextword compare recipe.toml --out runs/expand",
        unit="words",
        measures={key: measure for key, measure in MEASURES.items() if key in keys or key == "nll"},
        systems=[_system(name, dict(zip(KEYS, values, strict=True)), seeds, keys) for name, values in numbers.items()],
        human=human,
        left_out={},
        tests=[],
        untested="only made up",
        wins=None,
        settings={},
        environment=ENVIRONMENT,
    )


def _system(name: str, values: dict[str, float], seeds: Sequence[int], keys: Sequence[str]) -> SystemRecord:
    kept = {key: values[key] for key in keys} | {"nll": math.log(values["perplexity"])}
    files = [_file(f"{name}-{seed}.jsonl", kept, 1 + 0.01 * place) for place, seed in enumerate(seeds)]
    means = {
        key: files[0]
        .values[key]
        .model_copy(
            update={"value": sum(file.values[key].value for file in files) / len(files), "low": None, "high": None}
        )
        for key in kept
    }
    return SystemRecord(name=name, files=files, values=files[0].values if len(files) == 1 else means)


def _file(name: str, values: dict[str, float], times: float) -> SampleFile:
    own = {}
    for key, number in values.items():
        ends = {} if key == "perplexity" else {"low": number * times * 0.95, "high": number * times * 1.05}
        own[key] = MetricValue(value=number * times, unit=MEASURES[key].unit, n=200, **ends)
    return SampleFile(file=name, sha256="0" * 64, samples=200, values=own)


def run(label: str, seed: int) -> RunRecord:
    """A run with its likelihoods with and without prompt; GPT-2 was not trained and has no conditioner."""
    conditioner = CONDITIONERS[label]
    logs = {"": math.log(WITHOUT[label][0]), "prompted_": math.log(WITH[label][0])}
    metrics = {"bits_per_byte": MetricValue(value=1.1, unit="bits per byte", n=50_000)}
    for prefix, nll in logs.items():
        metrics[f"{prefix}nll"] = _value(nll, "nats per article token", 0.02)
        metrics[f"{prefix}perplexity"] = _value(math.exp(nll), "per article token", 0.4)
        if prefix or conditioner is not None:
            metrics[f"{prefix}steering"] = _value(0.031 if prefix else 0.104, STEERING, 0.04)
    cost: dict[str, float] = {"ms_per_step": 55.0, "train_seconds": 400.0, "peak_memory_mib": 900.0}
    trained = 1_200_000 if conditioner is not None else 0
    points = [CurvePoint(step=step, loss=4 - step / 100) for step in (10, 20, 30)]
    return RunRecord(
        method=label,
        head="softmax",
        objective="mle",
        conditioner=conditioner,
        seed=seed,
        evaluation=Evaluation(metrics=metrics),
        cost=Cost(parameters=30_000_000 + trained, trained_parameters=trained, **(cost if trained else {})),
        curve=points if trained else [],
    )


def _value(value: float, unit: str, half: float) -> MetricValue:
    return MetricValue(value=value, unit=unit, n=9000, low=value - half, high=value + half)


def expansion(seeds: Sequence[int] = (1,)) -> Results:
    """The paper's comparison: GPT-2 and five conditioned models, their texts without and with the summary as prompt."""
    runs = [run(label, seed) for label in WITHOUT for seed in seeds]
    texts = {PROMPTED: evaluation(WITH, seeds), WAY: evaluation(WITHOUT, seeds)}
    return make_sample(seeds=seeds, task="expand").model_copy(update={"runs": runs, "texts": texts})
