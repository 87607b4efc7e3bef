"""Writes a record of the tokens on which heads gain, and of what heads predict after the papers' prompts.

The models are those of ``nextword compare cpr-wikitext-pretrained``. Each folder has the scores of one training seed.
The script reads these scores, and runs the models on the prompts.

    for seed in 0 1 2; do nextword score --states states plain=MODEL softmax+proj=MODEL ... --out scores/$seed; done
    python benchmarks/gains_by_group.py scores/0 scores/1 scores/2 --baseline softmax+proj

Writes docs/records/results/smollm2-gains.json and its page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from gpu import RECORDS, save

from nextword.inference.scoring.word_probes import ProbeAnswer, answers, read_probes
from nextword.results.records import ModelScore, ScoreResults

RECORD = RECORDS / "results" / "smollm2-gains.json"
PLAIN = "plain"
"""Name of the model without a trained head."""
COMMANDS = [
    "for seed in 0 1 2; do  # models of runs/trained: softmax-proj-mle-seed0/model, ...",
    "  nextword score --states runs/states plain=models/smollm2-135m softmax+proj=MODEL ... --out scores/$seed",
    "done",
    "python benchmarks/gains_by_group.py scores/0 scores/1 scores/2 --baseline softmax+proj",
]
PROMPTS = {"choices": "one of five things", "jester": "king or woman", "sports": "none of four sports"}
"""Names of the sets of prompts, with what the next word should be."""


def spread(values: Sequence[float], form: str) -> str:
    """Mean over seeds, with the lowest and the highest in small print.

    >>> spread([-0.1, -0.2, -0.3], "+.2f")
    '−0.20 <sub>−0.30 to −0.10</sub>'
    >>> spread([0.1, 0.2, 0.3], ".2f")
    '0.20 <sub>0.10–0.30</sub>'
    """
    mean, low, high = (format(one, form).replace("-", "−") for one in (fmean(values), min(values), max(values)))
    between = " to " if {low[0], high[0]} & {"−", "+"} else "–"
    return mean if low == high else f"{mean} <sub>{low}{between}{high}</sub>"


def nll(model: ModelScore, breakdown: str | None, group: str) -> float:
    """Nats per token of a group; ``None`` as breakdown: of all tokens."""
    if breakdown is None:
        return model.nll
    found = next(one.nll for one in model.breakdowns[breakdown] if one.group == group)
    assert found is not None
    return found


def gains(seeds: Sequence[ScoreResults], baseline: str) -> list[dict[str, Any]]:
    """A table per breakdown: the baseline's nats per token, and the difference of every other model to it."""
    first = seeds[0]
    others = [model.name for model in first.models if model.name not in (PLAIN, baseline)]
    parts = []
    for key, meaning in first.breakdowns.items():
        groups = [(None, "all", first[baseline].tokens)]
        groups += [(key, one.group, one.tokens) for one in first[baseline].breakdowns[key]]
        rows = []
        for breakdown, group, tokens in groups:
            of = {name: [nll(seed[name], breakdown, group) for seed in seeds] for name in (PLAIN, baseline, *others)}
            differences = [
                spread([one - other for one, other in zip(of[name], of[baseline], strict=True)], "+.3f")
                for name in others
            ]
            rows.append([group, f"{tokens:,}", spread(of[PLAIN], ".3f"), spread(of[baseline], ".3f"), *differences])
        columns = ["tokens", "count", PLAIN, f"`{baseline}`", *(f"`{name}` − `{baseline}`" for name in others)]
        parts.append({"caption": f"{meaning.title}, nats per token", "columns": columns, "rows": rows})
    return parts


def prompted(seeds: Sequence[ScoreResults]) -> dict[str, Any]:
    """A table of the papers' prompts: how probable the listed words are together, in percent."""
    rows = []
    for model in seeds[0].models:
        found = [answers(seed[model.name].location, read_probes()) for seed in seeds]
        rows.append([f"`{model.name}`", *(spread([_mass(one, name) for one in found], ".1f") for name in PROMPTS)])
    columns = ["head", *(f"{name}: {meaning}" for name, meaning in PROMPTS.items())]
    return {"caption": "Probability that the next word is a listed one, %", "columns": columns, "rows": rows}


def _mass(found: Sequence[ProbeAnswer], name: str) -> float:
    return 100 * fmean(one.mass for one in found if one.probe.name == name)


def main(argv: Sequence[str] | None = None) -> None:
    """Reads the scores and writes the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("scores", type=Path, nargs="+", help="folder with the score.json of a seed")
    options.add_argument("--baseline", default="softmax+proj", help="name of the model that others are compared with")
    options.add_argument("--out", type=Path, default=RECORD, help="file of the record")
    given = options.parse_args(argv)
    seeds = [ScoreResults.load(folder / "score.json") for folder in given.scores]
    content = {
        "title": "SmolLM2-135M",
        "name": "Where heads gain on SmolLM2-135M: record",
        "guide": "../../results/smollm2.md",
        "about": "Heads of SmolLM2-135M-Instruct (4-bit weights), trained for 40 steps from stored states by `nextword "
        "reproduce softmax-cpr/figure-3 --scale pretrained`, on "
        f"{seeds[0].models[0].tokens:,} test tokens of WikiText-2. Mean over {len(seeds)} seeds; small print: lowest "
        "and highest seed.",
        "sections": [
            {"title": "Commands", "parts": [{"commands": COMMANDS, "shell": True}]},
            {"title": "Groups of tokens", "parts": gains(seeds, given.baseline)},
            {"title": "Prompts of the papers", "parts": [prompted(seeds)]},
        ],
    }
    save(given.out, content)


if __name__ == "__main__":
    main()
