"""A real browser: pages opened in Chromium or Chrome as a reader opens them, from a file."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WIDE, NARROW = 1280, 390
"""Widths of a window and of a telephone, in pixels."""
HEIGHTS = {WIDE: 860, NARROW: 844}


@dataclass
class OpenPage:
    """A page in a browser, and what it did on the way.

    Attributes:
        page: Playwright's.
        requests: What it asked for besides its own file.
        complaints: Errors of its scripts, and what the browser warned of.
    """

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        """The text of every element, as the document has it."""
        found: list[str] = self.page.locator(selector).evaluate_all("all => all.map(one => one.textContent)")
        return found

    def text(self, selector: str) -> str:
        """The text of the one element."""
        (found,) = self.texts(selector)
        return found

    def style(self, selector: str, name: str) -> str:
        """A computed style of the first of them."""
        found: str = self.page.locator(selector).first.evaluate(f"one => getComputedStyle(one)['{name}']")
        return found

    @property
    def scrolls_sideways(self) -> bool:
        """Whether something reaches beyond the right edge of the window."""
        return bool(self.page.evaluate("document.scrollingElement.scrollWidth > document.documentElement.clientWidth"))


Opening = Callable[..., OpenPage]
"""``opening(html, width=WIDE, dark=False, touch=False)``."""


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A browser without a window; skips the test where there is none, or nothing to drive it with."""
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install -e '.[browser]'")
    if CHROMIUM is None:
        pytest.skip("no chromium or chrome on PATH: apt-get install chromium")
    with driver.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield opened
        opened.close()


def is_own(url: str, file: Path) -> bool:
    """Whether an address is that of the page itself, with or without a place in it."""
    return url.partition("#")[0] in (file.as_uri(), "about:blank")


@contextlib.contextmanager
def opening(browser: Any, folder: Path) -> Iterator[Opening]:
    """Opens pages from files in ``folder``; at the end none of them may have asked for anything or complained."""
    pages: list[OpenPage] = []

    def opened(html: str, width: int = WIDE, dark: bool = False, touch: bool = False) -> OpenPage:
        file = folder / f"{len(pages)}.html"
        file.write_text(html, encoding="utf-8")
        size = {"width": width, "height": HEIGHTS[width]}
        context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light", has_touch=touch)
        found = OpenPage(context.new_page())
        pages.append(found)
        found.page.set_default_timeout(5000)
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: is_own(request.url, file) or found.requests.append(request.url))
        found.page.on("dialog", lambda dialog: found.complaints.append(dialog.message) or dialog.dismiss())
        found.page.goto(file.as_uri())
        return found

    yield opened
    for one in pages:
        one.page.context.close()
    assert [one.complaints for one in pages if one.complaints] == []
    # The empty picture in place of an icon is no request.
    assert [url for one in pages for url in one.requests if not url.startswith("data:")] == []
