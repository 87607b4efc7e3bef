"""One thread, so that the suite is the same everywhere and processes side by side do not fight for cores."""

import gc
import os
from collections.abc import Iterator

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import jaxtyping
import pytest
import torch

torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """Libraries and tests live to the end: each training collects garbage, and need not look through all of them."""
    gc.collect()
    gc.freeze()


collect_ignore = ["helpers/dummy_package"]  # importing it registers its parts

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
