"""Where things lie when a browser draws the page; measured in a window and on a telephone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nextword.results.report.comparison.page import render
from nextword.results.report.evaluation_page import render_evaluation
from nextword.results.report.reproduction_page import render_reproduction
from tests.helpers.browser import NARROW, WIDE, Opening, opening
from tests.helpers.expanded_results import expansion
from tests.helpers.made_up_results import make_sample
from tests.helpers.reproduced_tables import picture
from tests.helpers.reproduced_tables import table as reproduced
from tests.helpers.written_results import SUMMARY, comparison, swept

pytestmark = [pytest.mark.browser, pytest.mark.figures]

NO_FIGURES = ("evaluation", "reproduced")
MEASURE = """() => {
  const page = document, width = page.documentElement.clientWidth;
  const beyond = [], scrolled = [], crossed = [];
  const box = element => element.getBoundingClientRect();
  const name = element => `${element.tagName} ${(element.textContent || "").trim().slice(0, 30)}`;
  for (const element of page.body.querySelectorAll("*")) {
    const own = box(element), drawing = element.closest("svg");
    if (!element.checkVisibility() || own.width === 0 || element.closest("caption, defs, clipPath")) continue;
    if (own.right > width + 0.5 && !element.closest(".scroll")) beyond.push(name(element));
    const leaf = drawing && !element.children.length && element.tagName !== "g";
    if (leaf) {
      const all = box(drawing);
      const across = own.left < all.left - 0.5 || own.right > all.right + 0.5;
      if (across || own.top < all.top - 0.5 || own.bottom > all.bottom + 0.5)
        beyond.push(`${drawing.getAttribute("aria-label")}: ${name(element)}`);
    }
    if (element.matches("text") && element.textContent.startsWith("rank at"))
      for (const line of drawing.querySelectorAll("path[clip-path]"))
        if (box(line).right > own.left) crossed.push(box(line).right);
    if (element.matches(".scroll, pre") && element.scrollWidth > element.clientWidth + 1) {
      const first = element.querySelector("tbody tr:not(.groups) th");
      scrolled.push([element.getAttribute("aria-label"), first && getComputedStyle(first).position]);
    }
  }
  const labels = [...page.querySelectorAll("svg text")].filter(one => one.checkVisibility()).length;
  return {width, scrolls: page.scrollingElement.scrollWidth > width, beyond, scrolled, crossed, labels};
}
"""


@pytest.fixture(scope="module")
def found(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    texts = comparison()
    systems = texts.texts["greedy"].systems
    pages = {
        "ambiguous": render(make_sample()),
        "seeds": render(make_sample(seeds=(0, 1, 2))),
        "expand": render(expansion()),
        "texts": render(texts),
        "classes": render(swept(decodings=("top-k 20",))),
        "reproduced": render_reproduction([reproduced(), picture(), reproduced("f2-softmax/table-1", paper="F2")]),
        "evaluation": render_evaluation(texts.texts["greedy"].model_copy(update={"systems": systems[:2]})),
    }
    folder: Path = tmp_path_factory.mktemp("browser")
    with opening(chromium, folder) as open_page:
        return {
            f"{name} {width}": open_page(page, width).page.evaluate(MEASURE)
            for name, page in pages.items()
            for width in (WIDE, NARROW)
        }


def test_pages_have_their_width_and_figures_are_drawn(found: dict[str, Any]) -> None:
    assert len(found) == 14
    assert all(one["width"] == int(name.split()[1]) for name, one in found.items())
    assert all(one["labels"] > 10 for name, one in found.items() if not name.startswith(NO_FIGURES))


def test_nothing_lies_beyond_an_edge(found: dict[str, Any]) -> None:
    """Neither of the page nor, for the points and legends of a figure, of the drawing."""
    assert {name: one["beyond"] for name, one in found.items() if one["beyond"]} == {}
    assert [name for name, one in found.items() if one["scrolls"]] == []


def test_all_columns_are_seen_at_once_in_a_window(found: dict[str, Any]) -> None:
    assert {name: one["scrolled"] for name, one in found.items() if name.endswith("1280") and one["scrolled"]} == {}


def test_on_a_telephone_only_the_widest_tables_scroll_and_keep_their_names(found: dict[str, Any]) -> None:
    """Those of F2-Softmax, thirteen columns wide, and the papers' own beside our numbers."""
    scrolled = {name: one["scrolled"] for name, one in found.items() if name.endswith("390") and one["scrolled"]}
    assert scrolled == {
        "texts 390": [["Texts, greedy", "sticky"], ["Texts, top-k 3", "sticky"]],
        "classes 390": [["Texts, top-k 20", "sticky"]],
        "reproduced 390": [["histalign/table-1", "sticky"], ["f2-softmax/table-1", "sticky"]],
    }


def test_no_curve_crosses_the_name_of_the_threshold(found: dict[str, Any]) -> None:
    assert {name: one["crossed"] for name, one in found.items() if one["crossed"]} == {}


@pytest.mark.parametrize(("width", "beside"), [(WIDE, True), (NARROW, False)])
def test_source_and_texts_stand_beside_each_other_where_there_is_room(
    open_page: Opening, width: int, beside: bool
) -> None:
    page = open_page(render(comparison(written=(SUMMARY,))), width)
    source, people, method = (
        page.page.locator(selector).bounding_box()
        for selector in ("#written blockquote", ".written tbody tr:nth-child(1)", ".written tbody tr:nth-child(2)")
    )
    assert (people["x"] >= source["x"] + source["width"]) is beside
    assert (method["x"] >= people["x"] + people["width"]) is beside
    assert (people["y"] >= source["y"] + source["height"]) is not beside
    assert (method["y"] >= people["y"] + people["height"]) is not beside
    assert not page.scrolls_sideways


@pytest.mark.parametrize("dark", [False, True])
def test_marks_differ_by_their_lines_too(open_page: Opening, dark: bool) -> None:
    """So that they are told apart without colour."""
    page = open_page(render(comparison(written=(SUMMARY,))), WIDE, dark)
    lines = [page.style(f"td mark.{mark}", "borderBottomStyle") for mark in ("rare", "word", "again")]
    assert lines == ["solid", "double", "dashed"]
    assert page.style("td .copied", "textDecorationStyle") == "dotted"
    grounds = {page.style(f"td mark.{mark}", "backgroundColor") for mark in ("rare", "word", "again")}
    assert len(grounds) == 3
