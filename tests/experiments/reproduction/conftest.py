"""A made-up paper, and the counting task that its experiment has."""

from __future__ import annotations

import pytest

from nextword.experiments.tasks import registry
from tests.helpers import made_up_paper
from tests.helpers.counting_task import Counting


@pytest.fixture(scope="module")
def counting_paper(tmp_path_factory):
    """In place of the real papers, for the tests of one file only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._entries, "counting", Counting)
        made_up_paper.install(patch, tmp_path_factory.mktemp("paper"))
        yield
    made_up_paper.forget()
