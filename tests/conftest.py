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


CHECKED = ("gpt2", "bart", "t5")


@pytest.fixture(autouse=True)
def _shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Checks shape annotations, which doubles the time of a test; of a product with all families, on three of them.

    What is annotated is given states and masks: it never sees which backbone they come from.
    """
    callspec = getattr(request.node, "callspec", None)
    family = callspec.params.get("family", CHECKED[0]) if callspec else CHECKED[0]
    jaxtyping.config.update("jaxtyping_disable", family not in CHECKED)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
