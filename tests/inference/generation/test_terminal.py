from __future__ import annotations

import pytest

from nextword.inference.generation.generation_passes import GenerationSettings
from nextword.inference.generation.generation_run import GenerationRun, generated_texts
from nextword.inference.generation.prompts import TextPrompt
from nextword.inference.generation.terminal import show_text
from tests.helpers.writing_models import LOUD_CACHE, opened_model


class Screen:
    """In place of a terminal: what is shown, and when."""

    def __init__(self, is_coloured):
        self.is_coloured, self.pieces, self.read, self.names = is_coloured, [], "", None

    def prompt(self, text):
        self.read += text

    def show(self, piece, component=None):
        self.pieces.append((piece, component))

    def end(self, names=()):
        self.names = tuple(names)


def run_of(opened, **settings):
    prompt = TextPrompt(source="The king") if opened.has_encoder else TextPrompt("The king")
    asked = {"max_new_tokens": 12, **settings}
    return GenerationRun.planned(opened, [prompt], GenerationSettings.model_validate(asked))


def strongest(run):
    """Which component gave most of each token's probability, by one pass over the finished text."""
    asked = run.settings.model_copy(update={"sources": True})
    ((_, text),) = generated_texts(GenerationRun.planned(run.opened, run.prompts, asked))
    shares = list(text.sources.shares.values())
    return text.text, [max(range(len(shares)), key=lambda one: shares[one][at]) for at in range(len(text.token_ids))]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "settings",
    [
        {"decodings": ["greedy"]}, {"decodings": ["top-k:9"], "seeds": [3]}, {"decodings": ["beam:3"]},
        {"decodings": ["greedy"], "arguments": {"prompt_lookup_num_tokens": 2}},
    ],
)  # fmt: skip
@pytest.mark.parametrize(("family", "head"), [("gpt2", LOUD_CACHE), ("t5", "pg")])
def test_what_is_shown_is_the_text_in_the_colours_of_its_sources(family, head, settings):
    run, screen = run_of(opened_model(family, head), **settings), Screen(True)
    show_text(run, screen)
    text, components = strongest(run)
    assert "".join(piece for piece, _ in screen.pieces) == text
    assert [component for _, component in screen.pieces][: len(components)] == components
    assert screen.read == ("" if family == "t5" else "The king")
    assert len(screen.names) == 2


@pytest.mark.parametrize("decoding", ["greedy", "beam:3"])
def test_without_colours_nobody_is_asked(decoding):
    run, screen = run_of(opened_model(head=LOUD_CACHE), decodings=[decoding]), Screen(False)
    show_text(run, screen)
    assert {component for _, component in screen.pieces} == {None}
    assert screen.names == ()


def test_tokens_are_shown_as_they_are_chosen(monkeypatch):
    opened = opened_model(head=LOUD_CACHE)
    screen, shown = Screen(True), []
    forward = type(opened.model).forward

    def counted(self, *args, **kwargs):
        shown.append(len(screen.pieces))
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(type(opened.model), "forward", counted)
    show_text(run_of(opened, decodings=["greedy"]), screen)
    assert shown == list(range(12))


@pytest.mark.parametrize("draft", [None, "prompt"])
def test_what_is_shown_ends_with_the_stop_as_the_text_does(draft):
    opened = opened_model(head=LOUD_CACHE)
    how = {"decodings": ["greedy"], "arguments": {"eos_token_id": None}, "draft": draft}
    ((_, free),) = generated_texts(run_of(opened, **how))
    for begin in range(4):
        stop = free.text[begin : begin + 2 + begin]
        run, screen = run_of(opened, stop=[stop], **how), Screen(False)
        show_text(run, screen)
        ((_, text),) = generated_texts(run)
        assert "".join(piece for piece, _ in screen.pieces) == text.text
        assert stop in text.text
        assert free.text.startswith(text.text)
