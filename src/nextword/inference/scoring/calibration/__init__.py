"""Settings of a head chosen on held-out text, without training and in one pass.

1. ``one_pass.py``: whatever asks a model how likely tokens are, once, and what it tells the head's ``Calibration``.
2. ``chosen_settings.py``: the settings, with what they gain; ``calibration_results.py`` is the record.
3. ``calibrate.py``: the same for texts.
"""

from nextword.inference.scoring.calibration.calibrate import calibrate, calibrate_on_texts
from nextword.inference.scoring.calibration.chosen_settings import tuned

__all__ = ["calibrate", "calibrate_on_texts", "tuned"]
