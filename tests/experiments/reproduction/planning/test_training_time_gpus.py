from __future__ import annotations

import pytest

from nextword.experiments.reproduction.planning.training_time import find_gpu, known_gpus


def test_the_tensor_units_are_the_faster_ones():
    assert all(gpu.bf16 > gpu.fp32 for gpu in known_gpus().values())


def test_an_unknown_gpu_is_named_with_the_nearest():
    with pytest.raises(ValueError, match=r"^gpu:.*\('H100' given"):
        find_gpu("H100")
