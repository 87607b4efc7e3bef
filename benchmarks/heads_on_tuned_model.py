"""Trains a model plainly for 200 steps, then the heads of Softmax-CPR's figure 3 on it; compares both models' heads.

This is the control of ``nextword reproduce softmax-cpr/figure-3 --scale pretrained``: it tells which gains of a head
remain if the model already knows the text. A killed run resumes with the same command.

    python benchmarks/heads_on_tuned_model.py models/smollm2-135m wikitext-2 --out runs/control

Writes docs/records/results/smollm2-control.json and its page.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from gains_by_group import spread
from gpu import RECORDS, save
from retrieval_on_heads import nextword
from smollm2_tables import rows_of
from transformers import AutoTokenizer

import nextword as nw
from nextword.results.records import Results
from nextword.results.records.reproduced_table import ReproducedTable

RECORD = RECORDS / "results" / "smollm2-control.json"
FIGURE = RECORDS / "papers" / "pretrained" / "softmax-cpr" / "figure-3.json"
PLAIN, BASELINE = "SmolLM2", "softmax+proj"
"""The model without a trained head, and the head to which the others are compared."""
READ = {"block": 512, "window": 512, "stride": 256, "validation_tokens": 8192, "test_tokens": 10000}
"""How the comparison reads the text; the training reads all of it."""
TRAINED = {"steps": 200, "batch_size": 2, "learning_rate": 5e-5, "warmup_ratio": 0.06}
COMMANDS = ["python benchmarks/heads_on_tuned_model.py models/smollm2-135m wikitext-2 --out runs/control"]


def run(model: Path, data: Path, seeds: Sequence[int], out: Path) -> Results:
    """Trains the model and its heads. Does only what is not finished."""
    settings = [f"task.{name}={value}" for name, value in READ.items()]
    settings += [f"training.{name}={value}" for name, value in TRAINED.items()]
    trained, tuned = out / "model", out / "plain"
    nextword("train", "--data", data, "--model", model, "--head", "softmax", *settings, "--out", trained)
    if not (tuned / "tokenizer.json").is_file():  # written last
        nw.load(trained).backbone.save_pretrained(tuned)  # because a comparison begins with a plain model
        AutoTokenizer.from_pretrained(trained).save_pretrained(tuned)
    asked = [
        f"start.model={tuned}",
        f"task.data={data}",
        f"seeds={list(seeds)}",
        f"states={out / 'states'}",
        "threads=1",
    ]
    nextword("compare", "cpr-wikitext-pretrained", *asked, "--out", out / "heads")
    return Results.load(out / "heads" / "results.json")


def perplexities(results: Results) -> dict[str, dict[int, float]]:
    """Perplexity of each method by seed."""
    found: dict[str, dict[int, float]] = {}
    for one in results.runs:
        found.setdefault(one.method, {})[one.seed] = one.evaluation.metrics["perplexity"].value
    return found


def before() -> dict[str, dict[int, float]]:
    """The same of figure 3, whose model is not trained."""
    rows = rows_of(ReproducedTable.load(FIGURE))
    return {
        method: {int(seed): value for seed, value in cells["Wiki"].by_seed.items()} for method, cells in rows.items()
    }


def compared(models: Sequence[Mapping[str, Mapping[int, float]]]) -> list[list[str]]:
    """A row per head, by its mean with the last of the models: each model's perplexity, and its change in percent."""
    rows = []
    for method in sorted(models[-1], key=lambda name: -fmean(models[-1][name].values())):
        row = ["as it is" if method == PLAIN else f"`{method}`"]
        for model in models:
            of, baseline = model[method], model[BASELINE]
            changes = [100 * (value / baseline[seed] - 1) for seed, value in of.items() if seed in baseline]
            row += [spread(list(of.values()), ".2f"), "" if method == BASELINE else spread(changes, "+.1f")]
        rows.append(row)
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, measures and writes the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path, help="the model of figure 3")
    options.add_argument("data", type=Path, help="folder with WikiText-2")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--out", type=Path, default=Path("runs/control"), help="folder of models and states")
    options.add_argument("--record", type=Path, default=RECORD, help="file of the record")
    given = options.parse_args(argv)
    results = run(given.model, given.data, given.seeds, given.out)
    heads: dict[str, Any] = {
        "caption": "Perplexity of 10,000 test tokens of WikiText-2, and its change relative to `softmax+proj`",
        "columns": ["head", "SmolLM2", "change, %", "SmolLM2 after 200 steps", "change, %"],
        "rows": compared([before(), perplexities(results)]),
    }
    save(
        given.record,
        {
            "title": "SmolLM2-135M",
            "name": "Heads after fine-tuning: record",
            "guide": "../../results/smollm2.md",
            "about": "Heads of SmolLM2-135M-Instruct (4-bit weights), trained for 40 steps of 1,024 tokens from stored "
            "states, above the model as it is (`nextword reproduce softmax-cpr/figure-3 --scale pretrained`) and above "
            "the model after 200 steps of 1,024 tokens of plain training of all its weights on WikiText-2's training "
            f"text. Mean over {len(given.seeds)} seeds of the heads; small print: lowest and highest seed. The plain "
            "training has one seed.",
            "sections": [
                {"title": "Command", "parts": [{"commands": COMMANDS, "shell": True}]},
                {"title": "Heads", "parts": [heads]},
            ],
        },
    )


if __name__ == "__main__":
    main()
