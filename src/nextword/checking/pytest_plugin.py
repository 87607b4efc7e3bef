"""The pytest plugin with ``assert_distribution``, for tests of your own models and scorers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


def assert_distribution(model: NextWordModel, *arguments: Any, **settings: Any) -> None:
    """Fail the test if ``nextword.check`` fails. The message shows each fault and the smallest input found with it.

    The arguments are those of ``nextword.check``. For a scorer, give ``vocabulary``.
    """
    __tracebackhide__ = True
    from nextword.checking.checker import check

    report = check(model, *arguments, **settings)
    if not report.passed:
        faults = [f"{one}\n    smallest input: {[list(text) for text in one.texts]}" for one in report.findings]
        pytest.fail("\n".join([f"{report.title} is not a distribution", *faults, str(report)]), pytrace=False)


@pytest.fixture(name="assert_distribution", scope="session")
def _fixture() -> Any:
    """``assert_distribution`` as a fixture, so that tests need not import it."""
    return assert_distribution
