"""The table of the paper of conditional summaries: blocks without and with a prompt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nextword.results.records import Results
from nextword.results.report import write_report
from nextword.results.report.columns import CONTINUATIONS, EXPANSIONS, layout_of
from nextword.results.report.comparison.main_table import Sheet, in_order, sheets
from nextword.results.report.comparison.methods import methods
from tests.helpers import written_results
from tests.helpers.expanded_results import (
    CONDITIONERS,
    KEYS,
    MEASURES,
    PROMPTED,
    STEERING,
    TITLES,
    WAY,
    WITH,
    WITHOUT,
    evaluation,
    expansion,
    run,
)
from tests.helpers.report_pages import drawn, headings, read, shown, tables

SHARES = ("rouge-1", "rouge-2", "rouge-l")


def only_sheet(results: Results) -> Sheet:
    (sheet,) = sheets(results, methods(results))
    return sheet


def as_shown(key: str, number: float) -> str:
    """A number of the paper as its measure is shown, by other means than the report."""
    return f"{number * 100:.1f}" if key in SHARES else f"{number:.{MEASURES[key].decimals}f}"


@pytest.fixture(scope="module")
def page() -> str:
    return drawn(expansion())


def test_columns_and_blocks_are_those_of_the_paper() -> None:
    sheet = only_sheet(expansion())
    assert [column.key for column in sheet.table.columns] == list(KEYS)
    assert [column.title for column in sheet.table.columns] == list(TITLES)
    assert [block.title for block in sheet.table.blocks] == ["without prompt", "with prompt"]
    assert sheet.title == WAY
    assert [[row.label for row in block.rows] for block in sheet.table.blocks] == [list(WITHOUT), list(WITH)]


def test_every_value_of_the_paper_stands_in_its_own_cell() -> None:
    sheet = only_sheet(expansion())
    for numbers, table in zip((WITHOUT, WITH), sheet.table.blocks, strict=True):
        expected = {
            label: [as_shown(key, number) for key, number in zip(KEYS, row, strict=True)]
            for label, row in numbers.items()
        }
        assert {row.label: [cell.text for cell in row.cells] for row in table.rows} == expected


def test_best_by_goal_of_each_block_apart() -> None:
    sheet = only_sheet(expansion())
    best = [
        {
            title: [row.label for row in table.rows if row.cells[place].best]
            for place, title in enumerate(TITLES)
        }
        for table in sheet.table.blocks
    ]  # fmt: skip
    assert best == [
        {
            TITLES[0]: ["DAU avg"], "ROUGE-1": ["GPT-2"], "ROUGE-2": ["GPT-2"], "ROUGE-L": ["LMH avg"],
            "LDA + JSD": ["BERGPT"],
        },
        {
            TITLES[0]: ["DAU avg"], "ROUGE-1": ["GPT-2"], "ROUGE-2": ["GPT-2"], "ROUGE-L": ["GPT-2"],
            "LDA + JSD": ["GPT-2"],
        },
    ]  # fmt: skip


def test_seeds_and_intervals() -> None:
    table = only_sheet(expansion()).table
    assert [cell.spread for cell in table.rows[0].cells] == [
        "", "16.1–17.8", "1.0–1.2", "11.9–13.2", "0.737–0.814",
    ]  # fmt: skip
    sheet = only_sheet(expansion(seeds=(1, 2)))
    assert sheet.several
    table = sheet.table
    assert table.rows[0].cells[0].text == f"{22.603273 * 1.005:.2f}"
    assert table.rows[0].cells[0].spread == "22.60–22.83"


@pytest.mark.slow
def test_people_have_no_row_where_all_is_nearness_to_them(page: str) -> None:
    sheet = only_sheet(expansion())
    assert not sheet.human
    assert all(table.human is None for table in sheet.table.blocks)
    text = read(page).text
    assert "the closer to the human row" not in text
    assert "All measures, top-k 40, with prompt" in text
    every = tables(page, "quantities")
    assert sum("human" in table[0] for table in every) == 2  # all measures, one click away


def test_what_one_block_lacks_is_a_dash_there() -> None:
    results = expansion()
    fewer = evaluation(WITHOUT, (1,), keys=KEYS[:-1], people=False)
    sheet = only_sheet(results.model_copy(update={"texts": {PROMPTED: results.texts[PROMPTED], WAY: fewer}}))
    assert [column.key for column in sheet.table.columns] == list(KEYS)
    without, prompted = sheet.table.blocks
    assert {row.cells[-1].text for row in without.rows} == {"\N{EN DASH}"}
    assert [row.cells[-1].text for row in prompted.rows] == [as_shown("topics-jsd", row[-1]) for row in WITH.values()]


@pytest.mark.parametrize("way", [WAY, PROMPTED])
def test_one_of_the_two_alone_is_an_ordinary_table(way: str) -> None:
    results = expansion()
    sheet = only_sheet(results.model_copy(update={"texts": {way: results.texts[way]}}))
    assert sheet.title == way
    assert [block.title for block in sheet.table.blocks] == [""]


def test_ways_keep_their_order_with_greedy_first() -> None:
    one = expansion().texts[WAY]
    titles = ["top-k 40, with prompt", "greedy, with prompt", "beam 4", "top-k 40", "greedy"]
    results = expansion().model_copy(update={"texts": dict.fromkeys(titles, one)})
    assert [title for title, _ in in_order(results)] == [
        "greedy", "greedy, with prompt", "top-k 40", "top-k 40, with prompt", "beam 4",
    ]  # fmt: skip
    assert [sheet.title for sheet in sheets(results, methods(results))] == ["greedy", "top-k 40", "beam 4"]


def test_layout_is_the_one_with_a_place_for_most_measures() -> None:
    assert layout_of(MEASURES) is EXPANSIONS
    assert layout_of(written_results.MEASURES) is CONTINUATIONS
    assert layout_of(written_results.MEASURES | MEASURES) is CONTINUATIONS
    assert layout_of({"perplexity": MEASURES["perplexity"]}) is CONTINUATIONS


def test_heading_tells_which_rouge_it_is() -> None:
    units = [column.short_unit for column in only_sheet(expansion()).table.columns]
    assert units == ["per token", "%, F1", "%, F1", "%, F1", "bits"]
    recall = MEASURES["rouge-1"].model_copy(update={"unit": "fraction (recall, no stems, a-z and 0-9)"})
    (column,) = EXPANSIONS.columns({"rouge-1": recall})
    assert column.short_unit == "%, recall"


def test_table_on_the_page(page: str) -> None:
    assert headings(page) == [
        "Results", "Texts", "Cost", "Likelihood", "Steering", "Learning curves", "Details", "Run it again",
    ]  # fmt: skip
    (table,) = tables(page, "paper")
    assert table[0] == [
        "Method", f"{TITLES[0]} ↓", "ROUGE-1 ↑", "ROUGE-2 ↑", "ROUGE-L ↑", "LDA + JSD ↓",
    ]  # fmt: skip
    assert [row[0] for row in table[1:]] == ["without prompt", *WITHOUT, "with prompt", *WITH]
    assert table[3] == ["DAU avg", "★21.91", "13.5", "0.6", "10.8", "0.767"]
    assert table[9] == ["GPT-2", "17.82", "★22.0", "★2.6", "★17.2", "★0.568"]
    text = read(page).text
    assert "with prompt: the summary also stands before the text" in text
    assert "best of its column and block" in text


def test_likelihoods_and_steering_have_columns(page: str) -> None:
    likelihood, others = tables(page, "quantities")[:2]
    assert likelihood[0] == ["", "Likelihood"]
    assert others[0] == ["", "Likelihood, with prompt", "Steering", "Steering, with prompt"]
    assert likelihood[1][1:] == ["perplexity ↓", "bits per byte ↓", "NLL ↓"]
    assert others[1][1:] == ["perplexity ↓", "NLL ↓", "steering ↑", "steering ↑"]
    assert (likelihood[2][1:], others[2][1:]) == (["22.60", "1.100", "3.118"], ["17.82", "2.880", "–", "0.031"])
    assert (likelihood[7][1:], others[7][1:]) == (["34.20", "1.100", "3.532"], ["30.71", "3.425", "0.104", "0.031"])
    text = read(page).text
    assert "0.064–0.144" in text  # intervals of one seed
    assert "-0.009 to 0.071" in text
    assert f"Unit: {STEERING}." in text
    assert "By kind of case" not in text


def test_conditioner_stands_beside_head_and_objective(page: str) -> None:
    text = read(page).text
    assert "head · objective · conditioner" in text
    for conditioner in filter(None, CONDITIONERS.values()):
        assert f"softmax · mle · {conditioner}" in text
    plain = expansion().model_copy(update={"runs": [run("GPT-2", 1)], "texts": {}})
    assert "conditioner" not in read(drawn(plain)).text


def test_untrained_methods_are_told_and_have_no_curve(page: str) -> None:
    text = read(page).text
    assert "6 next-word methods were measured on the task" in text
    assert "All of them started from the same model; 5 of them were trained, with the same batches." in text
    cost = next(table for table in tables(page, "quantities") if "trained" in table[0])
    assert cost[1][1:] == ["30.0 M", "0", "–", "–", "–"]
    results = expansion()
    untrained = [one for one in results.runs if one.method == "GPT-2"]
    twice = [*untrained, *(one.model_copy(update={"method": "GPT-2 again"}) for one in untrained)]
    page = drawn(results.model_copy(update={"runs": twice, "texts": {}}))
    assert "Learning curves" not in headings(page)
    assert "None of them was trained; all use the same model." in read(page).text


def test_terminal_has_both_blocks_and_fits() -> None:
    text = shown(expansion())
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    block, prompted = text.split("without prompt")[1].split("with prompt")
    assert re.search(r"DAU avg +21\.91\* +13\.5 +0\.6 +10\.8 +0\.767", block)
    assert re.search(r"GPT-2 +17\.82 +22\.0\* +2\.6\* +17\.2\* +0\.568\*", prompted)
    assert "* best of its column and block" in prompted
    assert re.search(r"GPT-2 +22\.60 +1\.100 +17\.82 +– +0\.031 +0 +– +–", text)
    assert re.search(r"BERGPT +34\.20 +1\.100 +30\.71 +0\.104 +0\.031 +1\.20 M", text)
    assert "conditioned" not in text


@pytest.mark.slow
@pytest.mark.figures
def test_results_from_a_file_make_the_same_page(page: str, tmp_path: Path) -> None:
    expansion().save(tmp_path / "results.json")
    write_report(Results.load(tmp_path / "results.json"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
