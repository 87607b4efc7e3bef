"""The colours of a trace in a real browser: text on them can be read, and levels be told apart."""

from __future__ import annotations

import itertools

import pytest

from nextword.results.report import trace_page
from tests.helpers.browser import Opening
from tests.helpers.made_up_traces import story

pytestmark = pytest.mark.browser

PAGE = trace_page(story())

GROUND = """() => {
  const draw = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = colour => {
    draw.fillStyle = colour;
    draw.fillRect(0, 0, 1, 1);
    return [...draw.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = colour => rgb(colour).map(one => one / 255)
    .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, k) => sum + one * [0.2126, 0.7152, 0.0722][k], 0);
  const box = document.querySelector("#tokens-text"), found = [];
  for (let hue = 0; hue < 8; hue++)
    for (const level of ["l1", "l2", "l3", "l4", "l5", "a1", "a2", "a3", "b1", "b2", "b3"]) {
      const span = document.createElement("span");
      span.className = level;
      box.style.setProperty("--hue", `var(--m${hue})`);
      box.append(span);
      const style = getComputedStyle(span), ground = light(style.backgroundColor), ink = light(style.color);
      found.push({name: `m${hue} ${level}`, ground,
        contrast: (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05)});
    }
  return found;
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_on_every_colour(open_page: Opening, dark: bool) -> None:
    found = open_page(PAGE, dark=dark).page.evaluate(GROUND)
    assert len(found) == 88
    assert [one for one in found if one["contrast"] < 4.5] == []


@pytest.mark.parametrize("dark", [False, True])
def test_levels_are_told_apart_by_lightness_alone(open_page: Opening, dark: bool) -> None:
    """So that neither colour vision nor a printer matters: each level is a step further from the paper."""
    found = {one["name"]: one["ground"] for one in open_page(PAGE, dark=dark).page.evaluate(GROUND)}
    for hue in range(8):
        for family in (["l1", "l2", "l3", "l4", "l5"], ["a1", "a2", "a3"], ["b1", "b2", "b3"]):
            grounds = [found[f"m{hue} {level}"] for level in family]
            steps = [high - low for low, high in itertools.pairwise(grounds)]
            assert all(step > 0.008 if dark else step < -0.03 for step in steps), (hue, family, grounds)
