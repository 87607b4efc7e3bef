"""What is read from the sources is what the registries say."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from typing import Any

import pytest

from nextword.cli.parts.catalogue import Catalogue, Module
from nextword.settings.registry import Registry

ROOMS = {
    "heads": ("nextword.heads",),
    "objectives": ("nextword.objectives",),
    "conditioning": ("nextword.conditioning",),
    "metrics": ("nextword.evaluation.metrics", "nextword.evaluation.judges"),
    "tasks": ("nextword.experiments.tasks",),
}


def own(room: str, attribute: str) -> Registry[Any]:
    """A registry without what tests put there."""
    found: Registry[Any] = getattr(importlib.import_module(f"nextword.{room}"), attribute)
    ours = Registry[Any](found.kind)
    for name in found.names():
        if found.get(name).__module__.startswith("nextword."):
            ours.register(name)(found.get(name))
    return ours


@pytest.mark.parametrize("room", ROOMS)
def test_catalogue_is_what_is_registered(room: str) -> None:
    catalogue, registry = Catalogue(*ROOMS[room]), own(room, "registry")
    found = catalogue.registered("registry")
    assert list(found) == sorted(registry._entries) != []
    for name, entry in found.items():
        assert entry.definition.name == registry.get(name).__name__
        assert entry.docstring == inspect.getdoc(registry.get(name)) != ""
        assert entry.origin is None


@pytest.mark.parametrize("room", ["heads", "objectives"])
def test_catalogue_knows_the_modifiers_and_what_they_follow(room: str) -> None:
    catalogue, registry, modifiers = Catalogue(f"nextword.{room}"), own(room, "registry"), own(room, "modifiers")
    found, entries = catalogue.registered("modifiers"), catalogue.registered("registry")
    assert list(found) == sorted(modifiers._entries) != []
    for name, modifier in found.items():
        written = modifiers.get(name)
        assert modifier.field == written.field
        assert modifier.modifier_entries == [dataclasses.astuple(entry) for entry in written.entries]
        takers = {taker for taker, entry in entries.items() if written.field in catalogue.settings(entry)}
        expected = {taker for taker in registry._entries if written.field in registry.get(taker).Config.model_fields}
        assert takers == expected != set()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("from nextword.heads import registry", "registry"),
        ("from nextword.heads.head import registry as heads", "heads"),
        ("from nextword import heads", "heads.registry"),
        ("import nextword", "nextword.heads.registry"),
        ("import nextword.heads as there", "there.registry"),
    ],
)
def test_registries_are_found_by_what_is_imported(imports: str, decorator: str) -> None:
    module = Module(ast.parse(f"{imports}\n@{decorator}.register('x')\nclass X: ..."))
    call = module.classes["X"].decorator_list[0]
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    name = module.full_name(call.func.value)
    assert Catalogue("nextword.heads")._is_ours(name, "registry")
    assert not Catalogue("nextword.experiments.tasks")._is_ours(name, "registry")
    assert not Catalogue("nextword.heads")._is_ours(name, "modifiers")
