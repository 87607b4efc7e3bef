"""The papers as data: they load, their numbers are the printed ones, and their addresses lead somewhere."""

from __future__ import annotations

import csv
import json
import os
import re
from collections import defaultdict
from functools import cache
from importlib import resources
from math import isnan
from pathlib import Path

import pytest

from nextword.experiments.comparison.comparison_settings import CompareConfig, configured
from nextword.experiments.reproduction.experiment import SCALES, Scale, find_experiment, recipe_of, settings_of
from nextword.experiments.reproduction.paper import (
    Address,
    Comparison,
    Paper,
    PaperColumn,
    PaperRow,
    PaperTable,
    find_table,
    listed_tables,
    load_paper,
    names,
)
from nextword.experiments.reproduction.table_numbers import ExperimentResults, cell_value
from nextword.experiments.training.settings import TrainingSettings
from nextword.results.records import WITH_PROMPT
from nextword.settings.config import SettingsError, validated

SHARED = Path(os.environ.get("NEXTWORD_PAPERS", Path(__file__).parents[3] / ".." / "shared" / "papers"))
TABLES = [(paper, table) for paper in names() for table in load_paper(paper).tables]


def table(rows, columns=("Acc@2",), **rest) -> dict:
    return {
        "title": "T",
        "place": "section 1",
        "columns": [{"title": title} for title in columns],
        "rows": rows,
        **rest,
    }


def claim(row, than, **rest) -> dict:
    return {"text": "t", "comparisons": [{"row": row, "than": than, "column": "Acc@2", **rest}]}


def faults(**given) -> str:
    with pytest.raises(SettingsError) as fault:
        validated(PaperTable, table(**given))
    return str(fault.value)


def test_a_row_s_address_goes_before_the_column_s_and_a_cell_s_before_both():
    built = validated(
        PaperTable,
        {
            "title": "T",
            "place": "section 1",
            "experiment": "ambiguous",
            "columns": [
                {"title": "Acc@2", "group": "Full", "measure": "acc@2"},
                {"title": "Acc@2", "group": "Cache-Only", "measure": "cache_only_acc@2"},
            ],
            "rows": [
                {"title": "small", "method": "softmax", "cells": {"Cache-Only": {"method": "softmax, cached"}}},
                {"title": "large", "method": "softmax", "experiment": "ambiguous-large"},
            ],
        },
    )
    small, large = built.rows
    full, cache_only = built.columns
    assert built.address(small, full).model_dump(exclude_none=True) == {
        "experiment": "ambiguous",
        "method": "softmax",
        "measure": "acc@2",
    }
    assert built.address(small, cache_only).method == "softmax, cached"
    assert built.address(large, cache_only).method == "softmax"
    assert built.address(large, cache_only).experiment == "ambiguous-large"
    assert built.experiments == ["ambiguous", "ambiguous-large"]


def test_lists_in_a_comparison_are_compared_each_with_each():
    comparisons = [{"row": "a", "than": ["b", 3.0], "column": ["x", "y"]}, {"row": "b", "than": "a", "column": "x"}]
    rows = [{"title": "a"}, {"title": "b"}]
    built = validated(PaperTable, table(rows, ("x", "y"), claims=[{"text": "t", "comparisons": comparisons}]))
    assert built.claims[0].comparisons == [
        Comparison(row="a", than="b", column="x"),
        Comparison(row="a", than="b", column="y"),
        Comparison(row="a", than=3.0, column="x"),
        Comparison(row="a", than=3.0, column="y"),
        Comparison(row="b", than="a", column="x"),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rows": [{"title": "a"}, {"title": "a"}]}, "'a' must occur once"),
        ({"rows": [{"title": "a", "values": [1.0, 2.0]}]}, "must have 1 values, one per column (2 given)"),
        ({"rows": [{"title": "a", "cells": {"Acc@5": {}}}]}, "no column 'Acc@5'. Did you mean 'Acc@2'?"),
        ({"rows": [{"title": "abc"}], "claims": [claim("abd", "abc")]}, "no row 'abd'. Did you mean 'abc'?"),
        ({"rows": [{"title": "a"}], "claims": [claim("a", ["a", "b"])]}, "no row 'b'"),
        ({"rows": [{"title": "a"}], "claims": [claim("a", "a", over="c")]}, "no row 'c'"),
        ({"rows": [{"title": "a"}, {"title": "b", "only": "small"}], "claims": [claim("a", "b")]}, "must exist at"),
        ({"rows": [], "claims": [{"text": "t", "at_least": 1}]}, "at_least"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_together_is_refused(given, said):
    assert said in faults(**given)


def test_a_column_of_one_scale_has_no_printed_numbers_and_no_claims():
    own = {"title": "PPL", "only": "pretrained"}
    rows = [{"title": "a", "values": [0.0], "spreads": [1.0]}]
    built = validated(PaperTable, table(rows) | {"columns": [{"title": "Acc@2"}, own]})
    assert [len(built.at(scale).columns) for scale in ("small", "pretrained")] == [1, 2]
    (row,), (printed, ours) = built.rows, built.columns
    assert (built.printed(row, printed), built.spread(row, printed)) == (0.0, 1.0)
    assert built.printed(row, ours) is built.spread(row, ours) is None
    with pytest.raises(SettingsError, match="those of every scale must be first"):
        validated(PaperTable, table([]) | {"columns": [own, {"title": "Acc@2"}]})
    for claimed in (claim("a", "a", column="PPL"), claim("a", "a", than_column="PPL")):
        with pytest.raises(SettingsError, match="column 'PPL' must exist at every scale"):
            validated(PaperTable, table(rows, claims=[claimed]) | {"columns": [{"title": "Acc@2"}, own]})


def test_an_unknown_paper_or_table_is_named_with_the_nearest_known_one():
    with pytest.raises(ValueError, match="'histaling'"):
        find_table("histaling/table-1")
    with pytest.raises(ValueError, match="must be a table of histalign"):
        find_table("histalign/table-99")
    assert find_table("histalign/table-1").rows


# -- the four papers


@pytest.mark.parametrize("name", names())
def test_a_paper_loads_and_has_headline_claims(name):
    paper = load_paper(name)
    assert any(claim.headline for table in paper.tables.values() for claim in table.claims)


@pytest.mark.parametrize("name", names())
def test_the_docs_list_every_table(name):
    docs = (Path(__file__).parents[3] / "docs" / "records" / "paper-tables.md").read_text("utf-8")
    assert f"\n\n{listed_tables(name)}\n" in docs, "run python benchmarks/claims_page.py"


@pytest.mark.parametrize(("paper", "name"), TABLES)
def test_every_claim_can_be_tested_or_says_why_not(paper, name):
    for claim in find_table(f"{paper}/{name}").claims:
        assert claim.comparisons or {"small", "paper"} <= set(claim.not_testable), claim.text
        assert set(claim.not_testable) <= set(SCALES), claim.text


@pytest.mark.parametrize(("paper", "name"), TABLES)
def test_the_printed_numbers_bear_a_claim_out_or_a_note_says_so(paper, name):
    table = find_table(f"{paper}/{name}")
    for claim in table.claims:
        outcomes = [held for one in claim.comparisons if (held := printed_outcome(table, one)) is not None]
        lost = len(claim.comparisons) - (claim.at_least or len(claim.comparisons))
        if outcomes.count(False) > lost:
            assert claim.note is not None, claim.text


def printed_outcome(table: PaperTable, one: Comparison) -> bool | None:
    """Whether the first of the paper's own cells is better; None where one of them is not printed."""
    column, than_column = table.column(one.column), table.column(one.than_column or one.column)
    first = printed_gain(table, one.row, one.over, column)
    over = one.than_over or one.over
    other = printed_gain(table, one.than, over, than_column) if isinstance(one.than, str) else one.than
    if first is None or other is None:
        return None
    other *= one.times
    better = one.better or column.better
    if better == "human":
        (human,) = [row for row in table.rows if table.address(row, column).method == "human"]
        goal = printed_number(table, human, column)
        return None if goal is None else abs(first - goal) < abs(other - goal)
    return first > other if better == "higher" else first < other


def printed_gain(table: PaperTable, row: str, over: str | None, column: PaperColumn) -> float | None:
    numbers = [printed_number(table, table.row(title), column) for title in (row, over) if title is not None]
    return None if None in numbers else numbers[0] - sum(numbers[1:])


def printed_number(table: PaperTable, row: PaperRow, column: PaperColumn) -> float | None:
    value = table.printed(row, column)
    return value if isinstance(value, float) else None


@pytest.mark.parametrize(("paper", "name"), TABLES)
def test_a_claim_is_one_statement_and_what_is_no_order_is_not_read_off(paper, name):
    for claim in find_table(f"{paper}/{name}").claims:
        assert ";" not in claim.text, claim.text
        assert "read it off" not in " ".join(claim.not_testable.values()), claim.text


@pytest.mark.parametrize(("paper", "name"), TABLES)
def test_what_is_compared_says_which_way_is_better(paper, name):
    table = find_table(f"{paper}/{name}")
    for claim in table.claims:
        for one in claim.comparisons:
            assert one.better or table.column(one.column).better, one.column


@pytest.mark.parametrize("name", names())
def test_what_is_said_to_be_printed_stands_in_the_paper(name):
    file = next(iter(SHARED.glob(f"{name}*.txt")), None)
    if file is None:
        pytest.skip(f"no text of the paper in {SHARED}; set NEXTWORD_PAPERS to a folder that has {name}.txt")
    text = file.read_text(encoding="utf-8")
    known, words = numbers_of(text), plain(text)
    unknown = [
        f"{where}: {value}"
        for where, value in printed_values(load_paper(name))
        if (value not in known if isinstance(value, float) else plain(value) not in words)
    ]
    assert not unknown


def printed_values(paper: Paper) -> list[tuple[str, float | str]]:
    return [
        (f"{name}, {row.title}", value)
        for name, table in paper.tables.items()
        for row in table.rows
        for value in [*row.values, *row.spreads]
        if not (isinstance(value, float) and isnan(value))
    ]


NUMBERS_IN_WORDS = {"half an hour": 0.5, "an hour": 60.0, "24GB": 24.0}


def numbers_of(text: str) -> set[float]:
    """All numbers of a text: 1,234.5 and 1e-5, in words too where the papers have them so."""
    found = re.findall(r"(?<![\d.])\d[\d,]*\.?\d*(?:e-?\d+)?|(?<!\d)\.\d+", text)
    found += re.findall(r"\d+(?:\.\d+)?(?=_\{)", text)
    return {float(one.replace(",", "")) for one in found} | {
        value for words, value in NUMBERS_IN_WORDS.items() if words in text
    }


def plain(text: str) -> str:
    """Without the marks of a converted text."""
    return re.sub(r"\s+|[*_$\\{}]|</?[a-z]{1,3}>", "", text).lower()


# -- addresses


@pytest.mark.parametrize(("paper", "name"), TABLES)
def test_a_section_is_one_of_the_report_s(paper, name):
    section = find_table(f"{paper}/{name}").section
    report = resources.files("nextword.results.report")
    page = (report / "comparison" / "page.py").read_text("utf-8")
    templates = "".join(entry.read_text("utf-8") for entry in (report / "templates").iterdir() if entry.is_file())
    assert section is None or f'id="{section}"' in templates or f'_figure("{section}"' in page


@cache
def comparison(experiment: str, scale: Scale) -> CompareConfig | None:
    """What an experiment runs at a scale; its data is not looked for."""
    one = find_experiment(experiment).at(scale)
    if one is None:
        return None
    data = [f"{key}={json.dumps(path)}" for key, path in one.data.items()]
    return configured(recipe_of(one), [*one.overrides, *data])


def addresses(scale: Scale) -> list[tuple[str, Address]]:
    """Every address of a cell at a scale with its table."""
    return [
        (f"{paper}/{name}", table.address(*place))
        for paper, name in TABLES
        for table in [find_table(f"{paper}/{name}").at(scale)]
        for place in table.places
    ]


BY_EXPERIMENT: dict[tuple[str, Scale], list[tuple[str, Address]]] = defaultdict(list)
for scale in SCALES:
    for where, address in addresses(scale):
        for name in (address.experiment, address.plus):
            if name is not None and find_experiment(name).at(scale) is not None:
                BY_EXPERIMENT[name, scale].append((where, address))


@pytest.mark.parametrize(("paper", "name"), TABLES)
def test_every_experiment_that_a_table_names_is_known(paper, name):
    for experiment in find_table(f"{paper}/{name}").experiments:
        assert find_experiment(experiment).title


@pytest.mark.parametrize(("experiment", "scale"), BY_EXPERIMENT)
def test_methods_and_decodings_of_addresses_are_those_of_the_experiment(experiment, scale):
    config = comparison(experiment, scale)
    methods = {method.title for method in config.methods} | {"human"}
    writing = getattr(validated(task_settings(config), config.task_settings, "task"), "generation", None)
    texts = writing.texts() if hasattr(writing, "texts") else None
    titles = None if texts is None else [decoding.title for decoding in texts.decodings]
    for where, address in BY_EXPERIMENT[experiment, scale]:
        assert address.method is None or address.method in methods, where
        if address.decoding and titles is not None:
            assert address.decoding.removesuffix(WITH_PROMPT) in titles, where
        kind, _, rival = (address.measure or "").partition(".")
        assert kind != "duel" or rival in methods, where


def test_a_table_may_be_filled_by_another_experiment_at_one_scale():
    table = find_table("f2-softmax/table-1a")
    assert table.experiments == table.at("small").experiments == table.at("paper").experiments == ["f2-wikitext"]
    assert table.at("pretrained").experiments == ["f2-pretrained"]
    assert {table.at(scale).decoding for scale in SCALES} == {"top-k 3"}


@pytest.mark.parametrize("name", ["histalign/table-8", "f2-softmax/table-7"])
def test_at_the_papers_scale_an_update_has_as_many_rows_as_printed(name):
    table = find_table(name)
    batches = [
        (place, address) for place in table.places if (address := table.address(*place)).measure == "batch.training"
    ]
    assert batches
    for place, address in batches:
        ours = cell_value(address, ExperimentResults(settings_of(comparison(address.experiment, "paper")))).value
        assert ours == table.printed(*place), address.experiment


def test_the_overhead_of_histalign_is_the_newest_of_the_benchmark():
    file = Path(__file__).parents[3] / "benchmarks" / "data" / "training_cost.csv"
    with file.open(encoding="utf-8", newline="") as rows:
        ratios = [float(row["time_ratio"]) for row in csv.DictReader(rows) if row["model"] == "cache/histalign"]
    (row,) = [row for row in find_table("histalign/training-times").rows if row.elsewhere]
    assert row.elsewhere == {"TRIME": 100.0, "HISTALIGN": pytest.approx(100 * ratios[-1])}


@pytest.mark.parametrize(("experiment", "scale"), BY_EXPERIMENT)
def test_settings_of_addresses_are_settings(experiment, scale):
    config = comparison(experiment, scale)
    parts = {"training": TrainingSettings, "second_training": TrainingSettings, "task": task_settings(config)}
    for where, address in BY_EXPERIMENT[experiment, scale]:
        kind, _, path = (address.measure or "").partition(".")
        if kind == "setting":
            part, *names = path.split(".")
            settings = parts[part]
            for name in names:
                assert name in settings.model_fields, f"{where}: {path}"
                settings = settings.model_fields[name].annotation


def task_settings(config: CompareConfig):
    from nextword.experiments.tasks import registry

    return registry.get(config.task).Config
