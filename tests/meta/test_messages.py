"""Errors have one grammar, that of CONTRIBUTING.md: place, what must be (what was given); what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from nextword.settings.config import SettingsError, validated
from tests.helpers.settings_classes import REQUIRED, ROOTS, parts

SOURCE = Path(__file__).parents[2] / "src" / "nextword"
OTHER_GRAMMARS = re.compile(r"\bexpected\b|\bgot\b|Input should|\bgiven, .*(is|are) needed|is needed, .* given")
NOT_FOR_USERS = {"AttributeError", "IndexError", "NotImplementedError", "RuntimeError", "TypeError"}
VALUE = "\N{REPLACEMENT CHARACTER}"


def text_of(message: ast.expr) -> str:
    """A literal message, with a mark where values are put in."""
    match message:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in values)
    return VALUE


def messages(tree: ast.AST) -> Iterator[str]:
    """What the errors of a file say."""
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=error), args=[message, *_])) if error not in NOT_FOR_USERS:
                yield text_of(message)


def offences(tree: ast.AST) -> Iterator[str]:
    """Messages of another grammar, and those that begin neither with a place nor with a word in lower case."""
    for message in messages(tree):
        if OTHER_GRAMMARS.search(message) or not re.match(r"[^A-Z]|[A-Z][\w@ -]*: ", message):
            yield message


def test_messages_have_one_grammar() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    assert sum(len(list(messages(tree))) for tree in trees.values()) > 400
    assert not [f"{path.relative_to(SOURCE)}: {found}" for path, tree in trees.items() for found in offences(tree)]


@pytest.mark.parametrize(
    "message",
    [
        '"k: at least 1, got 0"',
        'f"k: expected {a}"',
        '"k: 0 given, 1 is needed"',
        '"Not a number"',
        '"Input should be 1"',
    ],
)
def test_planted_message_of_another_grammar_is_found(message: str) -> None:
    assert len(list(offences(ast.parse(f"raise ValueError({message})")))) == 1


@pytest.mark.parametrize("message", ['"k: must be at least 1 (0 given)"', 'f"{name} must be 1"', '"MAUVE: no text"'])
def test_message_of_the_grammar_is_left_alone(message: str) -> None:
    assert not list(offences(ast.parse(f"raise ValueError({message})")))


def models(roots: list[type[BaseModel]]) -> list[type[BaseModel]]:
    """All settings classes, those within others included."""
    found: dict[type[BaseModel], None] = {}
    while roots:
        model = roots.pop()
        if model not in found:
            found[model] = None
            inside = [part for field in model.model_fields.values() for part in parts(field.annotation)]
            roots += [part for part in inside if isinstance(part, type) and issubclass(part, BaseModel)]
    return sorted(found, key=lambda model: model.__name__)


WRONG: list[Any] = [
    None, True, 0, -1, 1.5, -0.5, 2.0, 10**30, float("inf"), "", "x", [], [0], [-1], ["x"], [None], [1.5], [1, 1], [[]],
    {}, {"x": 1}, [{}], [{"x": 1}], [0.1] * 9, "a" * 300,
]  # fmt: skip
"""One of each kind of value that JSON has, too small, too large, too short and too long."""


@pytest.mark.few(60)
@pytest.mark.parametrize("model", models(list(ROOTS.values())), ids=lambda model: model.__name__)
def test_every_fault_of_a_setting_is_told_in_our_words(model: type[BaseModel]) -> None:
    required = {name: "x" for name, field in model.model_fields.items() if field.is_required()}
    refused = 0
    for field in model.model_fields:
        for wrong in WRONG:
            try:
                validated(model, {**required, **REQUIRED.get(model.__name__, {}), field: wrong}, "place")
            except SettingsError as fault:
                refused += 1
                for line in str(fault).splitlines():
                    assert line.startswith("place"), line
                    assert not re.search(r"[Ii]nput should|should have|[Vv]alid |Value error|cannot be used", line), (
                        line
                    )
    assert refused > len(model.model_fields)


def test_kinds_of_faults() -> None:
    def fault(settings: dict[str, Any], where: str = "head") -> str:
        from nextword.heads.head import registry

        with pytest.raises(SettingsError) as refused:
            validated(registry.get(settings["head"]).Config, settings, where)
        return str(refused.value)

    assert fault({"head": "mos", "components": 0}).startswith("head.components: must be at least 1 (0 given). K, the")
    assert fault({"head": "mos", "components": 5000}).startswith("head.components: must be at most 1,000 (5000 given).")
    assert fault({"head": "mos", "components": "3"}).startswith("head.components: must be a whole number ('3' given).")
    assert fault({"head": "mos", "gate": "x"}).startswith(
        "head.gate: must be 'dynamic', 'static' or 'uniform' ('x' given)."
    )
    assert fault({"head": "mos", "bias": 1}).startswith("head.bias: must be true or false (1 given).")
    assert fault({"head": "mos", "mi": 3}).startswith("head.mi: must be a table with keys (3 given).")
    assert fault({"head": "mos", "mi": {"layer": 3}}) == (
        "head.mi.layer: unknown key. Did you mean 'layers'? Known: expansion, layers, normalize, window."
    )
    assert fault({"head": "mos", "components": 0}, "head spec 'mos:0'").startswith(
        "head spec 'mos:0': components must be at least 1 (0 given)."
    )
    assert fault({"head": "f2", "tokenizer": "x"}) == (
        "head.tokenizer: leave it out; it is filled in from the counts file"
    )
    assert fault({"head": "mos", "components": 0, "gat": 1}).count("\n") == 1
    assert fault({"head": "softmax", "partition": {"rerank": [3, 3]}}) == (
        "head.partition.rerank: must be different positive numbers of candidates ((3, 3) given)"
    )
