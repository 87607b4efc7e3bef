r"""Takes a picture of an HTML page in a Chromium that is there; the pictures of docs/inspect.md are made with it.

python docs/images/take_picture.py page.html docs/images/inspect-story.png --token 150 --colour "From cache"

The picture of the README: one text, a model and the same weights with a cache, on a page of `nextword inspect a b`:

python docs/images/take_picture.py page.html docs/images/two-models.png --width 1140 --height 455 --scale 1.5 \
    --hide "h1, #theme, .lead, #differences, details, .tools, #panel, footer"

A page of a survey, as docs/survey.md shows it:

python docs/images/take_picture.py survey/for-judges/page.html docs/images/survey-pairwise.png --begin --width 1000

Parts of a page, and a figure as the SVG that the page holds; docs/images/gallery.sh has more of these commands:

python docs/images/take_picture.py report.html results.png --width 640 --scale 1.6 --only "#results .parts"
python docs/images/take_picture.py report.html curves.svg --only "#curves svg.narrow"
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import FloatRect, Locator, sync_playwright

COLOURS = 224
"""Of a picture; few, so that it stays below 150 kB."""

MARGIN = 8
"""Pixels of the page around what ``--only`` names."""

FIGURE_WIDTH = 520
"""Pixels of a figure that is taken out of a page, where there is room for them."""

DRAWING = """(figure, width) => {
    const copy = figure.cloneNode(true), page = getComputedStyle(document.documentElement)
    copy.removeAttribute("style")
    copy.setAttribute("width", width)
    copy.setAttribute("font-family", "system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif")
    const drawn = new XMLSerializer().serializeToString(copy)
    return drawn.replace(/var\\((--[\\w-]+)\\)/g, (_, name) => page.getPropertyValue(name).trim())
}"""
"""A figure with the colours of its page, which stand in the page's style sheet."""


def around(found: Locator) -> FloatRect:
    """The rectangle around all of the elements that can be seen, in pixels of the page.

    Args:
        found: Elements of a page.
    """
    boxes = [box for one in found.all() if one.is_visible() and (box := one.bounding_box())]
    left, top = min(box["x"] for box in boxes), min(box["y"] for box in boxes)
    right, bottom = max(box["x"] + box["width"] for box in boxes), max(box["y"] + box["height"] for box in boxes)
    x, y = max(left - MARGIN, 0), max(top - MARGIN, 0)
    return {"x": x, "y": y, "width": right + MARGIN - x, "height": bottom + MARGIN - y}


def main() -> None:
    """Reads the command line and writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=860)
    parser.add_argument("--token", type=int, help="a token of the text to open")
    parser.add_argument("--colour", help="what to colour by, as the page calls it")
    parser.add_argument("--model", help="of several models, the one that the open token is explained by")
    parser.add_argument("--hide", help="CSS selectors of what to leave out")
    parser.add_argument("--only", help="CSS selectors of what the picture shows, from the first to the last of them")
    parser.add_argument("--scale", type=float, default=1, help="pixels of the picture for one of the page")
    parser.add_argument("--begin", action="store_true", help="fill in the first page of a survey, and show an item")
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    size = {"width": options.width, "height": options.height}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(
            viewport=size,
            device_scale_factor=options.scale,
            color_scheme="dark" if options.dark else "light",
            reduced_motion="reduce",
        )
        token = "" if options.token is None else f"#text-{options.token}"
        page.goto(options.page.resolve().as_uri() + token)
        if options.begin:
            page.fill("#judge", "a judge")
            page.check("#consent")
            page.click("button[type=submit]")
            page.locator(".unit").last.hover()
        if options.model:
            page.locator("#models label", has_text=options.model).click()
            if token:
                page.locator(token).evaluate("opened => opened.scrollIntoView({block: 'center'})")
        if options.colour:
            page.locator("#measures label", has_text=options.colour).click()
        if options.hide:
            # the page's security policy allows no further style sheet
            hide = "all => all.forEach(one => one.style.setProperty('display', 'none', 'important'))"
            page.locator(options.hide).evaluate_all(hide)
            page.locator("main").evaluate("main => main.style.display = 'block'")
        if options.out.suffix == ".svg":
            options.out.write_text(page.locator(options.only).evaluate(DRAWING, FIGURE_WIDTH) + "\n", encoding="utf-8")
            return
        if options.only:
            page.evaluate("scrollTo(0, 0)")  # boxes are measured from the window's corner, pictures from the page's
            taken = page.screenshot(full_page=True, clip=around(page.locator(options.only)))
        else:
            taken = page.screenshot()
    picture = Image.open(io.BytesIO(taken)).convert("RGB")
    # the most distinct colours, so that the small mark of a method keeps its own
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(options.out, optimize=True)


if __name__ == "__main__":
    main()
