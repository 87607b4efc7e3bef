"""The audit finds every fault that was planted in the zoo, calls it by its name, and says nothing of right scorers."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

import nextword as nw
from nextword.checking.findings import CheckReport
from nextword.checking.property import FAULTS as NAMES
from tests.helpers.audit_zoo.zoo import FAULTS, TWINS, Specimen

PAGE = Path(__file__).parents[2] / "docs" / "records" / "audit-tests.md"
"""Lists every fault, with the name that it is found by."""


def audited(specimen: Specimen) -> CheckReport:
    """What an audit says, asked as a user asks."""
    made = specimen.make()
    return nw.check(made) if isinstance(made, nn.Module) else nw.check(made, vocabulary=made.vocabulary)


FAST = {
    *{fault.named: fault.name for fault in reversed(FAULTS)}.values(),
    "CacheForgetsTheLast",
    "OneTokenIsImpossible",
}
"""One fault of each kind is a fast test; the two that are named are found by rows of their own."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.name, marks=[] if fault.name in FAST else [pytest.mark.slow]) for fault in FAULTS],
)
def test_planted_fault_is_found_and_named(fault: Specimen) -> None:
    found = audited(fault).findings
    assert found, fault.what
    assert found[0].fault in fault.named, fault.what
    assert f"| {fault.what} | `{found[0].fault}` |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.few(5)
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_right_twin_passes(twin: Specimen) -> None:
    audited(twin).raise_if_failed()


def test_the_zoo_is_as_large_as_it_says() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 28
    assert {fault.twin for fault in FAULTS} == {twin.name for twin in TWINS}
    assert {name for fault in FAULTS for name in fault.named} <= set(NAMES)
    assert all(fault.what.endswith(".") and fault.what.count(". ") == 0 for fault in FAULTS)
