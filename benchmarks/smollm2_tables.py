"""Writes the tables of ``docs/results/smollm2.md`` from the records. Nothing is measured.

    python benchmarks/smollm2_tables.py
    python benchmarks/smollm2_tables.py --check     # fails where the page differs from the records

What is between ``<!-- table: NAME -->`` and ``<!-- end -->`` is replaced.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from gains_by_group import spread
from longer_training import COMPARISONS, PERPLEXITY, difference, shown
from table_parts import markdown

from nextword.experiments.reproduction.paper import find_table
from nextword.results.records.reproduced_table import ReproducedCell, ReproducedTable

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "results" / "smollm2.md"
RECORDS = DOCS / "records" / "papers" / "pretrained"
PART = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def cells_of(table: ReproducedTable) -> dict[str, dict[str, ReproducedCell]]:
    """Cells of a record by the title of the row and the name of the column, "GROUP TITLE" or the title alone."""
    names = [f"{column.group} {column.title}".strip() for column in table.columns]
    return {row.title: dict(zip(names, row.cells, strict=True)) for row in table.rows}


def rows_of(table: ReproducedTable) -> dict[str, dict[str, ReproducedCell]]:
    """The same cells by method instead of title. Rows with numbers of several experiments are left out."""
    named = {row.title: row.method for row in find_table(table.name).rows if row.method and not row.cells}
    return {named[title]: cells for title, cells in cells_of(table).items() if title in named}


def values(cell: ReproducedCell, form: str) -> str:
    """Mean over seeds, with the lowest and the highest in small print; nothing for a cell without a number.

    >>> values(ReproducedCell(by_seed={"0": 1.0, "1": 3.0}), ".1f")
    '2.0 <sub>1.0–3.0</sub>'
    """
    return spread(list(cell.by_seed.values()), form) if cell.by_seed else ""


def change(cell: ReproducedCell, baseline: ReproducedCell) -> str:
    """Difference from a baseline in percent of it, seed by seed."""
    if cell is baseline or not cell.by_seed:
        return ""
    changes = [100 * (value / baseline.by_seed[seed] - 1) for seed, value in cell.by_seed.items()]
    return spread(changes, "+.1f")


def printed_change(cell: ReproducedCell, baseline: ReproducedCell) -> str:
    """The same difference between the paper's numbers."""
    if cell is baseline or cell.printed is None or baseline.printed is None:
        return ""
    return spread([100 * (float(cell.printed) / float(baseline.printed) - 1)], "+.1f")


METHODS = {
    "GPT2-Small": "cross-entropy, without cache; cache alone: added afterwards",
    "GPT2-Small, TRIME": "TRIME",
    "GPT2-Small, TRIME as released": "TRIME as released",
    "GPT2-Small, HISTALIGN": "HistAlign",
    "GPT2-Small, HISTALIGN as released": "HistAlign as released",
}
"""Rows of HistAlign's table 1, with the names that the page uses."""


def ambiguous() -> str:
    """Prompts with both valid words among the most probable ones, beside those of HistAlign's paper."""
    rows = cells_of(ReproducedTable.load(RECORDS / "histalign" / "table-1.json"))
    shown = ("Full Acc@2", "Cache-Only Acc@2", "Cache-Only Acc@5")
    lines = []
    for title, name in METHODS.items():
        cells = rows[title]
        printed = [f"{float(cells[one].printed):.1f}" for one in shown if cells[one].printed is not None]
        lines.append([name, *(values(cells[one], ".1f") for one in shown), ", ".join(printed)])
    columns = ["whole model, top 2", "cache alone, top 2", "cache alone, top 5", "the three in the paper"]
    return markdown(["method, 40 training steps", *columns], lines)


def figure_3() -> str:
    """Perplexities of Softmax-CPR's heads on two texts, beside the poster's."""
    rows = rows_of(ReproducedTable.load(RECORDS / "softmax-cpr" / "figure-3.json"))
    plain, baseline = "SmolLM2", "softmax+proj"
    order = sorted(rows, key=lambda name: -fmean(rows[name]["Wiki"].by_seed.values()))
    lines = []
    for name in order:
        cells = rows[name]
        line = ["SmolLM2 as it is" if name == plain else f"`{name}`"]
        for text in ("Wiki", "OWT"):
            other = rows[baseline][text]
            line += [values(cells[text], ".2f"), change(cells[text], other), printed_change(cells[text], other)]
        new = fmean(cells["Size"].by_seed.values()) - fmean(rows[plain]["Size"].by_seed.values())
        lines.append([*line, f"{new:.1f}"])
    columns = ["head"]
    for text in ("WikiText-2", "OpenWebText"):
        columns += [text, "change, %", "poster's change, %"]
    return markdown([*columns, "new parameters, million"], lines)


def tuned() -> str:
    """Perplexities of three heads that were trained together with all weights of the model."""
    rows = cells_of(ReproducedTable.load(RECORDS / "softmax-cpr" / "figure-3.json"))
    trained = [row for row in find_table("softmax-cpr/figure-3").rows if row.cells]
    lines = []
    for row in trained:
        line = [f"`{(row.method or '').removesuffix(', model trained')}`"]
        for text in ("Wiki", "OWT"):
            cell = rows[row.title][text]
            line += [values(cell, ".2f"), change(cell, rows[trained[0].title][text])]
        lines.append(line)
    return markdown(["head", "WikiText-2", "change, %", "OpenWebText", "change, %"], lines)


GROUPS = {
    "New and repeated tokens, nats per token": {
        "new": "new tokens",
        "repeated from the text before": "repeated in the window",
    },
    "Copied spans, nats per token": {"first token of a copied span": "first token of a copied span"},
    "Frequent and rare tokens, nats per token": {"very rare": "very rare tokens"},
}
"""Groups of tokens that the page shows, with their headings, by the caption of their table in the record."""


def gains() -> str:
    """Loss of each head minus that of ``softmax+proj`` in a few groups of tokens."""
    record = json.loads((DOCS / "records" / "results" / "smollm2-gains.json").read_text(encoding="utf-8"))
    tables = {part["caption"]: part for section in record["sections"] for part in section["parts"] if "rows" in part}
    lines: dict[str, list[str]] = {}
    for caption, groups in GROUPS.items():
        rows = {row[0]: row for row in tables[caption]["rows"]}
        for place, column in enumerate(tables[caption]["columns"]):
            head, minus, _ = column.partition(" − ")
            if minus:
                means = [rows[group][place].partition(" <sub>")[0] for group in groups]
                lines.setdefault(head, []).extend(means)
    headings = [heading for groups in GROUPS.values() for heading in groups.values()]
    return markdown(["head", *headings], [[head, *means] for head, means in lines.items()])


def articles() -> str:
    """Articles from summaries without and with the summary as prompt, beside the report's perplexities."""
    table = ReproducedTable.load(RECORDS / "conditional-summaries" / "table-1.json")
    columns = ("Perplexity", "ROUGE-1", "ROUGE-L", "LDA + JSD")
    blocks: dict[str, list[list[str]]] = {"without prompt": [], "with prompt": []}
    for row, cells in cells_of(table).items():
        perplexity = cells["Perplexity"]
        if perplexity.by_seed:
            large = fmean(perplexity.by_seed.values()) > 1000
            forms = (",.0f" if large else ".1f", ".3f", ".3f", ".3f")
            numbers = [values(cells[name], form) for name, form in zip(columns, forms, strict=True)]
            blocks[row.partition(":")[0]].append([_title(row), *numbers, _printed(perplexity)])
    headings = ["method", "perplexity", *columns[1:], "report's perplexity"]
    return markdown(headings, [line for block in blocks.values() for line in block])


def retrieval() -> str:
    """Loss of each head, and its change with an n-gram index, a datastore or a cache."""
    record = json.loads((DOCS / "records" / "results" / "smollm2-retrieval.json").read_text(encoding="utf-8"))
    tables = [part for section in record["sections"] for part in section["parts"] if "rows" in part]
    (table,) = [part for part in tables if part["caption"].startswith("All tokens")]
    lines = [[*row[:1], *("" if cell == "–" else cell for cell in row[2:])] for row in table["rows"]]
    return markdown(["head", *table["columns"][2:]], lines)


SAMPLED = {"PPL": ".1f", "KLD": ".2f", "MS-Jaccard n=2": ".1f", "Self-BLEU n=2": ".1f", "Distinct n=2": ".1f"}
"""Columns of F2-Softmax's table 1a that the page shows, each with a number format."""


def sampled() -> str:
    """Texts that are sampled with F2-Softmax and its rivals."""
    rows = cells_of(ReproducedTable.load(RECORDS / "f2-softmax" / "table-1a.json"))
    lines = []
    for title, cells in rows.items():
        unique = [1000 * value for value in cells["Uniq"].by_seed.values()]
        numbers = [values(cells[name], form) for name, form in SAMPLED.items()]
        lines.append([title, *numbers, spread(unique, ",.0f") if unique else ""])
    columns = ["perplexity", "KLD", "MS-Jaccard-2", "Self-BLEU-2", "Distinct-2", "unique tokens"]
    return markdown(["method", *columns], lines)


def stories() -> str:
    """Continuations of stories, beside those of the paper's GPT-2 small."""
    small = "GPT2-small"
    names = {small: "cross-entropy", f"{small}, TRIME": "TRIME", f"{small}, HISTALIGN": "HistAlign"}
    return written("table-3", names, {one: one for one in ("perplexity", "diversity", "MAUVE", "coherence")})


BART_ROWS = {"BART": "cross-entropy", "TRIME": "TRIME", "HISTALIGN": "HistAlign"}
"""Rows of HistAlign's tables 5 and 7, with the names that the page uses."""


def summaries() -> str:
    """Summaries of XSum and CNN/DailyMail with the article as prompt, beside those of the paper's BART."""
    measures = {"perplexity": "perplexity", "Rouge-L": "ROUGE-L", "Pent": "names in the article"}
    groups = {"XSum": "XSum", "CNN/DM": "CNN/DailyMail"}
    columns = {f"{key} {one}": f"{group}: {name}" for key, group in groups.items() for one, name in measures.items()}
    return written("table-5", BART_ROWS, columns)


def tables() -> str:
    """Sentences about LogicNLG's tables with the table as prompt, beside those of the paper's BART."""
    bleu = {f"BLEU-(1/2/3) {n}": f"BLEU-{n}" for n in (1, 2, 3)}
    return written("table-7", BART_ROWS, {"perplexity": "perplexity", **bleu})


def written(table: str, names: Mapping[str, str], columns: Mapping[str, str]) -> str:
    """Perplexity, and metrics of texts in %, by ``names`` of rows and columns; last, the paper's numbers."""
    rows = cells_of(ReproducedTable.load(RECORDS / "histalign" / f"{table}.json"))
    lines = []
    for title, name in {"SmolLM2 as it is": "SmolLM2 as it is", **names}.items():
        cells = [rows[title][column] for column in columns]
        printed = [str(cell.printed) for cell in cells if cell.printed is not None]
        lines.append([name, *(values(cell, ".1f") for cell in cells), ", ".join(printed)])
    in_paper = [
        name for column, name in columns.items() if any(row[column].printed is not None for row in rows.values())
    ]
    return markdown(["method", *columns.values(), f"in the paper: {', '.join(in_paper)}"], lines)


ARTICLES = ("conditional-summaries/table-1", "Perplexity", "without prompt: Vanilla GPT-2")
HEADS = ("softmax-cpr/figure-3", "Wiki", "Softmax, model trained")
"""Where perplexities with 40 steps are: the record, its column, and the row of the baseline."""
MORE_STEPS = [
    ("Articles from summaries", "DAU avg", ARTICLES, "without prompt: BERT-GPT DAU avg"),
    ("Articles from summaries", "DAU max", ARTICLES, "without prompt: BERT-GPT DAU max"),
    ("Stories", "TRIME", ("histalign/table-3", "perplexity", "GPT2-small"), "GPT2-small, TRIME"),
    ("Sentences about tables", "TRIME", ("histalign/table-7", "perplexity", "BART"), "TRIME"),
    ("Heads on WikiText-2", "`softmax+cpr:20,100+mi`", HEADS, "Softmax + CPR:20,100 + Mi, model trained"),
    ("Heads on WikiText-2", "`mos:3+cpr:20,100+mi`", HEADS, "MoS + CPR:20,100 + Mi, model trained"),
]
"""Section and row of the record with more steps, and where the same comparison with 40 steps is, with its row."""


def more_steps() -> str:
    """Change in perplexity with 40 steps, and with ten times as many."""
    record = json.loads((DOCS / "records" / "results" / "smollm2-longer.json").read_text(encoding="utf-8"))
    differences = {one["title"]: one["parts"][-1] for one in record["sections"]}
    baselines = {of.title: shown(of.baseline) for of in COMPARISONS.values()}
    lines = []
    for texts, method, (table, column, baseline), row in MORE_STEPS:
        before = cells_of(ReproducedTable.load(RECORDS / f"{table}.json"))
        change = difference(before[row][column].by_seed, before[baseline][column].by_seed, PERPLEXITY)
        after = differences[texts]
        place = after["columns"].index(PERPLEXITY.title)
        found = next(line[place] for line in after["rows"] if line[0] == method)
        lines.append([texts, method, baselines[texts], change, found])
    return markdown(["texts", "method", "relative to", "40 steps", "400 steps"], lines)


def _title(row: str) -> str:
    where, _, method = row.partition(": ")
    return f"{method.removeprefix('BERT-GPT ').replace('Vanilla GPT-2', 'SmolLM2 as it is')}, {where}"


def _printed(cell: ReproducedCell) -> str:
    return "" if cell.printed is None else f"{float(cell.printed):.1f}"


TABLES: Mapping[str, Callable[[], str]] = {
    "ambiguous": ambiguous,
    "stories": stories,
    "summaries": summaries,
    "tables": tables,
    "more-steps": more_steps,
    "figure-3": figure_3,
    "tuned": tuned,
    "gains": gains,
    "articles": articles,
    "retrieval": retrieval,
    "sampled": sampled,
}
"""Tables by name."""


def page() -> str:
    """The page as it should be."""
    return PART.sub(lambda part: f"{part[1]}\n{TABLES[part[2]]()}\n\n{part[3]}", PAGE.read_text(encoding="utf-8"))


def main(argv: Sequence[str] | None = None) -> None:
    """Writes or checks the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="write nothing, fail where the page would change")
    text = page()
    if not options.parse_args(argv).check:
        PAGE.write_text(text, encoding="utf-8")
    elif text != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE}: older than its records; run: python benchmarks/smollm2_tables.py")


if __name__ == "__main__":
    main()
