"""Writes ``docs/records/performance.md`` and ``speculative-decoding.md`` from the newest rows, and draws charts.

It also writes the table and the charts of ``docs/performance.md``. Nothing is measured. The pages do not show targets:
the command counts met and missed targets, and ``--judged`` prints the tables with each number and its target.

    python benchmarks/performance_page.py
    python benchmarks/performance_page.py --judged    # print met and missed targets, write nothing
    python benchmarks/performance_page.py --check     # fails where a page is older than the rows
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import drafting_tables
import tables
from options import DATA
from pictures import performance
from pictures.style import write
from table_parts import NO_TARGETS, Targets, every_row, targets

DOCS = Path(__file__).parents[1] / "docs"
TARGETS = Path(__file__).parent / "targets.toml"
TABLES = tables.TABLES | drafting_tables.TABLES
GUIDE = {"summary": tables.summary}
"""Tables of the guide, by the name of their markers."""
_DRAFTING_MODELS = """\
- `cnn`, `tables-model`, `dialogue-model`: `pg+mi` on a small GPT-2.
- `cepr-cnn`, `pg-cnn`, `cepr-dialogsum`: `softmax+cepr:20` and `pg` on a small T5, trained by
  `nextword reproduce softmax-cpr/figure-4`: 2,000 steps on sentences of XSum, 50 on summaries.
- `cepr-long`, `pg-long`: `cepr-cnn` and `pg-cnn` after 1,000 more steps on pairs of highlights and articles.
- `-gpt2-small`: the same model in a decoder of 12 layers, width 768 and 50,257 tokens, with weights chosen so that
  it computes the same probabilities; only the time per pass differs.
- `f2-wikitext` (not decoupled) and `mos-wikitext`: small models of WikiText-2; the assistant is a softmax model of
  the same size.

Rows of `draft="prompt"` for `cepr-long`, `pg-long`, `tables-model`, `dialogue-model`, `mos-wikitext` and `cnn` on human
summaries use the current n-gram matcher, the others an older version.

```console
nextword reproduce softmax-cpr/figure-4 --scale small --data DATA --out runs/tables
python benchmarks/drafting_data.py cnn/pairs.jsonl --more xsum/pairs.jsonl --out runs/pairs/cnn
nextword train --data runs/pairs/cnn --model small --head pg+mi --out runs/cnn task.max_source_tokens=200 \\
    task.max_target_tokens=60 task.vocabulary=4000 task.start.steps=0 training.steps=1100 training.batch_size=8 \\
    training.learning_rate=2e-3
nextword train --data runs/dialogue --model runs/cnn --out runs/dialogue-model task.max_source_tokens=200 \\
    task.max_target_tokens=60 training.steps=150 training.batch_size=8
python benchmarks/drafting_data.py logicnlg --out runs/tables
nextword train --data runs/tables --model runs/cnn --out runs/tables-model task.max_source_tokens=200 \\
    task.max_target_tokens=60 training.steps=200 training.batch_size=8 training.learning_rate=1e-3
nextword train --data runs/pairs/cnn --model runs/cepr-cnn --head softmax+cepr:20 --out runs/cepr-long \\
    task.max_source_tokens=200 task.max_target_tokens=60 training.batch_size=8 training.steps=1000 \\
    training.learning_rate=2e-3
nextword train --data wikitext-2/train.txt --model runs/softmax-wikitext --head mos:3 --out runs/mos-wikitext \\
    training.steps=200 training.batch_size=8
python benchmarks/widened.py --model runs/cepr-cnn --out runs/cepr-cnn-gpt2-small
```"""
_PART = re.compile(r"(<!-- measured: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Section:
    """A table of a record, the heading above it and the commands that measured its rows."""

    table: str
    title: str
    commands: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True)
class Page:
    """A record: its title, the guide that it belongs to, and its tables."""

    title: str
    guide: str
    sections: tuple[Section, ...]
    files: tuple[str, ...] = ()
    """Tables of rows that are shown whole, below the sections."""
    models: str = ""
    """How the models were made, if they were trained for it."""


PAGES = {
    "performance": Page(
        "Performance records",
        "[Performance](../performance.md)",
        (
            Section("cost", "What a head costs", ("head_cost.py",)),
            Section("training", "Training step", ("training_step.py",)),
            Section(
                "decoding",
                "Decoding",
                ("decoding_speed.py",),
                "Tokens per second, relative to transformers' `generate`.",
            ),
            Section(
                "history",
                "Decoding by context length",
                ("decoding_speed.py",),
                "Milliseconds per step, and MB of the largest tensor.",
            ),
            Section("sweeps", "Vocabulary and length", ("sweeps.py vocabulary", "sweeps.py length")),
            Section("profile", "Profile of a training step", ("profile_step.py",)),
            Section("throughput", "Scoring, checking, evaluating", ("throughput.py",)),
            Section("startup", "Start-up time", ("startup.py --rounds 9",)),
            Section("beyond", "Cache beyond the window", ("long_memory.py",)),
            Section(
                "corpus",
                "N-gram index",
                ("text_memory.py --tokenizer TOKENIZER --asked valid.txt --data train.txt more.txt",),
            ),
            Section("audit", "Audit", ("audit_cost.py",)),
            Section("store", "Datastore", ("datastore.py --model MODEL --data train.txt --asked test.txt",)),
            Section("serving", "Many requests at once", ("serving_speed.py --rounds 3",)),
            Section("context", "Serving by context length", ("serving_speed.py --read-before --length 256 8192",)),
        ),
        (
            "compiled_speed",
            "conditioning_speed",
            "f2_speed",
            "large_data",
            "mefmax_speed",
            "metrics_speed",
            "process_scaling",
            "ray_runs",
            "start_memory",
            "training_step",
            "vocabulary_memory",
        ),
    ),
    "speculative-decoding": Page(
        "Speculative decoding records",
        "[Speculative decoding](../drafting.md)",
        (
            Section(
                "drafting",
                "Tokens per pass and speed",
                (
                    "drafting.py --model MODEL --pairs PAIRS --texts 12 --prompt 160 --new 60",
                    "drafting.py --model MODEL --pairs PAIRS --texts 12 --prompt 160 --new 60 --human",
                    "drafting_data.py DATA --ask REQUEST --out runs/drafting/chat-code",
                    "drafting.py --model MODEL --chat --pairs runs/drafting/chat-code/test.jsonl --texts 8 "
                    "--prompt 300 --new 48",
                ),
                "Greedy decoding, one text at a time. The bound is a pointer that always copies at the best position. "
                "The chat rows are requests to SmolLM2-135M-Instruct (4-bit weights) with a head trained on "
                'WikiText-2: "Summarize this article in three sentences:", "Summarize this dialogue:", "Write this '
                'code again, with a comment before each function:" and "Write a story that begins like this:".',
            ),
            Section("costs", "Overhead", ("drafting.py --size tiny --head pg+mi --parts",)),
            Section(
                "choices",
                "How the position to copy from is chosen",
                ("drafting_choice.py --model MODEL --pairs PAIRS",),
                "Tokens per pass with drafts of ten tokens, counted on fixed texts without generating.",
            ),
        ),
        models=_DRAFTING_MODELS,
    ),
}
"""The records by the name of their page."""


def page_of(name: str, data: Path, wanted: Targets = NO_TARGETS) -> str:
    """A record in Markdown.

    Args:
        name: Of the page.
        data: Folder of the tables of rows.
        wanted: Targets by part, shown beside the numbers.
    """
    page = PAGES[name]
    parts = [
        f"# {page.title}",
        "<!-- generated by python benchmarks/performance_page.py -->",
        f"The newest measurements in `benchmarks/data`. Guide: {page.guide}.",
    ]
    for section in page.sections:
        parts.append(f"## {section.title}")
        lines = "\n".join(f"python benchmarks/{command}" for command in section.commands)
        parts += [section.about] if section.about else []
        parts += [f"```console\n{lines}\n```"] if lines else []
        parts.append(TABLES[section.table](data, wanted))
    parts += ["## Models", page.models] if page.models else []
    for file in page.files:
        title = file.replace("_", " ").capitalize()
        parts += [f"## {title}", f"`python benchmarks/{file}.py`, every row.", every_row(data, file)]
    return "\n\n".join(parts) + "\n"


def rewritten(page: str, data: Path) -> str:
    """The guide with its tables from the newest rows; text outside the markers stays.

    Raises:
        ValueError: Markers of a table that does not exist.
    """

    def filled(found: re.Match[str]) -> str:
        if found[2] not in GUIDE:
            raise ValueError(f"measured: {found[2]}: no such table; there are {', '.join(GUIDE)}")
        return f"{found[1]}\n{GUIDE[found[2]](data, NO_TARGETS)}\n\n{found[3]}"

    return _PART.sub(filled, page)


def main(argv: Sequence[str] | None = None) -> None:
    """Writes and draws."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA, help="folder of the tables of rows")
    options.add_argument("--records", type=Path, default=DOCS / "records", help="folder of the pages")
    options.add_argument("--guide", type=Path, default=DOCS / "performance.md", help="the guide with the summary")
    options.add_argument("--images", type=Path, default=DOCS / "images", help="folder of the charts")
    options.add_argument("--check", action="store_true", help="write nothing, fail where a page would change")
    options.add_argument("--judged", action="store_true", help="write nothing, print every number with its target")
    given = options.parse_args(argv)
    judged = {name: page_of(name, given.data, targets(TARGETS)) for name in PAGES}
    if given.judged:
        print("\n".join(judged.values()))
        return
    made = {given.records / f"{name}.md": page_of(name, given.data) for name in PAGES}
    made[given.guide] = rewritten(given.guide.read_text(encoding="utf-8"), given.data)
    for path, text in made.items():
        if not given.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{path} is older than the rows: run python benchmarks/performance_page.py")
    for name, text in judged.items():
        met, missed = text.count(", met)"), text.count(", **missed**)")
        print(f"{name}: {met} targets met, {missed} missed (--judged shows which)")
    if not given.check:
        for name, picture in performance.pictures(given.data).items():
            write(name, picture, given.images)


if __name__ == "__main__":
    main()
