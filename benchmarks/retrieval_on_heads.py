"""Adds retrieval to trained heads, without training, and writes a record of what each addition gains.

The heads are those of ``nextword compare cpr-wikitext-pretrained``. An n-gram index and a datastore, and for the model
without a trained head also a cache, are calibrated on the stored validation rows. Everything is scored on the stored
test rows. A killed run resumes with the same command.

    nextword ngram build MODEL train.txt --out memory
    nextword datastore build MODEL beginning.txt --out store
    python benchmarks/retrieval_on_heads.py MODEL --states states --trained trained --index memory --store store \
        --out runs/retrieval

Writes docs/records/results/smollm2-retrieval.json and its page.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gains_by_group import PLAIN, nll, spread
from gpu import RECORDS, save

from nextword.results.records import ScoreResults

RECORD = RECORDS / "results" / "smollm2-retrieval.json"
HEADS = {
    "softmax+proj": "softmax-proj-mle",
    "softmax+c+mi": "softmax-c-mi-mle",
    "mos:3+cpr:20,100+mi": "mos-3-cpr-20-100-mi-mle",
}
"""Folders of trained models, without their seed, by head."""
COMMANDS = [
    "head -c 440000 wikitext-2/train.txt > beginning.txt",
    "nextword ngram build models/smollm2-135m wikitext-2/train.txt --out memory",
    "nextword datastore build models/smollm2-135m beginning.txt --out store",
    "python benchmarks/retrieval_on_heads.py models/smollm2-135m --states runs/states --trained runs/trained "
    "--index memory --store store --out runs/retrieval",
]


def nextword(*arguments: object) -> None:
    """Runs a command of nextword."""
    subprocess.run([sys.executable, "-m", "nextword", *map(str, arguments)], check=True)


def added(model: Path, head: str, states: Path, out: Path) -> Path:
    """The model with a calibrated head above its own. A folder that is complete is not made again."""
    if not (out / "calibration.json").exists():
        shutil.rmtree(out, ignore_errors=True)  # of a run that was killed
        nextword("attach", model, "--states", states, "--head", head, "--out", out)
    return out


def scored(models: Mapping[str, Path], states: Path, out: Path) -> ScoreResults:
    """The scores of models on the test rows of ``states``."""
    if not (out / "score.json").exists():
        nextword("score", "--states", states, *(f"{name}={path}" for name, path in models.items()), "--out", out)
    return ScoreResults.load(out / "score.json")


def gains(seeds: Sequence[ScoreResults], additions: Sequence[str]) -> list[dict[str, Any]]:
    """A table of all tokens, then one per breakdown: each head alone, and the change in loss by each addition."""

    def changes(head: str, name: str, key: str | None, group: Any) -> str:
        both = f"{head} + {name}"
        pairs = [(seed[both], seed[head]) for seed in seeds if any(one.name == both for one in seed.models)]
        return spread([nll(one, key, group) - nll(alone, key, group) for one, alone in pairs], "+.3f") if pairs else "–"

    first = seeds[0]
    parts = []
    for key, meaning in [(None, None), *first.breakdowns.items()]:
        groups = [None] if key is None else [one.group for one in first[PLAIN].breakdowns[key]]
        rows = []
        for head in (PLAIN, *HEADS):
            for group in groups:
                alone = spread([nll(seed[head], key, group) for seed in seeds], ".3f")
                shown = "SmolLM2 as it is" if head == PLAIN else f"`{head}`"
                rows.append([shown, group or "all", alone, *(changes(head, name, key, group) for name in additions)])
        title = "All tokens" if meaning is None else meaning.title
        columns = ["head", "tokens", "alone", *(f"with {name}" for name in additions)]
        parts.append({"caption": f"{title}: nats per token, and the change by each addition", "columns": columns,
                      "rows": rows})  # fmt: skip
    return parts


def main(argv: Sequence[str] | None = None) -> None:
    """Calibrates, scores and writes the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path, help="the model without a trained head")
    options.add_argument("--states", type=Path, required=True, help="stored states of the comparison")
    options.add_argument("--trained", type=Path, required=True, help="folder of the comparison's trained models")
    options.add_argument("--index", type=Path, required=True, help="n-gram index of the training text")
    options.add_argument("--store", type=Path, required=True, help="datastore of the beginning of the training text")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--out", type=Path, default=Path("runs/retrieval"), help="folder of models and scores")
    options.add_argument("--record", type=Path, default=RECORD, help="file of the record")
    given = options.parse_args(argv)
    retrieval = {"ngram": f"ngram:index={given.index}", "knn": f"knn:store={given.store}"}
    additions = {**retrieval, "cache": "cache"}  # a cache replaces a trained head, so only the plain model has one

    def of(name: str, model: Path, folder: Path, heads: Mapping[str, str]) -> dict[str, Path]:
        changed = {f"{name} + {key}": added(model, head, given.states, folder / key) for key, head in heads.items()}
        return {name: model, **changed}

    plain, seeds = of(PLAIN, given.model, given.out / PLAIN, additions), []
    for seed in given.seeds:
        models = dict(plain)
        for head, stem in HEADS.items():
            folder = f"{stem}-seed{seed}"
            models |= of(head, given.trained / folder / "model", given.out / folder, retrieval)
        seeds.append(scored(models, given.states, given.out / f"scores-{seed}"))
    save(
        given.record,
        {
            "title": "SmolLM2-135M",
            "name": "Retrieval above trained heads: record",
            "guide": "../../results/smollm2.md",
            "about": "Heads of SmolLM2-135M-Instruct (4-bit weights), trained for 40 steps from stored states by "
            "`nextword reproduce softmax-cpr/figure-3 --scale pretrained`, alone and below an n-gram index of all of "
            "WikiText-2's training text (2.6 million tokens) or a datastore of its first 440,000 bytes (about the text "
            "from which the heads' training rows were drawn). The additions are calibrated on 8,192 validation tokens "
            "and not trained. A cache of the window replaces the plain model's softmax. "
            f"{seeds[0].models[0].tokens:,} test tokens of WikiText-2. Mean "
            f"over {len(seeds)} seeds; small print: lowest and highest seed.",
            "sections": [
                {"title": "Commands", "parts": [{"commands": COMMANDS, "shell": True}]},
                {"title": "Gains", "parts": gains(seeds, list(additions))},
            ],
        },
    )


if __name__ == "__main__":
    main()
