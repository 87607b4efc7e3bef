from __future__ import annotations

from collections.abc import Callable

import pytest

from nextword.results.records import Cost, Evaluation, MetricValue, Results, RunRecord
from nextword.results.report.comparison.method_tables import cost_table, every_seed, main_table, parts, subset_table
from nextword.results.report.table import Cell, ReportTable

Sample = Callable[..., Results]


def with_runs(results: Results, *runs: RunRecord) -> Results:
    return results.model_copy(update={"runs": list(runs), "seeds": sorted({run.seed for run in runs})})


def run(method: str, seed: int = 1, **metrics: MetricValue) -> RunRecord:
    return RunRecord(
        method=method,
        head="softmax",
        objective="mle",
        seed=seed,
        evaluation=Evaluation(metrics=dict(metrics)),
        cost=Cost(parameters=1234, trained_parameters=0),
    )


def number(value: float, unit: str = "nats per token", n: int = 10, half: float | None = None) -> MetricValue:
    low, high = (None, None) if half is None else (value - half, value + half)
    return MetricValue(value=value, unit=unit, n=n, low=low, high=high)


def column(table: ReportTable, title: str) -> list[Cell]:
    place = [c.title for c in table.columns].index(title)
    return [row.cells[place] for row in table.rows]


def test_best_is_highest_where_higher_is_better_and_lowest_where_lower_is(sample: Sample) -> None:
    low = run("low", **{"acc@1": number(0.1, "fraction"), "nll": number(1.0), "rank@default": number(5)})
    high = run("high", **{"acc@1": number(0.2, "fraction"), "nll": number(2.0), "rank@default": number(9)})
    table = main_table(with_runs(sample(), low, high))
    assert [cell.best for cell in column(table, "Acc@1")] == [False, True]
    assert [cell.best for cell in column(table, "NLL")] == [True, False]
    assert [cell.best for cell in column(table, "at default")] == [False, False]


def test_ties_are_all_best_but_not_when_all_are_alike(sample: Sample) -> None:
    runs = [run("a", nll=number(1.0)), run("b", nll=number(1.0)), run("c", nll=number(2.0))]
    assert [cell.best for cell in column(main_table(with_runs(sample(), *runs)), "NLL")] == [True, True, False]
    assert not main_table(with_runs(sample(), *runs[:2])).has_best


def test_seeds_are_averaged_plainly_and_each_is_kept(sample: Sample) -> None:
    runs = [run("a", 2, nll=number(4.0, half=0.5)), run("a", 1, nll=number(1.0, half=0.25))]
    (cell,) = column(main_table(with_runs(sample(), *runs)), "NLL")
    assert (cell.text, cell.value, cell.numbers, cell.seeds) == ("2.500", 2.5, (1.0, 4.0), ("1.000", "4.000"))
    assert every_seed(with_runs(sample(), *runs)) == [
        ("a", "Likelihood: NLL", "1", "1.000", "0.750–1.250", "10"),
        ("a", "Likelihood: NLL", "2", "4.000", "3.500–4.500", "10"),
    ]
    assert cell.interval == ""  # the intervals of two seeds are not the interval of their mean


def test_best_is_judged_by_the_mean(sample: Sample) -> None:
    runs = [run("a", 1, nll=number(0.0)), run("a", 2, nll=number(9.0)), *(run("b", s, nll=number(1.0)) for s in (1, 2))]
    assert [cell.best for cell in column(main_table(with_runs(sample(), *runs)), "NLL")] == [False, True]


def test_a_value_that_lacks_seeds_says_so_and_is_never_best(sample: Sample) -> None:
    means = {"lucky": (0.5,), "good": (1.0, 2.0), "bad": (3.0, 4.0)}
    runs = [run(name, seed, nll=number(nll)) for name, values in means.items() for seed, nll in enumerate(values)]
    runs.append(run("lucky", 1, perplexity=number(2.0)))  # its second run has no NLL
    table = main_table(with_runs(sample(), *runs))
    found = [(cell.best, cell.lacking) for cell in column(table, "NLL")]
    assert found == [(False, "1 of 2 seeds"), (True, ""), (False, "")]
    assert table.has_lacking
    assert not main_table(sample(seeds=(1, 2))).has_lacking


def test_columns_that_need_their_group_name_have_it(sample: Sample) -> None:
    recall = number(0.5, "fraction of words")
    alone = with_runs(sample(), run("a", copy_recall=recall, rare_copy_recall=recall))
    assert [name for name, _ in subset_table(alone).headings] == ["Copying, rare"]
    assert subset_table(alone).shows_groups
    assert not main_table(alone).shows_groups
    assert not cost_table(alone).shows_groups
    assert main_table(sample()).shows_groups


def test_shares_are_percentages_and_other_numbers_are_not(sample: Sample) -> None:
    share, nats = number(0.5, "fraction of prompts", half=0.25), number(-0.5, half=0.25)
    table = main_table(with_runs(sample(), run("a", **{"acc@2": share, "nll": nats})))
    (accuracy,), (nll,) = column(table, "Acc@2"), column(table, "NLL")
    assert (accuracy.text, accuracy.interval) == ("50.0", "25.0–75.0")
    assert (nll.text, nll.interval) == ("-0.500", "-0.750 to -0.250")
    assert [c.short_unit for c in table.columns] == ["%", "nats per token"]
    assert table.columns[0].unit == "% of prompts"


def test_what_a_method_lacks_is_empty_and_never_best(sample: Sample) -> None:
    runs = [run("a", nll=number(1.0)), run("b", perplexity=number(3.0)), run("c", nll=number(2.0))]
    cells = column(main_table(with_runs(sample(), *runs)), "NLL")
    assert [(cell.text, cell.best) for cell in cells] == [("1.000", True), ("–", False), ("2.000", False)]


def test_runs_that_disagree_about_a_unit_are_shown_but_not_judged(sample: Sample) -> None:
    runs = [run("a", nll=number(1.0, "nats")), run("b", nll=number(0.5, "fraction"))]
    table = main_table(with_runs(sample(), *runs))
    assert table.columns[0].unit == "nats or fraction"
    assert [(cell.text, cell.best) for cell in column(table, "NLL")] == [("1.000", False), ("0.500", False)]


def test_number_of_cases_is_told(sample: Sample) -> None:
    runs = [run("a", nll=number(1.0, n=90)), run("b", nll=number(0.5, n=100))]
    assert main_table(with_runs(sample(), *runs)).columns[0].n == "n = 90 to 100"
    assert main_table(with_runs(sample(), runs[0])).columns[0].n == "n = 90"


def test_subsets_have_their_own_table(sample: Sample) -> None:
    assert {c.group for c in subset_table(sample()).columns} == {"Accuracy, people", "Accuracy, cache only, people"}
    assert not any("people" in c.group for c in main_table(sample()).columns)


def test_costs_nobody_has_are_left_out(sample: Sample) -> None:
    table = cost_table(with_runs(sample(), run("a")))
    assert [c.title for c in table.columns] == ["params", "trained"]
    assert [cell.text for cell in table.rows[0].cells] == ["1.23 k", "0"]


def test_groups_span_all_columns(sample: Sample) -> None:
    table = main_table(sample())
    assert sum(span for _, span in table.headings) == len(table.columns)
    assert sum(table.starts) == len(table.headings)
    assert dict(table.headings)["Accuracy"] == 5


@pytest.mark.parametrize(("count", "text"), [(999, "999"), (1234, "1.23 k"), (12_345, "12.3 k"), (1.2e9, "1.20 G")])
def test_counts(count: float, text: str) -> None:
    from nextword.results.report.formats import count as formatted

    assert formatted(count) == text


def test_wide_tables_are_cut_between_groups(sample: Sample) -> None:
    found = parts(main_table(sample()))
    assert [[name for name, _ in part.headings] for part in found] == [
        ["Accuracy"],
        ["Accuracy, cache only"],
        ["Likelihood", "Rank of log-probabilities"],
    ]
    assert [[row.label for row in part.rows] for part in found] == [list(labels(sample()))] * 3
    whole = main_table(sample())
    titles = [(column.group, column.title) for part in found for column in part.columns]
    assert titles == [(column.group, column.title) for column in whole.columns]
    assert tuple(cell for part in found for cell in part.rows[0].cells) == whole.rows[0].cells
    assert [bool(part.rows[0].made_of) for part in found] == [True, False, False]
    assert len(parts(main_table(sample(methods=[])))) <= 1


def labels(results: Results) -> dict[str, None]:
    return dict.fromkeys(run.method for run in results.runs)


def test_a_group_that_is_too_wide_is_cut_evenly(sample: Sample) -> None:
    metrics = {f"acc@{k}": number(0.5, "fraction of prompts") for k in range(1, 9)}
    found = parts(main_table(with_runs(sample(), run("a", **metrics))))
    assert [len(part.columns) for part in found] == [4, 4]
    assert [name for part in found for name, _ in part.headings] == ["Accuracy", "Accuracy"]
