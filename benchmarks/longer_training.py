"""Repeats comparisons of SmolLM2-135M with ten times as many steps and more test texts, and writes a record.

The comparisons are recipes of ``nextword reproduce --scale pretrained``. Their 40 steps take hours on a CPU; these 400
are for a GPU. A killed run resumes with the same command. Options that are not listed go to ``nextword compare``, such
as ``--engine ray --gpus 0.1`` for several runs at once.

    python benchmarks/longer_training.py models/smollm2-135m DATA --out runs/longer

Writes docs/records/results/smollm2-longer.json and its page, with what is finished below the folder ``--out``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gains_by_group import spread
from gpu import RECORDS, save
from retrieval_on_heads import nextword

from nextword.evaluation.metrics.statistics import over_seeds
from nextword.experiments.reproduction.paper import Address, PaperColumn
from nextword.experiments.reproduction.table_numbers import ExperimentResults, MissingValueError, cell_value
from nextword.results.records import Results

RECORD = RECORDS / "results" / "smollm2-longer.json"
COMMAND = (
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 python benchmarks/longer_training.py models/smollm2-135m DATA --out runs/longer"
)

ABOUT = (
    "Comparisons of `nextword reproduce --scale pretrained` with SmolLM2-135M-Instruct (4-bit weights), with 400 "
    "training steps instead of 40. Other settings that differ: articles are trained in batches of 16 instead of 4; the "
    "heads' rows come from 1,000,000 instead of 100,000 tokens; more, and other, test texts (200 pairs, 100 articles, "
    "20,000 tokens and 100 prompts of stories, 50,000 tokens of WikiText-2). *Steering*: increase of the loss, in nats "
    "per token, with the summary of another article. Trained on one H200 GPU, with matrix products in TF32; the texts "
    "were generated there and evaluated on a CPU. Not run, or not finished when the time on the GPU ended: summaries, "
    "HistAlign, LMH, BERGPT, conditioners begun as the model, and the third seed of `mos:3+cpr:20,100+mi`."
)


class Column(PaperColumn):
    """A column of a reproduced table, with a number format."""

    form: str
    """Format of the numbers."""
    relative: bool = False
    """Whether differences are in percent of the baseline."""


@dataclass(frozen=True)
class Comparison:
    """A recipe, its data below the folder of data sets, settings that differ from the recipe's, and what is shown."""

    title: str
    recipe: str
    data: str
    settings: Mapping[str, object]
    columns: Sequence[Column]
    baseline: str
    """The method from which the differences are computed."""


NAMES = {
    "GPT-2": "SmolLM2 as it is",
    "SmolLM2": "SmolLM2 as it is",
    "softmax": "cross-entropy",
    "cache (TRIME)": "TRIME",
    "cache (HistAlign)": "HistAlign",
}
"""Names of methods in the record, by those of the recipes."""
PERPLEXITY = Column(title="perplexity", measure="perplexity", form=".2f", relative=True)
MORE_TEXTS = {"task.test_pairs": 200, "task.generation.summaries": 200, "task.generation.batch_size": 40}
"""Test pairs, and how many texts are generated at once."""


def _percent(title: str, measure: str, decoding: str) -> Column:
    return Column(title=title, measure=measure, form=".1f", decoding=decoding, factor=100)


SUMMARY_COLUMNS = [
    PERPLEXITY,
    _percent("ROUGE-L", "rouge-l", "beam 4"),
    _percent("names in the article", "entity-precision", "beam 4"),
]


def _article_columns(prompt: str, prefix: str) -> list[Column]:
    return [
        Column(title=f"perplexity{prompt}", measure=f"{prefix}mean_perplexity", form=".2f", relative=True),
        Column(title=f"steering{prompt}", measure=f"{prefix}steering", form="+.4f"),
        Column(title=f"ROUGE-1{prompt}", measure="rouge-1", form=".3f", decoding=f"top-k 40{prompt}"),
    ]


COMPARISONS = {
    "articles": Comparison(
        "Articles from summaries",
        "expand-cnn-pretrained",
        "cnn_dailymail/pairs.jsonl",
        {
            "training.batch_size": 16,
            "training.warmup_steps": 40,
            "task.test_pairs": 100,
            "task.generation.prompts": 100,
            "task.generation.batch_size": 50,
        },
        [*_article_columns("", ""), *_article_columns(", with prompt", "prompted_")],
        "GPT-2",
    ),
    "stories": Comparison(
        "Stories",
        "stories-pretrained",
        "writingprompts/prompt_story.jsonl",
        {"task.test_tokens": 20000, "task.generation.prompts": 100, "task.generation.batch_size": 50},
        [
            PERPLEXITY,
            _percent("diversity", "diversity-mean", "top-p 0.95"),
            _percent("MAUVE", "mauve", "top-p 0.95"),
            Column(title="coherence", measure="coherence", form=".1f", decoding="top-p 0.95"),
        ],
        "softmax",
    ),
    "xsum": Comparison(
        "Summaries of XSum",
        "summaries-xsum-pretrained",
        "xsum/pairs.jsonl",
        MORE_TEXTS,
        SUMMARY_COLUMNS,
        "softmax",
    ),
    "cnn": Comparison(
        "Summaries of CNN/DailyMail",
        "summaries-cnn-pretrained",
        "cnn_dailymail/pairs.jsonl",
        MORE_TEXTS,
        SUMMARY_COLUMNS,
        "softmax",
    ),
    "tables": Comparison(
        "Sentences about tables",
        "logicnlg-pretrained",
        "logicnlg",
        MORE_TEXTS,
        [PERPLEXITY, *(_percent(f"BLEU-{n}", f"bleu-logicnlg-{n}", "beam 4") for n in (1, 2, 3))],
        "softmax",
    ),
    "heads": Comparison(
        "Heads on WikiText-2",
        "cpr-wikitext-tuned",
        "wikitext-2",
        {"task.train_tokens": 1000000, "task.test_tokens": 50000},
        [PERPLEXITY],
        "softmax+proj, model trained",
    ),
}
"""What is repeated, by the name of its folder."""


def settings(name: str, model: Path, data: Path) -> list[str]:
    """Settings of a comparison, as ``nextword compare`` reads them."""
    of = COMPARISONS[name]
    given = {"start.model": model, "task.data": data / of.data, "keep_models": "false", "training.steps": 400}
    return [f"{key}={value}" for key, value in {**given, **of.settings}.items()]


def cells(results: Results, column: Column) -> dict[str, Mapping[str, float]]:
    """Values of a measure by method and seed. A method without a value is left out."""
    found: dict[str, Mapping[str, float]] = {}
    for method in dict.fromkeys(run.method for run in results.runs):
        try:
            found[method] = cell_value(column.within(Address(method=method)), ExperimentResults({}, results)).by_seed
        except MissingValueError:
            continue  # not measured yet, or not of this method
    return found


def difference(values: Mapping[str, float], baseline: Mapping[str, float], column: Column) -> str:
    """Mean difference of the same seeds, with the 95 % interval of this mean.

    >>> difference({"0": 2.0, "1": 3.0, "2": 4.0}, dict.fromkeys("012", 1.0), _percent("BLEU", "bleu", ""))
    '+2.0 <sub>−0.5 to +4.5</sub>'
    >>> difference({"0": 21.0}, {"0": 20.0}, PERPLEXITY)
    '+5.0 %'
    """
    pairs = [(values[seed], baseline[seed]) for seed in sorted(values.keys() & baseline.keys())]
    if not pairs:
        return "–"
    form, unit = ("+.1f", " %") if column.relative else (f"+{column.form.lstrip('+')}", "")
    mean, interval = over_seeds([100 * (one / other - 1) if unit else one - other for one, other in pairs])
    shown = [format(one, form).replace("-", "−") for one in (mean, *(interval or ()))]
    return f"{shown[0]}{unit}" + ("" if interval is None else f" <sub>{shown[1]} to {shown[2]}</sub>")


def section(of: Comparison, results: Results) -> dict[str, Any]:
    """The tables of a comparison: the numbers, and the differences from the baseline."""
    known = [(column, found) for column in of.columns if (found := cells(results, column))]
    columns = [column.title for column, _ in known]
    numbers, differences = [], []
    for method, by_seed in cells(results, of.columns[0]).items():
        values = [(column, found.get(method, {}), found.get(of.baseline, {})) for column, found in known]
        means = [spread(list(ours.values()), column.form) if ours else "–" for column, ours, _ in values]
        numbers.append([shown(method), str(len(by_seed)), *means])
        if method != of.baseline:
            differences.append([shown(method), *(difference(ours, theirs, column) for column, ours, theirs in values)])
    return {
        "title": of.title,
        "parts": [
            {"caption": "Mean over seeds; small print: lowest and highest seed",
             "columns": ["method", "seeds", *columns], "rows": numbers},
            {"caption": f"Difference from {shown(of.baseline)} with the same seeds; small print: 95 % interval over "
             "seeds", "columns": ["method", *columns], "rows": differences},
        ],
    }  # fmt: skip


def shown(method: str) -> str:
    """Name of a method in the record; heads are set as code.

    >>> shown("softmax"), shown("mos:3, model trained")
    ('cross-entropy', '`mos:3`')
    """
    head, trained, _ = method.partition(", model trained")
    return f"`{head}`" if trained else NAMES.get(method, method)


def write(out: Path, record: Path) -> None:
    """Writes the record of all comparisons below ``out`` that have results."""
    found = {name: out / name / "results.json" for name in COMPARISONS}
    sections = [section(COMPARISONS[name], Results.load(path)) for name, path in found.items() if path.exists()]
    save(
        record,
        {
            "title": "SmolLM2-135M",
            "name": "Ten times as many steps: record",
            "guide": "../../results/smollm2.md",
            "about": ABOUT,
            "sections": [{"title": "Command", "parts": [{"commands": [COMMAND], "shell": True}]}, *sections],
        },
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, measures and writes the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path, help="folder of SmolLM2-135M")
    options.add_argument("data", type=Path, help="folder of data sets, as for nextword reproduce --data")
    options.add_argument("--only", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    options.add_argument("--out", type=Path, default=Path("runs/longer"), help="folder of the comparisons")
    options.add_argument("--record", type=Path, default=RECORD, help="file of the record")
    given, further = options.parse_known_args(argv)
    for name in given.only:
        asked = settings(name, given.model, given.data)
        nextword("compare", COMPARISONS[name].recipe, *asked, "--out", given.out / name, *further)
    write(given.out, given.record)


if __name__ == "__main__":
    main()
