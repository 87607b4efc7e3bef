from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import torch

def uniform(prefixes):
    return torch.full((len(prefixes), 5), 0.2).log()

def test_right(assert_distribution):
    assert_distribution(uniform, vocabulary=5, lengths=[3])

def test_wrong(assert_distribution):
    assert_distribution(lambda prefixes: uniform(prefixes) + 0.1, vocabulary=5, lengths=[3])
"""


@pytest.mark.slow
def test_other_peoples_tests_fail_with_the_fault(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*sum: the probabilities of all tokens do not add up to 1*", "*smallest input: *"])
