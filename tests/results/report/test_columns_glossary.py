from __future__ import annotations

import re

import pytest

from nextword.results.records import Measure
from nextword.results.report.columns import GlossaryEntry, of_measures, of_metrics, of_texts
from nextword.results.report.comparison.main_table import sheets
from nextword.results.report.comparison.method_tables import main_table, subset_table
from nextword.results.report.comparison.methods import methods
from tests.helpers.expanded_results import expansion
from tests.helpers.made_up_results import make_sample
from tests.helpers.report_pages import drawn
from tests.helpers.written_results import comparison


def terms(page: str) -> list[str]:
    """Of the glossaries that are open; one behind a click is of measures without a column."""
    return re.findall(r"<dt>([^<]*)</dt><dd>", re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL))


@pytest.mark.slow
def test_each_measure_is_explained_once_on_a_page() -> None:
    for results in (make_sample(), make_sample(seeds=(1, 2)), comparison(), expansion()):
        page = drawn(results)
        found = [term for term in terms(page) if term not in ("Command", "Data", "Start", "Seeds")]
        assert len(found) == len(set(found)) > 0
    page = drawn(make_sample())
    for explained in (
        "share of prompts whose correct words",
        "negative log-likelihood of",
        "singular values of the log-",
    ):
        assert page.count(explained) == 1


def test_columns_that_differ_in_setting_or_threshold_share_an_entry() -> None:
    results = make_sample()
    entries = of_metrics([*main_table(results).columns, *subset_table(results).columns])
    assert [entry.term for entry in entries] == ["Acc@k", "NLL", "Rank"]
    assert [entry.units for entry in entries] == [
        (),
        ("nats per target (ln 2 is perfect)",),
        ("singular values above the tolerance, 4750 x 50257 matrix",),
    ]


def test_units_that_differ_say_of_which_column_they_are() -> None:
    results = make_sample(methods=[("a", "softmax", "mle", None)])
    run = results.runs[0]
    metrics = dict(run.evaluation.metrics)
    metrics["rank@default"] = metrics["rank@default"].model_copy(update={"unit": "singular values above another one"})
    run = run.model_copy(update={"evaluation": run.evaluation.model_copy(update={"metrics": metrics})})
    *_, rank = of_metrics(main_table(results.model_copy(update={"runs": [run]})).columns)
    assert rank.units == (
        "singular values above the tolerance, 4750 x 50257 matrix (at 1e-3)",
        "singular values above another one (at default)",
    )


def test_lengths_of_ngrams_are_one_entry() -> None:
    results = comparison()
    (first, *_) = sheets(results, methods(results))
    found = {entry.term: entry for entry in of_texts(first.table.columns)}
    assert list(found)[1:] == [
        "KLD (KL(human || generated))",
        "MS-Jaccard",
        "Self-BLEU",
        "Distinct",
        "Rep",
        "Uniq (uniq-seq)",
    ]
    assert found["Distinct"] == GlossaryEntry("Distinct", "explained.", ("% of n-grams",))


def test_lengths_that_mean_different_things_stay_apart() -> None:
    words = {"rouge-1": "single words", "rouge-2": "pairs of words"}
    measures = {
        key: Measure(
            title=key.upper(), group="g", unit="fraction", goal="higher", meaning=f"{key.upper()}: {words[key]}."
        )
        for key in words
    }
    assert [(one.term, one.meaning) for one in of_measures(measures)] == [
        ("ROUGE-1", "single words."),
        ("ROUGE-2", "pairs of words."),
    ]


def test_a_texts_perplexity_is_told_from_the_tasks() -> None:
    found = terms(drawn(comparison()))
    assert {"Perplexity", "PPL of refer\N{SOFT HYPHEN}ences"} <= set(found)
    page = drawn(comparison())
    assert "per token of the test text" in page
    assert "not of generated text" in page
