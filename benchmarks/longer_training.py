"""Repeats comparisons of SmolLM2-135M with ten times as many steps and more test texts, and writes a record.

The comparisons are recipes of ``nextword reproduce --scale pretrained``, whose 40 steps fit a laptop; these fit a GPU.
Each seed is a process of its own. A killed run resumes with the same command.

    python benchmarks/longer_training.py models/smollm2-135m DATA --processes 9 --out runs/longer

Writes docs/records/results/smollm2-longer.json and its page. The output of each process is in OUT/NAME/SEED.log.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gains_by_group import spread
from gpu import RECORDS, save

from nextword.evaluation.metrics.statistics import over_seeds
from nextword.results.records import Results

RECORD = RECORDS / "results" / "smollm2-longer.json"
COMMAND = (
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 python benchmarks/longer_training.py models/smollm2-135m DATA --processes 9 "
    "--out runs/longer"
)


@dataclass(frozen=True)
class Column:
    """A measure of a comparison's results, of generated texts where ``texts`` names their decoding."""

    title: str
    measure: str
    form: str
    texts: str | None = None
    factor: float = 1.0
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
PERPLEXITY = Column("perplexity", "perplexity", ".2f", relative=True)
EVERY_SUMMARY = {"task.test_pairs": 200, "task.generation.summaries": 200, "task.generation.batch_size": 40}
"""Test articles of summaries, and how many are summarised at once."""


def _summary_columns() -> list[Column]:
    found = [PERPLEXITY]
    for title, measure in (("ROUGE-L", "rouge-l"), ("names in the article", "entity-precision")):
        found.append(Column(title, measure, ".1f", "beam 4", 100))
    return found


def _article_columns() -> list[Column]:
    found = []
    for title, which, texts in (("", "", "top-k 40"), (", with prompt", "prompted_", "top-k 40, with prompt")):
        found.append(Column(f"perplexity{title}", f"{which}mean_perplexity", ".2f", relative=True))
        found.append(Column(f"steering{title}", f"{which}steering", "+.4f"))
        found.append(Column(f"ROUGE-1{title}", "rouge-1", ".3f", texts))
    return found


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
        _article_columns(),
        "GPT-2",
    ),
    "stories": Comparison(
        "Stories",
        "stories-pretrained",
        "writingprompts/prompt_story.jsonl",
        {"task.test_tokens": 20000, "task.generation.prompts": 100, "task.generation.batch_size": 50},
        [
            PERPLEXITY,
            Column("diversity", "diversity-mean", ".1f", "top-p 0.95", 100),
            Column("MAUVE", "mauve", ".1f", "top-p 0.95", 100),
            Column("coherence", "coherence", ".1f", "top-p 0.95"),
        ],
        "softmax",
    ),
    "xsum": Comparison(
        "Summaries of XSum",
        "summaries-xsum-pretrained",
        "xsum/pairs.jsonl",
        EVERY_SUMMARY,
        _summary_columns(),
        "softmax",
    ),
    "cnn": Comparison(
        "Summaries of CNN/DailyMail",
        "summaries-cnn-pretrained",
        "cnn_dailymail/pairs.jsonl",
        EVERY_SUMMARY,
        _summary_columns(),
        "softmax",
    ),
    "tables": Comparison(
        "Sentences about tables",
        "logicnlg-pretrained",
        "logicnlg",
        EVERY_SUMMARY,
        [PERPLEXITY, *(Column(f"BLEU-{n}", f"bleu-logicnlg-{n}", ".1f", "beam 4", 100) for n in (1, 2, 3))],
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
"""What is repeated, by the name of its folder. The first begins first."""


def command(name: str, seed: int, model: Path, data: Path, out: Path) -> list[str]:
    """The command of one seed of a comparison."""
    of = COMPARISONS[name]
    settings = {"training.steps": 400, **of.settings, "threads": 1, "keep_models": "false", "seeds": f"[{seed}]"}
    given = {"start.model": model, "task.data": data / of.data, **settings}
    words = [f"{key}={value}" for key, value in given.items()]
    return [sys.executable, "-m", "nextword", "compare", of.recipe, *words, "--out", str(out / name / str(seed))]


def run(name: str, seed: int, model: Path, data: Path, out: Path) -> str | None:
    """Runs one seed, or what is left of it. Returns the log of a seed that failed."""
    log = out / name / f"{seed}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as written:
        ended = subprocess.run(command(name, seed, model, data, out), stdout=written, stderr=subprocess.STDOUT)
    print(f"{name}, seed {seed}: {'failed, see ' + str(log) if ended.returncode else 'finished'}", flush=True)
    return str(log) if ended.returncode else None


def cells(results: Sequence[Results], column: Column) -> dict[str, dict[int, float]]:
    """Values of a measure by method and seed. Each of ``results`` has one seed."""
    found: dict[str, dict[int, float]] = {}
    for one in results:
        if column.texts is None:
            values = {made.method: made.evaluation.metrics.get(column.measure) for made in one.runs}
        else:
            texts = one.texts.get(column.texts)
            values = {system.name: system.values.get(column.measure) for system in texts.systems} if texts else {}
        for method, value in values.items():
            if value is not None:
                found.setdefault(method, {})[one.seeds[0]] = column.factor * value.value
    return found


def difference(values: Mapping[Any, float], baseline: Mapping[Any, float], column: Column) -> str:
    """Mean difference of the same seeds, with the 95 % interval of this mean.

    >>> difference({0: 2.0, 1: 3.0, 2: 4.0}, {0: 1.0, 1: 1.0, 2: 1.0}, Column("BLEU", "bleu", ".1f"))
    '+2.0 <sub>−0.5 to +4.5</sub>'
    >>> difference({0: 21.0}, {0: 20.0}, PERPLEXITY)
    '+5.0 %'
    """
    pairs = [(values[seed], baseline[seed]) for seed in sorted(values.keys() & baseline.keys())]
    if not pairs:
        return "–"
    form, unit = ("+.1f", " %") if column.relative else (f"+{column.form.lstrip('+')}", "")
    mean, interval = over_seeds([100 * (one / other - 1) if unit else one - other for one, other in pairs])
    shown = [format(one, form).replace("-", "−") for one in (mean, *(interval or ()))]
    return f"{shown[0]}{unit}" + ("" if interval is None else f" <sub>{shown[1]} to {shown[2]}</sub>")


def section(of: Comparison, results: Sequence[Results]) -> dict[str, Any]:
    """The tables of a comparison: the numbers, and the differences from the baseline."""
    known = [(column, found) for column in of.columns if (found := cells(results, column))]
    columns = ["method", *(column.title for column, _ in known)]
    numbers, differences = [], []
    for method in dict.fromkeys(made.method for one in results for made in one.runs):
        by_seed = [(column, found.get(method, {}), found.get(of.baseline, {})) for column, found in known]
        shown = NAMES.get(method, method).removesuffix(", model trained")
        means = [spread(list(one.values()), column.form) if one else "–" for column, one, _ in by_seed]
        numbers.append([shown, str(max(len(one) for _, one, _ in by_seed)), *means])
        if method != of.baseline:
            differences.append([shown, *(difference(one, other, column) for column, one, other in by_seed)])
    baseline = NAMES.get(of.baseline, of.baseline).removesuffix(", model trained")
    return {
        "title": of.title,
        "parts": [
            {"caption": "Mean over seeds; small print: lowest and highest seed",
             "columns": [columns[0], "seeds", *columns[1:]], "rows": numbers},
            {"caption": f"Difference from {baseline} with the same seeds; small print: 95 % interval over seeds",
             "columns": columns, "rows": differences},
        ],
    }  # fmt: skip


def write(out: Path, record: Path) -> None:
    """Writes the record of all runs below ``out`` that are finished."""
    sections = []
    for name, of in COMPARISONS.items():
        results = [Results.load(path) for path in sorted((out / name).glob("*/results.json"))]
        if any(one.runs for one in results):
            sections.append(section(of, results))
    about = (
        "Comparisons of `nextword reproduce --scale pretrained` with SmolLM2-135M-Instruct (4-bit weights), with 400 "
        "training steps instead of 40 and more test texts. *Steering*: increase of the loss, in nats per token, "
        "with the summary of another article. Trained and generated on one H200 GPU, with matrix "
        "products in TF32. Without a row: methods that did not finish in the time on that GPU."
    )
    save(
        record,
        {
            "title": "SmolLM2-135M",
            "name": "Ten times as many steps: record",
            "guide": "../../results/smollm2.md",
            "about": about,
            "sections": [{"title": "Command", "parts": [{"commands": [COMMAND], "shell": True}]}, *sections],
        },
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, measures and writes the record of what is finished."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path, help="folder of SmolLM2-135M")
    options.add_argument("data", type=Path, help="folder of data sets, as for nextword reproduce --data")
    options.add_argument("--only", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--processes", type=int, default=1, help="how many train at once")
    options.add_argument("--out", type=Path, default=Path("runs/longer"), help="folder of the comparisons")
    options.add_argument("--record", type=Path, default=RECORD, help="file of the record")
    given = options.parse_args(argv)
    with ThreadPoolExecutor(given.processes) as pool:
        begun = [
            pool.submit(run, name, seed, given.model, given.data, given.out)
            for seed in given.seeds
            for name in given.only
        ]
    write(given.out, given.record)
    failed = [log for one in begun if (log := one.result())]
    if failed:
        sys.exit(f"{len(failed)} of {len(begun)} failed; see {', '.join(failed)}")


if __name__ == "__main__":
    main()
