"""Words that the project gave up do not come back: ``phrases.toml`` lists them, with what to write instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8"))
GENERATED = re.compile(r"<!--\s*generated")
CODE = re.compile(r"^( *)(```|~~~).*?^\1\2|``.+?``|`[^`\n]+`|<!--.*?-->|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(r"^ *(>>>|\.\.\.).*", re.MULTILINE)


@cache
def phrases() -> dict[re.Pattern[str], str]:
    """Each phrase as whole words, with what to write instead."""

    def whole(phrase: str) -> str:
        begin = "" if phrase.startswith(("^", "(^")) else r"(?<![\w-])"
        return rf"{begin}(?:{phrase})(?![\w-])"

    found = {}
    for phrase, instead in LISTED["phrases"].items():
        exact = phrase.startswith("(?-i)")
        found[re.compile(whole(phrase.removeprefix("(?-i)")), 0 if exact else re.IGNORECASE)] = instead
    return found


def prose(text: str) -> str:
    """A text without code, in one line."""
    return " ".join(EXAMPLE.sub("", CODE.sub(" {} ", text)).split())


def allowed(path: Path) -> list[str]:
    """The texts of a file in which phrases are right."""
    return [one["text"] for one in LISTED["exceptions"] if one["file"] == path.relative_to(ROOT).as_posix()]


def offences(text: str, exceptions: Sequence[str] = ()) -> Iterator[str]:
    """The phrases of a text, each with the words around it."""
    text = prose(text)
    for exception in exceptions:
        text = text.replace(exception, "{}")
    for phrase, instead in phrases().items():
        for match in phrase.finditer(text):
            around = text[max(0, match.start() - 30) : match.end() + 30]
            yield f"'{match.group()}' in '{around}': write {instead}"


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring and literal of several words; values put in are ``{}``."""
    parts: set[int] = set()
    for node in ast.walk(tree):  # an f-string is met before its parts
        match node:
            case ast.JoinedStr(values=values):
                parts.update(map(id, values))
                yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in values)
            case ast.Constant(value=str(text)) if id(node) not in parts and " " in text:
                yield node.lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment; one of several lines is one text."""
    last, begin, text = -1, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if line != last + 1:
            yield begin, text
            begin, text = line, ""
        last, text = line, f"{text} {token.string.lstrip('# ')}".strip()
    yield begin, text


def written_pages() -> list[Path]:
    """The documents that are not generated."""
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    pages += sorted(ROOT.glob("docs/**/*.md"))
    return [page for page in pages if not GENERATED.search(page.read_text(encoding="utf-8")[:500])]


@pytest.mark.parametrize("page", written_pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_listed_phrase_in_a_page(page: Path) -> None:
    assert not list(offences(page.read_text(encoding="utf-8"), allowed(page)))


def test_no_listed_phrase_in_the_code() -> None:
    read, found = 0, []
    for path in sorted((ROOT / "src").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for line, text in (*texts(ast.parse(source)), *comments(source)):
            read += 1
            found += [f"{path.relative_to(ROOT)}:{line}: {offence}" for offence in offences(text, allowed(path))]
    assert read > 5000
    assert not found, "\n".join(found)


@pytest.mark.parametrize("exception", LISTED["exceptions"], ids=lambda exception: exception["text"])
def test_every_exception_is_needed(exception: dict[str, str]) -> None:
    assert exception["why"]
    assert list(offences(exception["text"]))
    assert exception["text"] in (ROOT / exception["file"]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "planted",
    [
        "After Ctrl-C the same command goes\non.",
        "This is no decoding.",
        "Of the random tokens.",
        "Costs 3 nats a token.",
        "Args:\n    seed: Of the random tokens.",
        "Whoever sums over a row",
        "It was not held.",
    ],
)
def test_planted_phrase_is_found(planted: str) -> None:
    assert len(list(offences(planted))) == 1


def test_comments_are_read_over_their_lines() -> None:
    source = "x = 1  # it goes\n# on here\ny = 2\n# it\n\n# goes on"
    assert [line for line, text in comments(source) if list(offences(text))] == [1, 6]


@pytest.mark.parametrize(
    "plain",
    [
        "`goes on`",
        "```\nit goes on\n```",
        ">>> whoever(1)",
        "there is no model",
        "it is no longer there",
        "Offer",
        "the seed: A number",
        "make room for it",
    ],
)
def test_plain_text_is_left_alone(plain: str) -> None:
    assert not list(offences(plain))
