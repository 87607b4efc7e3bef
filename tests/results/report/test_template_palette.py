"""Colours can be told from their ground in light and in dark (WCAG 2.1, level AA)."""

from __future__ import annotations

import re

import pytest

from nextword.results.report.comparison import figures
from nextword.results.report.comparison.methods import methods
from nextword.results.report.template import METHODS, THEMES, packaged, themed, variables
from tests.helpers.made_up_results import make_sample
from tests.helpers.report_pages import drawn
from tests.helpers.written_results import swept

LIGHT, DARK = 0, 1
TEXT, GRAPHICS = 4.5, 3.0


def luminance(colour: str) -> float:
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # WebAIM's example of one that fails


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("ground", ["paper", "wash", "best"])
@pytest.mark.parametrize("text", ["ink", "soft", "accent"])
def test_text_can_be_read(theme: int, ground: str, text: str) -> None:
    assert contrast(THEMES[text][theme], THEMES[ground][theme]) >= TEXT


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_what_is_drawn_can_be_seen(theme: int) -> None:
    paper = THEMES["paper"][theme]
    marks = ("mark", "word", "again")
    for name in ("edge", *(f"{mark}-line" for mark in marks), *(f"m{place}" for place in range(len(METHODS)))):
        assert contrast(THEMES[name][theme], paper) >= GRAPHICS, name
    for mark in marks:
        assert contrast(THEMES["ink"][theme], THEMES[mark][theme]) >= TEXT


def test_every_variable_has_a_colour_in_both_themes() -> None:
    light, dark = variables().split("@media screen and (prefers-color-scheme: dark)")
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", drawn(swept()))) - {"sans", "mono"}
    assert used <= set(THEMES)
    for name in THEMES:
        assert f"--{name}: " in light
        assert f"--{name}: " in dark


@pytest.mark.slow
@pytest.mark.figures
def test_nothing_keeps_the_colour_of_one_theme() -> None:
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)", packaged("page.css")) == []
    found = methods(make_sample(methods=[(f"m{i}", "cache", "mle", None) for i in range(9)]))
    for draw in (figures.accuracy, figures.likelihood, figures.spectrum, figures.curves):
        fixed = re.findall(r"(?:fill|stroke)[:=]\s*\"?#[0-9a-f]{6}", str(draw(found)))
        assert fixed == [], draw.__name__


def test_unknown_colours_stay() -> None:
    assert themed("#0072b2 #0072b3") == "var(--m0) #0072b3"
