"""One thread, so that the suite is the same everywhere and processes side by side do not fight for cores."""

import gc
import os
from collections.abc import Iterator

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A product is the same to the bit wherever its numbers lie; MKL promises that on every processor when it is asked to.
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")

import jaxtyping
import pytest
import torch

from nextword import plugins

torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """Libraries and tests live to the end: each training collects garbage, and need not look through all of them."""
    gc.collect()
    gc.freeze()


collect_ignore = ["helpers/dummy_package"]  # importing it registers its parts


@pytest.fixture(autouse=True)
def _requested_plugins() -> Iterator[None]:
    """A module that one test asks for with --import is not asked for in those after it, nor in their processes."""
    before = dict(plugins._requested)
    yield
    plugins._requested.clear()
    plugins._requested.update(before)


ANNOTATED = {"functional", "distribution", "heads", "objectives", "memory", "oracles"}
"""Rooms whose own code has shape annotations."""
WITH_MODELS = {"conformance": ("gpt2", "bart", "t5"), "generation": ("gpt2",)}
"""Rooms that bring every head together with models, and the families on which shapes are checked there."""


@pytest.fixture(autouse=True)
def _shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Checks shape annotations where they are tested themselves, and once in whole models: it doubles a test's time.

    What is annotated is given states and masks: it never sees which backbone they come from.
    """
    rooms = set(request.node.path.parts)
    callspec = getattr(request.node, "callspec", None)
    family = callspec.params.get("family") if callspec else None
    checked = rooms & ANNOTATED or any(rooms & {room} and family in {None, *few} for room, few in WITH_MODELS.items())
    jaxtyping.config.update("jaxtyping_disable", not checked)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
