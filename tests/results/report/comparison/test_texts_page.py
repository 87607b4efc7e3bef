from __future__ import annotations

import re
from pathlib import Path

import pytest

from nextword.results.records import PairRecord, Results, Span, WrittenExample, WrittenText
from nextword.results.report import write_report
from nextword.results.report.columns import REFERENCES
from nextword.results.report.comparison.methods import methods
from nextword.results.report.comparison.texts_page import heads
from tests.helpers.made_up_results import make_sample
from tests.helpers.report_pages import drawn, headings, read, shown, tables
from tests.helpers.written_results import (
    EXAMPLE,
    FACTS,
    KOREAN,
    METHODS,
    PAPER,
    SUMMARY,
    comparison,
    evaluation,
    file,
    human_file,
    paper_system,
    run,
    swept,
    system,
)


def with_texts(results: Results, **update: object) -> Results:
    texts = {title: one.model_copy(update=update) for title, one in results.texts.items()}
    return results.model_copy(update={"texts": texts})


@pytest.fixture(scope="module")
def page() -> str:
    """The page of the paper's comparison; drawing it takes a second."""
    return drawn(comparison())


@pytest.mark.figures
def test_page_has_the_sections_of_texts(page: str) -> None:
    assert headings(page) == [
        "Results", "Texts", "Cost", "Frequency groups", "Likelihood", "Texts to read", "Details", "Run it again",
    ]  # fmt: skip
    assert "Number of classes" in headings(drawn(swept()))
    read(page)


def test_page_without_texts_is_as_before() -> None:
    page = drawn(make_sample())
    assert not {"Texts", "Texts to read", "Frequency groups", "Number of classes"} & set(headings(page))
    assert "<h3>Heads</h3>" not in page
    assert "<mark" not in page


def test_main_table_on_the_page(page: str) -> None:
    greedy, sampled = tables(page, "paper")
    assert sampled[0] == ["", "", "MS-Jaccard", "Self-BLEU", "Distinct", ""]
    assert sampled[1][:4] == ["Method", f"PPL of {REFERENCES} ↓", "KLD ↓", "n = 1 ↑"]
    assert [row[0] for row in sampled[2:]] == [*PAPER, "human"]
    assert sampled[2] == [
        "MLE", "★24.70", "1.510", "52.1", "35.6", "24.3", "93.4", "83.2", "69.7", "45.1", "71.9", "83.0", "0.67",
        "8480",
    ]  # fmt: skip
    assert sampled[6][7:9] == ["★71.9", "★48.1"]
    assert sampled[7][:3] == ["human", "\N{EN DASH}", "0.000"]
    assert greedy[2][1] == "★25.19"  # moved by 2 %


def test_reasons_stand_on_the_page(page: str) -> None:
    assert '<abbr title="people have no probabilities">\N{EN DASH}</abbr>' in page
    assert "human (F2-Softmax-1.jsonl) has no likelihood: people have no probabilities" in read(page).text


def test_seeds_are_told_as_ranges(page: str) -> None:
    text = read(drawn(comparison(seeds=(1, 2)))).text
    assert "lowest and highest of them" in text
    assert "24.70\N{EN DASH}24.95" in text
    assert "bootstrap interval over samples" in read(page).text


def test_ranking_and_duels_of_every_decoding(page: str) -> None:
    rankings = [table for table in tables(page, "facets") if table[0][0] == "Rank"]
    duels = [table for table in tables(page, "facets") if table[0][:2] == ["System", "against"]]
    assert len(rankings) == len(duels) == 2
    assert rankings[0][1] == ["1", "F2-Softmax", "4", "0"]
    assert duels[0][1] == ["MLE", "FACE", "1", "6", "0"]
    assert "perplexity, Self-BLEU-3" in page
    alone = with_texts(comparison(decodings=("greedy",)), wins=None)
    assert not [table for table in tables(drawn(alone), "facets") if table[0][0] == "Rank"]


def test_significance_is_claimed_by_the_tests_only(page: str) -> None:
    pair = PairRecord(
        measure="rep", first="MLE", second="FACE", difference=-0.02, low=-0.03, high=-0.01,
        p_bootstrap=0.001, p_permutation=0.0004, p_holm=0.0008,
    )  # fmt: skip
    other = pair.model_copy(update={"measure": "vr"})
    results = with_texts(comparison(decodings=("greedy",)), tests=[pair, other], untested=None)
    tested = drawn(results)
    (tests,) = (table for table in tables(tested, "facets") if "p (Holm)" in table[0])
    assert tests[1:] == [["Rep", "MLE less FACE", "-2.00", "0.001", "0.0004", "0.0008"]]
    assert "<td>-2.00<small>-3.00 to -1.00</small></td>" in tested
    assert "2 tests: about" in tested
    assert "significant" not in tested.lower()
    assert "There are no paired tests: only made up." in page


def test_texts_to_read_mark_very_rare_tokens(page: str) -> None:
    assert 'with an <mark class="rare">&lt;eccentric&gt;</mark> lawyer &amp; a family that <mark' in page
    assert '<blockquote dir="auto">영화의 마지막 장면은</blockquote>' in page
    assert '<td dir="auto"> 너무 <mark class="rare">몽환적</mark></td>' in page
    english, korean = tables(page, "written")
    assert [row[0] for row in english] == ["Author", "human", "F2-Softmax"]
    assert [row[-1] for row in english] == ["VR", "0.0", "9.3"]
    assert korean[2][1:] == ["너무 몽환적", "50.0"]
    text = read(page).text
    assert text.index("greedy, seed 1") < text.index("top-k 3, seed 1")


@pytest.mark.slow
def test_marks_tell_repeated_words_names_and_what_is_copied() -> None:
    """A repeated word is told as repeated, a name or not; the legend has the marks that occur and no others."""
    page = drawn(comparison(written=(SUMMARY,)))
    read(page)
    assert (
        '<span class="copied">It ran for 26</span><span class="copied"> </span><span class="copied"><mark class="rare">'
        'ITV</mark></span> <mark class="word">vanished</mark> as <mark class="again">ITV</mark> '
        '<mark class="again">vanished</mark></td>'
    ) in page
    legend = re.search(r'<ul class="meanings marks">.*?</ul>', page, re.DOTALL)
    assert legend is not None
    assert re.findall(r'<(?:mark|span) class="(.*?)"', legend[0]) == ["rare", "word", "again", "copied"]
    plain = drawn(comparison(written=(KOREAN,)))
    legend = re.search(r'<ul class="meanings marks">.*?</ul>', plain, re.DOTALL)
    assert legend is not None
    assert re.findall(r'<(?:mark|span) class="(.*?)"', legend[0]) == ["rare"]


def test_a_source_stands_beside_its_texts_once() -> None:
    page = drawn(comparison(written=(SUMMARY, SUMMARY.model_copy(update={"decoding": "greedy"}))))
    section = page[page.index('<section id="written">') :]
    assert section.count("<blockquote") == 1
    assert re.findall(r"<h3>(.*?)</h3>", section[: section.index("</section>")]) == ["Source"]
    assert section.count('<div class="prompt beside">') == 1
    assert "A document, and what people and every method wrote of it." in section
    assert '<div class="prompt beside">' not in drawn(comparison())


def test_hostile_texts_are_text() -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></mark>"
    example = WrittenExample(
        prompt=evil,
        decoding=evil,
        seed=1,
        texts=[WrittenText(author=evil, spans=[Span(text=evil, very_rare=True)], very_rare=1.0)],
    )
    systems = [system(evil, file(evil, {"rep": 0.1}, {evil: evil})), paper_system("MLE")]
    texts = evaluation(systems, human_file()).model_copy(update={"left_out": {evil: evil}, "untested": evil})
    runs = [run((evil, evil, evil), 1, {evil: evil}), run(METHODS[0], 1)]
    page = drawn(comparison().model_copy(update={"texts": {evil: texts}, "written": [example], "runs": runs}))
    reader = read(page)
    assert "<script" not in page
    assert "<img" not in page
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    assert reader.text.count(evil) >= 8


def test_heads_say_what_they_are() -> None:
    results = comparison(seeds=(1, 2))
    told = "classes: 10; division: mefmax; boundaries: [12, 60, 180, 420, 900, 1800, 3600, 7200, 15000, 30000]"
    assert heads(methods(results)) == [("F2-Softmax", told)]
    assert told in read(drawn(results)).text
    runs = [run(METHODS[4], 1, FACTS), run(METHODS[4], 2, {"classes": 11})]
    differing = methods(results.model_copy(update={"runs": runs}))
    assert heads(differing) == [("F2-Softmax, seed 1", told), ("F2-Softmax, seed 2", "classes: 11")]


@pytest.mark.slow
@pytest.mark.figures
def test_page_is_light_and_needs_nothing() -> None:
    page = drawn(comparison(seeds=(1, 2), decodings=("greedy", "top-k 3", "top-k 5", "top-k 10", "top-k 20")))
    assert len(page) < 400_000
    assert page.count("<svg") <= 15
    assert "http" not in page
    assert not re.findall(r"url\((?!#)", page)


@pytest.mark.slow
@pytest.mark.figures
def test_results_from_a_file_make_the_same_page(page: str, tmp_path: Path) -> None:
    results = comparison()
    results.save(tmp_path / "results.json")
    write_report(Results.load(tmp_path / "results.json"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


def test_terminal_has_the_first_decoding_in_short() -> None:
    text = shown(comparison(decodings=("top-k 3", "greedy", "top-k 5")))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "Texts, greedy" in text
    assert re.search(r"MLE +25\.19\* +1\.540 +36\.3 +84\.9 +73\.3 +0\.68 +8650", text)
    assert re.search(r"UL-token\+seq +28\.05 +1\.357 +36\.1 +85\.1 +88\.3 +0\.11\* +10812", text)
    assert re.search(r"human +\N{EN DASH} +0\.000 +100\.0 +74\.1 +92\.1 +0\.11 +15200", text)
    assert re.search(r"intervals, ranking, top-k 3,\s+top-k 5", text)
    assert "Texts" not in shown(make_sample())


def test_terminal_tells_of_seeds() -> None:
    results = comparison(seeds=(1, 2), decodings=("greedy",))
    assert "mean over seeds; * best of its column" in shown(results)
    fewer = evaluation(
        [paper_system("MLE"), paper_system("FACE", (1, 2)), paper_system("[x]", (1, 2), like="MLE")], None
    )
    text = shown(results.model_copy(update={"texts": {"greedy": fewer}}))
    assert "\N{DAGGER} MLE: 1 of 2 seeds only" in text
    assert re.search(r"MLE\N{DAGGER} +24\.70 ", text)
    assert re.search(r"\[x\] +24\.82\*", text)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_terminal_fits(width: int) -> None:
    assert max(len(line.rstrip()) for line in shown(comparison(), width).splitlines()) <= width


def test_example_of_the_builder_is_whole() -> None:
    assert (
        "".join(span.text for span in EXAMPLE.texts[1].spans) == " with an <eccentric> lawyer & a family that vanished"
    )


def test_no_table_of_names_alone() -> None:
    """Where nothing of the texts has a value, there is nothing to show."""
    results = comparison(decodings=("greedy",))
    bare = with_texts(results, measures={}, wins=None)
    assert not tables(drawn(bare), "paper")
    assert "Texts, greedy" not in shown(bare)
    diverse = evaluation([system("MLE", file("a", {"vr": 0.1})), system("FACE", file("b", {"vr": 0.2}))], None)
    (table,) = tables(drawn(results.model_copy(update={"texts": {"greedy": diverse}})), "paper")
    assert table == [["Method", "VR →"], ["MLE", "10.0"], ["FACE", "20.0"]]
    assert re.search(r"MLE +10\.0", shown(results.model_copy(update={"texts": {"greedy": diverse}})))


@pytest.mark.slow
def test_texts_without_and_with_prompt_stand_below_their_summary() -> None:
    from tests.helpers.expanded_results import PROMPTED, WAY, expansion

    written = [EXAMPLE.model_copy(update={"decoding": way}) for way in (WAY, PROMPTED)]
    page = drawn(expansion().model_copy(update={"written": written}))
    section = page[page.index('<section id="written">') :]
    assert section.count("<blockquote") == 1
    assert "<h3>Summary</h3>" in section
    assert re.findall(r"<h4>(.*?)</h4>", section)[:2] == [
        "top-k 40, without prompt, seed 1",
        "top-k 40, with prompt, seed 1",
    ]
    assert len(tables(page, "written")) == 2
    assert "<h3>Prompt</h3>" in drawn(comparison())


@pytest.mark.slow
def test_tables_have_captions_and_headers_their_scopes(page: str) -> None:
    for whole in (page, drawn(make_sample(seeds=(1, 2)))):
        found = re.findall(r"<table.*?</table>", whole, re.DOTALL)
        assert found
        assert all(re.search(r"<caption>[^<]+</caption>", table) for table in found)
        assert all("scope=" in header for table in found for header in re.findall(r"<th\b[^>]*>", table))
