"""Made-up comparisons that look like real ones, and a browser to open pages in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nextword.results.records import Results
from tests.helpers.browser import Opening, browser, opening
from tests.helpers.made_up_results import Sample, lm_run, make_sample


@pytest.fixture
def sample() -> Sample:
    return make_sample


@pytest.fixture
def lm_sample() -> Results:
    return make_sample(lm_run, task="lm")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture
def open_page(chromium: Any, tmp_path: Path) -> Iterator[Opening]:
    with opening(chromium, tmp_path) as opened:
        yield opened
