"""What is read from the sources is what the registries say."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any

import pytest

from nextword.cli.catalogue import Catalogue
from nextword.registry import Registry

ROOMS = {
    "heads": ("nextword.heads",),
    "objectives": ("nextword.objectives",),
    "conditioning": ("nextword.conditioning",),
    "metrics": ("nextword.metrics", "nextword.judges"),
    "tasks": ("nextword.tasks",),
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
    assert list(found) == list(registry.names()) != []
    for name, entry in found.items():
        assert entry == registry.get(name).__name__
        assert catalogue.docstring(entry) == inspect.getdoc(registry.get(name)) != ""


@pytest.mark.parametrize("room", ["heads", "objectives"])
def test_catalogue_knows_the_parts_and_what_they_follow(room: str) -> None:
    catalogue, registry, modifiers = Catalogue(f"nextword.{room}"), own(room, "registry"), own(room, "modifiers")
    found, entries = catalogue.registered("modifiers"), catalogue.registered("registry")
    assert list(found) == list(modifiers.names()) != []
    for field, modifier in found.items():
        assert catalogue.parts(modifier) == [dataclasses.astuple(part) for part in modifiers.get(field).parts]
        takers = {name for name, entry in entries.items() if field in catalogue.settings(entry)}
        expected = {name for name in registry.names() if field in registry.get(name).Config.model_fields}
        assert takers == expected != set()
