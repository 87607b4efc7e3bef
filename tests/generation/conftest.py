"""Settings of the generation tests."""

import pytest
import torch

torch.set_num_threads(1)
pytest.register_assert_rewrite("generation.recomputation")
