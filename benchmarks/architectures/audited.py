"""One architecture, audited as it is: no head, no mistake of ours."""

from __future__ import annotations

import time
from collections.abc import Callable

import nextword as nw
from architectures.one_architecture import Row, built, since
from architectures.one_line import one_line

LENGTHS = (1, 6, 17)
"""Of the texts that the audit reads: those that ``nw.check`` has by itself."""


def audit_architecture(kind: str, name: str, tell: Callable[[Row], None]) -> None:
    """Audits it, and tells after every step what is known by then: the next one may end the process."""
    start = time.perf_counter()
    found = built(kind, name, tell)
    if found is None:
        return
    model, _, row = found
    try:
        report = nw.check(model, lengths=LENGTHS)
    except Exception as fault:  # an audit should not raise: where it does, that is a finding about the audit
        tell(row | {"bare": {}, "faults": {}, "raised": {"the audit": one_line(fault)}, "seconds": since(start)})
        return
    row |= {"bare": {}, "asked": sum(one.worst is not None for one in report.rows), "seconds": since(start)}
    row["faults"] = {one.fault: one.sentence for one in reversed(report.findings)}
    row["raised"] = {one.name: one_line(one.error) for one in report.failures if one.error is not None}
    tell(row)
