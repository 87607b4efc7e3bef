"""The counting task, registered for the tests of one file only."""

from __future__ import annotations

import pytest

from nextword.experiments.comparison import all_methods
from nextword.experiments.tasks import registry
from tests.helpers.counting_task import Counting, Writing


@pytest.fixture
def quick_report(monkeypatch):
    """Drawing the page takes longer than these trainings do."""
    monkeypatch.setattr(all_methods, "_report", lambda results, folder: folder.report.write_text("drawn"))


@pytest.fixture(scope="module")
def writing():
    """The task that writes, registered for the tests of one file only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._entries, "writing", Writing)
        yield Writing


@pytest.fixture(scope="module")
def counting():
    """The task, registered for the tests of one file only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._entries, "counting", Counting)
        yield Counting
