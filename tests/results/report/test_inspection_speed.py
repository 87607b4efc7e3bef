"""How fast the page of a trace is in a real browser, at 2,000 tokens with ten candidates."""

from __future__ import annotations

import pytest

from nextword.results.report import trace_page
from tests.helpers.browser import Opening, OpenPage
from tests.helpers.made_up_traces import long_trace

pytestmark = pytest.mark.browser

FIRST_PAINT, ANSWER = 1000, 100
"""Limits in milliseconds."""

TOKENS = "#tokens-text span"

PAINTED = """() => new Promise(done => new PerformanceObserver(all => {
  for (const paint of all.getEntriesByName("first-contentful-paint")) done(paint.startTime);
}).observe({type: "paint", buffered: true}))"""

# From the click to the end of the next frame: a message that is posted in it arrives when it is drawn.
CLICK = """selector => new Promise(done => {
  const element = document.querySelector(selector), {port1, port2} = new MessageChannel();
  const began = performance.now();
  port1.onmessage = () => done(performance.now() - began);
  element.click();
  requestAnimationFrame(() => port2.postMessage("drawn"));
})"""


def test_two_thousand_tokens_are_painted_within_a_second(open_page: Opening) -> None:
    view = open_page(trace_page(long_trace()))
    assert view.page.evaluate(PAINTED) < FIRST_PAINT
    assert len(view.texts(TOKENS)) == 2001


@pytest.mark.parametrize("models", [1, 2])
def test_a_click_is_answered_within_a_tenth_of_a_second(open_page: Opening, models: int) -> None:
    """Among 2,000 tokens: the first click, which makes the way back from places to tokens, a later one, colours.

    The fastest of three times on a fresh page: a machine that is busy with something else is not the page's fault.
    """
    traces = [long_trace(), long_trace(gate=0.2)][:models]
    copied = next(at for at in range(1500, 2000) if traces[0].tokens.positions["cache"].at[at]) + 1
    took = [clicks(open_page(trace_page(*traces)), copied) for _ in range(3)]
    fastest = {selector: min(one[selector] for one in took) for selector in took[0]}
    assert {selector: time for selector, time in fastest.items() if time >= ANSWER} == {}


def clicks(view: OpenPage, copied: int) -> dict[str, float]:
    """Milliseconds from each click to what it shows."""
    took = {one: view.page.evaluate(CLICK, one) for one in (f"#text-{copied}", ".found button", "#text-20")}
    assert view.page.get_attribute("#text-20", "aria-selected") == "true"
    for box in ("#measures", "#models"):
        for place in range(len(view.texts(f"{box} label")), 0, -1):
            selector = f"{box} label:nth-of-type({place}) input"
            took[selector] = view.page.evaluate(CLICK, selector)
    return took
