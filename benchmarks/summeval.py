"""Measures how ROUGE, BLEU, CIDEr-D and entity precision agree with the human scores of SummEval.

It writes ``OUT/SYSTEM/samples.jsonl`` for each system, evaluates the samples of all 16 systems on
100 articles, and prints Kendall's tau-b and Spearman's
rho with the mean human scores, over systems and over the systems within each article.

    python benchmarks/summeval.py ../shared/data/faithfulness/summeval_100docs.jsonl --pipeline en_core_web_lg
    python benchmarks/summeval.py ../shared/data/faithfulness/summeval_100docs.jsonl \
        --gazetteer ../shared/data/faithfulness/summeval_100docs.jsonl ../shared/data/cnn_dailymail/pairs.jsonl
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import nextword.evaluation.judges  # noqa: F401  registers "entities"
from nextword.evaluation.metrics import Sample, Setup, registry
from nextword.evaluation.metrics.metric import parse_metric

ASPECTS = ("coherence", "consistency", "fluency", "relevance")
METRICS: tuple[dict[str, Any], ...] = (
    {"metric": "rouge", "kinds": ("1", "2", "l")},
    {"metric": "rouge", "kinds": ("lsum",), "split_sentences": True},
    # The texts are tokenised, as the note in the file's manifest says: their own spaces are kept.
    {"metric": "bleu", "n": (4,), "tokenize": "none", "lowercase": True},
    {"metric": "cider"},
)
DATES_AND_TITLES = (
    "i monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december mr mrs ms dr"
)
NO_NAMES = frozenset(DATES_AND_TITLES.split())
Correlation = Callable[[np.ndarray, np.ndarray], float]


def correlations() -> dict[str, Correlation]:
    """By name; NaN where one side is constant."""
    return {
        "tau": lambda x, y: float(stats.kendalltau(x, y, variant="b").statistic),
        "rho": lambda x, y: float(stats.spearmanr(x, y).statistic),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def written(rows: list[dict[str, Any]], out: Path) -> dict[str, list[Sample]]:
    """The samples of each system, also as files."""
    systems: dict[str, list[Sample]] = {}
    for system in sorted(rows[0]["sys_summs"], key=lambda name: int(name[1:])):
        lines = [
            {
                "id": row["id"],
                "source": row["src"],
                "text": row["sys_summs"][system]["sys_summ"],
                "references": row["ref_summs"],
            }
            for row in rows
        ]
        (out / system).mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (out / system / "samples.jsonl").write_text(text, encoding="utf-8")
        systems[system] = [Sample.model_validate(line) for line in lines]
    return systems


def human(rows: list[dict[str, Any]], systems: Iterable[str]) -> dict[str, np.ndarray]:
    """Scores of people by aspect, (systems, articles)."""
    return {
        aspect: np.array([[row["sys_summs"][system]["scores"][aspect] for row in rows] for system in systems])
        for aspect in ASPECTS
    }


def measured(config: dict[str, Any], systems: dict[str, list[Sample]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each key, the value of each system and the values of its single texts, (systems) and (systems, articles)."""
    values: dict[str, list[float]] = {}
    singles: dict[str, list[np.ndarray]] = {}
    for samples in systems.values():
        parsed = parse_metric(config)
        metric = registry.get(parsed.metric)(parsed, Setup())
        for sample in samples:
            metric.add(sample)
        for key, score in metric.result().items():
            assert score.statistic is not None
            values.setdefault(key, []).append(score.value)
            singles.setdefault(key, []).append(score.statistic.combine(score.statistic.parts))
    return {key: (np.array(values[key]), np.array(singles[key])) for key in values}


def names(articles: list[str]) -> set[str]:
    """Runs of capitalised words within sentences; single words only if they are rarer in lower case."""
    runs: Counter[str] = Counter()
    lower = Counter(word for article in articles for word in re.findall(r"\b[a-z]+\b", article))
    for article in articles:
        for run in re.findall(r"(?<=[a-z,] )[A-Z][\w.-]*(?: [A-Z][\w.-]*)*", article):
            kept = [word.strip(".-") for word in run.split() if word.strip(".-").lower() not in NO_NAMES]
            runs[" ".join(kept)] += 1
    return {run for run, count in runs.items() if len(run) > 1 and (" " in run or count > lower[run.lower()])}


def gazetteer(paths: list[Path], folder: Path) -> tuple[str, int]:
    """A spaCy pipeline that finds these names, in any case, and nothing else; its folder and how many names it has."""
    import spacy

    articles = [row.get("src") or row["article"] for path in paths for row in read(path) if row.get("cased", True)]
    nlp = spacy.blank("en")
    ruler: Any = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    found = sorted(names(articles))
    ruler.add_patterns([{"label": "NAME", "pattern": name} for name in found])
    nlp.meta.update(name="gazetteer_not_a_trained_recogniser", description="capitalised words of given articles")
    nlp.to_disk(folder)
    return str(folder), len(found)


def within(x: np.ndarray, y: np.ndarray, correlation: Correlation) -> tuple[float, int]:
    """The mean correlation over the systems of each article, and on how many articles there is one."""
    found = []
    for one, other in zip(x.T, y.T, strict=True):
        known = ~np.isnan(one)
        if len(set(one[known])) > 1 and len(set(other[known])) > 1:
            found.append(correlation(one[known], other[known]))
    return float(np.mean(found)), len(found)


def tables(results: dict[str, tuple[np.ndarray, np.ndarray]], scores: dict[str, np.ndarray]) -> str:
    """Both levels in Markdown, each cell tau / rho."""
    head = "| measure | " + " | ".join(ASPECTS)
    system, summary = ["Over 16 systems, tau / rho", "", head + " |"], ["Within an article, tau / rho", "", head]
    summary[-1] += " | articles |"
    system.append("| --- " * (len(ASPECTS) + 1) + "|")
    summary.append("| --- " * (len(ASPECTS) + 2) + "|")
    for key, (values, singles) in results.items():
        cells, inner, articles = [], [], set()
        for aspect in ASPECTS:
            cells.append(
                " / ".join(f"{found(values, scores[aspect].mean(axis=1)):.2f}" for found in correlations().values())
            )
            pairs = [within(singles, scores[aspect], found) for found in correlations().values()]
            inner.append(" / ".join(f"{value:.2f}" for value, _ in pairs))
            articles |= {count for _, count in pairs}
        system.append(f"| {key} | {' | '.join(cells)} |")
        low, high = min(articles), max(articles)
        summary.append(f"| {key} | {' | '.join(inner)} | {low if low == high else f'{low} to {high}'} |")
    return "\n".join([*system, "", *summary])


def main() -> None:
    """Reads, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="summeval_100docs.jsonl")
    parser.add_argument("--out", type=Path, default=Path("runs/summeval"))
    recogniser = parser.add_mutually_exclusive_group()
    recogniser.add_argument("--pipeline", help="spaCy pipeline for entity precision, by name or path")
    recogniser.add_argument(
        "--gazetteer", type=Path, nargs="+", help="build a list of names from these articles instead"
    )
    arguments = parser.parse_args()

    rows = read(arguments.data)
    systems = written(rows, arguments.out)
    configs = list(METRICS)
    if arguments.pipeline:
        configs.append({"metric": "entities", "pipeline": arguments.pipeline})
    if arguments.gazetteer:
        folder, count = gazetteer(arguments.gazetteer, arguments.out / "gazetteer")
        print(f"Entity precision by a gazetteer of {count:,} capitalised names, not by a trained recogniser.\n")
        configs.append({"metric": "entities", "pipeline": folder, "types": ("NAME",)})
    results = {key: value for config in configs for key, value in measured(config, systems).items()}
    print(f"{len(systems)} systems, {len(rows)} articles, {len(rows[0]['ref_summs'])} references each.\n")
    print(tables(results, human(rows, systems)))


if __name__ == "__main__":
    main()
