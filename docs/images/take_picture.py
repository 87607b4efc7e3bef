r"""Takes a picture of an HTML page in a Chromium that is there; the pictures of docs/inspect.md are made with it.

python docs/images/take_picture.py page.html docs/images/inspect-story.png --token 150 --colour "From cache"

The picture of the README: one text, a model and the same weights with a cache, on a page of `nextword inspect a b`:

python docs/images/take_picture.py page.html docs/images/two-models.png --width 1140 --height 455 --scale 1.5 \
    --hide "h1, #theme, .lead, #differences, details, .tools, #panel, footer"
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

COLOURS = 224
"""Of a picture; few, so that it stays below 150 kB."""


def main() -> None:
    """Reads the command line and writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=860)
    parser.add_argument("--token", type=int, help="a token of the text to open")
    parser.add_argument("--colour", help="what to colour by, as the page calls it")
    parser.add_argument("--hide", help="CSS selectors of what to leave out")
    parser.add_argument("--scale", type=float, default=1, help="pixels of the picture for one of the page")
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
        if options.colour:
            page.locator("#measures label", has_text=options.colour).click()
        if options.hide:
            # the page's security policy allows no further style sheet
            hide = "all => all.forEach(one => one.style.setProperty('display', 'none', 'important'))"
            page.locator(options.hide).evaluate_all(hide)
            page.locator("main").evaluate("main => main.style.display = 'block'")
        taken = page.screenshot()
        browser.close()
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS).save(options.out, optimize=True)


if __name__ == "__main__":
    main()
