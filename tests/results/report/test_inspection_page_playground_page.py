"""The page of a server in a real browser: a prompt goes on, a token is opened, changed and gone on from."""

from __future__ import annotations

import html
import re

import pytest

from nextword.results.report.inspection_page import playground_page

HOSTILE = "<script>alert('&')</script>"


def test_a_hostile_name_is_text():
    page = playground_page(HOSTILE, HOSTILE, needs_key=False)
    assert HOSTILE not in page.html
    assert html.escape(HOSTILE, quote=True).split("alert")[0] in page.html
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_a_key_is_asked_for_where_one_is_needed():
    assert [('id="key"' in playground_page("m", "s", needs_key=needed).html) for needed in (True, False)] == [
        True,
        False,
    ]


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("fastapi")
    from tests.helpers.running_server import running, small_model

    with running(small_model()) as found:
        yield found


def status_says(page, pattern):
    page.locator("#status", has_text=re.compile(pattern)).wait_for()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_write_open_change_and_go_on(server, chromium, width):
    complaints = []
    context = chromium.new_context(viewport={"width": width, "height": 850})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(server.address)
    page.fill("#prompt", "The king sat.")
    page.fill("#tokens", "12")
    page.click("#write")
    status_says(page, r"^12 tokens")
    words = page.locator("#text button")
    assert words.count() == 12
    assert page.locator("#legend li").count() >= 1
    assert page.locator("#text button[class^=h]").count() == 12

    words.nth(4).click()
    frame = page.frame_locator("#inspected")
    frame.locator("#tokens-text").wait_for()
    assert frame.locator("#tokens-text [aria-selected]").count() == 1
    assert page.locator('#text button[aria-pressed="true"]').count() == 1

    kept = [words.nth(place).text_content().replace("\u200b", "") for place in range(4)]
    page.fill("#instead", " throne")
    page.click("#edit button[type=submit]")
    status_says(page, r"^12 tokens")
    assert page.input_value("#prompt") == "The king sat." + "".join(kept) + " throne"
    assert page.locator("#text .read").text_content().endswith(" throne")
    root = page.locator("html")
    assert not root.evaluate("one => one.scrollWidth > one.clientWidth")
    context.close()
    assert complaints == []


@pytest.mark.browser
def test_stop_and_an_error_in_words(server, chromium):
    page = chromium.new_page()
    page.set_default_timeout(20_000)
    page.goto(server.address)
    page.fill("#prompt", "x " * 300)
    page.click("#write")
    status_says(page, "must leave room")
    page.fill("#prompt", "x")
    page.fill("#tokens", "90")
    page.click("#write")
    page.locator("#text button").first.wait_for()
    page.click("#stop")
    status_says(page, r"^Stopped|^90 tokens")
    page.close()
