"""One thread, so that the suite is the same everywhere and processes side by side do not fight for cores."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
# A product is the same to the bit wherever its numbers lie; MKL promises that on every processor when it is asked to.
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")

# A shell that starts the tests in the background has them ignore Ctrl-C; some of them interrupt themselves.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import jaxtyping
import pytest
import torch

SOURCES = Path(__file__).parents[1] / "src"
SHAPED = [
    ".".join(file.relative_to(SOURCES).with_suffix("").parts)
    for file in sorted(SOURCES.rglob("*.py"))
    if "from jaxtyping import" in file.read_text(encoding="utf-8")
]
"""Modules with shape annotations: all of them are checked, as soon as they are imported."""
jaxtyping.install_import_hook(SHAPED, "beartype.beartype")
jaxtyping.config.update("jaxtyping_disable", True)

from nextword.settings import plugins  # noqa: E402
from tests.helpers.chosen_tests import pytest_addoption, pytest_collection_modifyitems  # noqa: E402, F401

torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """Libraries and tests live to the end: each training collects garbage, and need not look through all of them."""
    gc.collect()
    gc.freeze()


collect_ignore = ["helpers/dummy_package"]  # importing it registers its parts


@pytest.fixture(scope="session")
def real_model_folder() -> str:
    """The real model of tests marked ``real``: its folder, or what NEXTWORD_REAL_MODEL names, also on the hub."""
    folder = Path(__file__).parents[1] / "models" / "smollm2-135m"
    name = os.environ.get("NEXTWORD_REAL_MODEL")
    if name is None and not (folder / "config.json").is_file():
        pytest.skip("models/smollm2-135m is absent: make real-model")
    return name or str(folder)


@pytest.fixture(scope="session")
def real_model(real_model_folder: str) -> tuple[Any, Any]:
    """The real model in evaluation, float32, and its tokenizer; loaded once, so a test leaves both as they are."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(real_model_folder, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(real_model_folder)


@pytest.fixture(autouse=True)
def _requested_plugins() -> Iterator[None]:
    """A module that one test asks for with --import is not asked for in those after it, nor in their processes."""
    before = dict(plugins._requested)
    yield
    plugins._requested.clear()
    plugins._requested.update(before)


@pytest.fixture(autouse=True)
def _no_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of comparisons are without figures, which take a second each time, but where they are looked at."""
    if not request.node.get_closest_marker("figures"):
        monkeypatch.setattr("nextword.results.report.comparison.page._figure", lambda *_: None)


ANNOTATED = {"functional", "distribution", "heads", "objectives", "head_cache", "oracles", "scoring", "conditioning"}
"""Rooms whose own code has shape annotations."""
WITH_MODELS = {"test_distributions_pass_the_checker", "test_pair_trains_or_is_refused", "test_mode"}
"""Tests that bring every head and objective together with whole models; shapes are checked there on three families."""
FAMILIES = {None, "gpt2", "bart", "t5"}
WRONG = {
    "test_what_are_no_rows_is_refused",
    "test_texts_that_are_none",
    "test_blocks_are_neighbours_of_one_text",
    "test_save_and_load",
    "test_bad_arrays",
    "test_no_counts",
}
"""Tests that give what is annotated otherwise, and want the library's own answer to it."""


@pytest.fixture(autouse=True)
def _shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Checks shape annotations where they are tested themselves, and once in whole models: it doubles a test's time.

    What is annotated is given states and masks: it never sees which backbone they come from.
    """
    callspec = getattr(request.node, "callspec", None)
    family = callspec.params.get("family") if callspec else None
    name = getattr(request.node, "originalname", None)
    checked = (name in WITH_MODELS and family in FAMILIES) or bool(ANNOTATED & set(request.node.path.parts))
    jaxtyping.config.update("jaxtyping_disable", not checked or name in WRONG)
    yield
    jaxtyping.config.update("jaxtyping_disable", True)
