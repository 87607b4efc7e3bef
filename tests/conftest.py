"""One thread, so that the suite is the same everywhere and processes side by side do not fight for cores."""

import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

torch.set_num_threads(1)
