"""Made-up comparisons that look like real ones."""

from __future__ import annotations

import pytest

from nextword.records import Results
from tests.helpers.made_up_results import Sample, lm_run, make_sample


@pytest.fixture
def sample() -> Sample:
    return make_sample


@pytest.fixture
def lm_sample() -> Results:
    return make_sample(lm_run, task="lm")
