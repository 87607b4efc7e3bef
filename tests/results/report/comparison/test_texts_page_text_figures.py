from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from nextword.results.records import Results, RunRecord
from nextword.results.report.comparison.main_table import Sweep, sweep
from nextword.results.report.comparison.methods import methods
from nextword.results.report.comparison.texts_page import GROUPS, class_sweep, frequency_groups
from tests.helpers.made_up_results import make_sample
from tests.helpers.written_results import METHODS, comparison, evaluation, human_file, paper_system, run, swept


def found(results: Results) -> Sweep:
    shown = sweep(results, methods(results))
    assert shown is not None
    return shown


def words(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter("text")]


def without(results: Results, *keys: str) -> Results:
    texts = {
        title: one.model_copy(update={"measures": {k: m for k, m in one.measures.items() if k not in keys}})
        for title, one in results.texts.items()
    }
    return results.model_copy(update={"texts": texts})


@pytest.mark.filterwarnings("error")
def test_frequency_groups_have_a_panel_a_decoding_and_a_bar_a_method() -> None:
    results = comparison(seeds=(1, 2))
    svg = frequency_groups(results, methods(results))
    assert svg is not None
    there = words(svg)
    assert {"greedy", "top-k 3", "frequent", "medium", "rare", "very rare", "human", "% of generated tokens"} <= set(
        there
    )
    assert all(there.count(label) == 1 for label, _, _ in METHODS)  # in the legend


def test_heights_of_bars_are_the_shares() -> None:
    """Read back from the drawing: group by group, the methods' bars stand over each other as their shares do."""
    results = comparison(decodings=("greedy",))
    svg = frequency_groups(results, methods(results))
    assert svg is not None
    heights = []
    for path in ET.fromstring(svg).iter("path"):
        corners = [float(y) for _, y in re.findall(r"[ML] ([\d.]+) ([\d.]+)", path.get("d", ""))]
        if path.get("clip-path") and len(corners) == 4:
            heights.append(max(corners) - min(corners))
    systems = results.texts["greedy"].systems
    shares = [system.values[key].value for key in GROUPS for system in systems]
    assert heights == pytest.approx([heights[0] / shares[0] * share for share in shares], rel=1e-3)


def test_figures_are_left_out_where_their_data_is() -> None:
    results = comparison()
    assert frequency_groups(without(results, "share-rare"), methods(results)) is None
    assert frequency_groups(results.model_copy(update={"texts": {}}), methods(results)) is None
    assert sweep(results, methods(results)) is None  # one number of classes
    assert sweep(make_sample(), methods(make_sample())) is None


def test_sweep_sorts_methods_into_lines_stars_and_across() -> None:
    shown = found(swept())
    assert [(name, [point.classes for point in points]) for name, points in shown.lines] == [
        ("eq-freq", [4, 8, 32]),
        ("eq-token", [4, 16]),
    ]
    assert [point.method.label for point in shown.lines[0][1]] == ["eq-freq 4", "eq-freq 8", "eq-freq 32"]
    assert [(point.classes, point.method.label) for point in shown.chosen] == [(10, "F2-Softmax")]
    assert [method.label for method in shown.flat] == ["MLE"]
    assert shown.left_out == ()


def test_sweep_shows_the_first_decoding_that_samples() -> None:
    assert found(swept(decodings=("greedy", "top-k 20", "top-k 5"))).decoding == "top-k 20"
    assert found(swept(decodings=("greedy",))).decoding == "greedy"


def test_sweep_reads_the_values_of_its_decoding() -> None:
    results = swept(seeds=(1, 2))
    shown = found(results)
    assert [quantity.title for quantity in shown.quantities] == [
        "ref. PPL ↓", "KLD ↓", "MS-Jaccard-2 ↑", "Self-BLEU-2 →", "Distinct-2 →", "Rep →", "Uniq →",
    ]  # fmt: skip
    by_title = {quantity.title: quantity for quantity in shown.quantities}
    systems = {system.name: system for system in results.texts["top-k 20"].systems}
    for label, one in systems.items():
        reading = by_title["Distinct-2 →"].values[label]
        seeds = [100 * file.values["distinct-2"].value for file in one.files]
        assert reading.mean == pytest.approx(sum(seeds) / 2)
        assert reading.ends == pytest.approx((min(seeds), max(seeds)))
        assert by_title["ref. PPL ↓"].values[label].mean == pytest.approx(one.values["perplexity"].value)
    assert by_title["Distinct-2 →"].human == pytest.approx(92.1)
    assert by_title["KLD ↓"].human is None  # 0 by construction, and nothing to come close to


def test_sweep_without_texts_shows_the_runs_own_perplexity() -> None:
    results = swept(seeds=(1, 3)).model_copy(update={"texts": {}})
    shown = found(results)
    (quantity,) = shown.quantities
    assert (shown.decoding, quantity.title, quantity.unit) == ("", "test PPL ↓", "per token")
    assert (quantity.values["MLE"].mean, quantity.values["MLE"].ends) == (32.0, (31.0, 33.0))


def test_heads_and_objectives_that_differ_otherwise_share_no_line() -> None:
    results = swept()
    facts = {"division": "eq-freq", "classes": 4}
    others = [
        run(("face 4", "f2:4", "face:opr"), 1, facts),
        run(("mi 4", "f2:4+mi", "mle"), 1, facts),
        run(("same 4", "f2:4", "mle"), 1, facts),
        run(("odd", "f2:4", "mle"), 1, {"division": 3, "classes": "many"}),
    ]
    shown = found(results.model_copy(update={"runs": [*results.runs, *others]}))
    assert [(name, [p.method.label for p in points]) for name, points in shown.lines][2:] == [
        ("eq-freq", ["face 4"]),
        ("eq-freq", ["mi 4"]),
    ]
    assert shown.left_out == ("same 4",)


def test_methods_that_differ_in_settings_without_a_spec_share_no_line() -> None:
    def with_settings(label: str, classes: int, **settings: object) -> RunRecord:
        head = {"head": "f2", "classes": classes, "division": "eq-freq", **settings.pop("head", {})}  # type: ignore[dict-item]
        said = {"method": {"head": head, "label": label, "from_scratch": False, "generation": {}, **settings}}
        one = run((label, f"f2:{classes}", "mle"), 1, {"division": "eq-freq", "classes": classes})
        return one.model_copy(update={"settings": said})

    runs = [
        with_settings("4", 4),
        with_settings("8", 8, note="as many again"),
        with_settings("16", 16, from_scratch=True),
        with_settings("32", 32, generation={"decoupled": False}),
        with_settings("64", 64, head={"start": "random"}),
    ]
    shown = found(swept().model_copy(update={"runs": runs, "texts": {}}))
    lines = [[point.method.label for point in points] for _, points in shown.lines]
    assert lines == [["4", "8"], ["16"], ["32"], ["64"]]


@pytest.mark.filterwarnings("error")
def test_sweep_names_everything_it_draws() -> None:
    svg = class_sweep(found(swept(seeds=(1, 2))))
    there = words(svg)
    assert {"eq-freq", "eq-token", "F2-Softmax (chosen)", "MLE", "human", "number of classes", "32"} <= set(there)
    assert there.count("ref. PPL ↓") == 1
    assert "http" not in svg


def test_a_method_without_a_value_is_not_drawn() -> None:
    systems = [paper_system("MLE"), paper_system("F2-Softmax")]
    results = swept()
    results = results.model_copy(update={"texts": {"greedy": evaluation(systems, human_file())}})
    quantity = found(results).quantities[0]
    assert set(quantity.values) == {"MLE", "F2-Softmax"}
    assert class_sweep(found(results))
