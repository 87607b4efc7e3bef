"""What a calibration chose, in lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nextword.inference.scoring.calibration_results import CalibrationResults


def calibration_lines(calibration: CalibrationResults) -> Iterator[str]:
    """What was chosen, what it brings, and what it took."""
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in calibration.settings.items())
    interval = "" if calibration.low is None else f" ({calibration.low:.4f} to {calibration.high:.4f})"
    nats = f"{calibration.nll_without:.4f} nats per token without, "
    if calibration.helps:
        yield f"Chosen: {shown}"
        nats += f"{calibration.nll:.4f} with: {calibration.gain:.4f}{interval} gained"
    else:
        yield f"Nothing helps: {shown}"
        nats += f"the best settings gain {calibration.gain:.4f}{interval}"
    yield f"{nats}; {calibration.tokens:,} tokens, one pass, {calibration.seconds:.1f} s"


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:.4g}"
