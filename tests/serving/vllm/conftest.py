"""vLLM on the CPU, in this process."""

from __future__ import annotations

import gc

import pytest

from tests.helpers.served_by_vllm import LONGEST


@pytest.fixture(scope="module", autouse=True)
def vllm():
    """vLLM on the CPU, in this process."""
    found = pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm makes an environment with it")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        yield found


@pytest.fixture
def engine(vllm):
    """Makes an engine, and ends it after the test."""
    made = []

    def make(folder, **settings):
        defaults = {"enforce_eager": True, "dtype": "float32", "max_model_len": LONGEST, "skip_tokenizer_init": True}
        made.append(vllm.LLM(str(folder), **defaults | settings))
        return made[-1]

    yield make
    made.clear()
    gc.collect()
    from vllm.distributed import cleanup_dist_env_and_memory

    cleanup_dist_env_and_memory()
