from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from nextword.results.records import Results
from nextword.results.report import svg
from nextword.results.report.comparison import figures
from nextword.results.report.comparison.methods import ReportedMethod, methods

Sample = Callable[..., Results]


def words(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter("text")]


ALL = (figures.accuracy, figures.likelihood, figures.spectrum, figures.curves)


@pytest.mark.few(2)
@pytest.mark.parametrize("draw", ALL)
@pytest.mark.filterwarnings("error")
def test_every_method_is_named_in_text(draw: Callable[[list[ReportedMethod]], str | None], sample: Sample) -> None:
    hostile = ("_hidden", "$x_1$", "<script>", "한국어", "a & b")
    found = methods(sample(methods=[(label, "cache", "mle", None) for label in hostile]))
    svg = draw(found)
    assert svg is not None
    words = [text.text for text in ET.fromstring(svg).iter("text")]
    assert set(hostile) <= set(words)
    assert "<script" not in svg


@pytest.mark.few(3)
@pytest.mark.parametrize("draw", ALL)
def test_figures_carry_nothing_from_elsewhere(
    draw: Callable[[list[ReportedMethod]], str | None], sample: Sample
) -> None:
    svg = draw(methods(sample()))
    assert svg is not None
    assert "http" not in svg
    assert "<style" not in svg
    assert "aria-label" in svg


@pytest.mark.slow
def test_ids_differ_between_figures_and_every_reference_is_met(sample: Sample) -> None:
    found = methods(sample())
    seen: set[str] = set()
    for draw in ALL:
        svg = draw(found)
        assert svg is not None
        ids = re.findall(r'\bid="([^"]+)"', svg)
        assert len(ids) == len(set(ids))
        assert not seen & set(ids)
        seen |= set(ids)
        assert set(re.findall(r'href="#([^"]+)"', svg) + re.findall(r"url\(#([^)]+)\)", svg)) <= set(ids)


def test_drawn_twice_alike(sample: Sample) -> None:
    found = methods(sample())
    assert figures.spectrum(found) == figures.spectrum(found)


def test_nothing_to_draw_is_no_figure(lm_sample: Results) -> None:
    found = methods(lm_sample)
    assert figures.accuracy(found) is None
    assert figures.spectrum(found) is None
    assert figures.likelihood(found) is not None
    bare = lm_sample.model_copy(update={"runs": [run.model_copy(update={"curve": []}) for run in lm_sample.runs]})
    assert figures.curves(methods(bare)) is None


def test_rank_threshold_is_drawn_on_a_relative_spectrum_only(sample: Sample) -> None:
    results = sample()
    assert {"rank at", "0.001"} <= set(words(str(figures.spectrum(methods(results)))))
    evaluation = results.runs[0].evaluation.model_copy(update={"spectrum": [200.0, 1.0, 0.0]})
    changed = results.model_copy(update={"runs": [results.runs[0].model_copy(update={"evaluation": evaluation})]})
    assert "rank at" not in str(figures.spectrum(methods(changed)))


def test_no_two_of_twenty_methods_look_alike(sample: Sample) -> None:
    found = methods(sample(methods=[(f"m{i}", "softmax", "mle", None) for i in range(20)]))
    assert len({(m.style.colour, m.style.dash, m.style.marker) for m in found}) == 20
    # Colour alone never tells methods apart.
    assert len({(m.style.dash, m.style.marker) for m in found}) == 20


def test_name_of_the_threshold_stands_beside_the_panel(sample: Sample) -> None:
    """No curve comes there: lines end at the panel's right edge."""
    root = ET.fromstring(str(figures.spectrum(methods(sample()))))
    lines = [path.get("d", "") for path in root.iter("path") if path.get("clip-path")]
    rightmost = max(float(x) for line in lines for x in re.findall(r"[ML] ([\d.]+) ", line))
    (name,) = (text for text in root.iter("text") if text.text == "rank at")
    (left,) = re.findall(r"translate\(([\d.]+)", name.get("transform", ""))
    assert float(left) > rightmost


@pytest.mark.few(2)
@pytest.mark.parametrize("draw", ALL)
def test_each_figure_scales_and_has_all_of_itself_inside(draw: Callable[..., str | None], sample: Sample) -> None:
    found = methods(sample(methods=[(f"a method with a long name, {i}", "cache", "mle", None) for i in range(6)]))
    root = ET.fromstring(str(draw(found)))
    assert not {"width", "height", "style"} & set(root.attrib)
    width = float(root.attrib["viewBox"].split()[2])
    assert width == pytest.approx(svg.WIDTH * 72)
    assert all(0 <= x <= width for x in places(root))


def test_a_label_like_a_tag_stays_as_it_is(sample: Sample) -> None:
    label = '<g id="1" style="fill: #0072b2"> url(#2)'
    with svg.figure("label", 3.0) as drawn:
        drawn.subplots().set_title(label)
        assert label in words(svg.inline(drawn, "label", '"quoted" & <described>'))


def places(root: ET.Element) -> list[float]:
    """Where texts begin or end, and where what is used again stands."""
    return [float(one.attrib["x"]) for one in root.iter() if one.tag in ("text", "use") and "x" in one.attrib]


def test_legend_above_the_panels_has_no_more_columns_than_fit(sample: Sample) -> None:
    from matplotlib.patches import Patch

    with svg.figure("legend", 3.0) as drawn:
        drawn.subplots()
        svg.legend(drawn, [Patch(label=f"a method with a long name {i}") for i in range(5)])
        (made,) = drawn.legends
        assert made.get_window_extent().width <= drawn.bbox.width
    with svg.figure("legend", 3.0) as drawn:
        svg.legend(drawn, [Patch(label=label) for label in "ab"])
        (made,) = drawn.legends
        assert made.get_window_extent().height < 30  # both on one line
