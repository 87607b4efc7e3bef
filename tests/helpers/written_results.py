"""Made-up texts in a comparison, with the numbers of the paper's table 1a and its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nextword.results.records import (
    Cost,
    Duel,
    Environment,
    Evaluation,
    EvaluationResults,
    Goal,
    Measure,
    MetricValue,
    Place,
    Results,
    RunRecord,
    SampleFile,
    Span,
    SystemRecord,
    Wins,
    WrittenExample,
    WrittenText,
)
from tests.helpers.made_up_results import make_sample

Values = Mapping[str, float]


def _measure(title: str, group: str, unit: str, goal: Goal, decimals: int) -> Measure:
    return Measure(title=title, group=group, unit=unit, goal=goal, decimals=decimals, meaning=f"{title}: explained.")


def _of_ngrams(key: str, title: str, group: str, goal: Goal) -> dict[str, Measure]:
    return {f"{key}-{n}": _measure(f"{title}-{n}", group, f"fraction of {n}-grams", goal, 1) for n in (1, 2, 3)}


def _share(name: str) -> Measure:
    unit = "fraction of generated tokens (frequencies of the training text)"
    return _measure(f"{name} tokens", "Frequency", unit, "human", 1)


MEASURES: dict[str, Measure] = {
    "perplexity": _measure("perplexity", "Likelihood", "per token (of the model's tokenizer)", "lower", 2),
    "kl-human-generated": _measure("KL(human || generated)", "Closeness to human text", "nats (0.5 added)", "lower", 3),
    **_of_ngrams("ms-jaccard", "MS-Jaccard", "Closeness to human text", "higher"),
    **_of_ngrams("self-bleu", "Self-BLEU", "Diversity", "human"),
    **_of_ngrams("distinct", "Distinct", "Diversity", "human"),
    "uniq-seq": _measure("uniq-seq", "Diversity", "distinct tokens of all texts", "human", 0),
    "rep": _measure("Rep", "Repetition", "fraction of texts (phrases of up to 50 tokens)", "human", 2),
    "share-frequent": _share("frequent"),
    "share-medium": _share("medium"),
    "share-rare": _share("rare"),
    "share-very-rare": _share("very rare"),
    "vr": _measure("VR", "Frequency", "fraction of tokens of a text", "human", 1),
}
KEYS = (
    "perplexity", "kl-human-generated", "ms-jaccard-1", "ms-jaccard-2", "ms-jaccard-3", "self-bleu-1", "self-bleu-2",
    "self-bleu-3", "distinct-1", "distinct-2", "distinct-3", "rep", "uniq-seq",
    "share-frequent", "share-medium", "share-rare", "share-very-rare", "vr",
)  # fmt: skip
PAPER = {
    "MLE": (
        24.7, 1.51, 0.521, 0.356, 0.243, 0.934, 0.832, 0.697, 0.451, 0.719, 0.83, 0.0067, 8480,
        0.54, 0.31, 0.10, 0.05, 0.051,
    ),
    "FACE": (
        29.7, 1.26, 0.533, 0.332, 0.217, 0.923, 0.765, 0.576, 0.534, 0.771, 0.855, 0.021, 10300,
        0.46, 0.33, 0.14, 0.07, 0.071,
    ),
    "UL-token": (
        25.8, 1.28, 0.543, 0.367, 0.248, 0.937, 0.824, 0.681, 0.5, 0.773, 0.871, 0.0039, 10200,
        0.50, 0.32, 0.12, 0.06, 0.061,
    ),
    "UL-token+seq": (
        27.5, 1.33, 0.506, 0.354, 0.235, 0.953, 0.834, 0.669, 0.576, 0.866, 0.942, 0.0011, 10600,
        0.49, 0.32, 0.12, 0.07, 0.072,
    ),
    "F2-Softmax": (
        25.6, 0.62, 0.674, 0.424, 0.264, 0.933, 0.719, 0.481, 0.657, 0.897, 0.944, 0.0033, 15700,
        0.42, 0.31, 0.17, 0.10, 0.101,
    ),
}  # fmt: skip
HUMAN = (
    0.0, 1.0, 1.0, 1.0, 0.952, 0.741, 0.509, 0.691, 0.921, 0.958, 0.0011, 15200, 0.40, 0.30, 0.20, 0.11, 0.105
)  # fmt: skip
METHODS = (
    ("MLE", "softmax", "mle"),
    ("FACE", "softmax", "face:opr"),
    ("UL-token", "softmax", "unlikelihood"),
    ("UL-token+seq", "softmax", "unlikelihood+seq"),
    ("F2-Softmax", "f2", "mle"),
)


def value(key: str, number: float, half: float | None = None, n: int = 1000) -> MetricValue:
    """A value of a measure, with an interval where half of its width is given."""
    low, high = (None, None) if half is None else (number - half, number + half)
    return MetricValue(value=number, unit=MEASURES[key].unit, n=n, low=low, high=high)


def file(name: str, values: Values, undefined: Mapping[str, str] | None = None, half: float = 0.01) -> SampleFile:
    """A samples file; measures of single texts have an interval, those of all texts together have none."""
    own = {key: value(key, number, half * number if key in WITH_INTERVAL else None) for key, number in values.items()}
    return SampleFile(file=name, sha256="0" * 64, samples=1000, values=own, undefined=dict(undefined or {}))


WITH_INTERVAL = {"perplexity", "rep", "vr", *(f"distinct-{n}" for n in (1, 2, 3)), *(f"self-bleu-{n}" for n in (1, 2))}


def system(name: str, *files: SampleFile) -> SystemRecord:
    """A system with the mean of its files, where all have a value, as an evaluation records it."""
    if len(files) == 1:
        return SystemRecord(name=name, files=list(files), values=files[0].values)
    keys = [key for key in MEASURES if all(key in one.values for one in files)]
    sums = {key: sum(one.values[key].value for one in files) for key in keys}
    means = {key: value(key, total / len(files), n=1000 * len(files)) for key, total in sums.items()}
    return SystemRecord(name=name, files=list(files), values=means)


def evaluation(
    systems: Sequence[SystemRecord], human: SampleFile | None, wins: Wins | None = None
) -> EvaluationResults:
    """An evaluation of texts."""
    files = [one for found in systems for one in found.files] + ([human] if human is not None else [])
    seen = {key for one in files for key in one.values}
    return EvaluationResults(
        command="nextword compare recipe.toml --out runs/f2",
        unit="tokens of gpt2",
        measures={key: measure for key, measure in MEASURES.items() if key in seen},
        systems=list(systems),
        human=human,
        left_out={"mauve": "asks a model"},
        tests=[],
        untested="only made up",
        wins=wins,
        settings={},
        environment=ENVIRONMENT,
    )


ENVIRONMENT = Environment(
    nextword="0.1.0", python="3.11.7", torch="2.13.0", transformers="5.23.0", platform="Linux", processor="CPU",
    threads=2, commit=None, date="2026-11-21T06:26:57+00:00",
)  # fmt: skip


def paper_system(name: str, seeds: Sequence[int] = (1,), shift: float = 0.0, like: str | None = None) -> SystemRecord:
    """A system with the paper's numbers; ``shift`` moves them, in percent of themselves, seed by seed a little more."""
    numbers = dict(zip(KEYS, PAPER[like or name], strict=True))
    return system(
        name,
        *(
            file(f"{name}-{seed}.jsonl", {key: number * (1 + shift + 0.01 * i) for key, number in numbers.items()})
            for i, seed in enumerate(seeds)
        ),
    )


def human_file() -> SampleFile:
    """What people wrote."""
    numbers = dict(zip(KEYS[1:], HUMAN, strict=True))
    return file("F2-Softmax-1.jsonl", numbers, {"likelihood": "people have no probabilities"})


def wins_of(*names: str) -> Wins:
    """The first name loses against all others, the second against all but it, and so on."""
    duels = [
        Duel(first=a, second=b, won=1 + i, lost=6 - i, tied=0) for i, a in enumerate(names[:3]) for b in names[i + 1 :]
    ]
    last = len(names) - 1
    places = [Place(rank=i + 1, name=name, wins=last - i, losses=i) for i, name in enumerate(reversed(names))]
    return Wins(measures=["perplexity", "self-bleu-3"], duels=duels, ranking=places)


def run(method: tuple[str, str, str], seed: int, facts: Mapping[str, object] | None = None) -> RunRecord:
    """A run that wrote texts."""
    label, head, objective = method
    return RunRecord.model_validate(
        {
            "method": label,
            "head": head,
            "objective": objective,
            "seed": seed,
            "evaluation": Evaluation(metrics={"perplexity": MetricValue(value=30.0 + seed, unit="per token", n=9000)}),
            "cost": Cost(parameters=30_000_000, trained_parameters=30_000_000, ms_per_step=120.0),
            "facts": dict(facts or {}),
        }
    )


FACTS = {"classes": 10, "division": "mefmax", "boundaries": [12, 60, 180, 420, 900, 1800, 3600, 7200, 15000, 30000]}

EXAMPLE = WrittenExample(
    prompt="= Robert Boulter = <Robert Boulter> is an English actor. He had a role in the play written",
    decoding="greedy",
    seed=1,
    texts=[
        WrittenText(author="human", spans=[Span(text=" by Simon Stephens .", very_rare=False)], very_rare=0.0),
        WrittenText(
            author="F2-Softmax",
            spans=[
                Span(text=" with an", very_rare=False),
                Span(text=" <eccentric>", very_rare=True),
                Span(text=" lawyer & a family that", very_rare=False),
                Span(text=" vanished", very_rare=True),
            ],
            very_rare=0.093,
        ),
    ],
)
KOREAN = WrittenExample(
    prompt="영화의 마지막 장면은",
    decoding="top-k 3",
    seed=1,
    texts=[
        WrittenText(author="human", spans=[Span(text=" 정말 슬펐다", very_rare=False)], very_rare=0.25),
        WrittenText(
            author="MLE",
            spans=[Span(text=" 너무", very_rare=False), Span(text=" 몽환적", very_rare=True)],
            very_rare=0.5,
        ),
    ],
)
SUMMARY = WrittenExample(
    prompt="The Bill <was> a police drama. It ran for 26 years on ITV and ended in 2010. " * 12,
    decoding="beam 4",
    seed=1,
    texts=[
        WrittenText(
            author="human", spans=[Span(text="The long-running series has ended.", very_rare=False)], very_rare=0.0
        ),
        WrittenText(
            author="MLE",
            spans=[
                Span(text="It ran for 26", very_rare=False, copied=True),
                Span(text=" ITV", very_rare=True, copied=True),
                Span(text=" vanished", very_rare=True, lower_case=True),
                Span(text=" as", very_rare=False),
                Span(text=" ITV", very_rare=True, repeated=True),
                Span(text=" vanished", very_rare=True, repeated=True, lower_case=True),
            ],
            very_rare=0.25,
        ),
    ],
    source="The Bill <was> a police drama. It ran for 26 years on ITV and ended in 2010. " * 12,
)


def comparison(
    seeds: Sequence[int] = (1,),
    decodings: Sequence[str] = ("top-k 3", "greedy"),
    written: Sequence[WrittenExample] = (EXAMPLE, KOREAN),
) -> Results:
    """The paper's comparison: five methods, their texts by decoding, people, ranking and texts to read."""
    names = [label for label, _, _ in METHODS]
    texts = {
        title: evaluation([paper_system(name, seeds, 0.02 * place) for name in names], human_file(), wins_of(*names))
        for place, title in enumerate(decodings)
    }
    runs = [run(method, seed, FACTS if method[1] == "f2" else None) for method in METHODS for seed in seeds]
    return make_sample(seeds=seeds, task="lm").model_copy(
        update={"runs": runs, "texts": texts, "written": list(written)}
    )


SWEEP = (
    ("eq-freq 4", "f2:4", "eq-freq", 4),
    ("eq-freq 32", "f2:32", "eq-freq", 32),
    ("eq-freq 8", "f2:8", "eq-freq", 8),
    ("eq-token 4", "f2:4,eq-token", "eq-token", 4),
    ("eq-token 16", "f2:16,eq-token", "eq-token", 16),
    ("F2-Softmax", "f2", "mefmax", 10),
)


def swept(seeds: Sequence[int] = (1,), decodings: Sequence[str] = ("greedy", "top-k 20")) -> Results:
    """A comparison over the number of classes, beside plain softmax."""
    likes = {"eq-freq": "F2-Softmax", "eq-token": "FACE", "mefmax": "F2-Softmax"}
    texts = {}
    for place, title in enumerate(decodings):
        systems = [paper_system("MLE", seeds)] + [
            paper_system(label, seeds, 0.1 * place - 0.002 * abs(classes - 10), likes[division])
            for label, _, division, classes in SWEEP
        ]
        texts[title] = evaluation(systems, human_file())
    runs = [run(METHODS[0], seed) for seed in seeds] + [
        run((label, head, "mle"), seed, {"classes": classes, "division": division})
        for label, head, division, classes in SWEEP
        for seed in seeds
    ]
    return make_sample(seeds=seeds, task="lm").model_copy(update={"runs": runs, "texts": texts})
