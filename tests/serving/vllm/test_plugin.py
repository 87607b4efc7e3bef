"""vLLM calls the plug-in in each of its processes."""

from __future__ import annotations

import pytest

from nextword.serving.vllm.plugin import ARCHITECTURE, register

pytestmark = pytest.mark.vllm


def test_the_plug_in_may_be_called_twice():
    from vllm import ModelRegistry

    register()
    register()
    assert ARCHITECTURE in ModelRegistry.get_supported_archs()
