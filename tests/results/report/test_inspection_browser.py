"""The page of a trace in a real browser: what a reader sees, clicks and types."""

from __future__ import annotations

import math
import re

import pytest

from nextword.results.records.token_trace import TracedDraft, TraceRecord
from nextword.results.report import trace_page
from tests.helpers.browser import NARROW, WIDE, Opening, OpenPage
from tests.helpers.made_up_traces import STORY, SUMMARY, MadeUp, one_text, story

pytestmark = pytest.mark.browser

RECORD = story()
PAGE = trace_page(RECORD)
SOURCE = MadeUp(SUMMARY, source=STORY).record("summary")
PLAIN = MadeUp(STORY, gate=0).record("plain")
TWO = trace_page(PLAIN, RECORD)

TOKENS = "#tokens-text span"
CANDIDATES = ".candidates li"


def index_of(word: str, record: TraceRecord = RECORD, nth: int = 0) -> int:
    """The token that is this word, from the second on that is predicted."""
    pieces = record.texts["text"].pieces
    return [at for at, piece in enumerate(pieces) if piece.strip() == word and at >= record.first][nth]


def opened(view: OpenPage) -> int | None:
    """Which token of the text is open."""
    at = view.page.evaluate("document.querySelector('#tokens-text [aria-selected]')?.dataset.at ?? null")
    return None if at is None else int(at)


def choose(view: OpenPage, index: int, role: str = "text") -> None:
    view.page.click(f"#{role}-{index}")


def with_log_prob(value: float) -> TraceRecord:
    """The story, with one token in the middle of it that has this log-probability."""
    log_prob = [*RECORD.tokens.log_prob]
    log_prob[100] = value
    return RECORD.model_copy(update={"tokens": RECORD.tokens.model_copy(update={"log_prob": log_prob})})


# -- text


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script> and <img src=x onerror=alert(2)> </script> <b>bold</b> &amp; {{ 7 * 7 }}",
        "שלום עולם, this is right to left: مرحبا بالعالم!",
        "한국어 문장 하나, 日本語, and emoji: 👩‍👩‍👧 🎉 done",
        "two  spaces,\ttabs\n\n  and lines\n",
        "controls \u202e reversed \u202c and \u200b nothing",
    ],
)
def test_text_is_shown_as_written_and_runs_nothing(open_page: Opening, text: str) -> None:
    view = open_page(trace_page(one_text(text)))
    assert view.text("#tokens-text") == text
    assert view.page.locator("#tokens-text :not(span)").count() == 0
    assert view.style("#tokens-text", "whiteSpaceCollapse") == "break-spaces"
    for index in range(len(view.texts(TOKENS))):
        choose_by_key = view.page.locator("#tokens-text")
        choose_by_key.press("Home" if index == 0 else "ArrowRight")
        assert opened(view) == index


def test_right_to_left_begins_at_the_right(open_page: Opening) -> None:
    view = open_page(trace_page(one_text("שלום עולם שלום עולם")))
    first, second = (view.page.locator(TOKENS).nth(at).bounding_box() for at in (0, 1))
    assert first["x"] > second["x"]


def test_tokens_that_add_nothing_are_shown_by_name(open_page: Opening) -> None:
    view = open_page(trace_page(one_text("party 🎉 party")))
    names = view.page.locator(f"{TOKENS}[data-name]").evaluate_all("all => all.map(one => one.dataset.name)")
    assert len(names) == 3
    assert all(re.fullmatch(r"<0x[0-9A-F]{2}>", name) for name in names)
    assert view.page.locator(f"{TOKENS}[data-name]").first.bounding_box()["width"] > 8


# -- a token, opened


def test_a_click_shows_the_ten_candidates_split_by_source(open_page: Opening) -> None:
    view = open_page(PAGE)
    assert "Choose a token" in view.text("#panel")
    at = index_of("water", nth=1)
    choose(view, at)
    assert opened(view) == at
    column = at - RECORD.first
    labels = [RECORD.vocabulary[one] for one in RECORD.tokens.candidates.ids[column]]
    assert view.texts(f"{CANDIDATES}:not(.beyond) .word") == labels
    assert view.texts(".candidates .observed .word") == ["␣water"]
    assert view.texts(".sources li") == ["softmax", "cache"]
    # widths are probabilities: of the best, all the room; within a bar, the shares
    boxes = view.page.locator(f"{CANDIDATES}:first-child .bar i").evaluate_all("all => all.map(one => one.style.width)")
    shares = [RECORD.tokens.candidates.shares[name][column][0] for name in ("softmax", "cache")]
    assert [float(width.rstrip("%")) / 100 for width in boxes] == pytest.approx(shares, abs=0.002)


def test_an_observed_token_beyond_the_candidates_has_a_row_behind_them(open_page: Opening) -> None:
    at = next(at for at, rank in enumerate(RECORD.tokens.rank) if rank > 10)
    view = open_page(PAGE)
    choose(view, at + RECORD.first)
    assert len(view.texts(CANDIDATES)) == 11
    assert view.text(".candidates .beyond .place") == str(RECORD.tokens.rank[at])


def test_places_are_marked_strongest_first_and_say_whom_they_helped(open_page: Opening) -> None:
    view = open_page(PAGE)
    at = next(
        at + RECORD.first for at, places in enumerate(RECORD.tokens.positions["cache"].at) if 2 <= len(places) <= 8
    )
    places = RECORD.tokens.positions["cache"].at[at - RECORD.first]
    choose(view, at)
    orders = [view.page.locator(f"#text-{place}").get_attribute("data-order") for place in places]
    assert orders == [str(order + 1) for order in range(len(places))]
    view.page.locator(".found button").first.click()
    assert opened(view) == places[0]
    assert "Tokens whose probability came from here" in view.text("#panel")
    helped = [token for token, its in enumerate(RECORD.tokens.positions["cache"].at) if places[0] in its]
    assert view.page.locator("#tokens-text [data-order]").count() == min(len(helped), 9)
    assert view.page.locator(f"#text-{at}").get_attribute("data-order") is not None
    # and the other way round: the helped token is opened as what was predicted there
    strongest = max(helped, key=lambda token: share_of(token, places[0])) + RECORD.first
    view.page.locator(".found button").first.click()
    assert opened(view) == strongest
    assert len(view.texts(CANDIDATES)) >= 10


def share_of(token: int, place: int) -> float:
    places = RECORD.tokens.positions["cache"]
    return places.share[token][places.at[token].index(place)]


def test_places_of_a_source_are_marked_there(open_page: Opening) -> None:
    view = open_page(trace_page(SOURCE))
    at = index_of("wheel", SOURCE)
    choose(view, at)
    places = SOURCE.tokens.positions["cache"].at[at - SOURCE.first]
    assert places
    marked = view.page.locator("#tokens-source [data-order]").evaluate_all(
        "all => all.map(one => Number(one.dataset.at))"
    )
    assert sorted(marked) == sorted(places)
    strongest = view.page.locator(f"#source-{places[0]}").bounding_box()
    assert 0 < strongest["y"] < view.page.viewport_size["height"]
    choose(view, places[0], "source")
    assert "The model read this token in the source." in view.text("#panel")
    assert view.page.locator(f"#text-{at}").get_attribute("data-order") is not None


def test_a_token_that_was_only_read_is_a_place_alone(open_page: Opening) -> None:
    view = open_page(PAGE)
    choose(view, 0)
    assert "predicted nothing here" in view.text("#panel")
    assert view.texts(CANDIDATES) == []


def test_what_a_model_cannot_say_is_absent(open_page: Opening) -> None:
    view = open_page(trace_page(PLAIN))
    assert view.texts("#measures label") == ["Probability", "Rank", "Uncertainty"]
    choose(view, index_of("water"))
    assert len(view.texts(CANDIDATES)) >= 10
    assert view.texts(".sources") == []
    assert "came from" not in view.text("#panel")


def test_an_address_begins_with_a_token_open(open_page: Opening) -> None:
    view = open_page(PAGE)
    address = view.page.url
    view.page.goto("about:blank")
    view.page.goto(f"{address}#text-150")
    assert opened(view) == 150
    for elsewhere in ("#text-9999", "#source-3", "#bar"):
        view.page.goto("about:blank")
        view.page.goto(address + elsewhere)
        assert opened(view) is None


def test_a_token_that_the_model_thinks_impossible(open_page: Opening) -> None:
    view = open_page(trace_page(with_log_prob(-math.inf)))
    choose(view, 101)
    assert levels(view)[101] == "l5"
    assert "a probability of 0\u202f%" in view.text("#panel")
    assert "∞ bits of surprisal" in view.text("#panel")
    assert "perplexity ∞" in view.text(".facts")


# -- keys


def test_keys_go_through_the_text(open_page: Opening) -> None:
    view = open_page(PAGE)
    press = view.page.keyboard.press
    choose(view, 20)
    for key, expected in (("ArrowRight", 21), ("ArrowLeft", 20), ("Home", 0), ("End", 239)):
        press(key)
        assert opened(view) == expected
    choose(view, 14)
    middle = view.page.locator("#text-14").bounding_box()
    press("ArrowDown")
    lower = view.page.locator(f"#text-{opened(view)}").bounding_box()
    assert 0 < lower["y"] - middle["y"] < 2 * 45
    assert abs(lower["x"] - middle["x"]) < 80
    press("ArrowUp")
    assert abs(view.page.locator(f"#text-{opened(view)}").bounding_box()["y"] - middle["y"]) < 2
    press("Escape")
    assert opened(view) is None
    assert "Choose a token" in view.text("#panel")


def test_the_text_is_reached_and_opened_by_keys_alone(open_page: Opening) -> None:
    view = open_page(PAGE)
    view.page.locator("#search").focus()
    view.page.keyboard.press("Tab")
    assert view.page.evaluate("document.activeElement.id") == "tokens-text"
    assert view.style("#tokens-text", "outlineStyle") == "solid"
    view.page.keyboard.press("Enter")
    assert opened(view) == 1
    assert view.page.locator("#tokens-text").get_attribute("aria-activedescendant") == "text-1"
    assert re.fullmatch(r"␣Tale: probability .+, \d+.. choice", view.text("#status"))


def test_a_button_pressed_again_and_again_keeps_the_focus(open_page: Opening) -> None:
    view = open_page(PAGE)
    choose(view, 20)
    view.page.get_by_role("button", name="next token").focus()
    for _ in range(3):
        view.page.keyboard.press("Enter")
    assert opened(view) == 23


def test_search_underlines_and_goes_from_one_to_the_next(open_page: Opening) -> None:
    view = open_page(PAGE)
    view.page.keyboard.press("/")
    view.page.keyboard.type("Oster")
    places = [at for at, piece in enumerate(RECORD.texts["text"].pieces) if piece == " Oster"]
    assert view.text("#hits") == f"{len(places)}"
    assert view.texts(".match") == ["Oster"] * len(places)
    for at in (*places, places[0]):
        view.page.keyboard.press("Enter")
        assert opened(view) == at
    view.page.keyboard.press("Shift+Enter")
    assert opened(view) == places[-1]
    view.page.keyboard.press("Escape")
    assert view.texts(".match") == []
    assert view.page.locator("#search").input_value() == ""
    assert view.page.evaluate("document.activeElement.id") == "tokens-text"


def test_search_goes_over_tokens_and_letters_of_either_case(open_page: Opening) -> None:
    view = open_page(PAGE)
    view.page.fill("#search", "MILL AT")
    assert view.texts(".match") == ["mill", "at", "mill", "at"]
    view.page.fill("#search", "zebra")
    assert (view.text("#hits"), view.texts(".match")) == ("none", [])


# -- colours


def levels(view: OpenPage) -> list[str]:
    found: list[str] = view.page.locator(TOKENS).evaluate_all("all => all.map(one => one.className)")
    return found


def test_colours_follow_what_is_chosen(open_page: Opening) -> None:
    view = open_page(PAGE)
    assert view.texts("#measures label") == ["Probability", "Rank", "Uncertainty", "From softmax", "From cache"]
    ranks = [1, 3, 10, 100, 1000]
    view.page.click("#measures label:has-text('Rank')")
    expected = [f"l{sum(rank > bound for bound in ranks)}" for rank in RECORD.tokens.rank]
    assert levels(view) == ["read", *expected]
    view.page.click("#measures label:has-text('From cache')")
    bounds = [0.05, 0.25, 0.5, 0.75, 0.95]
    shares = [round(share, 3) for share in RECORD.tokens.shares["cache"]]
    assert levels(view) == ["read", *(f"l{sum(share > bound for bound in bounds)}" for share in shares)]
    assert "copies from positions in the text" in view.text("#legend")
    counts = [int(count.split()[0]) for count in view.texts(".levels small")]
    assert counts == [levels(view).count(f"l{level}") for level in range(6)]


def test_drafts_have_a_colour_and_a_line_in_the_panel(open_page: Opening) -> None:
    ids, begin = RECORD.texts["text"].ids, RECORD.first + 4
    right = ids[begin : begin + 2]
    drafts = [TracedDraft(begin=begin, ids=[*right, ids[begin], ids[begin + 1]], accepted=2)]
    view = open_page(trace_page(RECORD.model_copy(update={"drafts": drafts})))
    view.page.click("#measures label:has-text('Drafted')")
    assert levels(view)[begin - 1 : begin + 4] == ["l0", "l5", "l5", "l2", "l0"]
    choose(view, begin)
    assert "Its draft of 4 tokens was accepted." in view.text("#panel")
    choose(view, begin + 2)
    refused = " ".join(RECORD.vocabulary[token] for token in drafts[0].ids[2:])
    assert f"Draft tokens rejected here: {refused}" in view.text("#panel")
    choose(view, begin + 3)
    assert "draft" not in view.text("#panel").lower()


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_follow_the_reader_and_the_switch(open_page: Opening, dark: bool) -> None:
    view = open_page(PAGE, dark=dark)
    light_paper, dark_paper = "rgb(255, 255, 255)", "rgb(20, 24, 29)"
    assert view.style("body", "backgroundColor") == (dark_paper if dark else light_paper)
    view.page.click("#theme")
    assert view.style("body", "backgroundColor") == (light_paper if dark else dark_paper)
    view.page.click("#theme")
    assert view.style("body", "backgroundColor") == (dark_paper if dark else light_paper)


# -- two models


def test_two_models_begin_with_their_largest_difference(open_page: Opening) -> None:
    view = open_page(TWO)
    nats = [b - a for a, b in zip(PLAIN.tokens.log_prob, RECORD.tokens.log_prob, strict=True)]
    largest = max(range(len(nats)), key=lambda at: abs(nats[at]))
    row = view.page.locator("#differences button").first
    assert f"{abs(nats[largest]):.2f} nats" in row.text_content()
    assert row.locator(".side").text_content() == ("B" if nats[largest] > 0 else "A")
    row.click()
    assert opened(view) == largest + 1
    assert len(view.texts(".models tbody tr")) == 2
    assert view.texts("#measures label")[:2] == ["Difference", "Probability"]


def test_the_model_that_is_asked_can_be_changed(open_page: Opening) -> None:
    view = open_page(TWO)
    choose(view, index_of("water", nth=1))
    assert view.texts(".sources") == []
    view.page.click("#models label:has-text('mill')")
    assert view.texts(".sources li") == ["softmax", "cache"]
    assert "by mill" in view.text("#panel")
    bounds = [1.25, 2, 10]
    ratios = [b - a for a, b in zip(PLAIN.tokens.log_prob, RECORD.tokens.log_prob, strict=True)]
    sides = {name[0] for name in levels(view)[1:]}
    assert sides == {"a", "b", "l"}
    strongest = max(range(len(ratios)), key=lambda at: ratios[at])
    assert levels(view)[strongest + 1] == f"b{sum(2.718281828 ** ratios[strongest] > bound for bound in bounds)}"


# -- room


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("page", ["one", "source", "two", "unlikely", "long words"])
def test_nothing_lies_beyond_the_right_edge(open_page: Opening, width: int, page: str) -> None:
    html = {
        "one": PAGE,
        "source": trace_page(SOURCE),
        "two": TWO,
        "unlikely": trace_page(with_log_prob(-10.9)),
        "long words": trace_page(MadeUp("x" * 300 + " and " + "wordsofmanyparts" * 20).record("n" * 90)),
    }[page]
    view = open_page(html, width)
    assert not view.scrolls_sideways
    unlikely = view.page.locator("#tokens-text .l5")
    (unlikely if page == "unlikely" else view.page.locator(TOKENS)).last.click()
    assert not view.scrolls_sideways
    beyond = view.page.evaluate(
        "[...document.body.querySelectorAll('*')]"
        ".filter(one => one.checkVisibility() && !one.closest('.spoken') && !one.parentElement.matches('.word')"
        " && one.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)"
        ".map(one => one.outerHTML.slice(0, 80))"
    )
    assert beyond == []
    view.page.evaluate("document.querySelector('#panel').scrollLeft = 50")
    assert view.page.evaluate("document.querySelector('#panel').scrollLeft") == 0


def test_the_source_stands_beside_the_text_or_folds_above_it(open_page: Opening) -> None:
    html = trace_page(SOURCE)
    wide, narrow = open_page(html, WIDE), open_page(html, NARROW)
    source, text = (wide.page.locator(f"#tokens-{role}").bounding_box() for role in ("source", "text"))
    assert source["x"] + source["width"] <= text["x"]
    assert not narrow.page.locator("#tokens-source").is_visible()
    narrow.page.click(".beside summary")
    source, text = (narrow.page.locator(f"#tokens-{role}").bounding_box() for role in ("source", "text"))
    assert source["y"] + source["height"] <= text["y"]


def test_on_a_telephone_a_touched_token_stays_above_its_sheet(open_page: Opening) -> None:
    view = open_page(PAGE, NARROW, touch=True)
    assert not view.page.locator("#panel").is_visible()
    view.page.locator("#text-200").tap()
    token, sheet = view.page.locator("#text-200").bounding_box(), view.page.locator("#panel").bounding_box()
    assert token["y"] + token["height"] <= sheet["y"]
    view.page.get_by_role("button", name="close").tap()
    assert not view.page.locator("#panel").is_visible()
